//! An attempt that was begun: what is needed to settle it, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::core::step::Job;
use crate::event::Envelope;
use crate::time::Mono;
use crate::trace::Handled;

/// A stored event whose handler runs, or is about to on a thread of its own.
#[derive(Clone)]
pub(crate) struct Ticket {
    pub(crate) job: Box<Job<Arc<Envelope>>>,
    pub(crate) started_us: u64,
    pub(crate) traced: Handled,
    pub(crate) since: Mono,
    /// Only where two may settle it: a handler that cannot be dropped.
    pub(crate) phase: Option<Arc<Phase>>,
}

/// Where the attempt of a blocking handler stands: it waits for its thread, runs, or is settled.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    step: AtomicU8,
    started_us: AtomicU64,
}

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const SETTLED: u8 = 2;

/// What was so when an attempt was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Its handler had not started.
    NotStarted,
    /// Its handler had started.
    Started,
    /// Somebody else had settled it before.
    Already,
}

impl Ticket {
    /// Settles it, for whoever comes first.
    pub(crate) fn tell(&self) -> Told {
        self.phase
            .as_ref()
            .map_or(Told::Started, |phase| phase.tell())
    }

    /// When its handler started, by the store's clock, in microseconds since the epoch.
    pub(crate) fn started_us(&self) -> u64 {
        let on_its_thread = self.phase.as_ref().map(|phase| &phase.started_us);
        on_its_thread.map_or(self.started_us, |us| us.load(Ordering::Relaxed))
    }
}

impl Phase {
    /// The handler starts; `false` if the attempt was settled before that.
    pub(crate) fn start(&self, started_us: u64) -> bool {
        self.started_us.store(started_us, Ordering::Relaxed);
        let (before, after) = (Ordering::AcqRel, Ordering::Acquire);
        self.step
            .compare_exchange(WAITING, RUNNING, before, after)
            .is_ok()
    }

    fn tell(&self) -> Told {
        match self.step.swap(SETTLED, Ordering::AcqRel) {
            WAITING => Told::NotStarted,
            RUNNING => Told::Started,
            _ => Told::Already,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_settled_once_and_does_not_start_after_that() {
        let phase = Phase::default();
        assert_eq!(phase.tell(), Told::NotStarted);
        assert!(!phase.start(1), "a stale attempt never runs");
        assert_eq!(phase.tell(), Told::Already);

        let phase = Phase::default();
        assert!(phase.start(1));
        assert_eq!((phase.tell(), phase.tell()), (Told::Started, Told::Already));
    }
}
