//! Calls: push an event and wait for its handler's reply.

mod reply_places;
mod reply_tries;
pub(crate) mod stored_replies;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bus::queue::Queue;
use crate::error::{Error, ErrorKind, Result};
use crate::event::CALL_HEADER;
use crate::flow::{CallResult, EndlessWait, QueueWaits};

/// The longest wait of a call.
const CALL_MAX: Duration = Duration::from_secs(24 * 3_600);

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Pushes `payload`, due at once, and waits for the reply that its handler gives with
    /// [`Context::reply`](crate::Context::reply), or `()` if it gives none.
    ///
    /// The event is as durable as any other: it is handled even if the wait ends first. On a shared
    /// store the handler may run in any process: a reply to another process is an event of the queue
    /// `duly.replies`, or `shop.duly.replies` for a queue `shop.orders`, which is kept for five
    /// minutes, and is looked up every 10 to 250 ms until the called event is over; `duly-server`
    /// replies in the same way. On a store of one process, the handler must run in it. Waits at most
    /// 24 hours. The reply may arrive a moment before the event's record can be read.
    ///
    /// The wait ends with the event, however that ends: one that is cancelled, replaced, expired or
    /// settled by a consumer that pulls is noticed within a quarter of a second.
    ///
    /// # Calls that nest
    ///
    /// A handler that calls keeps its worker until the reply. So calls into the caller's own queue,
    /// or in a circle of queues, need a free worker at each level: with `workers = 16` there may be
    /// 15 handlers that wait and one that replies. A call that all workers would have to wait for
    /// fails at once with [`ErrorKind::Full`], and nothing is pushed; fewer workers may end one that
    /// waits in the same way, and its event is handled all the same. On a shared store, where
    /// another process may have a free worker, it waits for its whole `timeout`. Only a call that
    /// the handler itself awaits is seen, not one in a task that it spawned. Two queues, one for
    /// what calls and one for what replies, need none of this.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when no handler of the queue runs in this process, and the store has
    /// no other; when the event is no longer there; when this process could not look for five minutes,
    /// after which a reply is kept no more; or, on a store of one process, when the event was done by a
    /// consumer that pulls or by another bus, so that there is no reply;
    /// [`ErrorKind::Full`] for a call in a handler that could never be replied to, as above;
    /// [`ErrorKind::Closed`] when the bus stops before the reply; [`ErrorKind::TimedOut`] after
    /// `timeout`; [`ErrorKind::Unavailable`] with the handler's error when the event ended without
    /// success, or its reply could not be stored; [`ErrorKind::Invalid`] when the reply is not an
    /// `R`; and as [`push`](Self::push).
    pub async fn call<R: DeserializeOwned>(&self, payload: T, timeout: Duration) -> Result<R> {
        let id = self.new_id();
        // Register first, then check: a flow that ends after the check releases its callers.
        let is_shared = self.handle.inner.store.is_shared();
        let mut waiting = self.handle.inner.replies.wait(id);
        let waits = match self.handle.inner.flow().as_ref() {
            Some(flow) if flow.has_ended() => {
                return Err(Error::closed(
                    "the runtime of the bus has ended, so no handler runs; start another bus",
                ));
            }
            Some(flow) if is_shared || flow.serves(&self.handle.name) => {
                flow.waits(&self.handle.name)
            }
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "queue {} has no handler in this process, and its store is of this \
                         process alone; register the handler here, or use a shared store",
                        self.handle.name
                    ),
                ));
            }
            None => return Err(Error::closed("the bus is stopping and calls no handlers")),
        };
        let waits = waits.filter(|_| !is_shared);
        let endless = |_: EndlessWait| {
            Error::new(
                ErrorKind::Full,
                format!(
                    "every worker of queue {} would wait for a reply of its own queue, or of one \
                     that waits for it; set more workers, or call another queue",
                    self.handle.name
                ),
            )
        };
        let nested = waits.as_ref().map(QueueWaits::wait).transpose();
        let nested = nested.map_err(endless)?;
        let event = self.event(payload).id(id);
        let event = if is_shared {
            event.header(CALL_HEADER, "1")
        } else {
            event
        };
        event.push().await?;
        let result = async {
            let stored = tokio::select! {
                biased; // a handler here knows the reply before it is stored
                result = waiting.result() => return Ok(result),
                stored = self.handle.stored_reply(id) => stored,
                refused = async {
                    match &nested {
                        Some(nested) => nested.refused().await,
                        None => std::future::pending().await,
                    }
                } => return Err(endless(refused)),
            };
            // It may have replied between the two polls, and the store has seen only the end.
            match waiting.reported() {
                Some(result) => Ok(Some(result)),
                None => stored.map(Some),
            }
        };
        match tokio::time::timeout(timeout.min(CALL_MAX), result).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(Some(CallResult::Replied(reply)))) => {
                let reply = reply.unwrap_or_else(|| b"null".to_vec());
                serde_json::from_slice(&reply).map_err(|error| {
                    Error::invalid(format!(
                        "queue {}: the reply does not decode as the requested type",
                        self.handle.name
                    ))
                    .because(error)
                })
            }
            Ok(Ok(Some(CallResult::Failed(words)))) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("event {id} failed: {words}"),
            )),
            Ok(Ok(None)) => Err(Error::closed(
                "the bus was stopped before the handler replied",
            )),
            Err(_elapsed) => Err(Error::new(
                ErrorKind::TimedOut,
                format!("no reply within {timeout:?}; event {id} is handled all the same"),
            )),
        }
    }
}
