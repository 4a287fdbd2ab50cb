//! Every key of the Redis store, made here and nowhere else.
//!
//! Keys of one bucket share the hash tag `{queue:bucket}`, so a script touches one slot and the
//! buckets of a queue spread over a cluster. What concerns all nodes shares the tag `{hub}`.
//! A queue's name holds none of `{`, `}` and `:`, so no two buckets have a key in common.

use crate::event::BucketKey;

/// The keys of one bucket, in the order in which every script takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketKeys {
    keys: Vec<Vec<u8>>,
}

/// What each key of a bucket holds, in the order of `KEYS`.
pub(super) const PARTS: [&str; 15] = [
    "meta", "state", "body", "delay", "ready", "lease", "nodes", "held", "dead", "unique", "past",
    "outbox", "wake", "keys", "holds",
];

impl BucketKeys {
    /// The keys of `bucket` under `prefix`.
    pub fn new(prefix: &str, bucket: &BucketKey) -> Self {
        let key = |name: &str| part(prefix, bucket, name).into_bytes();
        Self {
            keys: PARTS.into_iter().map(key).collect(),
        }
    }

    /// All of them.
    pub fn all(&self) -> &[Vec<u8>] {
        &self.keys
    }
}

/// One key of a bucket; `wake` is the channel on which it says that it has earlier work.
pub(super) fn part(prefix: &str, bucket: &BucketKey, name: &str) -> String {
    format!("{prefix}:{{{bucket}}}:{name}")
}

/// A key of what concerns all nodes: `members`, `queues`, `buckets`, `control`, and the channel
/// `news`.
pub fn hub(prefix: &str, part: &str) -> String {
    format!("{prefix}:{{hub}}:{part}")
}
