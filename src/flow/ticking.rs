//! Whether a task runs that is needed only while there is something to look after.
//!
//! Who adds something starts the task unless it runs; the task ends when it has found nothing for
//! a while. The danger is that something is added just as the task goes. Who adds writes that, and
//! then looks whether the task runs; the task writes that it does not, and then looks once more:
//! with a fence between the two steps of each, at least one sees the other. Checked in every
//! interleaving by `tests/loom`.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, fence};

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Whether the task runs.
#[derive(Debug, Default)]
pub(crate) struct Ticking(AtomicBool);

impl Ticking {
    /// Whether the caller has to start the task; to be asked after something was added.
    #[inline]
    pub(crate) fn must_start(&self) -> bool {
        fence(SeqCst);
        !self.0.load(Relaxed) && !self.0.swap(true, SeqCst)
    }

    /// Whether the task may end; `anything` looks whether there is something to look after.
    pub(crate) fn may_end(&self, anything: impl FnOnce() -> bool) -> bool {
        self.0.swap(false, SeqCst);
        fence(SeqCst);
        // Whoever has added something since has started another task, or leaves it to this one.
        !anything() || self.0.swap(true, SeqCst)
    }

    #[cfg(test)]
    pub(crate) fn runs(&self) -> bool {
        self.0.load(SeqCst)
    }
}
