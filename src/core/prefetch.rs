//! The prefetch buffer of a bucket: leased events that are not published yet.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::clock::StoreClock;
use crate::core::op::{RequestId, StartMark};
use crate::core::step::Job;
use crate::time::{Mono, Timestamp};

/// Starts are announced this long before they are due: longer than a store takes to acknowledge.
pub(crate) const ANNOUNCE_AHEAD: Duration = Duration::from_millis(20);

/// A due time and a sequence number that orders events due at the same time by lease.
type DueOrder = (Timestamp, u64);
/// A fetch and the index of one of its leases.
type Place = (RequestId, usize);

/// The prefetched events of one bucket, by due time.
///
/// An event is *open*, and may be published, once the store has acknowledged its start. Where
/// starts need not be announced, all events are open.
#[derive(Debug)]
pub(crate) struct PrefetchBuffer<B> {
    announces: bool,
    open: BTreeMap<DueOrder, Job<B>>,
    /// Announced and not acknowledged.
    announced: BTreeMap<Place, (DueOrder, Job<B>)>,
    closed: BTreeMap<DueOrder, Job<B>>,
    /// Where in `closed` each lease is.
    places: BTreeMap<Place, DueOrder>,
    acknowledged: StartMark,
    next: u64,
    /// `due` counts the events of `closed` that are due by then.
    due_to: Timestamp,
    due: usize,
}

impl<B> PrefetchBuffer<B> {
    pub(crate) fn new(announces: bool) -> Self {
        Self {
            announces,
            open: BTreeMap::new(),
            announced: BTreeMap::new(),
            closed: BTreeMap::new(),
            places: BTreeMap::new(),
            acknowledged: StartMark::default(),
            next: 0,
            due_to: Timestamp::EPOCH,
            due: 0,
        }
    }

    /// Returns whether starts have to be announced.
    pub(crate) fn announces(&self) -> bool {
        self.announces
    }

    /// The last acknowledged start mark.
    pub(crate) fn acknowledged(&self) -> StartMark {
        self.acknowledged
    }

    /// Returns how many may start, or may as soon as the store has acknowledged it.
    pub(crate) fn pledged(&self) -> usize {
        self.open.len() + self.announced.len()
    }

    /// Returns how many are not announced.
    pub(crate) fn closed(&self) -> usize {
        self.closed.len()
    }

    /// Returns how many wait only for the store's acknowledgement.
    pub(crate) fn waiting(&self) -> usize {
        self.due + self.announced.len()
    }

    /// Returns whether an announcement is not acknowledged yet.
    pub(crate) fn is_announcing(&self) -> bool {
        !self.announced.is_empty()
    }

    /// Returns whether an event is due that is not open.
    pub(crate) fn has_closed_due(&self, now: Mono, clock: &StoreClock) -> bool {
        let mut announced = self.announced.values().take(1);
        self.due > 0 || announced.any(|((due, _), _)| clock.has_reached(now, *due))
    }

    /// Returns whether an event is due that is not announced, as of the last
    /// [`ripen`](Self::ripen).
    pub(crate) fn is_due(&self) -> bool {
        self.due > 0
    }

    pub(crate) fn add(&mut self, job: Job<B>) {
        self.next += 1;
        let turn = (job.delivery.due, self.next);
        let (request, place) = (job.delivery.request, job.delivery.place);
        if !self.announces || self.acknowledged.covers(request, place) {
            self.open.insert(turn, job);
        } else {
            self.close((request, place), turn, job);
        }
    }

    fn close(&mut self, place: Place, turn: DueOrder, job: Job<B>) {
        self.due += usize::from(turn.0 <= self.due_to);
        self.closed.insert(turn, job);
        self.places.insert(place, turn);
    }

    /// Counts the events that have become due.
    pub(crate) fn ripen(&mut self, now: Mono, clock: &StoreClock) {
        let from = (self.due_to, u64::MAX);
        let mut since = self.closed.range(from..).map(|((due, _), _)| *due);
        let ripe = since
            .by_ref()
            .take_while(|due| clock.has_reached(now, *due));
        for due in ripe {
            self.due_to = due;
            self.due += 1;
        }
    }

    /// Returns when the first open event is due.
    pub(crate) fn first_open(&self) -> Option<Timestamp> {
        self.open.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns when the first event that is not announced is due.
    pub(crate) fn first_closed(&self) -> Option<Timestamp> {
        self.closed.first_key_value().map(|((due, _), _)| *due)
    }

    /// Removes and returns at most `limit` open events that are due.
    pub(crate) fn take_due(&mut self, now: Mono, clock: &StoreClock, limit: usize) -> Vec<Job<B>> {
        let mut due = Vec::new();
        while due.len() < limit {
            let Some(first) = self.open.first_entry() else {
                break;
            };
            if !clock.has_reached(now, first.key().0) {
                break;
            }
            due.push(first.remove());
        }
        due
    }

    /// Announces about `most` events that are due soon, and all leased before them. Returns the new
    /// mark.
    pub(crate) fn announce(
        &mut self,
        now: Mono,
        clock: &StoreClock,
        most: usize,
    ) -> Option<StartMark> {
        let soon = now + ANNOUNCE_AHEAD;
        let first = self.closed.iter().take(most);
        let first = first.take_while(|((due, _), _)| clock.has_reached(soon, *due));
        let places = first.map(|(_, job)| (job.delivery.request, job.delivery.place));
        let (request, last) = places.max()?;
        let mark = StartMark {
            request,
            leases: last + 1,
        };
        for (place, turn, job) in self.take_closed(mark) {
            self.announced.insert(place, (turn, job));
        }
        Some(mark)
    }

    /// Removes and returns the events below a mark that are not announced.
    fn take_closed(&mut self, mark: StartMark) -> Vec<(Place, DueOrder, Job<B>)> {
        let above = self.places.split_off(&(mark.request, mark.leases));
        let places = std::mem::replace(&mut self.places, above).into_iter();
        let taken = places.filter_map(|(place, turn)| {
            let job = self.closed.remove(&turn)?;
            self.due -= usize::from(turn.0 <= self.due_to);
            Some((place, turn, job))
        });
        taken.collect()
    }

    /// Opens the events below an acknowledged mark.
    pub(crate) fn acknowledge(&mut self, mark: StartMark) {
        self.acknowledged = self.acknowledged.max(mark);
        let above = self.announced.split_off(&(mark.request, mark.leases));
        let announced = std::mem::replace(&mut self.announced, above);
        self.open.extend(announced.into_values());
        for (_, turn, job) in self.take_closed(mark) {
            self.open.insert(turn, job);
        }
    }

    /// Takes announcements back whose acknowledgement was lost.
    pub(crate) fn unacknowledged(&mut self) {
        for (place, (turn, job)) in std::mem::take(&mut self.announced) {
            self.close(place, turn, job);
        }
    }

    /// Removes and returns all events that were fetched by `through` or before.
    pub(crate) fn take_through(&mut self, through: RequestId) -> Vec<Job<B>> {
        let mark = StartMark {
            request: through.saturating_add(1),
            leases: 0,
        };
        let above = self.announced.split_off(&(mark.request, mark.leases));
        let announced = std::mem::replace(&mut self.announced, above);
        let closed = self.take_closed(mark).into_iter();
        let mut taken: BTreeMap<DueOrder, Job<B>> =
            closed.map(|(_, turn, job)| (turn, job)).collect();
        taken.extend(announced.into_values());
        let open = std::mem::take(&mut self.open).into_iter();
        for (turn, job) in open {
            if job.delivery.request <= through {
                taken.insert(turn, job)
            } else {
                self.open.insert(turn, job)
            };
        }
        taken.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::op::Delivery;
    use crate::event::{BucketId, EventId};

    fn at(ms: u64) -> Mono {
        Mono::default() + Duration::from_millis(ms)
    }

    fn job(request: RequestId, place: usize, due_ms: u64) -> Job<()> {
        let due = Timestamp::from_millis(due_ms);
        Job {
            bucket: 0,
            fetched_us: 0,
            delivery: Delivery {
                id: EventId::from_parts(due, BucketId(0), request),
                body: (),
                due,
                attempt: 1,
                request,
                place,
                moved_us: 0,
            },
        }
    }

    /// The store's clock is the node's.
    fn held(
        jobs: impl IntoIterator<Item = (RequestId, usize, u64)>,
    ) -> (PrefetchBuffer<()>, StoreClock) {
        let mut held = PrefetchBuffer::new(true);
        for (request, place, due_ms) in jobs {
            held.add(job(request, place, due_ms));
        }
        (held, StoreClock::default())
    }

    fn places(jobs: Vec<Job<()>>) -> Vec<Place> {
        let places = jobs.into_iter().map(|job| job.delivery);
        places.map(|of| (of.request, of.place)).collect()
    }

    #[test]
    fn nothing_can_start_before_the_store_knows_of_it() {
        let (mut held, clock) = held((0..4).map(|place| (1, place, 0)));
        assert_eq!(held.take_due(at(1), &clock, 9), []);
        let mark = held.announce(at(1), &clock, 2).expect("two are due");
        assert_eq!((mark.request, mark.leases), (1, 2));
        assert_eq!(held.take_due(at(1), &clock, 9), [], "it is on its way");
        held.acknowledge(mark);
        assert_eq!(places(held.take_due(at(1), &clock, 9)), [(1, 0), (1, 1)]);
        assert_eq!((held.pledged(), held.closed()), (0, 2));
        held.add(job(1, 1, 0));
        assert_eq!(held.pledged(), 1, "that is known already");
    }

    #[test]
    fn what_may_not_be_known_is_announced_again() {
        let (mut held, clock) = held((0..3).map(|place| (1, place, 0)));
        held.announce(at(1), &clock, 2);
        held.unacknowledged();
        assert_eq!(
            (held.pledged(), held.closed(), held.is_announcing()),
            (0, 3, false)
        );
        let mark = held.announce(at(1), &clock, 1).expect("one is due");
        assert_eq!(mark.leases, 1);
        let later = StartMark {
            request: 1,
            leases: 3,
        };
        held.acknowledge(later);
        held.acknowledge(mark);
        assert_eq!(held.take_due(at(1), &clock, 9).len(), 3);
        assert_eq!(held.acknowledged(), later);
    }

    #[test]
    fn what_was_leased_before_goes_with_it() {
        let (mut held, clock) = held([(1, 0, 500), (1, 1, 600), (2, 0, 5), (2, 1, 5)]);
        held.ripen(at(5), &clock);
        assert_eq!(held.waiting(), 2);
        let mark = held.announce(at(5), &clock, 1).expect("one is due");
        assert_eq!((mark.request, mark.leases), (2, 1));
        assert_eq!((held.pledged(), held.closed(), held.waiting()), (3, 1, 4));
        held.acknowledge(mark);
        assert_eq!(held.waiting(), 1);
        assert_eq!(held.first_open(), Some(Timestamp::from_millis(5)));
    }

    #[test]
    fn only_what_is_due_soon_is_announced() {
        let (mut held, clock) = held([(1, 0, 100), (1, 1, 101)]);
        assert_eq!(held.announce(at(79), &clock, 9), None);
        let mark = held.announce(at(80), &clock, 9).expect("one is due soon");
        assert_eq!(mark.leases, 1);
    }

    #[test]
    fn what_was_fetched_by_then_is_taken_out_wherever_it_is() {
        let (mut held, clock) = held([(1, 0, 0), (1, 1, 0), (2, 0, 0), (3, 0, 0)]);
        held.acknowledge(StartMark {
            request: 1,
            leases: 1,
        });
        held.announce(at(1), &clock, 1);
        held.ripen(at(1), &clock);
        let taken = places(held.take_through(2));
        assert_eq!(taken, [(1, 0), (1, 1), (2, 0)]);
        assert_eq!((held.pledged(), held.closed(), held.waiting()), (0, 1, 1));
    }
}
