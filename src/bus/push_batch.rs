//! Pushing a batch of events into one bucket, with new ids for those that the store refused for
//! their time.

use std::sync::Arc;

use serde::Serialize;

use crate::bus::Receipt;
use crate::bus::queue::Queue;
use crate::bus::receipt::receipt;
use crate::core::op::{Answer, NewEvent, Pushed, Reply};
use crate::core::push::{NextPush, PushedId};
use crate::error::{Error, Result};
use crate::event::{BucketId, BucketKey, EventId};
use crate::store::{Durability, unexpected};
use crate::time::Timestamp;

/// The store's result for each event of a batch, and the store's time.
type BatchResult = (Vec<Pushed>, u64);

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Pushes a batch into one bucket, under ids of the callers.
    pub(super) async fn push_given(
        &self,
        bucket: BucketId,
        events: Vec<NewEvent>,
        wanted: Option<Durability>,
    ) -> Result<Vec<Result<Receipt>>> {
        let ids: Vec<_> = events.iter().map(|event| event.envelope.id).collect();
        let (pushed, now_us) = self.push_batch(bucket, events, wanted).await?;
        let receipts = ids.into_iter().zip(pushed);
        let receipts = receipts.map(|(id, pushed)| {
            let reached = self.reached(wanted);
            receipt((id, PushedId::Given), pushed, reached, now_us)
        });
        Ok(receipts.collect())
    }

    /// Pushes a batch into one bucket, under generated ids. An id that the store refuses for its
    /// time is made anew by the store's time, once.
    ///
    /// The new id keeps the random part of the first one, which determines the jitter: the due time
    /// is fixed already.
    pub(super) async fn push_made(
        &self,
        bucket: BucketId,
        mut events: Vec<NewEvent>,
        wanted: Option<Durability>,
    ) -> Result<Vec<Result<Receipt>>> {
        let first = self.push_batch(bucket, events.clone(), wanted).await?;
        let refused = |(at, event): (usize, &NewEvent)| {
            let verdict = first.0[at].verdict;
            let next = PushedId::Made.next(event.envelope.id, verdict);
            (next == NextPush::Renew).then_some(at)
        };
        let again: Vec<usize> = events.iter().enumerate().filter_map(refused).collect();
        let now = Timestamp::from_millis(first.1 / 1_000);
        let mut receipts = self.judged(PushedId::Made, &events, first, wanted);
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
        let second = match self.push_batch(bucket, renewed.clone(), wanted).await {
            Ok(verdicts) => self.judged(PushedId::Renewed, &renewed, verdicts, wanted),
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

    fn judged(
        &self,
        made: PushedId,
        events: &[NewEvent],
        (pushed, now_us): BatchResult,
        wanted: Option<Durability>,
    ) -> Vec<Result<Receipt>> {
        let judge = |(event, pushed): (&NewEvent, Pushed)| {
            let id = event.envelope.id;
            let verdict = match made.next(id, pushed.verdict) {
                NextPush::Done(verdict) => verdict,
                NextPush::Renew => pushed.verdict,
            };
            let pushed = Pushed { verdict, ..pushed };
            receipt((id, made), pushed, self.reached(wanted), now_us)
        };
        events.iter().zip(pushed).map(judge).collect()
    }

    /// Returns the durability of an accepted event.
    fn reached(&self, wanted: Option<Durability>) -> Durability {
        let by_itself = self.inner.store.durability();
        wanted.map_or(by_itself, |wanted| wanted.max(by_itself))
    }

    async fn push_batch(
        &self,
        bucket: BucketId,
        events: Vec<NewEvent>,
        wanted: Option<Durability>,
    ) -> Result<BatchResult> {
        let many = events.len();
        let bucket = BucketKey::new(self.name.clone(), bucket);
        match self.inner.push(&bucket, events, wanted).await? {
            Answer {
                reply: Reply::Pushed(pushed),
                now_us,
            } if pushed.len() == many => Ok((pushed, now_us)),
            _ => Err(unexpected()),
        }
    }
}
