//! Pushing a batch of events into one bucket, with new ids for those that the store refused for
//! their time.

use std::sync::Arc;

use crate::bus::payloads::EncodedValue;
use crate::bus::push::prepare::PreparedEvent;
use crate::bus::push::receipt::{Receipt, lost, receipt};
use crate::bus::queue_handle::QueueHandle;
use crate::codec::PayloadForm;
use crate::core::op::{NewEvent, PushReport, Reply, Response};
use crate::core::push::{NextPush, PushedId};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, EventId, Payload};
use crate::store::{Durability, unexpected};
use crate::time::Timestamp;

/// Events that go to the store together.
pub(super) struct Batch {
    pub(super) bucket: BucketId,
    pub(super) durability: Option<Durability>,
    pub(super) events: Vec<NewEvent>,
    /// The encoded values of events whose ids their callers chose; otherwise none.
    pub(super) given: Vec<EncodedValue>,
}

/// The store's result for each event of a batch, and the store's time.
pub(super) type BatchResult = (Vec<PushReport>, u64);

impl QueueHandle {
    /// Pushes an event under its own id, which stays as it is.
    pub(super) async fn push_again(&self, mut prepared: PreparedEvent) -> Result<Receipt> {
        self.follow_earlier_push(&mut prepared).await?;
        let PreparedEvent {
            event,
            given,
            durability,
        } = prepared;
        let bucket = event.envelope.bucket();
        let given: Vec<_> = given.into_iter().collect();
        let pushed = self.push_fixed(bucket, vec![event], &given, durability);
        pushed.await?.pop().unwrap_or_else(|| Err(lost()))
    }

    /// Pushes one event, under its own id or a generated one.
    pub(super) async fn push_prepared(&self, prepared: PreparedEvent) -> Result<Receipt> {
        let batch = Batch {
            bucket: prepared.event.envelope.bucket(),
            durability: prepared.durability,
            events: vec![prepared.event],
            given: prepared.given.into_iter().collect(),
        };
        let mut receipts = self.push_batch(batch).await?;
        receipts.pop().unwrap_or_else(|| Err(lost()))
    }

    /// Pushes a batch; returns a result for each of its events.
    pub(super) async fn push_batch(&self, batch: Batch) -> Result<Vec<Result<Receipt>>> {
        let Batch {
            bucket,
            durability,
            events,
            given,
        } = batch;
        if given.is_empty() {
            return self.push_made(bucket, events, durability).await;
        }
        self.push_fixed(bucket, events, &given, durability).await
    }

    /// Pushes a batch into one bucket, under ids that stay as they are. With the values of events whose
    /// ids their callers chose, a repeat is recognised that has another form.
    pub(super) async fn push_fixed(
        &self,
        bucket: BucketId,
        events: Vec<NewEvent>,
        given: &[EncodedValue],
        durability: Option<Durability>,
    ) -> Result<Vec<Result<Receipt>>> {
        let mut receipts = self.push_given(bucket, events.clone(), durability).await?;
        for (receipt, (event, value)) in receipts.iter_mut().zip(events.iter().zip(given)) {
            let is_conflict = |error: &Error| error.kind() == ErrorKind::Conflict;
            if receipt.as_ref().is_err_and(is_conflict)
                && let Some(same) = self.same_in_another_form(event, value, durability).await?
            {
                *receipt = Ok(same);
            }
        }
        Ok(receipts)
    }

    /// Pushes a batch into one bucket, under ids of the callers.
    async fn push_given(
        &self,
        bucket: BucketId,
        events: Vec<NewEvent>,
        wanted: Option<Durability>,
    ) -> Result<Vec<Result<Receipt>>> {
        let ids: Vec<_> = events.iter().map(|event| event.envelope.id).collect();
        let (pushed, now_us) = self.apply_push(bucket, events, wanted).await?;
        let receipts = ids.into_iter().zip(pushed);
        let receipts = receipts.map(|(id, pushed)| {
            let reached = self.reached(wanted);
            receipt((id, PushedId::FromCaller), pushed, reached, now_us)
        });
        Ok(receipts.collect())
    }

    /// Pushes a batch into one bucket, under generated ids. An id that the store refuses for its
    /// time is made anew by the store's time, once.
    ///
    /// The new id keeps the random part of the first one, which determines the jitter: the due time
    /// is fixed already.
    async fn push_made(
        &self,
        bucket: BucketId,
        mut events: Vec<NewEvent>,
        wanted: Option<Durability>,
    ) -> Result<Vec<Result<Receipt>>> {
        let first = self.apply_push(bucket, events.clone(), wanted).await?;
        let refused = |(at, event): (usize, &NewEvent)| {
            let verdict = first.0[at].verdict;
            let next = PushedId::Generated.next(event.envelope.id, verdict);
            (next == NextPush::Renew).then_some(at)
        };
        let again: Vec<usize> = events.iter().enumerate().filter_map(refused).collect();
        let now = Timestamp::from_millis(first.1 / 1_000);
        let mut receipts = self.receipts_of(PushedId::Generated, &events, first, wanted);
        if again.is_empty() {
            return Ok(receipts);
        }
        let mut renewed = Vec::new();
        for at in &again {
            let event = &mut events[*at];
            let envelope = Arc::make_mut(&mut event.envelope);
            let ids = (
                envelope.id,
                EventId::from_parts(now, bucket, envelope.id.entropy()),
            );
            let payload = &envelope.payload;
            envelope.payload = self.inner.under_another_id(payload, &self.name, ids)?;
            envelope.id = ids.1;
            renewed.push(event.clone());
        }
        let second = match self.apply_push(bucket, renewed.clone(), wanted).await {
            Ok(verdicts) => self.receipts_of(PushedId::Renewed, &renewed, verdicts, wanted),
            // The error does not concern those that were accepted before.
            Err(error) => {
                let error = Arc::new(error);
                let each = |_: &usize| {
                    let own = Error::new(error.kind(), error.to_string());
                    Err(own.because(Arc::clone(&error)))
                };
                again.iter().map(each).collect()
            }
        };
        for (at, receipt) in again.into_iter().zip(second) {
            receipts[at] = receipt;
        }
        Ok(receipts)
    }

    fn receipts_of(
        &self,
        made: PushedId,
        events: &[NewEvent],
        (pushed, now_us): BatchResult,
        wanted: Option<Durability>,
    ) -> Vec<Result<Receipt>> {
        let judge = |(event, pushed): (&NewEvent, PushReport)| {
            let id = event.envelope.id;
            let verdict = match made.next(id, pushed.verdict) {
                NextPush::Done(verdict) => verdict,
                NextPush::Renew => pushed.verdict,
            };
            let pushed = PushReport { verdict, ..pushed };
            receipt((id, made), pushed, self.reached(wanted), now_us)
        };
        events.iter().zip(pushed).map(judge).collect()
    }

    /// Returns the durability of an accepted event.
    fn reached(&self, wanted: Option<Durability>) -> Durability {
        let by_itself = self.inner.store.durability();
        wanted.map_or(by_itself, |wanted| wanted.max(by_itself))
    }

    pub(super) async fn apply_push(
        &self,
        bucket: BucketId,
        events: Vec<NewEvent>,
        wanted: Option<Durability>,
    ) -> Result<BatchResult> {
        let many = events.len();
        match self
            .inner
            .push(&self.bucket(bucket), events, wanted)
            .await?
        {
            Response {
                reply: Reply::Pushed(pushed),
                now_us,
            } if pushed.len() == many => Ok((pushed, now_us)),
            _ => Err(unexpected()),
        }
    }

    /// Returns whether the store has this event with the same value in another form: it may have
    /// been pushed under another key, or stored by an update. The store compares bytes, so each
    /// form is pushed; a duplicate changes nothing.
    async fn same_in_another_form(
        &self,
        event: &NewEvent,
        value: &EncodedValue,
        wanted: Option<Durability>,
    ) -> Result<Option<Receipt>> {
        let id = event.envelope.id;
        let mut events = Vec::new();
        for version in [None, Some(self.options.version)] {
            let form = PayloadForm {
                codec: value.codec,
                version,
            };
            let place = (id, &self.name);
            let under = |key: String| self.inner.keys.seal_under(&key, place, form, &value.bytes);
            let sealed = self.inner.keys.ids().into_iter().filter_map(under);
            // A value to be encrypted is never sent to the store in clear.
            let plain = (!self.options.encrypt).then(|| form.plain(value.bytes.clone()));
            for bytes in sealed.chain(plain) {
                if bytes == event.envelope.payload.as_bytes() {
                    continue; // that form met the conflict
                }
                let mut event = event.clone();
                Arc::make_mut(&mut event.envelope).payload = Payload::from(bytes);
                events.push(event);
            }
        }
        for event in events {
            let pushed = self
                .push_given(event.envelope.bucket(), vec![event], wanted)
                .await?;
            match pushed.into_iter().next() {
                Some(Ok(receipt)) => return Ok(Some(receipt)),
                Some(Err(error)) if error.kind() != ErrorKind::Conflict => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }
}
