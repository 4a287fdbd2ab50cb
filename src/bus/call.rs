//! Calls: push an event and wait for its handler's reply.

pub(super) mod stored_replies;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bus::Queue;
use crate::bus::queue::CALL_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::event::CALL_HEADER;
use crate::flow::CallResult;

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
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when no handler of the queue runs in this process, and the store has
    /// no other; or when the event is no longer there;
    /// [`ErrorKind::Closed`] when the bus stops before the reply; [`ErrorKind::TimedOut`] after
    /// `timeout`; [`ErrorKind::Unavailable`] with the handler's error when the event ended without
    /// success; [`ErrorKind::Invalid`] when the reply is not an `R`; and as [`push`](Self::push).
    pub async fn call<R: DeserializeOwned>(&self, payload: T, timeout: Duration) -> Result<R> {
        let id = self.new_id();
        // Register first, then check: a flow that ends after the check releases its callers.
        let is_shared = self.inner.store.is_shared();
        let mut waiting = self.inner.replies.wait(id);
        match self.inner.flow().as_ref() {
            Some(flow) if flow.has_ended() => {
                return Err(Error::closed(
                    "the runtime of the bus has ended, so no handler runs; start another bus",
                ));
            }
            Some(flow) if is_shared || flow.serves(&self.name) => {}
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "queue {} has no handler in this process, and its store is of this \
                         process alone; register the handler here, or use a shared store",
                        self.name
                    ),
                ));
            }
            None => return Err(Error::closed("the bus is stopping and calls no handlers")),
        }
        let event = self.event(payload).id(id);
        let event = match is_shared {
            true => event.header(CALL_HEADER, "1"),
            false => event,
        };
        event.send().await?;
        let answer = async {
            tokio::select! {
                biased; // a handler here knows the reply before it is stored
                answer = waiting.answer() => Ok(answer),
                answer = self.stored_reply(id), if is_shared => answer.map(Some),
            }
        };
        match tokio::time::timeout(timeout.min(CALL_MAX), answer).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(Some(CallResult::Replied(reply)))) => {
                let reply = reply.unwrap_or_else(|| b"null".to_vec());
                serde_json::from_slice(&reply).map_err(|error| {
                    Error::invalid(format!(
                        "queue {}: the reply does not decode as the requested type",
                        self.name
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
