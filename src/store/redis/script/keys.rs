//! Key names of the Redis store; no other module builds one.
//!
//! Keys of one bucket share the hash tag `{queue:bucket}`, so a script touches one slot and the
//! buckets of a queue are distributed over a cluster. Keys that all nodes share have the tag
//! `{hub}`. A queue's name contains none of `{`, `}` and `:`, so no two buckets share a key.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};

use redis::{RedisWrite, ToRedisArgs, ToSingleRedisArg};

use crate::event::BucketKey;
use crate::store::redis::script::server_clock::ServerClock;

/// The keys of one bucket, and what is known of the clock of its server. Only what the keys have in
/// common is stored: a thousand queues have many.
#[derive(Debug)]
pub struct BucketKeys {
    base: Box<str>,
    /// The clock of its server.
    pub(in crate::store::redis) clock: ServerClock,
    /// Whether the bucket is to be called again, as it does not believe that clock.
    pub(in crate::store::redis) is_doubted: AtomicBool,
    /// Until when, us by the time of this process, calls go on beside what is over and cannot be
    /// ended.
    pub(in crate::store::redis) goes_on_until: AtomicU64,
}

/// The parts of a bucket's keys. A script names a key by its part in capitals.
pub(in crate::store::redis) const PARTS: [&str; 18] = [
    "meta", "state", "body", "delay", "ready", "lease", "nodes", "held", "dead", "unique", "past",
    "outbox", "wake", "by_key", "holds", "requests", "sizes", "expiry",
];

impl BucketKeys {
    /// Builds the keys of `bucket` under `prefix`.
    pub fn new(prefix: &str, bucket: &BucketKey) -> Self {
        Self {
            base: part(prefix, bucket, "").into_boxed_str(),
            clock: ServerClock::default(),
            is_doubted: AtomicBool::new(false),
            goes_on_until: AtomicU64::new(0),
        }
    }

    /// Returns all keys.
    pub fn all(&self) -> impl ExactSizeIterator<Item = Key<'_>> {
        self.of(&PARTS)
    }

    /// Returns the keys of these parts.
    pub(in crate::store::redis) fn of<'a>(
        &'a self,
        parts: &'a [&'static str],
    ) -> impl ExactSizeIterator<Item = Key<'a>> {
        let base = &*self.base;
        parts.iter().map(move |part| Key { base, part })
    }
}

/// One key of a bucket.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    base: &'a str,
    part: &'static str,
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base)?;
        f.write_str(self.part)
    }
}

impl ToRedisArgs for Key<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self);
    }
}

impl ToSingleRedisArg for Key<'_> {}

/// Returns one key of a bucket; `wake` is its channel for notifications of earlier work.
pub(in crate::store::redis) fn part(prefix: &str, bucket: &BucketKey, name: &str) -> String {
    format!("{prefix}:{{{bucket}}}:{name}")
}

/// The parts of the keys that all nodes share.
pub(in crate::store::redis) const HUB_PARTS: [&str; 6] = [
    "members",
    "queues",
    "hub",
    "control",
    "registered",
    "registry",
];

/// Returns a key that all nodes share.
pub fn hub(prefix: &str, part: &str) -> String {
    format!("{prefix}:{{hub}}:{part}")
}
