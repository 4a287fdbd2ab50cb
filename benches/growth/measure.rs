//! The measurements of a point.

use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::time::{Timestamp, When};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep_until};

use crate::Result;
use crate::fixture::{Seen, bus, pause, payload, queues, resume};
use crate::plan::{Kept, Point};

const HOUR: Duration = Duration::from_secs(3_600);
const GRACE: Duration = Duration::from_secs(60);
/// Events of one call, at most; fewer of large ones.
const BATCH: usize = 5_000;
/// Calls that are under way at a time.
const AT_ONCE: usize = 4;
const PASSES: usize = 3;
/// Lateness is watched so long, at so many events a second, pushed so long before they are due.
const LATE_SECONDS: u64 = 4;
const LATE_RATE: usize = 1_000;
const LATE_DELAY: Duration = Duration::from_millis(500);
const STEP_MS: u64 = 10;

type Figures = Vec<(String, f64)>;

/// Pushes what is pending, due between an hour and a day from now.
pub(crate) async fn fill(point: &Point, url: &str) -> Result<Figures> {
    if point.pending == 0 {
        return Ok(Figures::new());
    }
    let bus = bus(point, url, &Seen::new()).await?;
    let queues = queues(&bus, point)?;
    let batches = (0..point.pending).step_by(BATCH).map(|first| {
        let due = HOUR + Duration::from_secs(first * 7_919 % 82_800);
        let size = (point.pending - first).min(BATCH as u64) as usize;
        let queue = &queues[(first / BATCH as u64 % point.queues) as usize];
        async move {
            let payloads = (0..size).map(|_| payload(point));
            queue.push_many(payloads, due).await.map(drop)
        }
    });
    all_of(batches).await?;
    bus.shutdown(GRACE).await?;
    Ok(Figures::new())
}

/// Opens the store, and measures pushes, drains and lateness.
pub(crate) async fn all(point: &Point, url: &str) -> Result<Figures> {
    let seen = Seen::new();
    let (resident, begun) = (resident_bytes()?, Instant::now());
    let mut buses = vec![bus(point, url, &seen).await?];
    let opened = begun.elapsed().as_secs_f64() * 1e3;
    for _ in 1..point.nodes {
        buses.push(bus(point, url, &seen).await?);
    }
    let more = resident_bytes()? - resident;
    let mut figures = vec![("open_ms".to_owned(), opened)];
    if point.kept == Kept::Embedded && point.pending > 0 {
        figures.push(("bytes_an_event".to_owned(), more / point.pending as f64));
    }
    figures.push(("kb_a_queue".to_owned(), more / 1e3 / point.queues as f64));
    figures.push(("kb_a_node".to_owned(), more / 1e3 / point.nodes as f64));

    let (mut pushed, mut drained) = (Vec::new(), Vec::new());
    for _ in 0..PASSES {
        pushed.push(push(point, &buses[0], HOUR.into()).await?);
        drained.push(drain(point, &buses, &seen).await?);
    }
    figures.push(("push_a_second".to_owned(), median(pushed)));
    figures.push(("drain_a_second".to_owned(), median(drained)));

    let late = lateness(point, &buses[0], &seen).await?;
    for (name, part) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
        let at = late[((late.len() - 1) as f64 * part) as usize];
        figures.push((name.to_owned(), at as f64 / 1e3));
    }
    for bus in &buses {
        bus.shutdown(GRACE).await?;
    }
    seen.check()?;
    Ok(figures)
}

/// Pushes in batches, to each queue in turn; returns events a second.
async fn push(point: &Point, bus: &Bus, when: When) -> Result<f64> {
    let queues = queues(bus, point)?;
    let events = point.events();
    let fit = (8_000_000 / point.payload_bytes).max(1);
    let size = (events / queues.len().max(AT_ONCE))
        .clamp(1, BATCH)
        .min(fit);
    let begun = Instant::now();
    let batches = (0..events).step_by(size).enumerate().map(|(turn, first)| {
        let queue = &queues[turn % queues.len()];
        let size = size.min(events - first);
        async move {
            let payloads = (0..size).map(|_| payload(point));
            queue.push_many(payloads, when).await.map(drop)
        }
    });
    all_of(batches).await?;
    Ok(events as f64 / begun.elapsed().as_secs_f64())
}

async fn all_of<F: Future<Output = duly::Result<()>>>(
    calls: impl Iterator<Item = F>,
) -> duly::Result<()> {
    let calls = stream::iter(calls).buffer_unordered(AT_ONCE);
    calls.try_for_each(|()| async { Ok(()) }).await
}

/// Pushes events that are due at once while no handler runs, then lets all nodes handle them;
/// returns events a second.
async fn drain(point: &Point, buses: &[Bus], seen: &Arc<Seen>) -> Result<f64> {
    for bus in buses {
        pause(bus, point)?;
    }
    seen.expect(point.events());
    push(point, &buses[0], Duration::ZERO.into()).await?;
    let begun = Instant::now();
    for bus in buses {
        resume(bus, point)?;
    }
    seen.all().await?;
    Ok(point.events() as f64 / begun.elapsed().as_secs_f64())
}

/// Pushes events one by one, each due half a second later; returns how late they were, in order.
async fn lateness(point: &Point, bus: &Bus, seen: &Arc<Seen>) -> Result<Vec<i64>> {
    // Large ones are fewer, so that bytes a second stay within reason.
    let rate = (32_000_000 / point.payload_bytes).clamp(100, LATE_RATE);
    let queues = queues(bus, point)?;
    let steps = LATE_SECONDS * 1_000 / STEP_MS;
    let each = rate * STEP_MS as usize / 1_000;
    seen.expect(steps as usize * each);
    let first_ms = seen.now_us() / 1_000 + LATE_DELAY.as_millis() as u64;
    let begun = Instant::now();
    for step in 0..steps {
        let pushes = (0..each).map(|place| {
            let queue = &queues[(step as usize * each + place) % queues.len()];
            let after_ms = step * STEP_MS + place as u64 * STEP_MS / each as u64;
            let due = Timestamp::from_millis(first_ms + after_ms);
            async move { queue.push(payload(point), due).await.map(drop) }
        });
        futures_util::future::try_join_all(pushes).await?;
        sleep_until(begun + Duration::from_millis((step + 1) * STEP_MS)).await;
    }
    seen.all().await?;
    Ok(seen.lateness())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Memory of this process that is in use.
fn resident_bytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    Ok(kib.ok_or("the system does not tell how much memory is in use")? * 1024.0)
}
