//! Stopwatches: wall time, and processor time, which a busy machine disturbs less.

use std::fs;
use std::ops::Add;
use std::time::Duration;

use tokio::time::Instant;

/// Runs from its start on.
pub(crate) struct Stopwatch {
    start: Instant,
    cpu: Duration,
}

/// What something took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Took {
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
            cpu: cpu_time(),
        }
    }

    /// What it took until now.
    pub(crate) fn took(&self) -> Took {
        Took {
            time: self.start.elapsed(),
            cpu: cpu_time().saturating_sub(self.cpu),
        }
    }
}

impl Add for Took {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            time: self.time + other.time,
            cpu: self.cpu + other.cpu,
        }
    }
}

/// Processor time of this process, with the threads that it had, in steps of a hundredth of a
/// second; none where the system does not tell.
pub(crate) fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which is in brackets and may hold anything: of the user and of the system.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
