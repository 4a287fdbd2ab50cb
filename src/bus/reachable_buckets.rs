//! The buckets of an administrative query, also while the registry of buckets is unavailable.

use std::collections::BTreeSet;

use futures_util::{FutureExt, StreamExt, stream};

use crate::bus::fan_out::operator_call;
use crate::bus::inner::Inner;
use crate::core::op::StoreOp;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, QueueName};

/// The most concurrent probes.
const AT_ONCE: usize = 256;

/// Buckets that can be queried.
pub(super) struct ReachableBuckets {
    pub(super) buckets: Vec<BucketKey>,
    /// Every queue that the store knows, wanted or not.
    pub(super) queues: BTreeSet<QueueName>,
    /// Why some were left out, or others may be missing.
    pub(super) left_out: Option<Error>,
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
        let replies: Vec<_> = stream::iter(probes).buffered(AT_ONCE).collect().await;
        let buckets: Vec<BucketKey> = replies.into_iter().flatten().collect();
        let unreachable = all - buckets.len();
        let words = format!(
            "{away}; {unreachable} of {all} known buckets do not respond and were left out"
        );
        if buckets.is_empty() && all > 0 {
            return Err(Error::new(away.kind(), words).because(away));
        }
        if unreachable > 0 {
            tracing::warn!(
                buckets = all,
                unreachable,
                "some buckets did not respond and are left out"
            );
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
}
