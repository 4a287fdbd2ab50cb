//! The ticket of an attempt that was begun: settles it exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tokio::time::Instant;

use crate::core::step::Job;
use crate::event::Envelope;
use crate::trace::AttemptSpan;

/// A stored event whose handler runs, or waits for its thread.
#[derive(Clone)]
pub(crate) struct Ticket {
    pub(crate) job: Box<Job<Arc<Envelope>>>,
    pub(crate) started_us: u64,
    pub(crate) traced: AttemptSpan,
    /// When it was begun, by the clock of the timer that ends it: while the machine is suspended
    /// neither goes on, and so no handler is late.
    pub(crate) since: Instant,
    /// Only for a handler that cannot be dropped, which two parties may settle.
    pub(crate) phase: Option<Arc<AttemptPhase>>,
}

/// The phase of a blocking handler's attempt: waiting for its thread, running, or settled.
#[derive(Debug, Default)]
pub(crate) struct AttemptPhase {
    step: AtomicU8,
    started_us: AtomicU64,
}

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const SETTLED: u8 = 2;

/// The phase of an attempt when it was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettlePhase {
    /// Its handler had not started.
    NotStarted,
    /// Its handler had started.
    Started,
    /// It had been settled before.
    Already,
}

impl Ticket {
    /// Settles the attempt; only the first call does.
    pub(crate) fn tell(&self) -> SettlePhase {
        self.phase
            .as_ref()
            .map_or(SettlePhase::Started, |phase| phase.tell())
    }

    /// Returns when its handler started, by the store's clock, in microseconds since the epoch.
    pub(crate) fn started_us(&self) -> u64 {
        let on_its_thread = self.phase.as_ref().map(|phase| &phase.started_us);
        on_its_thread.map_or(self.started_us, |us| us.load(Ordering::Relaxed))
    }
}

impl AttemptPhase {
    /// Marks the handler as started; `false` if the attempt was settled before.
    pub(crate) fn start(&self, started_us: u64) -> bool {
        self.started_us.store(started_us, Ordering::Relaxed);
        let (before, after) = (Ordering::AcqRel, Ordering::Acquire);
        self.step
            .compare_exchange(WAITING, RUNNING, before, after)
            .is_ok()
    }

    fn tell(&self) -> SettlePhase {
        match self.step.swap(SETTLED, Ordering::AcqRel) {
            WAITING => SettlePhase::NotStarted,
            RUNNING => SettlePhase::Started,
            _ => SettlePhase::Already,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_settled_once_and_does_not_start_after_that() {
        let phase = AttemptPhase::default();
        assert_eq!(phase.tell(), SettlePhase::NotStarted);
        assert!(!phase.start(1), "a stale attempt never runs");
        assert_eq!(phase.tell(), SettlePhase::Already);

        let phase = AttemptPhase::default();
        assert!(phase.start(1));
        assert_eq!(
            (phase.tell(), phase.tell()),
            (SettlePhase::Started, SettlePhase::Already)
        );
    }
}
