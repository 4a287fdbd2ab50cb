//! When a bucket's due events are moved, and when it is looked at again.

use std::time::Duration;

use crate::time::Mono;

/// What is known of the waiting events of one bucket.
///
/// The next due time comes with every answer, so the mover sleeps exactly until then, counted from
/// that answer: asking too early is harmless, and asking again without end is not possible. An
/// earlier push makes the store call [`woken`](Self::woken). Should that get lost, the sleep is
/// capped.
#[derive(Debug)]
pub(crate) struct Mover {
    /// When the next scheduled event is due: [`Mono::MAX`] is never.
    next_due: Mono,
    /// Since when nobody knows what is in the bucket: it was never looked at, or something came
    /// earlier.
    unknown: Option<Mono>,
    /// Something is there that nobody else may know of.
    at_once: bool,
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
            next_due: Mono::MAX,
            unknown: Some(Mono::default()),
            at_once: false,
            ready: false,
            net: Mono::MAX,
            full: false,
        }
    }

    /// Something came earlier, at `now` as far as is known.
    pub(crate) fn woken(&mut self, now: Mono) {
        self.unknown = Some(self.unknown.map_or(now, |since| since.min(now)));
    }

    /// The node that looks first has no room for what is there.
    pub(crate) fn called(&mut self, now: Mono) {
        self.unknown = Some(now);
    }

    /// Something came that nobody else may know of.
    pub(crate) fn found(&mut self) {
        self.at_once = true;
    }

    /// A look is sent; whatever wakes the mover from now on may be news to its answer.
    pub(crate) fn looks(&mut self) {
        (self.unknown, self.at_once) = (None, false);
        self.net = Mono::MAX;
    }

    /// Learns from an answer; looks again at `net`, even if nothing wakes it.
    pub(crate) fn looked(&mut self, next_due: Mono, ready: bool, full: bool, net: Mono) {
        *self = Self {
            next_due,
            unknown: self.unknown,
            at_once: self.at_once,
            ready,
            net,
            full,
        };
    }

    /// Whether ready events may wait in the publish list.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready
    }

    /// From when on the bucket must be looked at although nothing is known to be due: so much later
    /// than there was news, unless nobody else may know of it.
    pub(crate) fn must_look(&self, later: Duration) -> Mono {
        match self.at_once {
            true => Mono::default(),
            false => self.unknown.unwrap_or(self.net) + later,
        }
    }

    /// When scheduled events are due and have to be moved.
    pub(crate) fn must_move(&self) -> Mono {
        self.next_due
    }

    /// When a fetch should read ahead: `ahead` before the next due time, but so that fetches keep
    /// a quarter of it apart, unless that would be late.
    pub(crate) fn reads_ahead(&self, ahead: Duration, last: Mono) -> Mono {
        let due = self.next_due;
        if due == Mono::MAX || ahead.is_zero() {
            return Mono::MAX;
        }
        if self.full {
            return due - ahead;
        }
        (due - ahead).max((last + ahead / 4).min(due))
    }
}
