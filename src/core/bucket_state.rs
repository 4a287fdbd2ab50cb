//! The state of one bucket on a node.

use std::time::Duration;

use crate::core::clock::StoreClock;
use crate::core::lease::Leases;
use crate::core::mover::Mover;
use crate::core::op::{Delivery, Fetch, RequestId};
use crate::core::options::NodeOptions;
use crate::core::prefetch::PrefetchBuffer;
use crate::core::queue_state::QueueState;
use crate::core::reaper::Reaper;
use crate::core::settle::{SettlePace, Settler};
use crate::core::standby::Standby;
use crate::core::step::{Action, Job};
use crate::error::ErrorKind;
use crate::event::BucketKey;
use crate::time::{Mono, Timestamp};

/// One bucket, as a node sees it.
#[derive(Debug)]
pub(crate) struct BucketState<B> {
    pub(crate) key: BucketKey,
    /// The index of its queue in the node.
    pub(crate) queue: usize,
    /// This node's rank among those that may poll the bucket; only the owner prefetches.
    pub(crate) standby: Standby,
    /// When due events are moved again while there is no room for them.
    pub(crate) crowded_until: Mono,
    pub(crate) clock: StoreClock,
    pub(crate) mover: Mover,
    pub(crate) leases: Leases,
    pub(crate) settler: Settler,
    pub(crate) reaper: Reaper,
    /// Leased events that wait for their due time, for room, or for an acknowledgement.
    pub(crate) held: PrefetchBuffer<B>,
    /// The part of the queue's `pledged` and `waiting` that this bucket contributes.
    pub(crate) counted: (usize, usize),
    /// A fetch without a reply. Its repeat returns the same batch.
    pub(crate) fetching: Option<Fetch>,
    /// A move or a fetch is in flight.
    pub(crate) is_polling: bool,
    pub(crate) last_fetch: Mono,
    /// When a call of its own announced starts or asked for the store's time.
    pub(crate) own_call: Mono,
    /// Such a call is in flight.
    pub(crate) is_asking: bool,
    pub(crate) backoff: Backoff,
    /// The store has failed for good: nothing more is sent.
    pub(crate) failed: bool,
}

/// The next poll of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BucketPoll {
    /// Repeat the fetch whose reply was lost.
    FetchAgain(Fetch),
    /// Fetch ready events, and prefetch those due soon.
    Fetch { limit: usize, ahead_limit: usize },
    /// Move due events; where it `is_crowded` this node has no room for them.
    MoveDue { is_crowded: bool },
}

impl<B> BucketState<B> {
    pub(crate) fn new(
        key: BucketKey,
        queue: usize,
        standby: Standby,
        options: &NodeOptions,
    ) -> Self {
        Self {
            key,
            queue,
            standby,
            crowded_until: Mono::default(),
            clock: StoreClock::new(options.drift_ppm),
            mover: Mover::new(),
            leases: Leases::default(),
            settler: Settler::default(),
            reaper: Reaper::default(),
            held: PrefetchBuffer::new(!options.poll_every.is_zero()),
            counted: (0, 0),
            fetching: None,
            is_polling: false,
            last_fetch: Mono::default(),
            own_call: Mono::default(),
            is_asking: false,
            backoff: Backoff::default(),
            failed: false,
        }
    }

    /// Returns the next poll and its time, within the limits of queue and node; `None` waits for an
    /// input.
    pub(crate) fn next_poll(
        &self,
        now: Mono,
        queue: &QueueState,
        options: &NodeOptions,
        stopping: bool,
    ) -> Option<(Mono, BucketPoll)> {
        if self.is_polling {
            return None;
        }
        if let Some(fetch) = &self.fetching {
            return Some((self.backoff.until, BucketPoll::FetchAgain(fetch.clone())));
        }
        if stopping {
            return None;
        }
        let (is_mine, later) = (self.standby.is_owner(), self.standby.later());
        // With a rate limit, due events wait here for their turn.
        let has_no_room = self.is_overdue(now) || (self.held.is_due() && queue.is_full());
        let is_stuck = queue.rate.is_none() && has_no_room;
        let held_up = self.settler.len() >= options.unsettled_max || is_stuck;
        let limit = if held_up {
            0
        } else {
            queue.share().min(options.batch)
        };
        let reads_ahead = is_mine && !held_up && !options.ahead.is_zero() && !queue.is_paused();
        let ahead_limit = if reads_ahead {
            queue
                .prefetch_room(limit, options.ahead_max)
                .min(options.batch)
        } else {
            0
        };
        let is_crowded = limit + ahead_limit == 0;
        if is_crowded && !is_mine {
            return None;
        }
        let fetch = || BucketPoll::Fetch { limit, ahead_limit };
        // A fetch without prefetch leaves due events in place: a move is needed anyway, and leads
        // to a fetch that finds everything.
        let is_due = ahead_limit == 0 && self.mover.moves_at() + later <= now;
        let look = if is_crowded || is_due {
            BucketPoll::MoveDue { is_crowded }
        } else {
            fetch()
        };

        let mut wanted = (self.mover.polls_at(later), look);
        let mut or = |at: Mono, look: BucketPoll| {
            if at < wanted.0 {
                wanted = (at, look);
            }
        };
        if self.mover.has_ready() && limit > 0 && queue.is_low() {
            or(Mono::default(), fetch());
        }
        if self.mover.has_ready() && is_crowded && queue.nodes > 1 {
            or(Mono::default(), BucketPoll::MoveDue { is_crowded }); // others may have room
        }
        if ahead_limit > 0 {
            let at = self.mover.reads_ahead(options, self.last_fetch);
            or(at, fetch());
        }
        or(
            self.mover.moves_at() + later,
            BucketPoll::MoveDue { is_crowded },
        );
        let may = if is_crowded {
            self.crowded_until.max(self.backoff.until)
        } else {
            self.backoff.until
        };
        Some((wanted.0.max(may), wanted.1))
    }

    /// Ends the fetch in flight and returns the room reserved for it.
    pub(crate) fn fetch_over(&mut self, queue: &mut QueueState) {
        self.is_polling = false;
        if let Some(fetch) = self.fetching.take() {
            queue.reserved -= fetch.limit;
            queue.ahead -= fetch.ahead_limit;
            if self.held.announces() {
                queue.fetched_starts -= fetch.starts;
            }
        }
    }

    /// Fails the bucket for good; prefetched events are left to the store.
    pub(crate) fn fail(&mut self, queue: &mut QueueState) {
        self.fetch_over(queue);
        queue.ahead -= self.held.take_through(RequestId::MAX).len();
        self.count_held(queue);
        self.failed = true;
    }

    /// Adds the events of a fetch to the prefetch buffer.
    pub(crate) fn hold(&mut self, bucket: usize, fetched_us: u64, deliveries: Vec<Delivery<B>>) {
        for delivery in deliveries {
            self.held.add(Job {
                bucket,
                fetched_us,
                delivery,
            });
        }
    }

    /// Returns the due time of the first event that can be published, if that is reached.
    pub(crate) fn first_due(&self, now: Mono) -> Option<Timestamp> {
        let due = self.held.first_open()?;
        self.clock.has_reached(now, due).then_some(due)
    }

    /// Removes and returns at most `limit` due events.
    pub(crate) fn take_due(&mut self, now: Mono, limit: usize) -> Vec<Job<B>> {
        self.held.take_due(now, &self.clock, limit)
    }

    /// Returns when the first event that can be published is due.
    pub(crate) fn next_prefetched_due(&self) -> Mono {
        let first = self.held.first_open();
        first.map_or(Mono::MAX, |due| self.clock.mono_at(due))
    }

    /// Returns when finished attempts have to be settled.
    pub(crate) fn settles(&self, options: &NodeOptions, pace: SettlePace) -> Mono {
        self.settler.wakes(options, pace).max(self.backoff.until)
    }

    /// Returns whether a prefetched event is due and has found no room.
    pub(crate) fn is_overdue(&self, now: Mono) -> bool {
        self.next_prefetched_due() <= now
    }

    /// Renews the leases after a reply to a request sent at `sent`: handlers may start for a while,
    /// but not on leases that had not been renewed in time.
    pub(crate) fn renew(
        &mut self,
        bucket: usize,
        (now, sent): (Mono, Mono),
        queue: &mut QueueState,
        options: &NodeOptions,
        out: &mut Vec<Action<B>>,
    ) {
        if let Some(through) = self.leases.lapsed(now) {
            self.release_prefetched(now, through, queue);
            out.push(Action::Lost {
                bucket,
                through,
                is_certain: false,
            });
        }
        let until = self.leases.renew(sent, options);
        out.push(Action::Fresh { bucket, until });
    }

    /// The store has forgotten fetches up to `through`, as of a node that was silent for long or in a
    /// failover: what they brought may be with others by now, and no reply renews it.
    pub(crate) fn forgotten(
        &mut self,
        bucket: usize,
        now: Mono,
        through: RequestId,
        queue: &mut QueueState,
        out: &mut Vec<Action<B>>,
    ) {
        self.release_prefetched(now, through, queue);
        out.push(Action::Lost {
            bucket,
            through,
            is_certain: false,
        });
    }

    /// Hands back prefetched events that were fetched by `through` or before.
    pub(crate) fn release_prefetched(
        &mut self,
        now: Mono,
        through: RequestId,
        queue: &mut QueueState,
    ) {
        for job in self.held.take_through(through) {
            self.settler.add(now, job.release());
            queue.ahead -= 1;
        }
        self.count_held(queue);
    }
}

/// An exponential backoff after failed calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    pub(crate) until: Mono,
    last: Duration,
}

impl Backoff {
    /// Notes a failed call. Errors that look permanent are retried as well, more rarely.
    pub(crate) fn extend(&mut self, now: Mono, kind: ErrorKind, options: &NodeOptions) {
        let longest = match kind {
            ErrorKind::Invalid | ErrorKind::Corrupt => options.refused_max,
            _ => options.retry_max,
        };
        self.last = (self.last * 2).clamp(options.retry_min, longest);
        self.until = now + self.last;
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}
