//! The ends of called events, looked up in the store, and replies to callers of other processes:
//! events that are looked up, and never handled.
//!
//! A reply is an event of the queue `<namespace>.duly.replies`, stored before that event is done; its key
//! and its unique key name the queue and the event that it replies to. It is never due before it expires, so
//! no consumer gets it. It is encrypted if the queue of its event is, or the event's payload. `duly-server`
//! stores the replies of its consumers here, and looks them up.
//!
//! A header of a reply says by which lease it was stored: only that of the lease which has ended the event
//! counts. An id of a name is that of several events, one after the other. So another header says when its
//! event was pushed, and a later call removes the replies to earlier ones.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;

use crate::backoff::Backoff;
use crate::bus::call::reply_places::{Lease, ReplyPlace};
use crate::bus::call::reply_tries::{ReplyTries, is_passing};
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::lease::{LeaseStatus, LeaseToken};
use crate::bus::payloads::is_encrypted;
use crate::bus::push::event::EventBuilder;
use crate::bus::push::receipt::Receipt;
use crate::bus::queue::Queue;
use crate::bus::queue_handle::QueueHandle;
use crate::core::op::{RequestId, Snapshot, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Envelope, EventId, QueueName, StaleReason, State};
use crate::flow::{CallResult, ReplyStore};
use crate::panics;
use crate::record::{Outcome, Record};
use crate::time::Timestamp;

/// How long a reply is kept.
pub const REPLY_KEPT: Duration = Duration::from_secs(300);
/// The first and the longest pause between two lookups.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(250));
/// How many expired replies are removed at a time.
const EXPIRED_AT_ONCE: usize = 100;
/// How long a lease lasts at least after a reply is stored.
const SETTLE_TTR: Duration = Duration::from_secs(30);

/// Stores the replies of the handlers of a bus.
struct BusReplies(Weak<Inner>);

/// Has the handlers of a bus store replies to callers of other processes.
pub(in crate::bus) fn install(inner: &Arc<Inner>) {
    let stored = BusReplies(Arc::downgrade(inner));
    inner.replies.store_in(Box::new(stored));
}

impl ReplyStore for BusReplies {
    fn store<'a>(
        &'a self,
        event: &'a Envelope,
        request: RequestId,
        reply: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            let mut tries = ReplyTries::new();
            loop {
                let Some(inner) = self.0.upgrade() else {
                    return Ok(()); // nothing is settled any more
                };
                let stored = store_in(&inner, event, (inner.id, request), &reply).await;
                drop(inner);
                let pause = stored.as_ref().err().and_then(|it| tries.pause_after(it));
                let Some(pause) = pause else { return stored };
                tokio::time::sleep(pause).await;
            }
        })
    }
}

/// Stores the reply of a consumer that holds a lease, and has half a minute at least to settle it
/// then; its first reply counts, and only once the event is done by this lease. Without the lease nothing
/// is done.
///
/// # Errors
///
/// The store's, and [`ErrorKind::Invalid`] for a reply that is too large.
pub async fn store(bus: &Bus, token: &LeaseToken, reply: &[u8]) -> Result<()> {
    let inner = &bus.inner;
    let found = inner.apply(&token.bucket(), StoreOp::get(token.id)).await?;
    let is_held = |found: &Snapshot| {
        let lease = (found.holder, found.request);
        found.state == State::Leased && lease == (Some(token.node), Some(token.request))
    };
    let Some(found) = found.filter(is_held) else {
        return Ok(());
    };
    let settled_by = inner.now() + SETTLE_TTR;
    if found.until.is_some_and(|until| until < settled_by)
        && bus.extend_lease(token, SETTLE_TTR).await? == LeaseStatus::Lost
    {
        return Ok(());
    }
    match found.body {
        Some(event) => store_in(inner, &event, (token.node, token.request), reply).await,
        None => Ok(()),
    }
}

/// Removes the replies to an event that are stored; with `before`, only if their event was pushed before
/// that time.
///
/// # Errors
///
/// The store's.
pub(in crate::bus) async fn forget(
    inner: &Arc<Inner>,
    queue: &QueueName,
    id: EventId,
    before: Option<Timestamp>,
) -> Result<()> {
    ReplyPlace::of(inner, queue, id)?.clear(before).await
}

/// Pushes the event of a call. A reply to an earlier event of its name, which is forgotten, is removed:
/// the consumer of this one may give none.
///
/// # Errors
///
/// Those of the push.
pub async fn push<T>(queue: &Queue<T>, event: EventBuilder<T>) -> Result<Receipt>
where
    T: Serialize + Send + Sync + 'static,
{
    let (inner, name) = (&queue.handle.inner, &queue.handle.name);
    let began = inner.now();
    let receipt = event.push().await?;
    let id = receipt.id();
    if !id.tells_time()
        && !receipt.is_duplicate()
        && let Err(error) = forget(inner, name, id, Some(began)).await
    {
        panics::reported(|| {
            tracing::warn!(queue = %name, %id, %error, "reply to an earlier call not removed");
        });
    }
    Ok(receipt)
}

/// Stores the reply of a lease to an event, unless it has given one.
async fn store_in(inner: &Arc<Inner>, event: &Envelope, lease: Lease, reply: &[u8]) -> Result<()> {
    let mut place = ReplyPlace::of(inner, &event.queue, event.id)?;
    if is_encrypted(event) {
        // The event's pusher encrypts, so a reply is no less secret.
        place = place.encrypted();
    }
    place.put(event, lease, REPLY_KEPT, reply).await?;
    if fastrand::usize(..EXPIRED_AT_ONCE / 2) == 0 {
        // Whatever is due has expired: leasing it removes it. This one is stored in any case.
        let expired = place
            .replies()
            .lease(EXPIRED_AT_ONCE, Duration::from_secs(1));
        if let Err(error) = expired.send().await {
            panics::reported(|| tracing::debug!(%error, "expired replies not removed"));
        }
    }
    Ok(())
}

/// Returns why a waiting event will not be delivered any more at `now`, if so.
fn stale(found: &Snapshot, now: Timestamp) -> Option<&'static str> {
    let body = found.body.as_ref()?;
    let stale = StaleReason::at(now.as_micros(), body.expires, (body.late, found.due));
    stale.map(StaleReason::words)
}

impl QueueHandle {
    /// Waits until an event is over, and returns its stored reply, or how it ended without one.
    pub(super) async fn stored_reply(&self, id: EventId) -> Result<CallResult> {
        let mut lookups = 0_u32;
        // By the store's time, which counts while this machine is suspended.
        let mut pending = id.created();
        loop {
            lookups = lookups.saturating_add(1);
            tokio::time::sleep(PAUSES.after(lookups)).await;
            let now = self.inner.now();
            match self.look_up(id, pending).await {
                Ok(Some(result)) => return Ok(result),
                // The caller's timeout ends this.
                Ok(None) => pending = now,
                Err(error) if is_passing(&error) => {}
                // Nobody else replies here: whatever the store says, its handler may still do so.
                Err(error)
                    if !self.inner.store.is_shared()
                        && !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Closed) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the result of an event that is over, and was not at `pending`.
    async fn look_up(&self, id: EventId, pending: Timestamp) -> Result<Option<CallResult>> {
        let is_shared = self.inner.store.is_shared();
        let status = status_of(self, id).await?;
        // A reply to what was pending lately would still be kept.
        let is_gone = status == ReplyStatus::Over && is_over(pending, self.inner.now());
        let words = match status {
            ReplyStatus::Pending => return Ok(None),
            ReplyStatus::Replied(reply) => return Ok(Some(CallResult::Replied(Some(reply)))),
            ReplyStatus::Failed(words) => return Ok(Some(CallResult::Failed(words))),
            ReplyStatus::None | ReplyStatus::Over if is_shared && !is_gone => {
                return Ok(Some(CallResult::Replied(None)));
            }
            ReplyStatus::Over if is_shared => {
                let kept = REPLY_KEPT.as_secs();
                format!("event {id} is done; a reply to it would be kept no more, after {kept} s")
            }
            ReplyStatus::None | ReplyStatus::Over => {
                format!("event {id} is done, but not by a handler of this bus: it has no reply")
            }
            ReplyStatus::Unknown => {
                format!("event {id} is no longer in the store, nor is a reply to it")
            }
        };
        Err(Error::new(ErrorKind::NotFound, words))
    }
}

/// What is known of the reply to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyStatus {
    /// The event is not over.
    Pending,
    /// The reply, as its consumer gave it.
    Replied(Vec<u8>),
    /// It is done, without a reply.
    None,
    /// It has been done for so long that a reply would be kept no more.
    Over,
    /// It ended without success; says why.
    Failed(String),
    /// No such event is known.
    Unknown,
}

/// Looks up the reply to an event of a queue.
///
/// # Errors
///
/// The store's, and [`ErrorKind::Invalid`] for a reply that cannot be decrypted.
pub async fn look_up<T>(queue: &Queue<T>, id: EventId) -> Result<ReplyStatus> {
    status_of(&queue.handle, id).await
}

async fn status_of(queue: &QueueHandle, id: EventId) -> Result<ReplyStatus> {
    let inner = &queue.inner;
    let now = inner.now();
    // The state first: a reply is stored before its event is done.
    let found = inner.on_event(&queue.name, id, || StoreOp::get(id));
    let found = found.await?.1;
    let state = found.as_ref().map(|found| found.state);
    let done_by = found.as_ref().and_then(|found| found.done_by);
    match state {
        Some(State::Scheduled | State::Ready) => {
            // The store notices it only when somebody fetches.
            let stale = found.and_then(|found| stale(&found, now));
            return Ok(stale.map_or(ReplyStatus::Pending, |words| {
                ReplyStatus::Failed(words.to_owned())
            }));
        }
        Some(State::Leased) => return Ok(ReplyStatus::Pending),
        Some(State::Done) | None => {
            if let Some(reply) = stored(queue, id, done_by).await? {
                return Ok(ReplyStatus::Replied(reply));
            }
        }
        Some(_) => {}
    }
    let last = last_record(queue, id).await;
    let ended = last.as_ref().map(|last| last.stages.finished_us / 1_000);
    match (state, last) {
        (Some(state), last) if state != State::Done => {
            let error = last.and_then(|last| last.error);
            let words = error.unwrap_or_else(|| format!("it is {state}"));
            Ok(ReplyStatus::Failed(words))
        }
        (_, Some(last)) if last.outcome.is_final() && last.outcome != Outcome::Acked => {
            let words = format!("it was {}", last.outcome);
            Ok(ReplyStatus::Failed(last.error.unwrap_or(words)))
        }
        (None, _) => Ok(ReplyStatus::Unknown),
        (Some(_), _) => {
            // Without a record it is not known when, but not before the event was made.
            let ended = ended.map_or(id.created(), Timestamp::from_millis);
            Ok(if is_over(ended, now) {
                ReplyStatus::Over
            } else {
                ReplyStatus::None
            })
        }
    }
}

/// Returns the stored reply to an event that was done by a lease.
async fn stored(
    queue: &QueueHandle,
    id: EventId,
    done_by: Option<Lease>,
) -> Result<Option<Vec<u8>>> {
    let place = ReplyPlace::of(&queue.inner, &queue.name, id)?;
    let found = place.find(done_by).await?;
    let Some(envelope) = found.and_then(|found| found.body) else {
        return Ok(None);
    };
    let keys = &queue.inner.keys;
    let opened = keys.open(envelope.id, place.replies().name(), &envelope.payload);
    let opened = opened.map_err(|why| {
        Error::invalid(format!("the reply to event {id} cannot be read")).because(why)
    })?;
    Ok(Some(opened.value.into_owned()))
}

/// Returns the last record of an event. Another queue may have an event under the same id.
async fn last_record(queue: &QueueHandle, id: EventId) -> Option<Record> {
    let records = Bus::from_inside(Arc::clone(&queue.inner)).records();
    let last = records.queue(&queue.name).id(id).newest_first();
    last.first().await.ok()?
}

/// Whether the reply of an event that ended then may be kept no more.
fn is_over(ended: Timestamp, now: Timestamp) -> bool {
    now.since(ended) >= REPLY_KEPT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_over_is_not_none() {
        let ended = Timestamp::from_millis(1_700_000_000_000);
        let later = |ms| Timestamp::from_millis(ended.as_millis() + ms);
        assert!(!is_over(ended, ended) && !is_over(ended, later(299_999)));
        assert!(is_over(ended, later(300_000)));
        // An id of a name has no time of creation.
        assert!(is_over(Timestamp::EPOCH, ended));
    }
}
