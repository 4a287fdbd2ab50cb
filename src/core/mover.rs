//! The poll schedule of one bucket: when to move due events and when to poll again.

use std::time::Duration;

use crate::core::options::NodeOptions;
use crate::time::Mono;

/// What is known of the waiting events of one bucket.
///
/// Every reply carries the next due time, so the mover sleeps exactly until then, counted from the
/// reply: polling early is harmless, and polling in a loop is impossible. After an earlier push the
/// store calls [`wake`](Self::wake). The sleep is capped in case that wake-up is lost.
#[derive(Debug)]
pub(crate) struct Mover {
    /// What the last reply said.
    waiting: Waiting,
    /// When it arrived.
    replied: Mono,
    /// Since when the content is unknown: the bucket was never polled, or something earlier
    /// arrived.
    unknown: Option<Mono>,
    /// There is work that other nodes may not know of.
    at_once: bool,
    /// When to poll even without a wake-up.
    net: Mono,
}

/// What a reply says of the waiting events.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// When the next scheduled event is due; [`Mono::MAX`] is never.
    pub(crate) next_due: Mono,
    /// The ready list may have events.
    pub(crate) ready: bool,
    /// The poll reached its limit, so there is more and no need to wait.
    pub(crate) full: bool,
    /// The next scheduled events are a crowd.
    pub(crate) crowd: bool,
}

impl Mover {
    /// Creates the schedule of a bucket that was never polled.
    pub(crate) fn new() -> Self {
        Self {
            waiting: Waiting {
                next_due: Mono::MAX,
                ready: false,
                full: false,
                crowd: false,
            },
            replied: Mono::default(),
            unknown: Some(Mono::default()),
            at_once: false,
            net: Mono::MAX,
        }
    }

    /// Something earlier arrived at `now`.
    pub(crate) fn wake(&mut self, now: Mono) {
        self.unknown = Some(self.unknown.map_or(now, |since| since.min(now)));
    }

    /// The bucket's owner has no room for its ready events.
    pub(crate) fn poll_soon(&mut self, now: Mono) {
        self.unknown = Some(now);
    }

    /// There is work that other nodes may not know of.
    pub(crate) fn poll_at_once(&mut self) {
        self.at_once = true;
    }

    /// A poll is sent; a wake-up from now on may be about events it misses.
    pub(crate) fn start_poll(&mut self) {
        (self.unknown, self.at_once) = (None, false);
        self.net = Mono::MAX;
    }

    /// Updates the schedule from a reply that arrived `now`; polls again at `net` even without a
    /// wake-up.
    pub(crate) fn finish_poll(&mut self, now: Mono, waiting: Waiting, net: Mono) {
        (self.waiting, self.replied, self.net) = (waiting, now, net);
    }

    /// Returns whether the ready list may have events.
    pub(crate) fn has_ready(&self) -> bool {
        self.waiting.ready
    }

    /// Returns when to poll although nothing is known to be due: `later` after the wake-up, or at
    /// once if other nodes may not know.
    pub(crate) fn polls_at(&self, later: Duration) -> Mono {
        if self.at_once {
            Mono::default()
        } else {
            self.unknown.unwrap_or(self.net) + later
        }
    }

    /// Returns when scheduled events have to be moved.
    pub(crate) fn moves_at(&self) -> Mono {
        self.waiting.next_due
    }

    /// Returns how long before its due time an event may be prefetched.
    pub(crate) fn window(&self, options: &NodeOptions) -> Duration {
        if self.waiting.crowd {
            options.ahead.max(options.crowd_ahead)
        } else {
            options.ahead
        }
    }

    /// Returns when to prefetch: the window before the next due time, but at least a quarter of
    /// `ahead` after the last fetch, unless that would be late.
    pub(crate) fn reads_ahead(&self, options: &NodeOptions, last: Mono) -> Mono {
        let (due, ahead) = (self.waiting.next_due, options.ahead);
        if due == Mono::MAX || ahead.is_zero() {
            return Mono::MAX;
        }
        let from = due - self.window(options);
        if self.waiting.full {
            return from;
        }
        from.max((last + ahead / 4).min(due))
            .min(self.looks_for_crowd(options))
    }

    /// Returns when to find out whether the next events are a crowd: when one would be prefetched,
    /// unless the last reply came later than that.
    fn looks_for_crowd(&self, options: &NodeOptions) -> Mono {
        let at = self.waiting.next_due - options.crowd_ahead;
        if self.replied < at { at } else { Mono::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::default() + Duration::from_millis(ms)
    }

    /// When a bucket is prefetched whose next event is due at `due_ms`, as of a reply that arrived
    /// at `replied_ms` and followed the last fetch at once.
    fn reads_ahead(due_ms: u64, replied_ms: u64, crowd: bool) -> Mono {
        let mut mover = Mover::new();
        let waiting = Waiting {
            next_due: at(due_ms),
            ready: false,
            full: false,
            crowd,
        };
        mover.finish_poll(at(replied_ms), waiting, Mono::MAX);
        mover.reads_ahead(&NodeOptions::default(), at(replied_ms))
    }

    #[test]
    fn a_crowd_is_prefetched_a_second_before_and_others_shortly_before() {
        assert_eq!(reads_ahead(9_000, 5, true), at(8_000));
        assert_eq!(reads_ahead(9_000, 8_300, false), at(8_900));
    }

    #[test]
    fn whether_a_crowd_has_formed_is_found_out_once_before_it_would_be_prefetched() {
        assert_eq!(reads_ahead(9_000, 5, false), at(8_000));
        assert_eq!(reads_ahead(9_000, 7_999, false), at(8_000));
        assert_eq!(reads_ahead(9_000, 8_000, false), at(8_900), "no more");
    }

    #[test]
    fn a_crowd_that_brings_nothing_is_not_asked_for_without_a_pause() {
        assert_eq!(reads_ahead(9_000, 8_500, true), at(8_525));
    }
}
