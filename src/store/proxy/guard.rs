//! The guard before the calls of a store: it catches panics, and times and counts.

use std::sync::Arc;
use std::time::Duration;

use crate::core::op::StoreOp;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::StoreCallMetrics;
use crate::panics;
use crate::store::future::{StoreFuture, panicked};
use crate::time::{Clock, Mono};

macro_rules! calls {
    ($($call:ident = $name:literal,)+) => {
        /// The calls that are no operation.
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Call {
            $($call,)+
        }

        impl Call {
            /// Their names in metrics, by variant.
            const METRICS: &[&str] = &[$($name,)+];
        }
    };
}

calls! {
    PollMembers = "poll_members",
    Controls = "controls",
    ControlOf = "control_of",
    Set = "set",
    Buckets = "buckets",
    BucketsOf = "buckets_of",
    Starting = "starting",
    ReadRecords = "read_records",
    ReadMinutes = "read_minutes",
    EraseRecords = "erase_records",
    CheckBucket = "check_bucket",
    CheckStore = "check_store",
    Close = "close",
    Outboxes = "outboxes",
    ReadOutbox = "read_outbox",
    TrimOutbox = "trim_outbox",
}

impl Call {
    /// Its place among all calls, behind the operations.
    pub(super) fn place(self) -> usize {
        StoreOp::METRICS.len() + self as usize
    }
}

/// Before the calls of a store: they do not panic, if it guards, and are counted, if it has a meter.
#[derive(Clone)]
pub(super) struct Guard {
    guards: bool,
    meter: Option<Arc<Meter>>,
}

struct Meter {
    clock: Arc<dyn Clock>,
    calls: Vec<StoreCallMetrics>,
}

/// A call that is dropped after this long without a reply counts as failed.
const UNANSWERED_AFTER: Duration = Duration::from_secs(10);

/// A call in flight. One that is dropped before its reply was cancelled by its caller: its duration
/// is a lower bound and its result unknown. It counts as an error of the store only if the store
/// had time enough to reply.
struct InFlightCall {
    meter: Arc<Meter>,
    place: usize,
    since: Mono,
    /// The result; `None` until the store has replied.
    answered: Option<Option<ErrorKind>>,
}

/// The names of all calls in metrics, by their places.
fn names() -> impl Iterator<Item = &'static str> {
    let others = Call::METRICS.iter().copied();
    StoreOp::METRICS.into_iter().chain(others)
}

impl Guard {
    pub(super) fn new(guards: bool, clock: Option<&Arc<dyn Clock>>) -> Self {
        let meter = |clock| {
            Arc::new(Meter {
                clock: Arc::clone(clock),
                calls: names().map(StoreCallMetrics::new).collect(),
            })
        };
        Self {
            guards,
            meter: clock.map(meter),
        }
    }

    /// Makes a call; `Err`: the words of a panic.
    pub(super) fn caught<T>(&self, call: impl FnOnce() -> T) -> std::result::Result<T, String> {
        if self.guards {
            panics::caught(call)
        } else {
            Ok(call())
        }
    }

    /// Makes a call that returns at once.
    pub(super) fn now<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.caught(call)
            .unwrap_or_else(|words| Err(panicked(&words)))
    }

    /// Counts a failure of a call that is not timed.
    pub(super) fn failed(&self, place: usize, kind: ErrorKind) {
        if let Some(meter) = &self.meter {
            panics::reported(|| meter.calls[place].failed(kind, 1));
        }
    }

    /// Starts the timer before it makes the call.
    pub(super) fn timed<T: Send + 'static>(
        &self,
        place: usize,
        call: impl FnOnce() -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        let start = || {
            self.caught(call)
                .unwrap_or_else(|words| StoreFuture::ready(Err(panicked(&words))))
        };
        let Some(meter) = &self.meter else {
            return start();
        };
        let since = meter.clock.mono();
        let response = start();
        if let Some(answered) = response.peek() {
            meter.ended(place, since, answered.as_ref().err().map(Error::kind));
            return response;
        }
        let mut timed = InFlightCall {
            meter: Arc::clone(meter),
            place,
            since,
            answered: None,
        };
        StoreFuture::new(async move {
            let response = response.await;
            timed.answered(response.as_ref().err());
            response
        })
    }
}

impl Meter {
    /// Counts a call, which has ended, whatever panics of the recorder.
    fn ended(&self, place: usize, since: Mono, failed: Option<ErrorKind>) {
        panics::reported(|| {
            self.calls[place].took(self.clock.mono().since(since));
            if let Some(kind) = failed {
                self.calls[place].failed(kind, 1);
            }
        });
    }
}

impl InFlightCall {
    fn answered(&mut self, failed: Option<&Error>) {
        self.answered = Some(failed.map(Error::kind));
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        let failed = match self.answered {
            Some(failed) => failed,
            None => {
                let waited = self.meter.clock.mono().since(self.since);
                (waited >= UNANSWERED_AFTER).then_some(ErrorKind::TimedOut)
            }
        };
        self.meter.ended(self.place, self.since, failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_own_name() {
        let name = |place: usize| names().nth(place);
        assert_eq!(name(StoreOp::Stats.place()), Some("stats"));
        assert_eq!(name(StoreOp::SWEEP.place()), Some("reap"));
        assert_eq!(name(Call::Buckets.place()), Some("buckets"));
        assert_eq!(name(Call::TrimOutbox.place()), names().last());
    }
}
