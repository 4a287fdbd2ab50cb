//! The ring and the handlers of one queue on one node, with the rules of the real ones.

use std::collections::VecDeque;
use std::time::Duration;

use duly::__internal::Job;
use duly::records::Cause;
use duly::store::operation::{AttemptOutcome, FailureReason, RequestId, Settlement};
use duly::time::Mono;

use crate::plan::Handlers;
use crate::rng::Rng;
use crate::store::Body;

/// What is published and has not ended.
#[derive(Debug)]
pub struct Pool {
    pub ring: VecDeque<Job<Body>>,
    pub running: Vec<Running>,
    pub workers: usize,
    /// The most that was ever allowed to be in here.
    pub credits: usize,
}

/// A handler at work.
#[derive(Debug)]
pub struct Running {
    pub number: u64,
    pub job: Job<Body>,
    pub settlement: Settlement,
}

/// Until when and from which fetch on a bucket's events may start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gate {
    pub fresh_until: Mono,
    pub lost_through: RequestId,
}

impl Gate {
    pub fn lets_through(&self, now: Mono, job: &Job<Body>) -> bool {
        now < self.fresh_until && job.delivery.request > self.lost_through
    }
}

impl Pool {
    pub fn new(workers: usize, credits: usize) -> Self {
        Self {
            ring: VecDeque::new(),
            running: Vec::new(),
            workers,
            credits,
        }
    }

    pub fn len(&self) -> usize {
        self.ring.len() + self.running.len()
    }

    /// The next event that a free worker can start.
    pub fn next(&mut self) -> Option<Job<Body>> {
        if self.running.len() < self.workers {
            self.ring.pop_front()
        } else {
            None
        }
    }

    pub fn take_running(&mut self, number: u64) -> Option<Running> {
        let at = self
            .running
            .iter()
            .position(|running| running.number == number)?;
        Some(self.running.remove(at))
    }
}

/// What a handler makes of its event, and how long that takes.
pub fn handle(rng: &mut Rng, handlers: &Handlers, is_healed: bool) -> (u64, AttemptOutcome) {
    let quick = rng.within(200..20_000);
    if is_healed {
        return (quick, AttemptOutcome::Ack);
    }
    let failing = |cause| FailureReason { cause, error: None };
    if rng.chance(handlers.hang) {
        let timed_out = AttemptOutcome::Retry(Duration::ZERO, failing(Cause::TimedOut));
        return (handlers.timeout_us, timed_out);
    }
    let takes = if rng.chance(handlers.long) {
        rng.within(20_000..handlers.long_us)
    } else {
        quick
    };
    let delay = Duration::from_micros(rng.pick(&[0, 1, 700, 50_000, 1_500_000]));
    let verdict = if rng.chance(handlers.fail) {
        let cause = rng.pick(&[Cause::Failed, Cause::Panicked]);
        AttemptOutcome::Retry(delay, failing(cause))
    } else if rng.chance(handlers.snooze) {
        AttemptOutcome::Snooze(delay)
    } else if rng.chance(handlers.bury) {
        AttemptOutcome::Bury(failing(Cause::Failed))
    } else if rng.chance(handlers.discard) {
        AttemptOutcome::Discard(None)
    } else {
        AttemptOutcome::Ack
    };
    (takes, verdict)
}

/// The delay that a verdict asks for.
pub fn delay_of(verdict: &AttemptOutcome) -> u64 {
    match verdict {
        AttemptOutcome::Retry(delay, _) | AttemptOutcome::Snooze(delay) => delay.as_micros() as u64,
        _ => 0,
    }
}
