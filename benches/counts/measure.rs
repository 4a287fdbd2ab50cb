//! The workloads whose allocations are counted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use allocation_counter::measure;
use duly::Annotation;
use duly::config::Settings;
use duly::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::Result;

const EVENTS: u64 = 4_096;
const BATCH: usize = 64;
const QUEUE: &str = "clicks";
const TOMORROW: Duration = Duration::from_secs(86_400);

/// 64 bytes.
type Value = [u64; 8];

struct Counts(Arc<AtomicU64>);

impl Handler for Counts {
    type Payload = Value;

    async fn handle(&self, _event: Event<Value>, _cx: &Context) -> Result<(), Failure> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns the allocations an event of each workload.
pub(crate) fn all() -> Result<BTreeMap<&'static str, f64>> {
    let directory = tempfile::tempdir()?;
    let embedded = format!("sqlite:{}", directory.path().join("duly.db").display());
    let mut counts = BTreeMap::new();
    counts.insert("publish", published(false)?);
    counts.insert("publish_many", published(true)?);
    counts.insert("push_memory", pushed("memory:")?);
    counts.insert("push_embedded", pushed(&embedded)?);
    Ok(counts)
}

/// One thread, so that everything but the mover is counted.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

async fn start(url: &str, handled: &Arc<AtomicU64>) -> Result<Bus> {
    let annotation = Annotation::new(QUEUE).workers(64);
    let bus = Bus::builder()
        .settings(Settings::default())
        .store_url(url)
        .journal_url("off")
        .only_registered()
        .register_as(annotation, Counts(Arc::clone(handled)))
        .start()
        .await?;
    Ok(bus)
}

/// Counts what `call` does a second time: the first time warms up.
fn counted(mut call: impl FnMut() -> Result) -> Result<f64> {
    call()?;
    let mut ended = Ok(());
    let counts = measure(|| ended = call());
    ended?;
    Ok(counts.count_total as f64 / EVENTS as f64)
}

/// Publishes into the ring, and waits until all events are handled.
fn published(batched: bool) -> Result<f64> {
    let runtime = runtime()?;
    let handled = Arc::new(AtomicU64::new(0));
    let bus = runtime.block_on(start("memory:", &handled))?;
    let mut publisher = bus.queue_named::<Value>(QUEUE)?.publisher()?;
    let mut batch = VecDeque::with_capacity(BATCH);
    let mut wanted = 0;
    let count = counted(|| {
        wanted += EVENTS;
        runtime.block_on(async {
            for _ in 0..EVENTS / BATCH as u64 {
                if batched {
                    batch.extend([[7; 8]; BATCH]);
                    publisher.try_publish_many(&mut batch);
                }
                let rest = if batched { batch.len() } else { BATCH };
                batch.clear();
                for _ in 0..rest {
                    publisher.publish([7; 8]).await?;
                }
            }
            while handled.load(Ordering::Relaxed) < wanted {
                yield_now().await;
            }
            Ok(())
        })
    })?;
    runtime.block_on(bus.shutdown(Duration::from_secs(5)))?;
    Ok(count)
}

/// Pushes events that are due tomorrow, one by one.
fn pushed(url: &str) -> Result<f64> {
    let runtime = runtime()?;
    let bus = runtime.block_on(start(url, &Arc::default()))?;
    let queue = bus.queue_named::<Value>(QUEUE)?;
    let count = counted(|| {
        runtime.block_on(async {
            for _ in 0..EVENTS {
                queue.push([7; 8], TOMORROW).await?;
            }
            Ok(())
        })
    })?;
    runtime.block_on(bus.shutdown(Duration::from_secs(5)))?;
    Ok(count)
}
