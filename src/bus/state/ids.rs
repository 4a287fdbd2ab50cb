//! New ids of single pushes, and the buckets that these lie in.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::event::{BucketId, EventId};
use crate::time::Timestamp;

/// How many consecutive single pushes share a bucket.
const RUN: u64 = EventId::RUN_MAX as u64;
/// How many pushes must be under way before new ones have the ids of a run: only those that reach
/// the store together gain by that.
const CROWD: usize = 8;
/// How old the creation time of an id may be when the id is given out.
const RUN_AGE_MAX: Duration = Duration::from_millis(2);

/// Gives out ids and buckets.
pub(in crate::bus) struct NewIds {
    pushes: AtomicU64,
    under_way: AtomicUsize,
    run: Mutex<Run>,
}

/// The run that the last ids were taken from.
struct Run {
    number: u64,
    first: EventId,
}

/// A push under way.
pub(in crate::bus) struct PushUnderWay<'i>(&'i NewIds);

impl Drop for PushUnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl NewIds {
    pub(in crate::bus) fn new() -> Self {
        Self {
            pushes: AtomicU64::new(fastrand::u64(..)),
            under_way: AtomicUsize::new(0),
            run: Mutex::new(Run {
                number: 0,
                first: EventId::random_run(Timestamp::EPOCH, BucketId(0)),
            }),
        }
    }

    /// Counts a push until the result is dropped.
    pub(in crate::bus) fn push_begins(&self) -> PushUnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        PushUnderWay(self)
    }

    /// Returns the bucket, of `buckets`, of the next single push.
    ///
    /// Consecutive pushes share one. A store that commits, or makes a round trip, once for
    /// concurrent pushes does so by the bucket: 64 concurrent pushes to 64 buckets would make 64
    /// batches of one.
    pub(in crate::bus) fn bucket(&self, buckets: u16) -> BucketId {
        bucket_of(self.next(), buckets)
    }

    /// Returns the id of the next single push, in one of `buckets`. Where many pushes are under way,
    /// those that share a bucket share a run of ids.
    pub(in crate::bus) fn id(&self, buckets: u16, now: Timestamp) -> EventId {
        let push = self.next();
        let bucket = bucket_of(push, buckets);
        if self.under_way.load(Ordering::Relaxed) < CROWD {
            return EventId::random(now, bucket);
        }
        let mut run = self.run.lock();
        let created = run.first.created();
        let is_old = now < created || now.since(created) > RUN_AGE_MAX;
        if run.number != push / RUN || run.first.bucket() != bucket || is_old {
            *run = Run {
                number: push / RUN,
                first: EventId::random_run(now, bucket),
            };
        }
        let place = u8::try_from(push % RUN).unwrap_or(0); // it is less than `RUN_MAX`
        run.first.plus(place)
    }

    fn next(&self) -> u64 {
        self.pushes.fetch_add(1, Ordering::Relaxed)
    }
}

fn bucket_of(push: u64, buckets: u16) -> BucketId {
    let run = push / RUN;
    // It fits, since it is less than `buckets`.
    BucketId(u16::try_from(run % u64::from(buckets.max(1))).unwrap_or(0))
}

/// Returns so many new ids in a bucket, in runs.
pub(in crate::bus) fn ids_in(bucket: BucketId, now: Timestamp, count: usize) -> Vec<EventId> {
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let of_run = u8::try_from(count - ids.len())
            .unwrap_or(u8::MAX)
            .min(EventId::RUN_MAX);
        match of_run {
            1 => ids.push(EventId::random(now, bucket)),
            _ => {
                let first = EventId::random_run(now, bucket);
                ids.extend((0..of_run).map(|place| first.plus(place)));
            }
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    #[test]
    fn ids_are_of_runs_only_where_many_pushes_are_under_way() {
        let ids = NewIds::new();
        assert_eq!(ids.id(8, NOW).place_in_run(), None);
        let crowd: Vec<_> = (0..CROWD).map(|_| ids.push_begins()).collect();
        let some: Vec<_> = (0..1_000).map(|_| ids.id(8, NOW)).collect();
        assert!(some.iter().all(|id| id.place_in_run().is_some()));
        let follow = some
            .windows(2)
            .filter(|pair| pair[0].precedes(pair[1]))
            .count();
        assert!(follow >= 1_000 - 1_000 / 64 - 2, "{follow}");
        let mut distinct = some.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), some.len());
        drop(crowd);
        assert_eq!(ids.id(8, NOW).place_in_run(), None);
    }

    #[test]
    fn a_run_is_given_up_when_its_time_is_old() {
        let ids = NewIds::new();
        let _crowd: Vec<_> = (0..CROWD).map(|_| ids.push_begins()).collect();
        for wait in [0, 1, 3, 500] {
            let now = NOW + Duration::from_millis(wait);
            let id = ids.id(1, now);
            assert!(now.since(id.created()) <= RUN_AGE_MAX, "{wait}");
        }
    }

    #[test]
    fn ids_of_a_batch_lie_in_runs_of_64_and_a_single_one_in_none() {
        let ids = ids_in(BucketId(3), NOW, 129);
        let places: Vec<_> = ids.iter().map(|id| id.place_in_run()).collect();
        let of_run = || (0..64).map(Some);
        let expected: Vec<_> = of_run().chain(of_run()).chain([None]).collect();
        assert_eq!(places, expected);
        assert!(
            ids.iter()
                .all(|id| id.bucket() == BucketId(3) && id.created() == NOW)
        );
    }
}
