//! The 64-byte payload of every contender, and the counter of arrivals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, sleep};

/// The wall clock, which is Redis's too: it runs on the same machine.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// 64 bytes with the quotes that JSON adds: when it is due, in microseconds, and its number.
pub fn payload(due_ms: Option<u64>, number: usize) -> String {
    let due_us = due_ms.map_or(0, |ms| ms * 1_000);
    format!("{due_us:016}{number:08}{:x<38}", "")
}

fn due_us_of(payload: &str) -> Option<u64> {
    payload.get(..16)?.parse().ok()
}

/// Returns the number of an event.
pub fn number_of(payload: &str) -> Option<usize> {
    payload.get(16..24)?.parse().ok()
}

/// What the handlers of a contender tell: which events started, and how late.
pub struct Watch {
    started: AtomicUsize,
    doubled: AtomicUsize,
    seen: Box<[AtomicBool]>,
    late_us: Box<[AtomicI64]>,
}

impl Watch {
    pub fn new(events: usize) -> Arc<Self> {
        Arc::new(Self {
            started: AtomicUsize::new(0),
            doubled: AtomicUsize::new(0),
            seen: (0..events).map(|_| AtomicBool::new(false)).collect(),
            late_us: (0..events).map(|_| AtomicI64::new(0)).collect(),
        })
    }

    /// The handler of an event has started.
    pub fn starts(&self, payload: &str) {
        let (Some(due_us), Some(number)) = (due_us_of(payload), number_of(payload)) else {
            return; // Not one of ours: it will be missing.
        };
        let (Some(seen), Some(late_us)) = (self.seen.get(number), self.late_us.get(number)) else {
            return;
        };
        if seen.swap(true, Ordering::Relaxed) {
            self.doubled.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if due_us > 0 {
            late_us.store(now_us() as i64 - due_us as i64, Ordering::Relaxed);
        }
        self.started.fetch_add(1, Ordering::Release);
    }

    /// How many different events have started.
    pub fn started(&self) -> usize {
        self.started.load(Ordering::Acquire)
    }

    /// How many starts were of an event that had started before.
    pub fn doubled(&self) -> usize {
        self.doubled.load(Ordering::Relaxed)
    }

    /// Waits until `events` have started, or until nothing has for as long as `patience`.
    ///
    /// Looks once a millisecond, which no figure here would notice.
    pub async fn until(&self, events: usize, patience: Duration) {
        let (mut last, mut changed) = (self.started(), Instant::now());
        while last < events && changed.elapsed() < patience {
            sleep(Duration::from_millis(1)).await;
            if self.started() != last {
                (last, changed) = (self.started(), Instant::now());
            }
        }
    }

    /// How late those were that have started, in microseconds and in order; below zero is early.
    pub fn lateness(&self) -> Vec<i64> {
        let both = self.seen.iter().zip(&self.late_us);
        let started = both.filter(|(seen, _)| seen.load(Ordering::Relaxed));
        let mut late: Vec<_> = started.map(|(_, us)| us.load(Ordering::Relaxed)).collect();
        late.sort_unstable();
        late
    }
}
