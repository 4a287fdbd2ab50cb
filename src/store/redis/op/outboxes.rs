//! The outboxes of this process: their limits, their watchers and what was read of them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::event::BucketKey;
use crate::store::outbox::{Outbox, OutboxLimit, OutboxWatcher, WhenFull};
use crate::store::redis::script::names::RECORDS_END;
use crate::store::watchers::Watchers;

/// The state and the limits of all outboxes in this process.
pub(in crate::store::redis) struct Outboxes {
    watchers: Watchers<dyn OutboxWatcher>,
    /// The limit of waiting records without an outbox limit.
    default_max: u64,
    /// Whether a limit was set, which then holds for other processes without one, too.
    has_limit: AtomicBool,
    /// How many records are kept before a writer drops the oldest, or, from [`RECORDS_END`] on, before
    /// pushes are refused.
    kept_max: AtomicU64,
    /// Whether records of a newer duly have been logged.
    pub(in crate::store::redis) met_newer: AtomicBool,
    /// The last reads of each outbox, by the number up to which each went.
    seen: Mutex<HashMap<BucketKey, BTreeMap<u64, LastEntry>>>,
}

/// The last entry of a read: its number and its prefix.
///
/// A server that has lost its tail, as a replica that takes over may, reuses numbers. A trim for an
/// earlier read must not drop the records that have its numbers since.
pub(in crate::store::redis) type LastEntry = (u64, Vec<u8>);

/// The number of reads of an outbox that are remembered until it is trimmed.
const SEEN_MAX: usize = 4;

impl Outboxes {
    pub(in crate::store::redis) fn new(default_max: u64) -> Self {
        Self {
            watchers: Watchers::default(),
            default_max,
            has_limit: AtomicBool::new(false),
            kept_max: AtomicU64::new(default_max),
            met_newer: AtomicBool::new(false),
            seen: Mutex::default(),
        }
    }

    /// Limits the size of every outbox.
    pub(in crate::store::redis) fn limit(&self, limit: OutboxLimit) -> Result<()> {
        let max = limit.max.unwrap_or(self.default_max);
        if max >= RECORDS_END {
            return Err(Error::invalid(format!(
                "the outbox limit is {max} records, it must be less than {RECORDS_END}"
            )));
        }
        let kept = match limit.when_full {
            WhenFull::DropOldest => max,
            WhenFull::RefusePushes => RECORDS_END + max,
        };
        let has_limit = limit.max.is_some() || limit.when_full == WhenFull::RefusePushes;
        self.has_limit.store(has_limit, Ordering::Relaxed);
        self.kept_max.store(kept, Ordering::Relaxed);
        Ok(())
    }

    /// Returns whether a limit was set.
    pub(in crate::store::redis) fn has_limit(&self) -> bool {
        self.has_limit.load(Ordering::Relaxed)
    }

    /// Returns how many records an outbox with this share keeps before the oldest are dropped, or,
    /// beyond [`RECORDS_END`], before pushes are refused.
    pub(in crate::store::redis) fn kept_max(&self, share: u64) -> u64 {
        let max = self.kept_max.load(Ordering::Relaxed);
        let end = max / RECORDS_END * RECORDS_END;
        end + (max - end).min(share)
    }

    pub(in crate::store::redis) fn watch(&self, watcher: Weak<dyn OutboxWatcher>) -> Result<()> {
        self.watchers.add(watcher)
    }

    /// Notifies the watchers of new records of a bucket in this process.
    pub(in crate::store::redis) fn tell(&self, bucket: &BucketKey) {
        let outbox = Outbox::Bucket(bucket.clone());
        self.watchers.tell(|watcher| watcher.recorded(&outbox));
    }

    /// Remembers a read up to a number.
    pub(super) fn remember(&self, bucket: &BucketKey, through: u64, last: LastEntry) {
        let mut seen = self.seen();
        let seen = seen.entry(bucket.clone()).or_default();
        // The first read stays: its reader may be the one that trims.
        seen.entry(through).or_insert(last);
        if seen.len() > SEEN_MAX {
            seen.pop_first();
        }
    }

    /// Returns the last entry of a read up to this number or a later one.
    pub(super) fn seen_at(&self, bucket: &BucketKey, through: u64) -> Option<LastEntry> {
        let seen = self.seen();
        let (_, last) = seen.get(bucket)?.range(through..).next()?;
        Some(last.clone())
    }

    /// Removes the reads up to a number.
    pub(super) fn forget(&self, bucket: &BucketKey, through: u64) {
        if let Entry::Occupied(mut seen) = self.seen().entry(bucket.clone()) {
            seen.get_mut().retain(|number, _| *number > through);
            if seen.get().is_empty() {
                seen.remove();
            }
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<BucketKey, BTreeMap<u64, LastEntry>>> {
        self.seen.lock()
    }
}

impl fmt::Debug for Outboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = self.seen().len();
        f.debug_struct("Outboxes")
            .field("read", &read)
            .finish_non_exhaustive()
    }
}
