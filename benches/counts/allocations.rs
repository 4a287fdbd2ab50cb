//! Allocations of the thread that publishes, pushes and runs the handlers.

use std::collections::VecDeque;

use allocation_counter::measure;
use tokio::runtime::{Builder, Runtime};

use crate::Result;
use crate::server;
use crate::work::{
    BATCH, GRACE, Goal, QUEUE, TOMORROW, Value, builder, handling, publish_batch, push_many,
    push_one,
};

const EVENTS: u64 = 4_096;

/// Counts the allocations an event of each workload whose name is wanted.
pub(crate) fn all(wanted: impl Fn(&str) -> bool) -> Result<Vec<(&'static str, f64)>> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let mut counts = Vec::new();
    let mut add = |name: &'static str, count: &dyn Fn() -> Result<f64>| -> Result {
        if wanted(name) {
            counts.push((name, count()?));
        }
        Ok(())
    };
    add("publish", &|| published(false))?;
    add("publish_many", &|| published(true))?;
    add("push_one_memory", &|| pushed("memory:", false))?;
    add("push_one_embedded", &|| pushed(&file("one"), false))?;
    add("push_many_embedded", &|| pushed(&file("many"), true))?;
    add("push_one_redis", &|| pushed_to_redis(false))?;
    add("push_many_redis", &|| pushed_to_redis(true))?;
    Ok(counts)
}

/// One thread, so that everything but the mover is counted.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
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
    let goal = Goal::new(0);
    let bus = runtime.block_on(handling(builder("memory:"), &goal).start())?;
    let mut publisher = bus.queue_named::<Value>(QUEUE)?.publisher()?;
    let mut batch = VecDeque::with_capacity(BATCH);
    let count = counted(|| {
        goal.raise(EVENTS);
        runtime.block_on(async {
            for _ in 0..EVENTS / BATCH as u64 {
                publish_batch(&mut publisher, &mut batch, batched).await?;
            }
            goal.reached().await;
            Ok(())
        })
    })?;
    runtime.block_on(bus.shutdown(GRACE))?;
    Ok(count)
}

fn pushed_to_redis(batched: bool) -> Result<f64> {
    let server = server::start(&[]);
    pushed(&server::url(&server), batched)
}

/// Pushes events that are due tomorrow.
fn pushed(url: &str, batched: bool) -> Result<f64> {
    let runtime = runtime()?;
    let bus = runtime.block_on(builder(url).publish_only().start())?;
    let count = counted(|| {
        runtime.block_on(async {
            if batched {
                push_many(&bus, EVENTS, TOMORROW).await
            } else {
                push_one(&bus, EVENTS).await
            }
        })
    })?;
    runtime.block_on(bus.shutdown(GRACE))?;
    Ok(count)
}
