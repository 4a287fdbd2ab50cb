//! A task that calls buckets again which do not believe their server's clock.
//!
//! Such a bucket believes it when it has stood for ten seconds, as calls saw that were no further apart
//! (`lua/bucket.lua`). Without these calls one that is called less often would never follow.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::error::Result;
use crate::event::BucketKey;
use crate::panics;
use crate::record::NodeId;
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::op::heartbeat::{HeartbeatArguments, HeartbeatReply};
use crate::store::redis::op::shared::Shared;

/// The most buckets that wait to be called.
pub(in crate::store::redis) const MAX: usize = 16_384;

/// The time between two calls: half of that for which a clock must stand.
const EVERY: Duration = Duration::from_secs(5);

/// The calls of a bucket since the last one by somebody else. Two suffice, unless that only read; and a
/// bucket that was never written to remembers nothing.
const TIMES: u32 = 4;

/// How many are called at a time.
const AT_ONCE: usize = 16;

/// Starts the task, which ends with the store.
pub(in crate::store::redis) fn watch(shared: &Arc<Shared>, doubted: mpsc::Receiver<BucketKey>) {
    let options = ConnectionOptions::of(&shared.hub.target);
    options.spawn(run(Arc::downgrade(shared), doubted));
}

async fn run(shared: Weak<Shared>, mut doubted: mpsc::Receiver<BucketKey>) {
    let mut called = BTreeMap::new();
    while let Some(first) = doubted.recv().await {
        sleep(EVERY).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let mut again = BTreeMap::new();
        let mut next = Some(first);
        while let Some(bucket) = next {
            shared
                .keys(&bucket)
                .is_doubted
                .store(false, Ordering::Relaxed);
            let times = called.get(&bucket).map_or(1, |times| times + 1);
            if times <= TIMES {
                again.insert(bucket, times);
            }
            next = doubted.try_recv().ok();
        }
        called = again;
        let buckets = called.keys().cloned();
        let calls = stream::iter(buckets).map(|bucket| call(Arc::clone(&shared), bucket));
        // The first call of a caller after one that failed is in doubt again.
        calls.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        // Of those that are in doubt again it was no slow call.
        let is_doubted = |bucket| shared.keys(bucket).is_doubted.load(Ordering::Relaxed);
        if called.keys().any(is_doubted) {
            panics::reported(|| {
                tracing::warn!(
                    "the server's clock is not believed; the store's time goes on without it until it has \
                 stood for ten seconds"
                );
            });
        }
    }
}

/// Makes a call that changes nothing but what the bucket knows of the clock.
async fn call(shared: Arc<Shared>, bucket: BucketKey) -> Result<()> {
    let terms = shared.terms(&bucket);
    let of_no_node = HeartbeatArguments {
        node: NodeId(0),
        leases: 0,
        last: 0,
        started: 0,
        starts: 0,
    };
    let mut parts = shared
        .call(&bucket, &shared.links.pulse, &terms.call(of_no_node))
        .await?;
    shared.learn(&terms, HeartbeatReply::read(&mut parts)?.now);
    Ok(())
}
