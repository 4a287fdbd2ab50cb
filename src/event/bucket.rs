//! Buckets: the shards of a queue.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use crate::event::queue::QueueName;

/// The most buckets a queue may have.
pub const BUCKETS_MAX: u16 = 1_024;

/// The header with the bucket of an event, in digits, where that is not the one that its id names.
///
/// A header for the same reasons as [`SPREAD_HEADER`](crate::event::SPREAD_HEADER); it does not
/// count towards the limit of headers.
pub const BUCKET_HEADER: &str = "duly-bucket";

/// The id of a bucket, a shard of a queue; one hash tag and so one slot on Redis Cluster.
///
/// The [`EventId`](crate::EventId) says in which few buckets an event may lie, so it is found by its
/// id alone and the number of buckets of a queue may change at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(pub u16);

impl BucketId {
    /// Returns the bucket, of `buckets`, of a key.
    #[must_use]
    pub fn of_text(text: &str, buckets: u16) -> Self {
        Self::spread(xxh3_64(text.as_bytes()), buckets)
    }

    /// Returns the bucket, of `buckets`, for a random number.
    #[must_use]
    pub fn spread(random: u64, buckets: u16) -> Self {
        // The high half of a product is as uniform as the number and needs no division.
        let bucket = (u128::from(random) * u128::from(buckets.max(1))) >> 64;
        Self(u16::try_from(bucket).unwrap_or(0)) // less than `buckets`, so it fits
    }
}

impl fmt::Display for BucketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A bucket of a queue: the unit of atomicity of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketKey {
    /// The queue.
    pub queue: QueueName,
    /// Its shard.
    pub bucket: BucketId,
}

impl BucketKey {
    /// Creates the key of a queue's bucket.
    #[must_use]
    pub fn new(queue: QueueName, bucket: BucketId) -> Self {
        Self { queue, bucket }
    }
}

/// As `queue:bucket`.
impl fmt::Display for BucketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.queue, self.bucket)
    }
}
