//! Retention of dead letters: a task that drops those that are too old or too many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::TryStreamExt;

use crate::bus::fan_out::in_order;
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

/// After each page by which it looks for old ones a queue is left alone for so long, at most for an
/// hour and for a quarter of its limit: a million letters are 10,000 pages.
const REST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(3_600);

/// The queues whose limits a process enforces.
enum RetainedQueues {
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

/// What a process remembers of the dead letters of a queue, so as not to read them in each round.
#[derive(Default)]
struct LetterAges {
    /// When the first letter of each bucket died, at the earliest.
    first_died: BTreeMap<BucketKey, Timestamp>,
    /// Until then none is read again.
    rests_until: Option<Timestamp>,
    /// When it looked last. With a time before it the store's clock was ahead, and nothing holds.
    looked_at: Timestamp,
}

/// Starts the task, if a queue that this process consumes has a limit. It ends with the bus.
pub(in crate::bus) fn start(inner: &Arc<Inner>, consumed: &[QueueName]) {
    let limited = consumed.iter().filter(|queue| is_limited(inner, queue));
    let limited: BTreeSet<_> = limited.cloned().collect();
    if !limited.is_empty() {
        spawn(inner, RetainedQueues::Consumed(limited));
    }
}

/// Starts the task for every queue of the store that has a limit in the settings of this process, which
/// need not consume it.
pub fn start_for_all(bus: &Bus) {
    let inner = &bus.inner;
    let mut named = inner.queues.keys();
    if Limits::of(&inner.defaults).is_some() || named.any(|queue| is_limited(inner, queue)) {
        spawn(inner, RetainedQueues::All);
    }
}

fn spawn(inner: &Arc<Inner>, kept: RetainedQueues) {
    let (bus, kept) = (Arc::downgrade(inner), Arc::new(kept));
    let run = move || run(Weak::clone(&bus), Arc::clone(&kept));
    inner
        .runtime
        .spawn(panics::lasting("dropping dead letters panicked", run));
}

fn is_limited(inner: &Inner, queue: &QueueName) -> bool {
    Limits::of(&inner.options(queue)).is_some()
}

async fn run(inner: Weak<Inner>, kept: Arc<RetainedQueues>) {
    // Nodes that start together take turns.
    let mut pause = EVERY.mul_f64(0.5 + fastrand::f64() / 2.0);
    let mut remembered = BTreeMap::<QueueName, LetterAges>::new();
    loop {
        tokio::time::sleep(pause).await;
        pause = EVERY;
        let open = || inner.upgrade().filter(|inner| inner.open().is_ok());
        let Some(listing) = open() else {
            return;
        };
        let queues = kept.queues(&listing).await;
        drop(listing);
        let queues = match queues {
            Ok(queues) => queues,
            Err(error) => {
                panics::reported(|| {
                    tracing::warn!(
                        %error,
                        "failed to list the queues for the retention of dead letters"
                    );
                });
                continue;
            }
        };
        remembered.retain(|queue, _| queues.contains_key(queue));
        for (queue, buckets) in queues {
            let Some(inner) = open() else {
                return;
            };
            let Some(limits) = Limits::of(&inner.options(&queue)) else {
                continue;
            };
            let remembered = remembered.entry(queue.clone()).or_default();
            if let Err(error) = limits.enforce(&inner, &buckets, remembered).await {
                panics::reported(|| {
                    tracing::warn!(%queue, %error, "failed to drop dead letters by retention");
                });
            }
        }
    }
}

impl RetainedQueues {
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

    async fn enforce(
        &self,
        inner: &Inner,
        buckets: &[BucketKey],
        remembered: &mut LetterAges,
    ) -> Result<()> {
        if let Some(span) = self.keep_for {
            remembered.drop_all_old(inner, buckets, span).await?;
        }
        if let Some(max) = self.keep_max {
            while drop_surplus(inner, buckets, max).await? {}
        }
        Ok(())
    }
}

impl LetterAges {
    /// Drops the dead letters that died so long ago. Where none can be that old it reads nothing.
    async fn drop_all_old(
        &mut self,
        inner: &Inner,
        buckets: &[BucketKey],
        span: Duration,
    ) -> Result<()> {
        let now = inner.now();
        if now < self.looked_at {
            *self = Self::default();
        }
        self.looked_at = now;
        if self.rests_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        let died_until = Timestamp::from_millis(now.as_millis().saturating_sub(millis(span)));
        self.first_died
            .retain(|bucket, _| buckets.binary_search(bucket).is_ok());
        let mut rest = Duration::ZERO;
        for bucket in buckets {
            let first_died = self.first_died.get(bucket);
            if first_died.is_none_or(|died| *died <= died_until) {
                let (first_died, pages) = drop_old(inner, bucket, (now, died_until)).await?;
                self.first_died.insert(bucket.clone(), first_died);
                rest += REST * pages;
            }
        }
        let rest = rest.min(REST_MAX).min(span / 4);
        self.rests_until = Some(now + rest);
        Ok(())
    }
}

/// Drops the dead letters of a bucket that died too long before a look; returns when the first one died
/// that is left or will come, at the earliest, and how many pages were read. All of a look goes by the
/// time at its beginning: a clock that is ahead for a part of it would be believed from then on.
async fn drop_old(
    inner: &Inner,
    bucket: &BucketKey,
    (now, died_until): (Timestamp, Timestamp),
) -> Result<(Timestamp, u32)> {
    let (mut first_died, mut pages) = (now, 0);
    let mut after = None;
    loop {
        let page = inner.apply(bucket, StoreOp::read_dead(after, PAGE)).await?;
        let is_old = |letter: &&Snapshot| letter.since.is_some_and(|died| died <= died_until);
        let old = page.letters.iter().filter(is_old).map(|it| it.id);
        drop_dead(inner, bucket, old.collect()).await?;
        pages += 1;
        let died = page.letters.iter().filter_map(|letter| letter.since);
        let left = died.filter(|died| *died > died_until);
        first_died = left.fold(first_died, Timestamp::min);
        // Whatever follows was pushed later, and cannot have died before.
        let last = page.letters.last().map(|letter| letter.id.created());
        let more_may_be_old = last.is_some_and(|pushed| pushed <= died_until);
        after = page.next.filter(|_| more_may_be_old);
        if after.is_none() {
            let follows = page.next.and(last);
            return Ok((
                follows.map_or(first_died, |pushed| pushed.min(first_died)),
                pages,
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Drops what exceeds `max`, of each bucket at most as many pages as there are buckets: all are
/// counted before. Returns whether some bucket has more to drop.
async fn drop_surplus(inner: &Inner, buckets: &[BucketKey], max: usize) -> Result<bool> {
    let counts = buckets.iter().map(|bucket| count(inner, bucket));
    let dead: Vec<usize> = in_order(counts).try_collect().await?;
    let mut is_more = false;
    for ((bucket, dead), keep) in buckets.iter().zip(&dead).zip(kept(&dead, max)) {
        let mut pages = 0..buckets.len();
        let mut has_more = *dead > keep;
        while has_more && pages.next().is_some() {
            has_more = drop_first(inner, bucket, keep).await?;
            tokio::time::sleep(PAUSE).await;
        }
        is_more |= has_more;
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
