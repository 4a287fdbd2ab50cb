//! The callers that wait for a handler's reply, in this process and in others.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::core::op::RequestId;
use crate::error::Result;
use crate::event::{Envelope, EventId};

/// The result of a call.
#[derive(Debug)]
pub(crate) enum CallResult {
    /// The handler succeeded, with its reply if it gave one.
    Replied(Option<Vec<u8>>),
    /// The event ended without success; contains the handler's error.
    Failed(String),
}

/// Stores the reply to an event, for a caller in another process.
pub(crate) trait ReplyStore: Send + Sync {
    /// Stores the reply to an event by the holder of the lease of a fetch; while the store is away it
    /// tries again for a while.
    fn store<'a>(
        &'a self,
        event: &'a Envelope,
        request: RequestId,
        reply: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;
}

/// The waiting callers of this process, by event id.
pub(crate) struct Replies {
    /// For the callers of other processes; set once, when the bus starts.
    stored: OnceLock<Box<dyn ReplyStore>>,
    /// `None`: no reply will come any more, and who waits is released at once.
    waiting: Mutex<Option<HashMap<EventId, oneshot::Sender<CallResult>>>>,
    /// The number of callers, so that other events need no lock.
    count: AtomicUsize,
}

/// A waiting caller; dropping it stops waiting.
#[derive(Debug)]
pub(crate) struct PendingReply {
    replies: Arc<Replies>,
    id: EventId,
    result: oneshot::Receiver<CallResult>,
}

impl fmt::Debug for Replies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replies")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Default for Replies {
    fn default() -> Self {
        Self {
            stored: OnceLock::new(),
            waiting: Mutex::new(Some(HashMap::new())),
            count: AtomicUsize::new(0),
        }
    }
}

impl Replies {
    /// Waits for the end of `id`, from now on.
    pub(crate) fn wait(self: &Arc<Self>, id: EventId) -> PendingReply {
        let (sender, result) = oneshot::channel();
        self.count.fetch_add(1, Ordering::SeqCst); // before the push, so no end is missed
        if let Some(waiting) = &mut *self.lock() {
            waiting.insert(id, sender);
        }
        PendingReply {
            replies: Arc::clone(self),
            id,
            result,
        }
    }

    /// Reports the result to the caller of `id` in this process; returns whether there is one.
    pub(crate) fn tell(&self, id: EventId, result: impl FnOnce() -> CallResult) -> bool {
        if self.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let sender = self.lock().as_mut().and_then(|it| it.remove(&id));
        sender.is_some_and(|sender| sender.send(result()).is_ok()) // it may have given up
    }

    /// Sets where replies to callers of other processes are stored.
    pub(crate) fn store_in(&self, store: Box<dyn ReplyStore>) {
        let _ = self.stored.set(store); // a bus starts once
    }

    /// Stores the reply to an event for a caller in another process.
    pub(crate) async fn store(
        &self,
        event: &Envelope,
        request: RequestId,
        reply: Vec<u8>,
    ) -> Result<()> {
        match self.stored.get() {
            Some(stored) => stored.store(event, request, reply).await,
            None => Ok(()),
        }
    }

    /// Releases every caller, those that are still to come too: no reply will come any more.
    pub(crate) fn give_up(&self) {
        self.lock().take();
    }

    fn lock(
        &self,
    ) -> parking_lot::MutexGuard<'_, Option<HashMap<EventId, oneshot::Sender<CallResult>>>> {
        self.waiting.lock()
    }
}

impl PendingReply {
    /// Returns the result; `None` when the flow was dropped.
    pub(crate) async fn result(&mut self) -> Option<CallResult> {
        (&mut self.result).await.ok()
    }

    /// Returns the result if it has been reported, and was not returned before.
    pub(crate) fn reported(&mut self) -> Option<CallResult> {
        self.result.try_recv().ok()
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *self.replies.lock() {
            waiting.remove(&self.id);
        }
        self.replies.count.fetch_sub(1, Ordering::SeqCst);
    }
}
