//! The buckets of the reference store, each under a lock of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::core::reference::Bucket;
use crate::event::BucketKey;
use crate::store::embedded::ledger::Row;
use crate::time::Timestamp;

/// One bucket.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: BucketKey,
    bucket: Mutex<Bucket<Row>>,
}

impl Slot {
    pub(super) fn lock(&self) -> MutexGuard<'_, Bucket<Row>> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every bucket that was ever used.
#[derive(Debug, Default)]
pub(super) struct Slots {
    known: RwLock<BTreeMap<BucketKey, Arc<Slot>>>,
    /// What every bucket may have forgotten before the start.
    forgotten: Option<Timestamp>,
    finished_max: usize,
}

impl Slots {
    /// No buckets yet; each remembers `finished_max` finished ids.
    pub(super) fn new(finished_max: usize) -> Self {
        Self {
            finished_max,
            ..Self::default()
        }
    }

    /// The bucket of this name.
    pub(super) fn get(&self, key: &BucketKey) -> Arc<Slot> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = known.get(key) {
            return Arc::clone(slot);
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let slot = known.entry(key.clone()).or_insert_with(|| {
            let mut bucket = Bucket::new(key.clone()).with_memory(self.finished_max);
            if let Some(created) = self.forgotten {
                bucket.forgotten_before(created);
            }
            Arc::new(Slot {
                key: key.clone(),
                bucket: Mutex::new(bucket),
            })
        });
        Arc::clone(slot)
    }

    /// Every bucket, known and to come, may have forgotten finished ids created until then.
    pub(super) fn forgotten_before(&mut self, created: Timestamp) {
        self.forgotten = Some(created);
        for slot in self.all() {
            slot.lock().forgotten_before(created);
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<Slot>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().map(Arc::clone).collect()
    }
}
