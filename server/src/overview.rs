//! Many queues at once: their counts and settings, and what has just ended in them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duly::admin::QueueStats;
use duly::records::{MinuteQuery, Page};
use duly::store::Control;
use duly::time::Timestamp;
use duly::{Bus, QueueName, Result};
use tokio::sync::Mutex;

/// The most queues of a page.
pub const PAGE_MAX: usize = 1_000;

const MINUTE_MS: u64 = 60_000;
/// How long after its end a minute is counted: its last records may be on their way.
const SETTLED_MS: u64 = 2_000;
/// How long counting a minute may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A queue.
#[derive(Debug)]
pub struct QueueSummary {
    /// Its name.
    pub queue: QueueName,
    /// Its events by state, or why they could not be counted: one server of several may be away.
    pub stats: Result<QueueStats>,
    /// Its settings.
    pub control: Control,
    /// The attempts and events that ended in the last whole minute, if that is known.
    pub ended: Option<u64>,
}

/// What ended in the last whole minute. It is counted once a minute, however many ask.
#[derive(Debug, Default)]
pub struct EndedCounter {
    counted: Mutex<Option<(u64, Option<Arc<EndedCounts>>)>>,
}

#[derive(Debug)]
struct EndedCounts {
    by_queue: BTreeMap<QueueName, u64>,
    /// The last queue that was counted; `None` if all were.
    until: Option<QueueName>,
}

impl EndedCounts {
    fn of(&self, queue: &QueueName) -> Option<u64> {
        let is_counted = self.until.as_ref().is_none_or(|until| queue <= until);
        is_counted.then(|| self.by_queue.get(queue).copied().unwrap_or(0))
    }
}

impl EndedCounter {
    /// Returns the counts, unless the records do not respond.
    async fn read(&self, bus: &Bus) -> Option<Arc<EndedCounts>> {
        let end = bus.store_time().as_millis().saturating_sub(SETTLED_MS) / MINUTE_MS * MINUTE_MS;
        let mut counted = self.counted.lock().await;
        match &*counted {
            Some((of, counts)) if *of == end => counts.clone(),
            _ => {
                let counts = tokio::time::timeout(PATIENCE, count(bus, end)).await;
                let counts = counts.ok().and_then(|counts| {
                    counts
                        .inspect_err(|error| tracing::debug!(%error, "minute not counted"))
                        .ok()
                });
                let counts = counts.map(Arc::new);
                *counted = Some((end, counts.clone()));
                counts
            }
        }
    }
}

async fn count(bus: &Bus, end_ms: u64) -> Result<EndedCounts> {
    let at = Timestamp::from_millis;
    let minute = bus
        .records()
        .since(at(end_ms.saturating_sub(MINUTE_MS)))
        .until(at(end_ms));
    let page = minute
        .minutes()
        .limit(MinuteQuery::LIMIT_MAX)
        .page()
        .await?;
    let counts = page
        .items
        .into_iter()
        .map(|minute| (minute.queue, minute.outcomes.values().sum()));
    Ok(EndedCounts {
        by_queue: counts.collect(),
        until: page.next.map(|(_, queue)| queue),
    })
}

/// Reads the queues after `after` that `is_seen` lets through, in the order of their names: at most
/// `limit`, and fewer where others are between them.
///
/// # Errors
///
/// The store's.
pub async fn page(
    bus: &Bus,
    ended: &EndedCounter,
    is_seen: impl Fn(&QueueName) -> bool,
    after: Option<&QueueName>,
    limit: usize,
) -> Result<Page<QueueSummary, QueueName>> {
    let names = bus.queues().await?;
    let is_wanted = |name: &QueueName| after.is_none_or(|after| name > after) && is_seen(name);
    let Some(first) = names.iter().position(is_wanted) else {
        return Ok(Page::new(Vec::new(), None));
    };
    let window = names.iter().skip(first).take(limit.clamp(1, PAGE_MAX));
    let last = window.clone().enumerate().filter(|(_, name)| is_seen(name));
    let many = last.last().map_or(0, |(place, _)| place + 1);
    let before = first.checked_sub(1).and_then(|before| names.get(before));
    let counted = bus.stats_page(before.cloned(), many).await?;
    let mut controls = bus.controls().await?;
    let ended = ended.read(bus).await;
    let last = counted.items.last().map(|(queue, _)| queue.clone());
    let items = counted.items.into_iter().filter(|(name, _)| is_seen(name));
    let items = items.map(|(queue, stats)| QueueSummary {
        control: controls.remove(&queue).unwrap_or_default(),
        ended: ended.as_ref().and_then(|ended| ended.of(&queue)),
        stats,
        queue,
    });
    let items = items.collect();
    let has_more = names
        .iter()
        .any(|name| Some(name) > last.as_ref() && is_seen(name));
    Ok(Page::new(items, last.filter(|_| has_more)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_ended_is_counted_by_queue_and_once_a_minute() {
        let bus = Bus::builder().store_url("memory:").only_registered();
        let bus = bus.publish_only().start().await.expect("a bus");
        for queue in ["a", "b"] {
            let queue = bus.queue_named::<u64>(queue).expect("a queue");
            let sent = queue.push(7, Duration::from_secs(60)).await;
            queue.push(8, Duration::from_secs(60)).await.expect("sent");
            let cancelled = queue.cancel(sent.expect("sent").id()).await;
            assert_eq!(
                cancelled.expect("an answer"),
                duly::CancelOutcome::Cancelled
            );
        }
        let name = |name: &str| QueueName::new(name).expect("a name");
        // The minute in which the test began, and the next one.
        let end = bus.store_time().as_millis() / MINUTE_MS * MINUTE_MS + MINUTE_MS;
        let mut sum = 0;
        for end in [end - MINUTE_MS, end] {
            let counts = count(&bus, end).await.expect("counts");
            sum += counts.of(&name("b")).expect("counted");
            assert_eq!(counts.of(&name("c")), Some(0));
        }
        assert_eq!(sum, 1);

        let counter = EndedCounter::default();
        let seen = |_: &QueueName| true;
        let first = page(&bus, &counter, seen, None, 1).await.expect("a page");
        assert_eq!((first.items.len(), first.next), (1, Some(name("a"))));
        // A minute may end between two of them, but not twice.
        let mut reads = Vec::new();
        for _ in 0..3 {
            reads.push(counter.read(&bus).await.expect("counts"));
        }
        let is_same = reads.windows(2).any(|two| Arc::ptr_eq(&two[0], &two[1]));
        assert!(is_same, "counted anew within one minute");
        bus.shutdown(Duration::ZERO).await.expect("it ends");
    }

    #[test]
    fn beyond_the_last_queue_that_was_counted_nothing_is_known() {
        let name = |name: &str| QueueName::new(name).expect("a name");
        let counts = EndedCounts {
            by_queue: [(name("a"), 7)].into(),
            until: Some(name("b")),
        };
        let of = |queue: &str| counts.of(&name(queue));
        assert_eq!((of("a"), of("b"), of("c")), (Some(7), Some(0), None));
    }
}
