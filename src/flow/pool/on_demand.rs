//! A flag of a task that runs only on demand.
//!
//! Adding an item starts the task unless it runs; the task ends when it has found nothing for a
//! while. The danger is an item added just as the task ends. The adder writes the item and then
//! reads whether the task runs; the task writes that it ends and then scans once more. With a fence
//! between the two steps of each, at least one sees the other. Checked in every interleaving by
//! `tests/loom`.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, fence};

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Whether the task runs.
#[derive(Debug, Default)]
pub(crate) struct OnDemandTask(AtomicBool);

impl OnDemandTask {
    /// Returns whether the caller has to start the task. Call it after adding an item.
    #[inline]
    pub(crate) fn must_start(&self) -> bool {
        fence(SeqCst);
        !self.0.load(Relaxed) && !self.0.swap(true, SeqCst)
    }

    /// Returns whether the task may end; `anything` scans for items.
    pub(crate) fn may_end(&self, anything: impl FnOnce() -> bool) -> bool {
        self.0.swap(false, SeqCst);
        fence(SeqCst);
        // An adder that came in between has started another task, or leaves its item to this one.
        !anything() || self.0.swap(true, SeqCst)
    }

    #[cfg(test)]
    pub(crate) fn runs(&self) -> bool {
        self.0.load(SeqCst)
    }
}
