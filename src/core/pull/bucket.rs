//! A puller's state of one bucket, and the time of its next step.

use std::time::Duration;

use crate::core::clock::StoreClock;
use crate::core::op::{BATCH_MAX, Settlement};
use crate::core::pull::{
    BODY_BYTES_FIRST, BODY_BYTES_MIN, FETCH_BYTES, PATIENCE, PullFetch, PullOptions,
};
use crate::core::step::CallId;
use crate::error::ErrorKind;
use crate::event::BucketKey;
use crate::time::{Mono, Timestamp};

/// While leases of other processes may exist in a bucket, their deadlines are read this often, so
/// that one of at least this length is known before it ends.
const SCAN_EVERY: Duration = Duration::from_secs(1);
/// The same for many buckets: 500 scans a second in all.
const SCAN_EACH: Duration = Duration::from_millis(2);

/// Returns how often each of so many buckets is scanned.
fn scan_every(buckets: usize) -> Duration {
    let many = u32::try_from(buckets).unwrap_or(u32::MAX);
    SCAN_EVERY.max(SCAN_EACH.saturating_mul(many))
}

/// One bucket.
#[derive(Debug)]
pub(super) struct PulledBucket {
    pub(super) key: BucketKey,
    pub(super) queue: usize,
    /// The ready events by the last reply.
    pub(super) ready: usize,
    next_due: Option<Timestamp>,
    /// The size that its payloads are taken to have, in bytes.
    pub(super) body_bytes: usize,
    /// There may be more than is known.
    is_dirty: bool,
    /// It was notified while a poll was in flight, whose reply may not include the cause.
    was_woken: bool,
    /// When the last answered poll was sent.
    pub(super) known_at: Option<Mono>,
    /// A probe or a fetch is in flight, and when it was sent.
    pub(super) is_polling: bool,
    polled_at: Mono,
    /// The fetch in flight that callers wait for: they go past one that takes too long.
    pub(super) fetching: Option<CallId>,
    /// A fetch whose reply was lost: only its repeat tells what it has leased.
    pub(super) lost: Option<PullFetch>,
    /// Polls pause until then, after failures; and the length of the last pause.
    pub(super) rests_until: Mono,
    pause: Duration,
    /// Why the last poll failed.
    pub(super) failed: Option<ErrorKind>,
    is_reaping: bool,
    /// The first deadline of the leases since the reap in flight was sent, which it may not have
    /// seen.
    leased_since: Option<Timestamp>,
    next_reap: Mono,
    pub(super) next_deadline: Option<Timestamp>,
    /// When to poll in any case.
    next_poll: Mono,
    /// Leases to hand back.
    pub(super) returned: Vec<Settlement>,
    pub(super) is_settling: bool,
    settles_at: Mono,
    /// Its entry among the timers.
    pub(super) timer: Mono,
}

impl PulledBucket {
    pub(super) fn new(key: BucketKey, queue: usize, now: Mono) -> Self {
        Self {
            key,
            queue,
            ready: 0,
            next_due: None,
            body_bytes: BODY_BYTES_FIRST,
            is_dirty: false,
            was_woken: false,
            known_at: None,
            is_polling: false,
            polled_at: now,
            fetching: None,
            lost: None,
            rests_until: Mono::default(),
            pause: Duration::ZERO,
            failed: None,
            is_reaping: false,
            leased_since: None,
            next_reap: now,
            next_deadline: None,
            next_poll: now,
            returned: Vec::new(),
            is_settling: false,
            settles_at: Mono::default(),
            timer: Mono::MAX,
        }
    }

    /// There may be more than is known.
    pub(super) fn wake(&mut self) {
        self.is_dirty = true;
        self.was_woken = true;
    }

    /// Returns whether an event may be ready.
    pub(super) fn is_hot(&self, now: Mono, clock: &StoreClock) -> bool {
        self.is_dirty || self.ready > 0 || self.is_due(now, clock)
    }

    pub(super) fn is_due(&self, now: Mono, clock: &StoreClock) -> bool {
        self.next_due.is_some_and(|due| clock.has_reached(now, due))
    }

    /// Returns whether a poll may be sent.
    pub(super) fn may_poll(&self, now: Mono) -> bool {
        !self.is_polling && self.rests_until <= now
    }

    /// Returns when callers that also wait for other queues go on to those, although a poll is in
    /// flight; `None` if none is.
    pub(super) fn passed_at(&self) -> Option<Mono> {
        self.is_polling.then(|| self.polled_at + PATIENCE)
    }

    /// Returns the fetch in flight if callers go past it now.
    pub(super) fn goes_past(&mut self, now: Mono) -> Option<CallId> {
        let is_late = self.passed_at().is_some_and(|at| at <= now);
        self.fetching.take_if(|_| is_late)
    }

    /// Splits `wanted` into how many ready events and how many due ones to fetch.
    pub(super) fn split(&self, wanted: usize, now: Mono, clock: &StoreClock) -> (usize, usize) {
        let is_due = self.is_due(now, clock);
        let ready = if self.is_dirty && !is_due {
            wanted
        } else {
            self.ready.min(wanted)
        };
        (ready, if is_due { wanted - ready } else { 0 })
    }

    /// A poll is sent.
    pub(super) fn polls(&mut self, now: Mono, options: &PullOptions) {
        self.is_polling = true;
        self.polled_at = now;
        self.was_woken = false;
        self.next_poll = now + options.poll_every;
    }

    /// A poll that was sent at `sent` got its reply.
    pub(super) fn knows(&mut self, sent: Mono, ready: usize, next_due: Option<Timestamp>) {
        self.has_reply();
        self.known_at = Some(sent);
        (self.ready, self.next_due) = (ready, next_due);
        self.is_dirty = self.was_woken;
        self.failed = None;
        self.pause = Duration::ZERO;
    }

    fn has_reply(&mut self) {
        self.is_polling = false;
        self.fetching = None;
    }

    /// Returns how many events to fetch at most, by their size.
    pub(super) fn fetch_max(&self) -> usize {
        BATCH_MAX.min(FETCH_BYTES / self.body_bytes).max(1)
    }

    /// Events were fetched, the largest with so many bytes.
    pub(super) fn fetched(&mut self, largest: Option<usize>) {
        if let Some(largest) = largest {
            self.body_bytes = largest.max(BODY_BYTES_MIN);
        }
    }

    /// A poll failed.
    pub(super) fn fails(&mut self, now: Mono, kind: ErrorKind, options: &PullOptions) {
        self.has_reply();
        self.is_dirty = true;
        self.failed = Some(kind);
        self.rests_until = now + self.longer_pause(options);
    }

    fn longer_pause(&mut self, options: &PullOptions) -> Duration {
        let (least, most) = options.retry;
        self.pause = (self.pause * 2).clamp(least, most);
        self.pause
    }

    /// Events are leased until `deadline`.
    pub(super) fn leased(&mut self, deadline: Timestamp, clock: &StoreClock) {
        self.next_reap = self.next_reap.min(clock.mono_at(deadline));
        let first = |known: Option<Timestamp>| known.map_or(deadline, |known| known.min(deadline));
        self.next_deadline = Some(first(self.next_deadline));
        self.leased_since = Some(first(self.leased_since));
    }

    /// Returns whether it is time to reap.
    pub(super) fn reaps(&mut self, now: Mono) -> bool {
        let is_time = !self.is_reaping && self.next_reap <= now;
        if is_time {
            self.is_reaping = true;
            self.leased_since = None;
        }
        is_time
    }

    /// A reap got its reply; so many buckets are scanned. Returns whether this one is.
    pub(super) fn reaped(
        &mut self,
        now: Mono,
        (next_deadline, more): (Option<Timestamp>, bool),
        (clock, options, scanned): (&StoreClock, &PullOptions, usize),
    ) -> bool {
        self.is_reaping = false;
        let next_deadline = next_deadline.into_iter().chain(self.leased_since).min();
        self.next_deadline = next_deadline;
        let is_live = options.is_shared && (next_deadline.is_some() || self.is_hot(now, clock));
        let at_most = if is_live {
            scan_every(scanned)
        } else {
            options.poll_every
        };
        let ends = next_deadline.map_or(Mono::MAX, |deadline| clock.mono_at(deadline));
        self.next_reap = if more { now } else { ends.min(now + at_most) };
        if is_live && self.is_hot(now, clock) {
            self.next_poll = self.next_poll.min(self.next_reap); // it may be hot no more
        }
        is_live
    }

    /// A reap failed.
    pub(super) fn reap_failed(&mut self, now: Mono, options: &PullOptions) {
        self.is_reaping = false;
        self.next_reap = now + self.longer_pause(options);
    }

    /// Another process may lease its events from now on.
    pub(super) fn may_be_leased_elsewhere(
        &mut self,
        now: Mono,
        options: &PullOptions,
        scanned: usize,
    ) {
        if options.is_shared {
            self.next_reap = self.next_reap.min(now + scan_every(scanned));
        }
    }

    /// Returns whether the fallback poll is due.
    pub(super) fn is_old(&self, now: Mono) -> bool {
        self.next_poll <= now
    }

    /// Returns whether leases are to be handed back now.
    pub(super) fn settles(&self, now: Mono) -> bool {
        !self.is_settling && !self.returned.is_empty() && self.settles_at <= now
    }

    /// Handing back failed: it is repeated.
    pub(super) fn settle_failed(&mut self, now: Mono, options: &PullOptions) {
        self.is_settling = false;
        self.settles_at = now + self.longer_pause(options);
    }

    /// Returns when to look at it again.
    pub(super) fn wakes(&self, now: Mono, clock: &StoreClock, is_stopping: bool) -> Mono {
        let mut at = Mono::MAX;
        if !self.is_settling && !self.returned.is_empty() {
            at = at.min(self.settles_at);
        }
        if self.rests_until > now {
            at = at.min(self.rests_until);
        }
        if is_stopping {
            return at;
        }
        if !self.is_reaping {
            at = at.min(self.next_reap);
        }
        at = at.min(self.passed_at().filter(|at| *at > now).unwrap_or(Mono::MAX));
        if !self.is_polling {
            at = at.min(self.next_poll.max(self.rests_until));
            if let Some(due) = self.next_due.filter(|due| !clock.has_reached(now, *due)) {
                at = at.min(clock.mono_at(due));
            }
        }
        at
    }
}
