//! Everything a node knows and wants of one bucket.

use std::time::Duration;

use crate::core::clock::StoreClock;
use crate::core::held::Held;
use crate::core::lease::Leases;
use crate::core::mover::Mover;
use crate::core::op::{Delivery, Fetch, RequestId};
use crate::core::options::NodeOptions;
use crate::core::queue_care::QueueCare;
use crate::core::reaper::Reaper;
use crate::core::settle::{Pace, Settler};
use crate::core::standby::Standby;
use crate::core::step::{Action, Job};
use crate::error::ErrorKind;
use crate::event::BucketKey;
use crate::time::{Mono, Timestamp};

/// One bucket, as a node sees it.
#[derive(Debug)]
pub(crate) struct BucketCare<B> {
    pub(crate) key: BucketKey,
    /// Its queue's place in the node.
    pub(crate) queue: usize,
    /// This node's place among those that may look at it; only the first reads ahead.
    pub(crate) standby: Standby,
    /// When what is due is moved again while there is no room for it.
    pub(crate) crowded_until: Mono,
    pub(crate) clock: StoreClock,
    pub(crate) mover: Mover,
    pub(crate) leases: Leases,
    pub(crate) settler: Settler,
    pub(crate) reaper: Reaper,
    /// Leased events that wait for their due time, for room, or for the store's word.
    pub(crate) held: Held<B>,
    /// What the queue accounts for of it.
    pub(crate) counted: (usize, usize),
    /// A fetch that was sent and not answered. Its repeat answers the same batch.
    pub(crate) fetching: Option<Fetch>,
    /// A move or a fetch is on its way.
    pub(crate) looking: bool,
    pub(crate) last_fetch: Mono,
    pub(crate) rest: Rest,
    /// The store has stopped for ever: nothing more is asked.
    pub(crate) doubted: bool,
}

/// What a bucket wants to be asked next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The fetch whose answer was lost, again.
    FetchAgain(Fetch),
    /// Ready events, and those due soon.
    Fetch { limit: usize, ahead_limit: usize },
    /// Whether something is due; where it `is_crowded` this node has no room for it.
    MoveDue { is_crowded: bool },
}

impl<B> BucketCare<B> {
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
            held: Held::new(!options.roll_every.is_zero()),
            counted: (0, 0),
            fetching: None,
            looking: false,
            last_fetch: Mono::default(),
            rest: Rest::default(),
            doubted: false,
        }
    }

    /// When to ask what next, with what the queue and the node allow; `None` waits for news.
    pub(crate) fn look(
        &self,
        now: Mono,
        queue: &QueueCare,
        options: &NodeOptions,
        stopping: bool,
    ) -> Option<(Mono, Look)> {
        if self.looking {
            return None;
        }
        if let Some(fetch) = &self.fetching {
            return Some((self.rest.until, Look::FetchAgain(fetch.clone())));
        }
        if stopping {
            return None;
        }
        let (is_mine, later) = (self.standby.is_owner(), self.standby.later());
        // Where starts are paced, what is due waits here for its turn.
        let has_no_room = self.is_overdue(now) || (self.held.is_due() && queue.is_full());
        let is_stuck = queue.rate.is_none() && has_no_room;
        let held_up = self.settler.len() >= options.unsettled_max || is_stuck;
        let limit = if held_up {
            0
        } else {
            queue.share().min(options.batch)
        };
        let reads_ahead = is_mine && !held_up && !options.ahead.is_zero() && !queue.is_paused();
        let ahead_limit = match reads_ahead {
            true => queue.may_hold(limit, options.ahead_max).min(options.batch),
            false => 0,
        };
        let is_crowded = limit + ahead_limit == 0;
        if is_crowded && !is_mine {
            return None;
        }
        let fetch = || Look::Fetch { limit, ahead_limit };
        // A fetch that reads nothing ahead leaves what is due where it is: a move is needed anyway,
        // and leads to a fetch that finds all there is.
        let is_due = ahead_limit == 0 && self.mover.must_move() + later <= now;
        let look = match is_crowded || is_due {
            true => Look::MoveDue { is_crowded },
            false => fetch(),
        };

        let mut wanted = (self.mover.must_look(later), look);
        let mut or = |at: Mono, look: Look| {
            if at < wanted.0 {
                wanted = (at, look);
            }
        };
        if self.mover.has_ready() && limit > 0 {
            or(Mono::default(), fetch());
        }
        if self.mover.has_ready() && is_crowded && queue.nodes > 1 {
            or(Mono::default(), Look::MoveDue { is_crowded }); // others may have room for it
        }
        if ahead_limit > 0 {
            let at = self.mover.reads_ahead(options.ahead, self.last_fetch);
            or(at, fetch());
        }
        or(self.mover.must_move() + later, Look::MoveDue { is_crowded });
        let may = match is_crowded {
            true => self.crowded_until.max(self.rest.until),
            false => self.rest.until,
        };
        Some((wanted.0.max(may), wanted.1))
    }

    /// The fetch on its way is over: gives back the room that was kept for it.
    pub(crate) fn fetch_over(&mut self, queue: &mut QueueCare) {
        self.looking = false;
        if let Some(fetch) = self.fetching.take() {
            queue.reserved -= fetch.limit;
            queue.ahead -= fetch.ahead_limit;
            if self.held.announces() {
                queue.fetched_starts -= fetch.starts;
            }
        }
    }

    /// The store has stopped for ever: what is held is left to it.
    pub(crate) fn doubt(&mut self, queue: &mut QueueCare) {
        self.fetch_over(queue);
        queue.ahead -= self.held.take_through(RequestId::MAX).len();
        self.count_held(queue);
        self.doubted = true;
    }

    /// Takes in what a fetch gave.
    pub(crate) fn hold(&mut self, bucket: usize, fetched_us: u64, deliveries: Vec<Delivery<B>>) {
        for delivery in deliveries {
            self.held.add(Job {
                bucket,
                fetched_us,
                delivery,
            });
        }
    }

    /// The due time of the first of what can be published, if that has been reached.
    pub(crate) fn first_due(&self, now: Mono) -> Option<Timestamp> {
        let due = self.held.first_open()?;
        self.clock.has_reached(now, due).then_some(due)
    }

    /// Takes out at most `limit` of what is due.
    pub(crate) fn take_due(&mut self, now: Mono, limit: usize) -> Vec<Job<B>> {
        self.held.take_due(now, &self.clock, limit)
    }

    /// When the first of what can be published is due.
    pub(crate) fn next_held_due(&self) -> Mono {
        let first = self.held.first_open();
        first.map_or(Mono::MAX, |due| self.clock.mono_at(due))
    }

    /// When finished attempts have to be settled.
    pub(crate) fn settles(&self, options: &NodeOptions, pace: Pace) -> Mono {
        self.settler.wakes(options, pace).max(self.rest.until)
    }

    /// Whether something that is held has been due and found no room.
    pub(crate) fn is_overdue(&self, now: Mono) -> bool {
        self.next_held_due() <= now
    }

    /// Something that was sent then was answered, and the leases stand: handlers may start for a
    /// while, but not on leases that had not been renewed in time.
    pub(crate) fn renew(
        &mut self,
        bucket: usize,
        (now, sent): (Mono, Mono),
        queue: &mut QueueCare,
        options: &NodeOptions,
        out: &mut Vec<Action<B>>,
    ) {
        if let Some(through) = self.leases.lapsed(now) {
            self.release_held(now, through, queue);
            out.push(Action::Lost {
                bucket,
                through,
                is_certain: false,
            });
        }
        let until = self.leases.renew(sent, options);
        out.push(Action::Fresh { bucket, until });
    }

    /// Hands back what is held and was fetched by `through` or before.
    pub(crate) fn release_held(&mut self, now: Mono, through: RequestId, queue: &mut QueueCare) {
        for job in self.held.take_through(through) {
            self.settler.add(now, job.release());
            queue.ahead -= 1;
        }
        self.count_held(queue);
    }
}

/// The wait after a failed call, doubled with each further one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    pub(crate) until: Mono,
    last: Duration,
}

impl Rest {
    /// A call failed. What looks as if it could never succeed is asked again as well, more rarely.
    pub(crate) fn failed(&mut self, now: Mono, kind: ErrorKind, options: &NodeOptions) {
        let longest = match kind {
            ErrorKind::Invalid | ErrorKind::Corrupt => options.refused_max,
            _ => options.retry_max,
        };
        self.last = (self.last * 2).clamp(options.retry_min, longest);
        self.until = now + self.last;
    }

    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }
}
