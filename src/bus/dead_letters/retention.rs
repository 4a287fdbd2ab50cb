//! Retention of dead letters: a task that drops those that are too old or too many.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::bus::inner::Inner;
use crate::bus::scan::PAGE;
use crate::core::op::StoreOp;
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
        let mut dead = Vec::new();
        for bucket in inner.buckets_of(&self.queue).await? {
            let stats = inner.apply(&bucket, StoreOp::stats()).await?;
            dead.push((bucket, stats.dead));
        }
        let all: usize = dead.iter().map(|(_, dead)| dead).sum();
        let surplus = self.keep_max.map_or(0, |max| all.saturating_sub(max));
        for (bucket, dead) in dead {
            // Each bucket drops its share, so that none need be searched for the oldest of all.
            let surplus = (surplus * dead).div_ceil(all.max(1));
            if dead > 0 && (surplus > 0 || self.keep_for.is_some()) {
                self.enforce_in(inner, &bucket, surplus).await?;
            }
        }
        Ok(())
    }

    /// Drops the `surplus` dead letters of a bucket with the first ids, and those that died too
    /// long ago.
    async fn enforce_in(
        &self,
        inner: &Inner,
        bucket: &BucketKey,
        mut surplus: usize,
    ) -> Result<()> {
        let now = inner.now();
        let died_until = self.keep_for.map(|span| {
            let until = now.as_millis().saturating_sub(millis(span));
            Timestamp::from_millis(until)
        });
        let mut after = None;
        loop {
            let page = inner.apply(bucket, StoreOp::read_dead(after, PAGE)).await?;
            let mut dropped: Vec<EventId> = Vec::new();
            for letter in &page.letters {
                let is_old = letter
                    .since
                    .zip(died_until)
                    .is_some_and(|(at, it)| at <= it);
                if surplus > 0 || is_old {
                    surplus = surplus.saturating_sub(1);
                    dropped.push(letter.id);
                }
            }
            if !dropped.is_empty() {
                let drop = StoreOp::drop_dead(dropped, Some(ACTOR.to_owned()));
                inner.apply(bucket, drop).await?;
            }
            // Whatever follows was pushed later, and cannot have died before.
            let last = page.letters.last().map(|letter| letter.id.created());
            let may_be_old = last.zip(died_until).is_some_and(|(at, it)| at <= it);
            after = page.next;
            if after.is_none() || surplus == 0 && !may_be_old {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
