//! What a child does until it is killed: it pushes, cancels and handles.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duly::handler::Annotation;
use duly::prelude::*;

use crate::log::{Line, Log};

/// How often an event is tried at most.
pub(crate) const ATTEMPTS: u16 = 4;

const WORK: Annotation = Annotation::new("work")
    .attempts(ATTEMPTS)
    .backoff(RetryPolicy::fixed(Duration::from_millis(15)))
    .timeout(Duration::from_millis(200))
    .workers(8)
    .ring(64);

/// Writes down that it started, and then does what the payload says.
struct Work {
    log: Arc<Log>,
    /// Whether a payload may kill the process.
    mortal: bool,
}

impl Handler for Work {
    type Payload = u64;

    async fn handle(&self, event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        let due_us = event.due().map_or(0, duly::Timestamp::as_micros);
        let late_us = event.lateness().as_micros() as u64;
        self.log.add(Line::Started {
            id: event.id(),
            attempt: event.attempt().into(),
            at_us: due_us + late_us,
        });
        match event.payload % 20 {
            0..10 => Ok(()),
            10..13 if event.attempt() < 3 => Err(Failure::retry("not yet")),
            13 => Err(Failure::retry("never")),
            14 => Err(Failure::permanent("no")),
            15 => Err(Failure::discard("no use")),
            16 => std::panic::resume_unwind(Box::new("on purpose")), // without a word to the console
            17 => std::future::pending().await,
            18 if self.mortal && event.payload % 1_000 == 18 => std::process::abort(),
            _ => {
                tokio::time::sleep(Duration::from_millis(event.payload % 25)).await;
                Ok(())
            }
        }
    }
}

/// A bus on the store in `folder`, whose handler writes the log and may kill the process.
pub(crate) async fn bus(folder: &Path, log: &Arc<Log>, mortal: bool) -> duly::Result<Bus> {
    let log = Arc::clone(log);
    Bus::builder()
        .only_registered()
        .settings(Default::default())
        .store_url(format!("sqlite:{}", folder.join("duly.db").display()))
        .register_as(WORK, Work { log, mortal })
        .start()
        .await
}

/// Pushes, cancels and handles, until it is killed.
pub(crate) fn live(folder: &Path, seed: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let log = Arc::new(Log::open(folder));
        let bus = bus(folder, &log, true).await.expect("the store opens");
        let queue: Queue<u64> = bus.queue_named("work").expect("a legal name");
        let pushers = (0..4).map(|number| {
            let random = fastrand::Rng::with_seed(seed * 10 + number);
            tokio::spawn(push(queue.clone(), Arc::clone(&log), random))
        });
        for pusher in pushers.collect::<Vec<_>>() {
            pusher.await.expect("a pusher goes on until the end");
        }
    });
}

async fn push(queue: Queue<u64>, log: Arc<Log>, mut random: fastrand::Rng) {
    loop {
        let (id, payload) = (queue.new_id(), random.u64(..1_000_000));
        let delay = Duration::from_millis(random.u64(..300).saturating_sub(100));
        log.add(Line::Pushing { id, payload });
        let receipt = queue.event(payload).id(id).after(delay).send().await;
        let due_ms = receipt.expect("it is accepted").due().as_millis();
        log.add(Line::Pushed { id, due_ms });
        if random.u8(..8) == 0 {
            let answer = queue.cancel(id).await.expect("a cancel is answered");
            if answer == Cancelled::Cancelled {
                log.add(Line::Cancelled { id });
            }
        }
    }
}
