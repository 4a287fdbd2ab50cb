//! The poll schedule of one bucket: when to move due events and when to poll again.

use std::time::Duration;

use crate::time::Mono;

/// What is known of the waiting events of one bucket.
///
/// Every reply carries the next due time, so the mover sleeps exactly until then, counted from the
/// reply: polling early is harmless, and polling in a loop is impossible. After an earlier push the
/// store calls [`woken`](Self::woken). The sleep is capped in case that wake-up is lost.
#[derive(Debug)]
pub(crate) struct Mover {
    /// When the next scheduled event is due; [`Mono::MAX`] is never.
    next_due: Mono,
    /// Since when the content is unknown: the bucket was never polled, or something earlier
    /// arrived.
    unknown: Option<Mono>,
    /// There is work that other nodes may not know of.
    at_once: bool,
    /// The ready list may have events.
    ready: bool,
    /// When to poll even without a wake-up.
    net: Mono,
    /// The last poll reached its limit, so there is more and no need to wait.
    full: bool,
}

impl Mover {
    /// Creates the schedule of a bucket that was never polled.
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

    /// Something earlier arrived at `now`.
    pub(crate) fn woken(&mut self, now: Mono) {
        self.unknown = Some(self.unknown.map_or(now, |since| since.min(now)));
    }

    /// The bucket's owner has no room for its ready events.
    pub(crate) fn called(&mut self, now: Mono) {
        self.unknown = Some(now);
    }

    /// There is work that other nodes may not know of.
    pub(crate) fn found(&mut self) {
        self.at_once = true;
    }

    /// A poll is sent; a wake-up from now on may be about events it misses.
    pub(crate) fn looks(&mut self) {
        (self.unknown, self.at_once) = (None, false);
        self.net = Mono::MAX;
    }

    /// Updates the schedule from a reply; polls again at `net` even without a wake-up.
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

    /// Returns whether the ready list may have events.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready
    }

    /// Returns when to poll although nothing is known to be due: `later` after the wake-up, or at
    /// once if other nodes may not know.
    pub(crate) fn polls_at(&self, later: Duration) -> Mono {
        match self.at_once {
            true => Mono::default(),
            false => self.unknown.unwrap_or(self.net) + later,
        }
    }

    /// Returns when scheduled events have to be moved.
    pub(crate) fn moves_at(&self) -> Mono {
        self.next_due
    }

    /// Returns when to prefetch: `ahead` before the next due time, but at least a quarter of it
    /// after the last fetch, unless that would be late.
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
