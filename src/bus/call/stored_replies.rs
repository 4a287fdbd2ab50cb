//! The ends of called events, looked up in the store, and replies to callers of other processes:
//! events that are looked up, and never handled.
//!
//! A reply is an event of the queue `<namespace>.duly.replies` under the name of the event that it
//! replies to, stored before that event is done. It is never due before it expires, so no consumer
//! gets it. It is encrypted if the queue of its event is, or the event's payload. `duly-server`
//! replies in the same way.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::backoff::Backoff;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::queue::Queue;
use crate::bus::queue_handle::QueueHandle;
use crate::bus::reply_queues::REPLIES;
use crate::codec::{Codec, Frame, Raw};
use crate::core::op::{Snapshot, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Envelope, EventId, LatePolicy, QueueName, State};
use crate::flow::{CallResult, ReplyStore};
use crate::record::{Outcome, Record};
use crate::time::Timestamp;

/// How long a reply is kept.
const REPLY_KEPT: Duration = Duration::from_secs(300);
/// The first and the longest pause between two lookups.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(250));
/// How often a reply is tried to be stored; the pause after a failure.
const STORE_TRIES: u32 = 3;
const STORE_PAUSE: Duration = Duration::from_millis(200);
/// How many expired replies are removed at a time.
const EXPIRED_AT_ONCE: usize = 100;

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
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            for tries in 1..=STORE_TRIES {
                let Some(inner) = self.0.upgrade() else {
                    return;
                };
                let error = match store(&inner, event, &reply).await {
                    Ok(()) => return,
                    Err(error) => error,
                };
                if tries == STORE_TRIES || !is_passing(&error) {
                    let (queue, id) = (&event.queue, event.id);
                    tracing::error!(%queue, %id, %error, "reply not stored; its caller gets none");
                    return;
                }
                tokio::time::sleep(STORE_PAUSE).await;
            }
        })
    }
}

/// Whether the store may respond at the next try.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut)
}

/// Returns the queue of the replies to events of a queue.
fn replies_of(inner: &Arc<Inner>, queue: &QueueName) -> Result<Queue<Raw>> {
    let name = match queue.split_once('.') {
        Some((namespace, _)) => format!("{namespace}.{REPLIES}"),
        None => REPLIES.to_owned(),
    };
    let replies = Bus::from_inside(Arc::clone(inner)).queue_named(&name)?;
    Ok(replies.with_codec(Codec::Raw).encrypted_as(queue))
}

/// Stores the reply to an event; the first one counts.
async fn store(inner: &Arc<Inner>, event: &Envelope, reply: &[u8]) -> Result<()> {
    let mut replies = replies_of(inner, &event.queue)?;
    let frame = Frame::read(event.payload.as_bytes());
    if frame.is_ok_and(|frame| frame.key_id.is_some()) {
        // Its pusher encrypts, so a reply is no less secret.
        Arc::make_mut(&mut replies.handle.options).encrypt = true;
    }
    let id = replies.id_for_name(&event.id.to_string());
    let event = replies.event(Raw::from(reply)).id(id);
    match event
        .after(REPLY_KEPT)
        .expires_after(REPLY_KEPT)
        .push()
        .await
    {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Conflict => return Ok(()),
        Err(error) => return Err(error),
    }
    if fastrand::usize(..EXPIRED_AT_ONCE / 2) == 0 {
        // Whatever is due has expired: leasing it removes it, and returns nothing.
        let expired = replies.lease(EXPIRED_AT_ONCE, Duration::from_secs(1));
        let _none = expired.send().await?;
    }
    Ok(())
}

/// Returns why a waiting event will not be delivered any more at `now`, if so.
fn stale(found: &Snapshot, now: Timestamp) -> Option<&'static str> {
    let body = found.body.as_ref()?;
    let late = now.since(found.due);
    if body.expires.is_some_and(|expires| expires <= now) {
        return Some("the event expired before its handler started");
    }
    match body.late {
        LatePolicy::Expire(limit) if late > limit => {
            Some("the event expired: it is later than its policy allows")
        }
        LatePolicy::Bury(limit) if late > limit => {
            Some("the event is later than its policy allows")
        }
        _ => None,
    }
}

impl QueueHandle {
    /// Waits until an event is over, and returns its stored reply, or how it ended without one.
    pub(super) async fn stored_reply(&self, id: EventId) -> Result<CallResult> {
        let mut lookups = 0_u32;
        loop {
            lookups = lookups.saturating_add(1);
            tokio::time::sleep(PAUSES.after(lookups)).await;
            match self.look_up(id).await {
                Ok(Some(result)) => return Ok(result),
                // The caller's timeout ends this.
                Ok(None) => {}
                Err(error) if is_passing(&error) => {}
                // Nobody else replies here: whatever the store says, its handler may still do so.
                Err(error)
                    if !self.inner.store.is_shared()
                        && !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Closed) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the result of an event that is over.
    async fn look_up(&self, id: EventId) -> Result<Option<CallResult>> {
        let now = self.inner.now();
        // The state first: a reply is stored before its event is done.
        let found = self
            .inner
            .on_event(&self.name, id, || StoreOp::get(id))
            .await?
            .1;
        match found.as_ref().map(|found| found.state) {
            Some(State::Scheduled | State::Ready) => {
                // The store notices it only when somebody fetches.
                let stale = found.and_then(|found| stale(&found, now));
                Ok(stale.map(|words| CallResult::Failed(words.to_owned())))
            }
            Some(State::Leased) => Ok(None),
            Some(State::Done) => self.look_up_reply(id, true).await.map(Some),
            None => self.look_up_reply(id, false).await.map(Some),
            Some(state) => {
                let error = self.last_record(id).await.and_then(|last| last.error);
                Ok(Some(CallResult::Failed(
                    error.unwrap_or_else(|| format!("it is {state}")),
                )))
            }
        }
    }

    /// Returns the reply to an event that is done, or is not in the store any more.
    async fn look_up_reply(&self, id: EventId, is_done: bool) -> Result<CallResult> {
        if self.inner.store.is_shared() {
            let replies = replies_of(&self.inner, &self.name)?;
            let reply_id = replies.id_for_name(&id.to_string());
            let found = replies.get(reply_id).await?;
            if let Some(envelope) = found.and_then(|found| found.body) {
                let keys = &self.inner.keys;
                let opened = keys.open(reply_id, &replies.handle.name, &envelope.payload);
                let opened = opened.map_err(|why| {
                    Error::invalid(format!("the reply to event {id} cannot be read")).because(why)
                })?;
                return Ok(CallResult::Replied(Some(opened.value.into_owned())));
            }
        }
        let last = self.last_record(id).await;
        match last.map(|last| (last.outcome, last.error)) {
            Some((outcome, error)) if outcome.is_final() && outcome != Outcome::Acked => {
                let words = error.unwrap_or_else(|| format!("it was {outcome}"));
                return Ok(CallResult::Failed(words));
            }
            _ if is_done && self.inner.store.is_shared() => {
                return Ok(CallResult::Replied(None));
            }
            _ => {}
        }
        let words = if is_done {
            format!("event {id} is done, but not by a handler of this bus: it has no reply")
        } else {
            format!("event {id} is no longer in the store, nor is a reply to it")
        };
        Err(Error::new(ErrorKind::NotFound, words))
    }

    async fn last_record(&self, id: EventId) -> Option<Record> {
        let records = Bus::from_inside(Arc::clone(&self.inner)).records();
        let last = records.id(id).newest_first().limit(1).page().await;
        last.ok()?.items.pop()
    }
}
