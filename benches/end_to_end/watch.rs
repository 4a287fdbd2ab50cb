//! What something takes: time, and time of the processor, which a busy machine disturbs less.

use std::fs;
use std::time::Duration;

use tokio::time::Instant;

/// Runs from its start on.
pub(crate) struct Stopwatch {
    start: Instant,
    cpu: Duration,
}

/// What something took.
#[derive(Clone, Copy)]
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

    /// What it took until now. A thread that has ended meanwhile is not counted.
    pub(crate) fn took(&self) -> Took {
        Took {
            time: self.start.elapsed(),
            cpu: cpu_time().saturating_sub(self.cpu),
        }
    }
}

/// Processor time of the threads that this process has now; none where the system does not tell.
pub(crate) fn cpu_time() -> Duration {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanos = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
