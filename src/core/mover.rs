//! When a bucket's due events are moved, and when it is looked at again.

use std::time::Duration;

use crate::core::clock::StoreClock;
use crate::time::{Mono, Timestamp};

/// What is known of the waiting events of one bucket.
///
/// The next due time comes with every answer, so the mover sleeps exactly until then. An earlier
/// push makes the store call [`woken`](Self::woken). Should that get lost, the sleep is capped.
#[derive(Debug)]
pub(crate) struct Mover {
    next_due: Option<Timestamp>,
    /// Nobody knows what is in the bucket: it was never looked at, or something came earlier.
    unknown: bool,
    /// Ready events wait in the publish list, as far as is known.
    ready: bool,
    /// When to look again all the same.
    net: Mono,
    /// The last look took as much as it might, so there is more: no need to wait for the next one.
    full: bool,
}

impl Mover {
    /// A bucket that was never looked at.
    pub(crate) fn new() -> Self {
        Self {
            next_due: None,
            unknown: true,
            ready: false,
            net: Mono::MAX,
            full: false,
        }
    }

    pub(crate) fn woken(&mut self) {
        self.unknown = true;
    }

    /// A look is sent; whatever wakes the mover from now on may be news to its answer.
    pub(crate) fn looks(&mut self) {
        self.unknown = false;
        self.net = Mono::MAX;
    }

    /// Learns from an answer; `net` is when to look again without being woken.
    pub(crate) fn looked(&mut self, next_due: Option<Timestamp>, ready: bool, full: bool) {
        (self.next_due, self.ready, self.full) = (next_due, ready, full);
    }

    /// Looks again at `net`, even if nothing wakes it.
    pub(crate) fn sleeps_until(&mut self, net: Mono) {
        self.net = net;
    }

    /// Whether ready events may wait in the publish list.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready
    }

    /// When the bucket must be looked at although nothing is known to be due.
    pub(crate) fn must_look(&self) -> Mono {
        if self.unknown {
            Mono::default()
        } else {
            self.net
        }
    }

    /// When scheduled events are due and have to be moved.
    pub(crate) fn must_move(&self, clock: &StoreClock) -> Mono {
        self.next_due.map_or(Mono::MAX, |due| clock.mono_at(due))
    }

    /// When a fetch should read ahead: `ahead` before the next due time, but so that fetches keep
    /// a quarter of it apart, unless that would be late.
    pub(crate) fn reads_ahead(&self, clock: &StoreClock, ahead: Duration, last: Mono) -> Mono {
        let Some(due) = self.next_due.filter(|_| !ahead.is_zero()) else {
            return Mono::MAX;
        };
        let due = clock.mono_at(due);
        if self.full {
            return due - ahead;
        }
        (due - ahead).max((last + ahead / 4).min(due))
    }
}
