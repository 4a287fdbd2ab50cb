//! Places: the bucket of an event whose caller chose its id.
//!
//! An id has 16 bits for a bucket. Those that duly makes name one of the queue; in an id of another
//! library they are random, and in one of a name they say nothing of the queue's number of buckets.
//! Such an id is hashed onto the buckets that the queue has now. The hash is one where few events
//! move when that number changes, so that an event is also found by looking into few buckets,
//! whatever the number was when it was pushed.

use xxhash_rust::xxh3::xxh3_64;

use crate::event::bucket::{BUCKET_HEADER, BUCKETS_MAX, BucketId};
use crate::event::envelope::Envelope;
use crate::event::id::EventId;

impl EventId {
    /// Returns the bucket in which a queue of `buckets` buckets puts a new event with this id: the one
    /// that it names if it has a creation time and the queue has that bucket, otherwise one by a
    /// hash. The same in every process, for ever.
    #[must_use]
    pub fn place(self, buckets: u16) -> BucketId {
        let named = self.bucket();
        if self.tells_time() && named.0 < buckets {
            named
        } else {
            BucketId(self.hashed(buckets))
        }
    }

    /// Returns whether an event with this id may lie in a bucket, whatever number of buckets its
    /// queue had when it was pushed.
    #[must_use]
    pub fn may_lie_in(self, bucket: BucketId) -> bool {
        let named = self.bucket();
        // A number of buckets by which it was hashed was not greater than the bucket that it names.
        let was_hashed = bucket < named || !self.tells_time();
        bucket == named
            || was_hashed && bucket.0 < BUCKETS_MAX && self.hashed(bucket.0 + 1) == bucket.0
    }

    fn hashed(self, buckets: u16) -> u16 {
        jump(xxh3_64(&self.to_bytes()), buckets)
    }
}

/// Jump consistent hash, by Lamping and Veach: from `n` to `n + 1` buckets, one key in `n + 1` moves,
/// and that one into the new bucket.
fn jump(mut key: u64, buckets: u16) -> u16 {
    let (mut bucket, mut next) = (0, 0);
    while next < u64::from(buckets) {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        // A product of at most 11 and 31 bits, and a quotient that is as exact in every process.
        next = ((bucket + 1) << 31) / ((key >> 33) + 1);
    }
    u16::try_from(bucket).unwrap_or(0) // less than `buckets`
}

impl Envelope {
    /// Returns its bucket: that of its [`BUCKET_HEADER`], or the one that its id names.
    #[must_use]
    pub fn bucket(&self) -> BucketId {
        let mut headers = self.headers.iter();
        let words = headers.find(|(name, _)| name == BUCKET_HEADER);
        read_bucket(words.map(|(_, words)| words.as_str()), self.id)
    }

    /// Puts it into a bucket.
    pub(crate) fn put_in(&mut self, bucket: BucketId) {
        self.headers.retain(|(name, _)| name != BUCKET_HEADER);
        if bucket != self.id.bucket() {
            let header = (BUCKET_HEADER.to_owned(), bucket.to_string());
            self.headers.push(header);
        }
    }
}

/// Parses the header; without a readable one, it is the bucket that the id names.
pub(crate) fn read_bucket(words: Option<&str>, id: EventId) -> BucketId {
    let is_number = |words: &&str| words.bytes().all(|c| c.is_ascii_digit());
    let bucket = words.filter(is_number).and_then(|it| it.parse().ok());
    bucket.map_or(id.bucket(), BucketId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Payload, QueueName};
    use crate::time::Timestamp;

    fn ids() -> impl Iterator<Item = EventId> {
        let random = (0_u64..20_000).map(|seed| {
            let (named, entropy) = (xxh3_64(&seed.to_le_bytes()), xxh3_64(&seed.to_be_bytes()));
            let named = BucketId((named >> 48) as u16);
            let created = Timestamp::from_millis(1_700_000_000_000 * (seed % 3));
            EventId::from_parts(created, named, entropy)
        });
        let own = (0..BUCKETS_MAX).map(|bucket| {
            EventId::from_parts(Timestamp::from_millis(7), BucketId(bucket), bucket.into())
        });
        random.chain(own)
    }

    #[test]
    fn an_id_has_its_place_among_the_buckets_of_its_queue() {
        for id in ids() {
            for buckets in [1, 2, 3, 8, 64, 1_000, BUCKETS_MAX] {
                let place = id.place(buckets);
                assert!(place.0 < buckets, "{id:?} of {buckets}");
                assert!(id.may_lie_in(place), "{id:?} of {buckets}: {place}");
                let is_own = id.tells_time() && id.bucket().0 < buckets;
                assert!(!is_own || place == id.bucket(), "{id:?}");
            }
        }
    }

    #[test]
    fn an_event_is_looked_for_in_few_buckets() {
        let few = |id: EventId| {
            (0..BUCKETS_MAX)
                .filter(|it| id.may_lie_in(BucketId(*it)))
                .count()
        };
        let (mut sum, mut all) = (0, 0);
        for id in ids().step_by(50) {
            (sum, all) = (sum + few(id), all + 1);
        }
        assert!(sum <= 10 * all, "{sum} of {all}");
        let first = EventId::from_parts(Timestamp::from_millis(7), BucketId(0), 7);
        assert_eq!(few(first), 1);
    }

    #[test]
    fn ids_are_spread_evenly_and_few_move_with_the_number_of_buckets() {
        let ids: Vec<_> = ids().filter(|id| id.bucket().0 >= BUCKETS_MAX).collect();
        for buckets in [2_u16, 8, 9, 64] {
            let mut counts = vec![0_usize; usize::from(buckets)];
            let mut moved = 0;
            for id in &ids {
                counts[usize::from(id.place(buckets).0)] += 1;
                moved += usize::from(id.place(buckets) != id.place(buckets + 1));
            }
            let mean = ids.len() / usize::from(buckets);
            let is_near = |count: &usize| *count > mean / 2 && *count < 2 * mean;
            assert!(counts.iter().all(is_near), "{buckets}: {counts:?}");
            assert!(moved < 2 * ids.len() / usize::from(buckets + 1), "{moved}");
        }
    }

    /// What is stored depends on it.
    #[test]
    fn a_place_never_changes() {
        let id: EventId = "01JABCDEFGHJKMNPQRSTVWXYZ0".parse().unwrap();
        let places = [1, 2, 8, 64, 1_024].map(|buckets| id.place(buckets).0);
        assert_eq!(places, PLACES);
    }

    const PLACES: [u16; 5] = [0, 0, 7, 27, 838];

    #[test]
    fn only_an_event_that_is_elsewhere_has_the_header() {
        let queue = QueueName::new("mail").unwrap();
        let id = EventId::from_parts(Timestamp::from_millis(7), BucketId(9), 7);
        let mut envelope = Envelope::new(id, queue, Payload::default());
        for bucket in [9, 3, 5, 9] {
            envelope.put_in(BucketId(bucket));
            assert_eq!(envelope.bucket(), BucketId(bucket));
            assert_eq!(envelope.headers.len(), usize::from(bucket != 9));
        }
        for wrong in ["", "x", "+3", "70000"] {
            assert_eq!(read_bucket(Some(wrong), id), BucketId(9), "{wrong}");
        }
    }
}
