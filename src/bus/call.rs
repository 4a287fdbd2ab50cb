//! Calls: push an event and wait for its handler's reply.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bus::Queue;
use crate::bus::queue::CALL_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::CallResult;

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Pushes `payload`, due at once, and waits for the reply that its handler gives with
    /// [`Context::reply`](crate::Context::reply), or `()` if it gives none.
    ///
    /// The event is as durable as any other: it is handled even if the wait ends first. The handler
    /// must run in this process, and the queue should have handlers and pulling consumers in no
    /// other: what another process handles is done, but its reply does not come here, and the call
    /// times out. The README of `duly-server` says how to reply to callers over HTTP. Waits at most
    /// 24 hours. The reply may arrive a moment before the
    /// event's record can be read.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when no handler of the queue runs in this process;
    /// [`ErrorKind::Closed`] when the bus stops before the reply; [`ErrorKind::TimedOut`] after
    /// `timeout`; [`ErrorKind::Unavailable`] with the handler's error when the event ended without
    /// success; [`ErrorKind::Invalid`] when the reply is not an `R`; and as [`push`](Self::push).
    pub async fn call<R: DeserializeOwned>(&self, payload: T, timeout: Duration) -> Result<R> {
        let id = self.new_id();
        // Register first, then check: a flow that ends after the check releases its callers.
        let mut waiting = self.inner.replies.wait(id);
        match self.inner.flow().as_ref() {
            Some(flow) if flow.serves(&self.name) => {}
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "queue {} has no handler in this process, and another process cannot \
                         reply; push the event, and let its handler push the reply",
                        self.name
                    ),
                ));
            }
            None => return Err(Error::closed("the bus is stopping and calls no handlers")),
        }
        self.event(payload).id(id).send().await?;
        let answer = tokio::time::timeout(timeout.min(CALL_MAX), waiting.answer()).await;
        match answer {
            Ok(Some(CallResult::Replied(reply))) => {
                let reply = reply.unwrap_or_else(|| b"null".to_vec());
                serde_json::from_slice(&reply).map_err(|error| {
                    Error::invalid(format!(
                        "queue {}: the reply does not decode as the requested type",
                        self.name
                    ))
                    .because(error)
                })
            }
            Ok(Some(CallResult::Failed(words))) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("event {id} failed: {words}"),
            )),
            Ok(None) => Err(Error::closed(
                "the bus was stopped before the handler replied",
            )),
            Err(_elapsed) => Err(Error::new(
                ErrorKind::TimedOut,
                format!("no reply within {timeout:?}; event {id} is handled all the same"),
            )),
        }
    }
}
