//! The [`Work`] trait: what a pool does with its jobs.

use std::future::Future;
use std::time::Duration;

/// What a pool does with a job.
///
/// A job is *begun*, its future runs, and [`end`](Self::end) is called exactly once for each job
/// that was begun, whatever happens to the future, the worker or the runtime. A job that was not
/// begun belongs to the pool, which returns it when it is drained.
///
/// A panic of the future, when it is polled or dropped, ends that job and nothing else. The methods
/// should not panic; if they do, the panic is logged and the worker goes on.
pub trait Work: Send + Sync + 'static {
    /// The type of its jobs.
    type Job: Send + Sync + 'static;

    /// What a worker keeps for the next job, so that it is not made anew for each.
    type Scratch: Send + 'static;

    /// What [`end`](Self::end) needs of a job that was begun.
    type Ticket: Send + 'static;

    /// The output of a job's future.
    type Output: Send;

    /// Returns what a new worker keeps.
    fn scratch(&self) -> Self::Scratch;

    /// Begins a job, or refuses it: then nothing was started, and the work has dealt with it
    /// itself.
    ///
    /// A job whose beginning panics is gone: it has no ticket, and `end` is not called.
    fn begin(
        &self,
        job: Self::Job,
        scratch: &mut Self::Scratch,
    ) -> Option<(Self::Ticket, impl Future<Output = Self::Output> + Send)>;

    /// Runs a part of a job, a poll or its end, inside its context.
    #[inline]
    fn within<R>(&self, ticket: &Self::Ticket, run: impl FnOnce() -> R) -> R {
        let _nothing_surrounds = ticket;
        run()
    }

    /// Reports how a job ended, exactly once for each that was begun, after its future was dropped.
    fn end(&self, ticket: Self::Ticket, ended: JobEnd<Self::Output>);

    /// Reports that jobs that did not suspend have just kept the worker's thread for `busy`, each of
    /// them for as long as many slices.
    fn kept_thread(&self, busy: Duration) {
        let _nobody_minds = busy;
    }

    /// Returns whether a job that waits may leave the pool when that is paused.
    fn may_leave(&self, job: &Self::Job) -> bool {
        let _every_job_stays = job;
        false
    }

    /// Takes back a job that left the pool before it was begun.
    fn left(&self, job: Self::Job) {
        drop(job);
    }

    /// Returns the limit of a job's future, or `None`.
    ///
    /// It is measured from the first suspension, and checked while suspended: a future that blocks
    /// its thread runs on. It never ends early. A limit of `COARSE_MIN`
    /// or more may be exceeded by some 20 ms; a shorter one is kept to the millisecond, at the
    /// price of a timer for each job.
    fn limit(&self) -> Option<Duration>;
}

/// How a job that was begun ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd<O> {
    /// Its future resolved.
    Finished(O),
    /// Its future exceeded the limit while suspended, and was dropped.
    TimedOut,
    /// Its future panicked; contains the message, truncated.
    Panicked(String),
    /// Its future was dropped because the pool was cut short, or its runtime was shut down.
    Cut,
}
