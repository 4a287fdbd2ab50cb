//! A sampler: counts the events of each queue for the depth metrics, every few seconds.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::core::op::{Stats, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, QueueName, is_audit};
use crate::flow::membership::poll::MembershipPoll;
use crate::flow::membership::poll_call;
use crate::flow::node::active_buckets::ActiveBuckets;
use crate::flow::node::inbox::Inbox;
use crate::metrics::{
    self, NodeGauges, QueueDepth, QueueDepths, QueueLabels, SampleInterval, WITHIN,
};
use crate::panics;
use crate::record::NodeId;
use crate::store::{Store, unexpected};

/// The first sample, when the members are known.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// The most buckets that are counted at a time.
const AT_ONCE: usize = 8;
/// A bucket that was empty and had no notification since is counted only in every 30th sample: a
/// notification may be lost. Of the queues that are not consumed here there may be none: their buckets
/// must have been empty in as many samples, and are counted in turns, as they may be many.
const EMPTY_EVERY: u64 = 30;
/// The most buckets of queues that are not consumed here which a sample counts for the first time, or
/// again because they were empty a short time ago; if more are known, a thirtieth of all.
const NEW_MOST: usize = 1_000;

/// Counts the events of the queues that this node consumes or that no node consumes, and sets the
/// gauges.
///
/// Every node reports whole queues, so aggregate several nodes by their maximum.
pub(crate) struct DepthSampler {
    pub(crate) id: NodeId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) labels: Arc<QueueLabels>,
    pub(crate) inbox: Arc<Inbox>,
    /// The queues that this node consumes.
    pub(crate) queues: Arc<[QueueName]>,
    /// `None` where the store has only one node.
    pub(crate) membership: Option<Arc<MembershipPoll>>,
    pub(crate) pace: SampleInterval,
    pub(crate) stop: CancellationToken,
}

impl DepthSampler {
    /// Starts it. The gauges of the node are exported until it ends: in virtual time nothing else keeps
    /// them.
    pub(crate) fn start(self, runtime: &Handle, gauges: Arc<NodeGauges>) -> JoinHandle<()> {
        let sampler = Arc::new(self);
        let sample = move || Arc::clone(&sampler).run();
        runtime.spawn(async move {
            panics::lasting("sampling queue depths panicked", sample).await;
            drop(gauges);
        })
    }

    /// Samples until it is stopped.
    async fn run(self: Arc<Self>) {
        let mut known = LastCounts::default();
        let mut wait = self.pace.every.min(FIRST_AFTER);
        while self.waits(wait).await {
            wait = self.pace.every;
            if !self.pace.always && !metrics::is_recorder_installed() {
                continue;
            }
            let count = self.count(&mut known, self.inbox.active_buckets());
            if let Some(Err(error)) = self.stop.run_until_cancelled(count).await {
                panics::reported(|| tracing::debug!(%error, "failed to sample queue depth"));
            }
        }
    }

    /// Returns `false` when it was stopped meanwhile.
    async fn waits(&self, span: Duration) -> bool {
        let slept = self.stop.run_until_cancelled(tokio::time::sleep(span));
        slept.await.is_some()
    }

    /// Takes one sample.
    async fn count(&self, known: &mut LastCounts, news: &ActiveBuckets) -> Result<()> {
        let membership = self.membership.as_ref();
        if membership.is_some_and(|membership| !membership.is_known()) {
            return Ok(());
        }
        let mut buckets = poll_call(self.store.buckets()).await?;
        let own: HashSet<&QueueName> = self.queues.iter().collect();
        let consumed = self.membership.as_ref().map(|poll| poll.consumed_queues());
        let consumed = consumed.unwrap_or_default();
        let reports = |queue: &QueueName| own.contains(queue) || !consumed.contains(queue);
        // It has events and no consumer, and that is no alarm.
        buckets.retain(|key| reports(&key.queue) && !is_audit(&key.queue));
        let new_most = NEW_MOST.max(buckets.len() / EMPTY_EVERY as usize);
        known
            .buckets
            .retain(|key, _| buckets.binary_search(key).is_ok());
        known.round += 1;
        let active = news.take();
        let (round, mut turn) = (known.round, known.round);
        buckets.retain(|key| {
            let is_told_of = own.contains(&key.queue);
            let empty_for = known.empty_for(key);
            turn += u64::from(empty_for.is_some());
            let may_wait = empty_for.is_some_and(|span| is_told_of || span >= EMPTY_EVERY)
                && !active.contains(key);
            let turn = if is_told_of { round } else { turn };
            !may_wait || turn.is_multiple_of(EMPTY_EVERY)
        });
        let is_new = |key: &BucketKey| {
            !own.contains(&key.queue) && !active.contains(key) && known.is_new(key)
        };
        let (mut new, mut buckets): (Vec<_>, Vec<_>) = buckets.into_iter().partition(is_new);
        if new.len() > new_most {
            fastrand::shuffle(&mut new); // those that cannot be counted hold up no others
            new.select_nth_unstable_by_key(new_most, |key| known.counted_at(key));
            new.truncate(new_most);
        }
        buckets.append(&mut new);
        let counts = stream::iter(buckets).map(|key| async move {
            let counted = self.ask(&key).await;
            (key, counted)
        });
        let mut counts = counts.buffer_unordered(AT_ONCE);
        while let Some((key, counted)) = counts.next().await {
            match counted {
                Ok(mut counted) => {
                    counted.empty_since = round - known.empty_for(&key).unwrap_or(0);
                    counted.counted_at = round;
                    known.buckets.insert(key, counted);
                }
                // Its last count is reported again, and it has its turn soon; one that was never
                // counted is new again.
                Err(error) => {
                    if known.buckets.contains_key(&key) {
                        news.note(&key);
                    }
                    panics::reported(|| {
                        tracing::debug!(
                            bucket = %key, %error,
                            "failed to sample the depth of a bucket"
                        );
                    });
                }
            }
        }
        metrics::tell_shares(
            self.pace.store,
            self.id.0,
            self.shares(known, self.store.now_us()),
        );
        Ok(())
    }

    /// Counts one bucket.
    async fn ask(&self, key: &BucketKey) -> Result<BucketCount> {
        let stats = poll_call(StoreOp::stats().apply(&*self.store, key)).await?;
        let mut counted = BucketCount {
            stats,
            ..BucketCount::default()
        };
        if stats.scheduled > 0 {
            let within = WITHIN
                .map(|(_, seconds)| Duration::from_secs(seconds))
                .to_vec();
            let due = poll_call(StoreOp::forecast(within).apply(&*self.store, key)).await?;
            counted.due = due.try_into().map_err(|_| unexpected())?;
        }
        Ok(counted)
    }

    /// Returns the last counts by queue label. A queue that is consumed here is always included.
    fn shares(&self, known: &LastCounts, now_us: u64) -> QueueDepths {
        let mut shares = QueueDepths::new();
        for queue in &*self.queues {
            shares.entry(self.labels.label(queue)).or_default();
        }
        for (key, counted) in &known.buckets {
            let share = shares.entry(self.labels.label(&key.queue)).or_default();
            share.add(&counted.share(now_us));
        }
        shares
    }
}

/// This node does not report these queues any more.
impl Drop for DepthSampler {
    fn drop(&mut self) {
        metrics::tell_shares(self.pace.store, self.id.0, QueueDepths::new());
    }
}

/// The last counts.
#[derive(Default)]
struct LastCounts {
    buckets: BTreeMap<BucketKey, BucketCount>,
    round: u64,
}

impl LastCounts {
    /// Returns for how many samples a bucket has been empty; `None` when it was not.
    fn empty_for(&self, key: &BucketKey) -> Option<u64> {
        let counted = self.buckets.get(key).filter(|it| it.is_empty())?;
        Some(self.round - counted.empty_since)
    }

    /// Returns whether a bucket was not counted yet, or was empty in too few samples.
    fn is_new(&self, key: &BucketKey) -> bool {
        let is_young = |span| span < EMPTY_EVERY;
        let empty_for = self.empty_for(key);
        empty_for.map_or_else(|| !self.buckets.contains_key(key), is_young)
    }

    /// Returns the last sample that counted a bucket, if there was one.
    fn counted_at(&self, key: &BucketKey) -> Option<u64> {
        self.buckets.get(key).map(|counted| counted.counted_at)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct BucketCount {
    /// The first sample of those in which it was empty.
    empty_since: u64,
    /// The sample that counted it.
    counted_at: u64,
    stats: Stats,
    due: [usize; WITHIN.len()],
}

impl BucketCount {
    fn is_empty(&self) -> bool {
        self.stats == Stats::default()
    }

    fn share(&self, now_us: u64) -> QueueDepth {
        let Stats {
            scheduled,
            ready,
            leased,
            dead,
            oldest_ready,
        } = self.stats;
        let waits_us = oldest_ready.map_or(0, |at| now_us.saturating_sub(at.as_micros()));
        QueueDepth {
            scheduled,
            ready,
            leased,
            dead,
            due: self.due,
            oldest_ready: Duration::from_micros(waits_us).as_secs_f64(),
        }
    }
}
