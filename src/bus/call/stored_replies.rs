//! The ends of called events, looked up in the store, and replies to callers of other processes:
//! events that are looked up, and never handled.
//!
//! A reply is an event of the queue `<namespace>.duly.replies` whose unique key names the queue and the
//! event that it replies to, stored before that event is done. It is never due before it expires, so no consumer
//! gets it. It is encrypted if the queue of its event is, or the event's payload. `duly-server` stores
//! the replies of its consumers here, and looks them up.
//!
//! An id of a name is that of several events, one after the other. So a header of a reply says when its
//! event was pushed; the first reply to a later event replaces that to an earlier one, and a later call
//! removes it. Another header says by which lease it was stored: that of a later lease replaces it.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;

use crate::backoff::Backoff;
use crate::bus::call::reply_tries::{ReplyTries, is_passing};
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::lease::{LeaseStatus, LeaseToken};
use crate::bus::own_queues::beside;
use crate::bus::payloads::is_encrypted;
use crate::bus::push::event::EventBuilder;
use crate::bus::push::receipt::Receipt;
use crate::bus::queue::Queue;
use crate::bus::queue_handle::QueueHandle;
use crate::codec::{Codec, Raw};
use crate::core::op::{PeekBy, Snapshot, StoreOp, Unique};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, Envelope, EventId, QueueName, REPLIES, StaleReason, State};
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
/// The header of a reply with the time at which its event was pushed, in milliseconds.
const PUSHED_HEADER: &str = "duly-call-pushed";
/// The header of a reply of a consumer with its lease.
const LEASE_HEADER: &str = "duly-call-lease";

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
        reply: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            let mut tries = ReplyTries::new();
            loop {
                let Some(inner) = self.0.upgrade() else {
                    return Ok(()); // nothing is settled any more
                };
                let stored = store_in(&inner, event, None, &reply).await;
                drop(inner);
                let pause = stored.as_ref().err().and_then(|it| tries.pause_after(it));
                let Some(pause) = pause else { return stored };
                tokio::time::sleep(pause).await;
            }
        })
    }
}

/// Returns the queue of the replies to events of a queue.
fn replies_of(inner: &Arc<Inner>, queue: &QueueName) -> Result<Queue<Raw>> {
    let replies = Bus::from_inside(Arc::clone(inner)).queue_named(&beside(queue, REPLIES))?;
    Ok(replies.with_codec(Codec::Raw).encrypted_as(queue))
}

/// Stores the reply of a consumer that holds a lease, and has half a minute at least to settle it
/// then; its first reply counts, not that of an earlier lease. Without the lease nothing is done.
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
        Some(event) => store_in(inner, &event, Some(token), reply).await,
        None => Ok(()),
    }
}

/// Removes the reply to an event, if one is stored; with `before`, only if its event was pushed before
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
    let replies = replies_of(inner, queue)?;
    let is_meant = |found: &Snapshot| {
        let pushed = header(found, PUSHED_HEADER).and_then(|ms| ms.parse::<u64>().ok());
        before.is_none_or(|before| pushed.is_some_and(|ms| ms < before.as_millis()))
    };
    match find(&replies, queue, id).await?.filter(is_meant) {
        Some(reply) => replies.cancel(reply.id).await.map(drop),
        None => Ok(()),
    }
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

/// Returns the unique key of the reply to an event. Another queue may have an event of the same id.
fn reply_key(queue: &QueueName, id: EventId) -> String {
    format!("{queue}/{id}")
}

/// Looks up the reply to the last event of this id that had one.
async fn find(replies: &Queue<Raw>, queue: &QueueName, id: EventId) -> Result<Option<Snapshot>> {
    let (replies, key) = (&replies.handle, reply_key(queue, id));
    let bucket = replies.bucket(BucketId::of_text(&key, replies.buckets()));
    let peek = StoreOp::peek(PeekBy::Unique(key), None, 1);
    Ok(replies.inner.apply(&bucket, peek).await?.events.pop())
}

/// Stores the reply to an event, unless it has one; that of another lease is replaced.
async fn store_in(
    inner: &Arc<Inner>,
    event: &Envelope,
    lease: Option<&LeaseToken>,
    reply: &[u8],
) -> Result<()> {
    let Envelope { queue, id, .. } = event;
    let mut replies = replies_of(inner, queue)?;
    if is_encrypted(event) {
        // The event's pusher encrypts, so a reply is no less secret.
        replies = replies.encrypted();
    }
    let pushed = event.pushed.as_millis().to_string();
    let lease = lease.map(|it| format!("{:x}-{:x}", it.node.0, it.request));
    let push = |on_taken| {
        let reply = replies.event(Raw::from(reply));
        let reply = reply.unique(reply_key(queue, *id), on_taken);
        let reply = reply.header(PUSHED_HEADER, &pushed).after(REPLY_KEPT);
        let reply = lease
            .iter()
            .fold(reply, |it, lease| it.header(LEASE_HEADER, lease));
        reply.expires_after(REPLY_KEPT).push()
    };
    if push(Unique::Keep).await?.is_duplicate() {
        let found = find(&replies, queue, *id).await?;
        let is_same = found.is_some_and(|it| {
            (lease.is_none() || header(&it, LEASE_HEADER) == lease.as_ref())
                && header(&it, PUSHED_HEADER) == Some(&pushed)
        });
        if !is_same {
            push(Unique::Replace).await?;
        }
    }
    if fastrand::usize(..EXPIRED_AT_ONCE / 2) == 0 {
        // Whatever is due has expired: leasing it removes it. This one is stored in any case.
        let expired = replies.lease(EXPIRED_AT_ONCE, Duration::from_secs(1));
        if let Err(error) = expired.send().await {
            panics::reported(|| tracing::debug!(%error, "expired replies not removed"));
        }
    }
    Ok(())
}

fn header<'a>(found: &'a Snapshot, name: &str) -> Option<&'a String> {
    let mut headers = found.body.as_ref()?.headers.iter();
    headers.find(|(it, _)| it == name).map(|(_, value)| value)
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
            if let Some(reply) = stored(queue, id).await? {
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

/// Returns the stored reply to an event.
async fn stored(queue: &QueueHandle, id: EventId) -> Result<Option<Vec<u8>>> {
    let replies = replies_of(&queue.inner, &queue.name)?;
    let found = find(&replies, &queue.name, id).await?;
    let Some(envelope) = found.and_then(|found| found.body) else {
        return Ok(None);
    };
    let keys = &queue.inner.keys;
    let opened = keys.open(envelope.id, &replies.handle.name, &envelope.payload);
    let opened = opened.map_err(|why| {
        Error::invalid(format!("the reply to event {id} cannot be read")).because(why)
    })?;
    Ok(Some(opened.value.into_owned()))
}

/// Returns the last record of an event. Another queue may have an event under the same id.
async fn last_record(queue: &QueueHandle, id: EventId) -> Option<Record> {
    let records = Bus::from_inside(Arc::clone(&queue.inner)).records();
    let last = records.queue(&queue.name).id(id).newest_first().limit(1);
    last.page().await.ok()?.items.pop()
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
