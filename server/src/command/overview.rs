//! All queues of a store at once.

use std::collections::BTreeMap;

use duly::Bus;
use duly::records::MinuteQuery;
use duly::time::Timestamp;

use super::error::Result;
use super::values;
use super::view::{OverviewView, QueueView};

const MINUTE_MS: u64 = 60_000;

/// Reads at most `limit` queues of a store, with what ended in the last whole minute.
pub(super) async fn read(bus: &Bus, limit: usize) -> Result<OverviewView> {
    let counted = bus.stats_page(None, limit).await?;
    let mut controls = bus.controls().await?;
    let minute = values::now_ms() / MINUTE_MS * MINUTE_MS;
    let at = Timestamp::from_millis;
    let ended = bus
        .records()
        .since(at(minute - MINUTE_MS))
        .until(at(minute));
    let ended = ended.minutes().limit(MinuteQuery::LIMIT_MAX).page().await?;
    let mut ended: BTreeMap<_, u64> = ended
        .items
        .into_iter()
        .map(|minute| (minute.queue, minute.outcomes.values().sum()))
        .collect();
    let queues = counted.items.into_iter().map(|(queue, stats)| {
        let control = controls.remove(&queue).unwrap_or_default();
        QueueView {
            scheduled: stats.scheduled,
            ready: stats.ready,
            leased: stats.leased,
            dead: stats.dead,
            oldest_ready_ms: stats.oldest_ready.map(Timestamp::as_millis),
            paused: control.paused,
            rate: control.rate,
            ended: Some(ended.remove(&queue).unwrap_or(0)),
            workers: control.workers,
            buckets: control.buckets,
            queue: queue.to_string(),
        }
    });
    Ok(OverviewView {
        queues: queues.collect(),
        has_more: counted.next.is_some(),
        nodes: Some(bus.nodes().await?.len()),
    })
}
