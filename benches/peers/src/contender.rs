//! A trait: how a contender takes events, starts their handlers, and reports what is left.

use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::payload::Watch;

/// How long a call to Redis may take where the contender's own limit of 500 ms would end a run on a
/// machine that has other work too.
pub const CALL_LIMIT: Duration = Duration::from_secs(10);

/// How a contender is set up for one measurement.
#[derive(Clone)]
pub struct Setup {
    pub url: String,
    /// The queues, named by [`queue_name`].
    pub queues: usize,
    /// Handlers of a queue that run at the same time; none when this process only pushes.
    pub workers: usize,
    pub watch: Arc<Watch>,
    /// Whether events may be fetched a little before they are due, where that is a choice.
    pub read_ahead: bool,
    /// Whether every setting is the contender's own default, apart from `workers`.
    pub as_shipped: bool,
    /// What the events have of their own, if anything.
    pub shape: Option<Shape>,
}

/// What events have of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    Plain,
    /// Each a due time, so many in a millisecond.
    Own { a_ms: usize },
    /// Of four, one is plain, one has a key, one a unique key, and one an expiry.
    Mixed,
    /// One in eight fails once.
    Failing,
    /// Each a due time, so many in a millisecond, and every second one is cancelled when it was
    /// accepted.
    Cancelled { a_ms: usize },
}

/// Where an event goes, and when it is due; at once without a time.
#[derive(Clone, Copy)]
pub struct To {
    pub queue: usize,
    pub due_ms: Option<u64>,
}

pub trait Contender: Sized + Send + Sync + 'static {
    /// Events of a call that pushes many.
    const BATCH: usize;
    /// How 64 events are in flight: so many pushers, each with so many events a call.
    const IN_FLIGHT: (usize, usize) = (64, 1);
    /// Whether one call can push many delayed events.
    const BULK_DELAYED: bool = true;
    /// More events than this are never waiting, since it would not survive them.
    const BACKLOG_MAX: usize = usize::MAX;
    /// More events than this are never due at one instant, since it would not survive them.
    const HERD_MAX: usize = usize::MAX;

    async fn open(setup: Setup) -> Result<Self>;

    fn push(&self, to: To, payload: String) -> impl Future<Output = Result> + Send;

    /// Pushes an event with what it has of its own; only a due time unless the contender has more.
    fn push_as(
        &self,
        _shape: Shape,
        to: To,
        payload: String,
        _number: usize,
    ) -> impl Future<Output = Result> + Send {
        self.push(to, payload)
    }

    fn push_many(&self, to: To, payloads: Vec<String>) -> impl Future<Output = Result> + Send;

    /// Events of the first queue that are not done.
    async fn left(&self) -> Result<usize>;

    async fn close(&self) -> Result;
}

pub fn queue_name(place: usize) -> String {
    format!("line-{place}")
}
