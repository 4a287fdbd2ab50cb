//! Retention of dead letters: a task that drops those that are too old or too many.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::bus::inner::Inner;
use crate::bus::scan::PAGE;
use crate::core::op::{Snapshot, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, EventId, QueueName};
use crate::time::Timestamp;

/// The actor in the records of what it drops.
pub(super) const ACTOR: &str = "retention";
/// The pause between two rounds.
const EVERY: Duration = Duration::from_secs(60);
/// The pause between two pages, so that a store has time for everything else.
const PAUSE: Duration = Duration::from_millis(20);

/// A queue with a limit.
struct LimitedQueue {
    queue: QueueName,
    keep_for: Option<Duration>,
    keep_max: Option<usize>,
}

/// Starts the task, if a queue that this process consumes has a limit. It ends with the bus.
pub(in crate::bus) fn start(inner: &Arc<Inner>, consumed: &[QueueName]) {
    let limited = consumed.iter().map(|queue| {
        let options = inner.options(queue);
        LimitedQueue {
            queue: queue.clone(),
            keep_for: options.dead_keep_for,
            keep_max: options.dead_keep_max,
        }
    });
    let limited: Vec<_> = limited
        .filter(|it| it.keep_for.is_some() || it.keep_max.is_some())
        .collect();
    if !limited.is_empty() {
        inner.runtime.spawn(run(Arc::downgrade(inner), limited));
    }
}

async fn run(inner: Weak<Inner>, limited: Vec<LimitedQueue>) {
    // Nodes that start together take turns.
    let mut pause = EVERY.mul_f64(0.5 + fastrand::f64() / 2.0);
    loop {
        tokio::time::sleep(pause).await;
        pause = EVERY;
        for limits in &limited {
            let Some(inner) = inner.upgrade().filter(|inner| inner.open().is_ok()) else {
                return;
            };
            if let Err(error) = limits.enforce(&inner).await {
                let queue = &limits.queue;
                tracing::warn!(%queue, %error, "failed to drop dead letters by retention");
            }
        }
    }
}

impl LimitedQueue {
    async fn enforce(&self, inner: &Inner) -> Result<()> {
        let buckets = inner.buckets_of(&self.queue).await?;
        if let Some(span) = self.keep_for {
            let now = inner.now().as_millis();
            let died_until = Timestamp::from_millis(now.saturating_sub(millis(span)));
            for bucket in &buckets {
                drop_old(inner, bucket, died_until).await?;
            }
        }
        if let Some(max) = self.keep_max {
            while drop_surplus(inner, &buckets, max).await? {}
        }
        Ok(())
    }
}

/// Drops the dead letters of a bucket that died too long ago.
async fn drop_old(inner: &Inner, bucket: &BucketKey, died_until: Timestamp) -> Result<()> {
    let mut after = None;
    loop {
        let page = inner.apply(bucket, StoreOp::read_dead(after, PAGE)).await?;
        let is_old = |letter: &&Snapshot| letter.since.is_some_and(|died| died <= died_until);
        let old = page.letters.iter().filter(is_old).map(|it| it.id);
        drop_dead(inner, bucket, old.collect()).await?;
        // Whatever follows was pushed later, and cannot have died before.
        let last = page.letters.last().map(|letter| letter.id.created());
        let more_may_be_old = last.is_some_and(|pushed| pushed <= died_until);
        after = page.next.filter(|_| more_may_be_old);
        if after.is_none() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Drops what exceeds `max`, at most a page of each bucket; returns whether some bucket has more to
/// drop.
async fn drop_surplus(inner: &Inner, buckets: &[BucketKey], max: usize) -> Result<bool> {
    let mut dead = Vec::new();
    for bucket in buckets {
        dead.push(count(inner, bucket).await?);
    }
    let mut is_more = false;
    for ((bucket, dead), keep) in buckets.iter().zip(&dead).zip(kept(&dead, max)) {
        if *dead > keep {
            is_more |= drop_first(inner, bucket, keep).await?;
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(is_more)
}

/// Returns how many dead letters each bucket keeps, `max` in all: the fullest ones drop, down to the
/// same number, and some keep one more than others.
///
/// None need be searched for the oldest of all. Processes that enforce the limit at the same time
/// get the same numbers, however far the others have come, so together they drop no more.
pub(super) fn kept(dead: &[usize], max: usize) -> Vec<usize> {
    let mut ascending = dead.to_vec();
    ascending.sort_unstable();
    let (mut left, mut buckets) = (max, dead.len());
    for count in ascending {
        if count > left / buckets {
            break;
        }
        left -= count;
        buckets -= 1;
    }
    if buckets == 0 {
        return dead.to_vec();
    }
    let (each, mut rest) = (left / buckets, left % buckets);
    let keep = |count: &usize| {
        let more = usize::from(*count > each && rest > 0);
        rest -= more;
        (*count).min(each + more)
    };
    dead.iter().map(keep).collect()
}

/// Drops the first dead letters of a bucket until `keep` are left, at most a page; returns whether it
/// has more to drop.
async fn drop_first(inner: &Inner, bucket: &BucketKey, keep: usize) -> Result<bool> {
    // The page before the count: what another process drops in between is not counted, so its place
    // in the page is not given to a later one.
    let page = inner.apply(bucket, StoreOp::read_dead(None, PAGE)).await?;
    let surplus = count(inner, bucket).await?.saturating_sub(keep);
    let first = page.letters.iter().take(surplus).map(|it| it.id);
    let dropped = drop_dead(inner, bucket, first.collect()).await?;
    Ok(dropped > 0 && surplus > dropped)
}

async fn count(inner: &Inner, bucket: &BucketKey) -> Result<usize> {
    Ok(inner.apply(bucket, StoreOp::stats()).await?.dead)
}

/// Drops these dead letters; returns how many there were.
async fn drop_dead(inner: &Inner, bucket: &BucketKey, ids: Vec<EventId>) -> Result<usize> {
    if ids.is_empty() {
        return Ok(0);
    }
    let drop = StoreOp::drop_dead(ids, Some(ACTOR.to_owned()));
    inner.apply(bucket, drop).await
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
