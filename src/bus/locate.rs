//! Searches through the buckets: those that can be queried at all, and the one of an event.

use std::collections::BTreeSet;

use futures_util::{FutureExt, StreamExt, stream};

use crate::bus::fan_out::{as_they_come_past_slow, operator_call};
use crate::bus::inner::Inner;
use crate::core::op::{CancelOutcome, ChangeOutcome, Snapshot, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, BucketKey, EventId, QueueName};
use crate::panics;
use crate::store::Operation;
use crate::time::Timestamp;

/// The most concurrent probes.
const PROBES_AT_ONCE: usize = 256;

/// Buckets that can be queried.
pub(super) struct ReachableBuckets {
    pub(super) buckets: Vec<BucketKey>,
    /// Every queue that the store knows, wanted or not.
    pub(super) queues: BTreeSet<QueueName>,
    /// Why some were left out, or others may be missing.
    pub(super) left_out: Option<Error>,
}

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

/// A reply that says whether the bucket has the event.
pub(super) trait EventReply {
    fn is_found(&self) -> bool;
}

impl EventReply for Option<Snapshot> {
    fn is_found(&self) -> bool {
        self.is_some()
    }
}

impl EventReply for CancelOutcome {
    fn is_found(&self) -> bool {
        *self != Self::NotFound
    }
}

impl EventReply for ChangeOutcome {
    fn is_found(&self) -> bool {
        *self != Self::NotFound
    }
}

/// Returns of how many queues the buckets are.
fn queues_of(buckets: &[BucketKey]) -> usize {
    let queues: BTreeSet<&QueueName> = buckets.iter().map(|key| &key.queue).collect();
    queues.len()
}

impl Inner {
    /// Returns every wanted bucket; while the registry is unavailable, those that are known here
    /// and respond, and logs how many do not.
    ///
    /// # Errors
    ///
    /// When no bucket is known, or none responds.
    pub(super) async fn reach(
        &self,
        wanted: impl Fn(&BucketKey) -> bool,
    ) -> Result<ReachableBuckets> {
        let known = self.open()?.known_buckets().await?;
        let mut buckets = known.buckets;
        let queues = buckets.iter().map(|bucket| bucket.queue.clone()).collect();
        buckets.retain(wanted);
        let Some(away) = known.away else {
            return Ok(ReachableBuckets {
                buckets,
                queues,
                left_out: None,
            });
        };
        let all = buckets.len();
        let probes = buckets
            .into_iter()
            .map(|bucket| self.if_reachable(bucket).boxed());
        let probes: Vec<_> = probes.collect();
        let replies: Vec<_> = stream::iter(probes)
            .buffered(PROBES_AT_ONCE)
            .collect()
            .await;
        let buckets: Vec<BucketKey> = replies.into_iter().flatten().collect();
        let unreachable = all - buckets.len();
        let words = format!(
            "{away}; {unreachable} of {all} known buckets do not respond and were left out"
        );
        if buckets.is_empty() && all > 0 {
            return Err(Error::new(away.kind(), words).because(away));
        }
        if unreachable > 0 {
            panics::reported(|| {
                tracing::warn!(
                    buckets = all,
                    unreachable,
                    "some buckets did not respond and are left out"
                );
            });
        }
        let left_out = Error::new(ErrorKind::Unavailable, words).because(away);
        Ok(ReachableBuckets {
            buckets,
            queues,
            left_out: Some(left_out),
        })
    }

    async fn if_reachable(&self, bucket: BucketKey) -> Option<BucketKey> {
        let stats = operator_call(self.apply(&bucket, StoreOp::stats())).await;
        stats.is_ok().then_some(bucket)
    }

    /// Applies an operation on one event in the bucket of the queue that has it; returns also which
    /// one that is.
    pub(super) async fn on_event<R: EventReply>(
        &self,
        queue: &QueueName,
        id: EventId,
        operation: impl Fn() -> Operation<R>,
    ) -> Result<(BucketKey, R)> {
        let buckets = self.buckets(queue, &self.options(queue));
        let first = BucketKey::new(queue.clone(), id.place(buckets));
        let reply = self.apply(&first, operation()).await?;
        if reply.is_found() {
            return Ok((first, reply));
        }
        let (others, away) = self.other_places(&first, id).await?;
        for other in others {
            let reply = self.apply(&other, operation()).await?;
            if reply.is_found() {
                return Ok((other, reply));
            }
        }
        match away {
            Some(error) => Err(error),
            None => Ok((first, reply)),
        }
    }

    /// Returns the buckets besides `first` in which an event of its queue may lie, by an earlier
    /// number of buckets; and why there may be others.
    pub(super) async fn other_places(
        &self,
        first: &BucketKey,
        id: EventId,
    ) -> Result<(Vec<BucketKey>, Option<Error>)> {
        let is_elsewhere = |bucket| bucket != first.bucket && id.may_lie_in(bucket);
        if id.tells_time() && id.bucket() == BucketId(0) && first.bucket == BucketId(0) {
            return Ok((Vec::new(), None)); // any number of buckets has it
        }
        let known = self.open()?.buckets_of(&first.queue).await?;
        let mut buckets = known.buckets;
        buckets.retain(|key| is_elsewhere(key.bucket));
        Ok((buckets, known.away))
    }

    /// Looks into each bucket in which the event may lie of every queue that the store knows, for two
    /// seconds each.
    pub(super) async fn locate(&self, id: EventId) -> Result<Location> {
        let known = operator_call(self.store.known_buckets()).await?;
        let mut buckets = known.buckets;
        buckets.retain(|key| id.may_lie_in(key.bucket));
        let mut location = Location {
            event: None,
            queues: queues_of(&buckets),
            failed: known.away,
        };
        let calls = buckets.into_iter().map(|bucket| self.look_up(bucket, id));
        let mut results = as_they_come_past_slow(calls);
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

    /// Looks an event of a queue up, for two seconds in each bucket.
    pub(super) async fn locate_in(&self, queue: QueueName, id: EventId) -> Result<Option<Located>> {
        let buckets = self.buckets(&queue, &self.options(&queue));
        let first = BucketKey::new(queue, id.place(buckets));
        if let Some(found) = self.look_up(first.clone(), id).await? {
            return Ok(Some(found));
        }
        let (others, away) = operator_call(self.other_places(&first, id)).await?;
        for other in others {
            if let Some(found) = self.look_up(other, id).await? {
                return Ok(Some(found));
            }
        }
        away.map_or(Ok(None), Err)
    }

    /// Looks an event up in one bucket, for two seconds.
    pub(super) async fn look_up(&self, bucket: BucketKey, id: EventId) -> Result<Option<Located>> {
        let get = StoreOp::get(id).apply_timed(&*self.store, &bucket);
        let (found, now_us) = operator_call(get).await?;
        Ok(found.map(|snapshot| Located {
            bucket,
            now: Timestamp::from_millis(now_us / 1_000),
            snapshot,
        }))
    }
}
