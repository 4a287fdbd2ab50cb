//! The poll schedule of one bucket: when to move due events and when to poll again.

use std::time::Duration;

use crate::core::options::NodeOptions;
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
    /// The next scheduled events are a crowd.
    crowd: bool,
    /// When it was last known whether they are.
    checked: Mono,
}

/// What a reply says of the waiting events.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// When the next scheduled event is due, by this node's clock.
    pub(crate) next_due: Mono,
    /// The ready list may have events.
    pub(crate) ready: bool,
    /// The poll reached its limit.
    pub(crate) full: bool,
    /// The next scheduled events are a crowd.
    pub(crate) crowd: bool,
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
            crowd: false,
            checked: Mono::default(),
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

    /// Updates the schedule from a reply that arrived `now`; polls again at `net` even without a
    /// wake-up.
    pub(crate) fn looked(&mut self, now: Mono, waiting: Waiting, net: Mono) {
        let Waiting {
            next_due,
            ready,
            full,
            crowd,
        } = waiting;
        *self = Self {
            next_due,
            unknown: self.unknown,
            at_once: self.at_once,
            ready,
            net,
            full,
            crowd,
            checked: now,
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

    /// Returns how long before its due time an event may be prefetched.
    pub(crate) fn window(&self, options: &NodeOptions) -> Duration {
        match self.crowd {
            true => options.ahead.max(options.crowd_ahead),
            false => options.ahead,
        }
    }

    /// Returns when to prefetch: the window before the next due time, but at least a quarter of
    /// `ahead` after the last fetch, unless that would be late.
    pub(crate) fn reads_ahead(&self, options: &NodeOptions, last: Mono) -> Mono {
        let (due, ahead) = (self.next_due, options.ahead);
        if due == Mono::MAX || ahead.is_zero() {
            return Mono::MAX;
        }
        let from = due - self.window(options);
        if self.full {
            return from;
        }
        from.max((last + ahead / 4).min(due))
            .min(self.looks_for_crowd(options))
    }

    /// Returns when to find out whether the next events have become a crowd: once before a crowd
    /// would be prefetched, unless a reply just said.
    fn looks_for_crowd(&self, options: &NodeOptions) -> Mono {
        let at = (self.next_due - options.crowd_ahead).max(self.checked + options.crowd_ahead / 2);
        match at + options.ahead < self.next_due && !self.crowd {
            true => at,
            false => Mono::MAX,
        }
    }
}
