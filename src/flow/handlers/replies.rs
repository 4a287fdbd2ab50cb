//! The callers that wait for a handler's reply.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::event::EventId;

/// The result of a call.
#[derive(Debug)]
pub(crate) enum CallResult {
    /// The handler succeeded, with its reply if it gave one.
    Replied(Option<Vec<u8>>),
    /// The event ended without success; contains the handler's error.
    Failed(String),
}

/// The waiting callers of this process, by event id.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    waiting: Mutex<HashMap<EventId, oneshot::Sender<CallResult>>>,
    /// The number of callers, so that other events need no lock.
    count: AtomicUsize,
}

/// A waiting caller; dropping it stops waiting.
#[derive(Debug)]
pub(crate) struct PendingReply {
    replies: Arc<Replies>,
    id: EventId,
    answer: oneshot::Receiver<CallResult>,
}

impl Replies {
    /// Waits for the end of `id`, from now on.
    pub(crate) fn wait(self: &Arc<Self>, id: EventId) -> PendingReply {
        let (sender, answer) = oneshot::channel();
        self.count.fetch_add(1, Ordering::SeqCst); // before the push, so no end is missed
        self.lock().insert(id, sender);
        PendingReply {
            replies: Arc::clone(self),
            id,
            answer,
        }
    }

    /// Reports the result to the caller of `id`, if there is one.
    pub(crate) fn tell(&self, id: EventId, answer: impl FnOnce() -> CallResult) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(sender) = self.lock().remove(&id) {
            let _ = sender.send(answer()); // the caller may have given up
        }
    }

    /// Releases every caller: no reply will come any more.
    pub(crate) fn give_up(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<EventId, oneshot::Sender<CallResult>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingReply {
    /// Returns the result; `None` when the flow was dropped.
    pub(crate) async fn answer(&mut self) -> Option<CallResult> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.replies.lock().remove(&self.id);
        self.replies.count.fetch_sub(1, Ordering::SeqCst);
    }
}
