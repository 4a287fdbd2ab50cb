//! Key names of the Redis store; no other module builds one.
//!
//! Keys of one bucket share the hash tag `{queue:bucket}`, so a script touches one slot and the
//! buckets of a queue are distributed over a cluster. Keys that all nodes share have the tag
//! `{hub}`. A queue's name contains none of `{`, `}` and `:`, so no two buckets share a key.

use crate::event::BucketKey;

/// The keys of one bucket, in the order that every script expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketKeys {
    keys: Vec<Vec<u8>>,
}

/// The parts of a bucket's keys, in the order of `KEYS`.
pub(super) const PARTS: [&str; 15] = [
    "meta", "state", "body", "delay", "ready", "lease", "nodes", "held", "dead", "unique", "past",
    "outbox", "wake", "keys", "holds",
];

impl BucketKeys {
    /// Builds the keys of `bucket` under `prefix`.
    pub fn new(prefix: &str, bucket: &BucketKey) -> Self {
        let key = |name: &str| part(prefix, bucket, name).into_bytes();
        Self {
            keys: PARTS.into_iter().map(key).collect(),
        }
    }

    /// Returns all keys.
    pub fn all(&self) -> &[Vec<u8>] {
        &self.keys
    }
}

/// Returns one key of a bucket; `wake` is its channel for notifications of earlier work.
pub(super) fn part(prefix: &str, bucket: &BucketKey, name: &str) -> String {
    format!("{prefix}:{{{bucket}}}:{name}")
}

/// Returns a key that all nodes share: `members`, `queues`, `buckets`, `control`, and the channel
/// `news`.
pub fn hub(prefix: &str, part: &str) -> String {
    format!("{prefix}:{{hub}}:{part}")
}
