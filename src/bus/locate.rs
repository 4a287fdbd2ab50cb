//! Finds an event by its id alone.

use futures_util::StreamExt;

use crate::bus::Inner;
use crate::bus::fan_out::{as_they_come, in_time};
use crate::core::op::{Snapshot, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId};
use crate::time::Timestamp;

/// An event as its bucket has it.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) bucket: BucketKey,
    /// The store's time when it was read.
    pub(super) now: Timestamp,
    pub(super) snapshot: Snapshot,
}

/// The result of a search through the queues.
#[derive(Debug)]
pub(super) struct Location {
    /// The event; one that is not over rather than another queue's of the same id that is.
    pub(super) event: Option<Located>,
    /// How many queues were asked.
    pub(super) queues: usize,
    /// Why a bucket, or the registry of buckets, gave no answer.
    pub(super) failed: Option<Error>,
}

impl Inner {
    /// Looks into the bucket that the id names of every queue that the store knows, for two seconds
    /// each.
    pub(super) async fn locate(&self, id: EventId) -> Result<Location> {
        let known = in_time(self.store.known_buckets()).await?;
        let mut buckets = known.buckets;
        buckets.retain(|key| key.bucket == id.bucket());
        let mut location = Location {
            event: None,
            queues: buckets.len(),
            failed: known.away,
        };
        let calls = buckets.into_iter().map(|bucket| self.look_up(bucket, id));
        let mut results = as_they_come(calls);
        while let Some(result) = results.next().await {
            match result {
                Ok(None) => {}
                Ok(Some(found)) if found.snapshot.state.is_final() => {
                    location.event.get_or_insert(found);
                }
                Ok(found) => {
                    location.event = found;
                    return Ok(location);
                }
                Err(error) => {
                    location.failed.get_or_insert(error);
                }
            }
        }
        Ok(location)
    }

    /// Looks an event up in one bucket, for two seconds.
    pub(super) async fn look_up(&self, bucket: BucketKey, id: EventId) -> Result<Option<Located>> {
        let get = StoreOp::get(id).apply_timed(&*self.store, &bucket);
        let (found, now_us) = in_time(get).await?;
        Ok(found.map(|snapshot| Located {
            bucket,
            now: Timestamp::from_millis(now_us / 1_000),
            snapshot,
        }))
    }
}
