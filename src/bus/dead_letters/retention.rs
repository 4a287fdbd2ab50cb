//! Retention of dead letters: a task that drops those that are too old or too many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::scan::PAGE;
use crate::core::op::{Snapshot, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, EventId, QueueName};
use crate::flow::QueueOptions;
use crate::panics;
use crate::time::Timestamp;

/// The actor in the records of what it drops.
pub(super) const ACTOR: &str = "retention";
/// The pause between two rounds.
const EVERY: Duration = Duration::from_secs(60);
/// The pause between two pages, so that a store has time for everything else.
const PAUSE: Duration = Duration::from_millis(20);

/// The queues whose limits a process enforces.
enum Kept {
    /// Those that it consumes and that have a limit.
    Consumed(BTreeSet<QueueName>),
    /// All that the store knows, as others may not know these limits.
    All,
}

/// The limits of a queue.
struct Limits {
    keep_for: Option<Duration>,
    keep_max: Option<usize>,
}

/// Starts the task, if a queue that this process consumes has a limit. It ends with the bus.
pub(in crate::bus) fn start(inner: &Arc<Inner>, consumed: &[QueueName]) {
    let limited = consumed.iter().filter(|queue| is_limited(inner, queue));
    let limited: BTreeSet<_> = limited.cloned().collect();
    if !limited.is_empty() {
        spawn(inner, Kept::Consumed(limited));
    }
}

/// Starts the task for every queue of the store that has a limit in the settings of this process, which
/// need not consume it.
pub fn start_for_all(bus: &Bus) {
    let inner = &bus.inner;
    let mut named = inner.queues.keys();
    if Limits::of(&inner.defaults).is_some() || named.any(|queue| is_limited(inner, queue)) {
        spawn(inner, Kept::All);
    }
}

fn spawn(inner: &Arc<Inner>, kept: Kept) {
    let (bus, kept) = (Arc::downgrade(inner), Arc::new(kept));
    let run = move || run(Weak::clone(&bus), Arc::clone(&kept));
    inner
        .runtime
        .spawn(panics::lasting("dropping dead letters panicked", run));
}

fn is_limited(inner: &Inner, queue: &QueueName) -> bool {
    Limits::of(&inner.options(queue)).is_some()
}

async fn run(inner: Weak<Inner>, kept: Arc<Kept>) {
    // Nodes that start together take turns.
    let mut pause = EVERY.mul_f64(0.5 + fastrand::f64() / 2.0);
    loop {
        tokio::time::sleep(pause).await;
        pause = EVERY;
        let open = || inner.upgrade().filter(|inner| inner.open().is_ok());
        let Some(listing) = open() else {
            return;
        };
        let queues = kept.queues(&listing).await;
        drop(listing);
        let queues = queues.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to list the queues for the retention of dead letters");
            BTreeMap::new()
        });
        for (queue, buckets) in queues {
            let Some(inner) = open() else {
                return;
            };
            let Some(limits) = Limits::of(&inner.options(&queue)) else {
                continue;
            };
            if let Err(error) = limits.enforce(&inner, &buckets).await {
                tracing::warn!(%queue, %error, "failed to drop dead letters by retention");
            }
        }
    }
}

impl Kept {
    /// Returns the queues with their buckets, as the store knows them now.
    async fn queues(&self, inner: &Inner) -> Result<BTreeMap<QueueName, Vec<BucketKey>>> {
        let mut buckets = inner.open()?.buckets().await?;
        buckets.sort_unstable();
        let mut queues = BTreeMap::<_, Vec<_>>::new();
        for bucket in buckets {
            let is_kept = match self {
                Self::Consumed(queues) => queues.contains(&bucket.queue),
                Self::All => !bucket.queue.is_own(),
            };
            if is_kept {
                queues.entry(bucket.queue.clone()).or_default().push(bucket);
            }
        }
        Ok(queues)
    }
}

impl Limits {
    /// Returns the limits of a queue with these options, if it has any.
    fn of(options: &QueueOptions) -> Option<Self> {
        let (keep_for, keep_max) = (options.dead_keep_for, options.dead_keep_max);
        (keep_for.is_some() || keep_max.is_some()).then_some(Self { keep_for, keep_max })
    }

    async fn enforce(&self, inner: &Inner, buckets: &[BucketKey]) -> Result<()> {
        if let Some(span) = self.keep_for {
            let now = inner.now().as_millis();
            let died_until = Timestamp::from_millis(now.saturating_sub(millis(span)));
            for bucket in buckets {
                drop_old(inner, bucket, died_until).await?;
            }
        }
        if let Some(max) = self.keep_max {
            while drop_surplus(inner, buckets, max).await? {}
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
