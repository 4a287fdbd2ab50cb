//! Publishing in memory, against a plain channel.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use duly::Annotation;
use duly::prelude::*;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use crate::Result;
use crate::scene::{Plan, Tally, bare_builder, until};
use crate::table::Rates;
use crate::watch::{Stopwatch, Took};

const WORKERS: usize = 64;
const CAPACITY: usize = 1_024;
const BATCH: usize = 64;
const LIMIT: Duration = Duration::from_secs(30);
const QUEUE: &str = "clicks";

/// 64 bytes.
type Value = [u64; 8];

#[derive(Clone, Copy)]
enum How {
    Wait,
    Try,
    Many,
}

pub(crate) async fn run(plan: Plan) -> Result {
    let mut table = Rates::titled("publish in memory to 64 workers, handlers that end at once");
    measure(&mut table, plan, "tokio mpsc + Mutex", || {
        channel(plan, false)
    })
    .await?;
    for (name, how) in [
        ("duly, publish", How::Wait),
        ("duly, try_publish", How::Try),
        ("duly, try_publish_many of 64", How::Many),
    ] {
        measure(&mut table, plan, name, || published(plan, how, false)).await?;
    }

    let mut table = Rates::titled("publish in memory to 64 workers, suspending once, with timeout");
    let name = "tokio mpsc + Mutex + timeout";
    measure(&mut table, plan, name, || channel(plan, true)).await?;
    for (name, how) in [
        ("duly, publish", How::Wait),
        ("duly, try_publish", How::Try),
        ("duly, try_publish_many of 64", How::Many),
    ] {
        measure(&mut table, plan, name, || published(plan, how, true)).await?;
    }
    Ok(())
}

async fn measure<F>(table: &mut Rates, plan: Plan, name: &str, pass: impl Fn() -> F) -> Result
where
    F: Future<Output = Result<Took>>,
{
    let mut took = Vec::new();
    for _ in 0..plan.passes {
        took.push(pass().await?);
    }
    table.line(name, plan.published, took);
    Ok(())
}

struct Ends(Arc<Tally>);

impl Handler for Ends {
    type Payload = Value;

    async fn handle(&self, _event: Event<Value>, _cx: &Context) -> Result<(), Failure> {
        self.0.add();
        Ok(())
    }
}

struct Suspends(Arc<Tally>);

impl Handler for Suspends {
    type Payload = Value;

    async fn handle(&self, _event: Event<Value>, _cx: &Context) -> Result<(), Failure> {
        yield_now().await;
        self.0.add();
        Ok(())
    }
}

async fn published(plan: Plan, how: How, suspends: bool) -> Result<Took> {
    let tally = Arc::new(Tally::default());
    let annotation = Annotation::new(QUEUE).workers(WORKERS).timeout(LIMIT);
    let builder = bare_builder("memory:");
    let builder = if !suspends {
        builder.register_as(annotation, Ends(Arc::clone(&tally)))
    } else {
        builder.register_as(annotation, Suspends(Arc::clone(&tally)))
    };
    let bus = builder.start().await?;
    let mut publisher = bus.queue_named::<Value>(QUEUE)?.publisher()?;

    let watch = Stopwatch::start();
    let mut batch = VecDeque::with_capacity(BATCH);
    for first in (0..plan.published).step_by(BATCH) {
        let values = (first..plan.published.min(first + BATCH)).map(value);
        match how {
            How::Wait => {
                for value in values {
                    publisher.publish(value).await?;
                }
            }
            How::Try => {
                for value in values {
                    if let Err((value, _full)) = publisher.try_publish(value) {
                        publisher.publish(value).await?;
                    }
                }
            }
            How::Many => {
                batch.extend(values);
                while publisher.try_publish_many(&mut batch) < BATCH {
                    let Some(value) = batch.pop_front() else {
                        break;
                    };
                    publisher.publish(value).await?;
                }
            }
        }
    }
    until(|| tally.total() >= plan.published).await;
    let took = watch.took();
    bus.shutdown(Duration::from_secs(5)).await?;
    Ok(took)
}

/// What an application does without a bus.
async fn channel(plan: Plan, suspends: bool) -> Result<Took> {
    let tally = Arc::new(Tally::default());
    let (sender, receiver) = mpsc::channel::<Value>(CAPACITY);
    let receiver = Arc::new(Mutex::new(receiver));
    let watch = Stopwatch::start();
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (receiver, tally) = (Arc::clone(&receiver), Arc::clone(&tally));
        workers.spawn(async move {
            loop {
                let next = receiver.lock().await.recv().await;
                if next.is_none() {
                    return;
                }
                if suspends {
                    let _ = timeout(LIMIT, yield_now()).await;
                }
                tally.add();
            }
        });
    }
    for id in 0..plan.published {
        sender.send(value(id)).await?;
    }
    drop(sender);
    workers.join_all().await;
    Ok(watch.took())
}

fn value(id: usize) -> Value {
    [id as u64; 8]
}
