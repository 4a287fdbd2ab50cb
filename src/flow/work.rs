//! What a pool does with its jobs: the [`Work`] trait.

use std::future::Future;
use std::time::Duration;

/// What a pool does with a job.
///
/// A job is *begun*, its future runs to an end of some kind, and the work is told how it
/// [`end`](Self::end)ed: exactly once for each job that was begun, whatever happens to the future,
/// the worker or the runtime. A job that was not begun is still the pool's, which hands it back when
/// it is drained.
///
/// Panics of the future, when it is polled or dropped, end that job and nothing else. The methods
/// should not panic; where they do, the panic is logged and the worker goes on.
pub trait Work: Send + Sync + 'static {
    /// What is published to the pool.
    type Job: Send + 'static;

    /// What [`end`](Self::end) needs to know of a job that was begun.
    type Ticket: Send + 'static;

    /// What a job's future resolves to.
    type Output: Send;

    /// Begins a job, or refuses it: then nothing was started, and the work has dealt with it itself.
    ///
    /// A job whose beginning panics is gone: no ticket exists, so there is nothing to be told.
    fn begin(
        &self,
        job: Self::Job,
    ) -> Option<(Self::Ticket, impl Future<Output = Self::Output> + Send)>;

    /// Runs a part of a job, a poll or its end, with whatever surrounds it.
    #[inline]
    fn within<R>(&self, ticket: &Self::Ticket, run: impl FnOnce() -> R) -> R {
        let _nothing_surrounds = ticket;
        run()
    }

    /// Told how a job ended, exactly once for each that was begun, after its future was dropped.
    fn end(&self, ticket: Self::Ticket, ended: Ended<Self::Output>);

    /// How long a job's future may run, or `None` for no limit.
    ///
    /// It is measured from the first time that the future suspends, and noticed when it is
    /// suspended: a future that blocks its thread runs on. The time is never cut short. A limit of
    /// `COARSE_MIN` or more may be exceeded by some 20 ms; a shorter one
    /// is kept to the millisecond, at the price of a timer for each job.
    fn limit(&self) -> Option<Duration>;
}

/// How a job that was begun ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<O> {
    /// Its future resolved.
    Finished(O),
    /// Its future was suspended when its time was over, and dropped.
    TimedOut,
    /// Its future panicked, with these words; they are cut to a bounded length.
    Panicked(String),
    /// Its future was dropped because the pool was cut short, or its runtime went away.
    Cut,
}
