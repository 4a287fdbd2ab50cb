//! Start announcements: a node reports starts to the store before its handlers run.
//!
//! A call that only announces does little, so its reply tells the store's time best: the clock of a
//! bucket counts from when a reply arrived, and that of a fetch or a settle is some 0.1 ms older.
//! So one is made shortly before an event is due, also where there is nothing to announce.

use std::time::Duration;

use crate::core::bucket_state::BucketState;
use crate::core::node::Node;
use crate::core::op::StartMark;
use crate::core::prefetch::ANNOUNCE_AHEAD;
use crate::core::queue_state::QueueState;
use crate::time::Mono;

impl QueueState {
    /// Returns the number of unfinished events on whose leases handlers may start.
    pub(super) fn startable(&self) -> usize {
        self.outstanding + self.pledged + self.fetched_starts
    }

    /// Returns how many more a bucket may announce: half of them where there are other buckets.
    fn announceable(&self) -> usize {
        let room = self.window.room(self.startable());
        match self.buckets.len() {
            0 | 1 => room,
            _ => room.div_ceil(2),
        }
    }

    /// Returns the number of idle workers.
    fn idle(&self) -> usize {
        self.workers.saturating_sub(self.outstanding)
    }
}

/// How long before an event is due the store's time is asked for.
const ASKED_AHEAD: Duration = Duration::from_millis(5);
/// The shortest time between two such calls of a bucket, in which clocks drift apart by 20 us.
const ASKED_APART: Duration = Duration::from_millis(20);

impl<B> BucketState<B> {
    /// Returns on how many of the events of a fetch of at most `wanted` handlers may start without
    /// a further announcement.
    pub(super) fn starts(&self, queue: &QueueState, wanted: usize) -> usize {
        /// A fetch of one of many buckets seldom brings more.
        const FEW: usize = 2;
        if !self.held.announces() {
            return usize::MAX;
        }
        let few = match queue.window.room(queue.outstanding + queue.pledged) {
            0 => 0,
            _ => FEW,
        };
        let idle = queue.idle().saturating_sub(queue.fetched_starts);
        let most = queue.announceable().max(idle).max(few);
        wanted.min(most.saturating_sub(self.held.closed()))
    }

    /// Announces starts, with a call that is made anyway or when it is time; returns the new mark.
    pub(super) fn announce(
        &mut self,
        now: Mono,
        queue: &mut QueueState,
        is_called_anyway: bool,
    ) -> Option<StartMark> {
        queue.window.decay(now);
        if !is_called_anyway && self.announces_at(now, queue) > now {
            return None;
        }
        let most = if self.wait_idly(now, queue) {
            queue.announceable().max(queue.idle())
        } else {
            queue.announceable()
        };
        let mark = self.held.announce(now, &self.clock, most);
        self.count_held(queue);
        mark
    }

    /// Announces starts in a call of its own, when it is time for one or to ask for the store's
    /// time; returns the mark.
    pub(super) fn announce_alone(
        &mut self,
        now: Mono,
        queue: &mut QueueState,
    ) -> Option<StartMark> {
        let asks = self.asks_time_at(queue) <= now;
        let mark = self.announce(now, queue, asks);
        let mark = mark.or(asks.then_some(self.held.acknowledged()));
        if mark.is_some() {
            (self.own_call, self.is_asking) = (now, true);
        }
        mark
    }

    /// Returns when a call of its own has to announce starts or to ask for the store's time, if
    /// nothing changes first.
    pub(super) fn calls_alone_at(&self, now: Mono, queue: &QueueState) -> Mono {
        self.announces_at(now, queue).min(self.asks_time_at(queue))
    }

    /// Returns when to ask for the store's time.
    fn asks_time_at(&self, queue: &QueueState) -> Mono {
        let due = self.next_prefetched_due();
        let waits = queue.rate.is_some() || queue.free() == 0;
        if due == Mono::MAX || waits || self.is_asking || !self.held.announces() {
            return Mono::MAX;
        }
        (due - ASKED_AHEAD).max(self.own_call + ASKED_APART)
    }

    /// Returns when starts have to be announced, if nothing changes first.
    fn announces_at(&self, now: Mono, queue: &QueueState) -> Mono {
        let first = if self.held.is_announcing() {
            None
        } else {
            self.held.first_closed()
        };
        let Some(due) = first.map(|due| self.clock.mono_at(due)) else {
            return Mono::MAX;
        };
        let is_time = queue.window.is_low(queue.startable());
        if is_time && queue.announceable() > 0 {
            due - ANNOUNCE_AHEAD
        } else if queue.idle() > 0 && !self.is_overdue(now) {
            due
        } else {
            Mono::MAX
        }
    }

    /// Returns whether due events and idle workers wait for an acknowledgement.
    fn wait_idly(&self, now: Mono, queue: &QueueState) -> bool {
        self.held.is_due() && queue.idle() > 0 && !self.is_overdue(now)
    }

    /// Grows the start window if it is too small.
    pub(super) fn grow_window(&mut self, now: Mono, queue: &mut QueueState) {
        self.held.ripen(now, &self.clock);
        self.count_held(queue);
        let may = queue.rate.as_ref().is_none_or(|rate| rate.allows(now) > 0);
        let waits = may && self.held.has_closed_due(now, &self.clock);
        if waits && queue.idle() > 0 && !self.is_overdue(now) {
            queue.window.ran_dry(now);
        }
    }

    /// Updates the queue's counters with this bucket's buffer.
    pub(crate) fn count_held(&mut self, queue: &mut QueueState) {
        let (pledged, waiting) = (self.held.pledged(), self.held.waiting());
        queue.pledged = queue.pledged + pledged - self.counted.0;
        queue.waiting = queue.waiting + waiting - self.counted.1;
        self.counted = (pledged, waiting);
    }
}

impl<B> Node<B> {
    /// Handles the end of a call that announced starts.
    pub(super) fn announced(&mut self, bucket: usize, mark: StartMark, is_known: bool) {
        let state = &mut self.buckets[bucket];
        let queue = &mut self.queues[state.queue];
        if is_known {
            if mark > state.held.acknowledged() {
                queue.window.acknowledged();
            }
            state.held.acknowledge(mark);
        } else {
            state.held.unacknowledged();
        }
        state.count_held(queue);
    }
}
