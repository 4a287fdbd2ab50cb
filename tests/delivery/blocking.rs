//! Promise 7: handlers that block their threads, on the threads of their queue and on the runtime.
//!
//! Most on real time, since time that is virtual stands still while a thread is blocked.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use duly::Annotation;
use duly::prelude::*;
use duly::records::Cause;
use duly::testing::{Probe, TestBus};
use futures_util::FutureExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::advance;

use crate::world::{ORDERS, ms, secs};

/// Says that it runs, and blocks until it is let go.
struct Hangs {
    running: UnboundedSender<(u64, u16)>,
    go: Arc<Mutex<Receiver<()>>>,
}

impl BlockingHandler for Hangs {
    type Payload = u64;

    fn handle(&self, event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        let _ = self.running.send((event.payload, event.attempt()));
        let _ = self.go.lock().unwrap().recv();
        Ok(())
    }
}

#[delay_event(queue = "hangs", blocking, attempts = 1, register = false)]
struct Hanging(Hangs);

impl BlockingHandler for Hanging {
    type Payload = u64;

    fn handle(&self, event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        self.0.handle(event, cx)
    }
}

fn hanging() -> (Hanging, UnboundedReceiver<(u64, u16)>, Sender<()>) {
    let (running, runs) = unbounded_channel();
    let (release, go) = channel();
    let go = Arc::new(Mutex::new(go));
    (Hanging(Hangs { running, go }), runs, release)
}

/// Answers whoever calls.
#[delay_event(
    queue = "answers",
    blocking,
    timeout = "1m",
    attempts = 1,
    register = false
)]
fn answers(event: Event<u64>, cx: &Context) -> Result<(), Failure> {
    cx.reply(&event.payload)?;
    Ok(())
}

fn choices(workers: usize, timeout_ms: u64) -> QueueChoices {
    QueueChoices {
        workers: Some(workers),
        timeout: Some(ms(timeout_ms)),
        ..QueueChoices::default()
    }
}

/// The runtime has fewer threads to block than one queue has workers, all of which hang.
#[test]
fn hung_handlers_of_one_queue_take_no_thread_of_another() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (handler, mut running, release) = hanging();
        let builder = Bus::builder().only_registered().store_url("memory:");
        let builder = builder.queue("hangs", choices(12, 20));
        let builder = builder.register_blocking(handler);
        let bus = builder.register_blocking(answers {}).start().await.unwrap();
        let hangs = bus.queue_named("hangs").unwrap();
        hangs.push_many(0..12_u64, secs(0)).await.unwrap();
        for _ in 0..12 {
            running.recv().await.unwrap();
        }
        while bus.stats("hangs").await.unwrap().dead < 12 {
            tokio::task::yield_now().await;
        }

        let queue = bus.queue::<answers>();
        assert_eq!(queue.call::<u64>(7, secs(60)).await.unwrap(), 7);
        let ended = loop {
            let page = bus.records().queue("answers").page().await.unwrap();
            if page.items.is_empty() {
                tokio::task::yield_now().await;
            } else {
                break page.items;
            }
        };
        assert_eq!(ended.len(), 1, "no attempt timed out before it began");
        assert_eq!(ended[0].outcome, Outcome::Acked);
        drop(release);
        bus.shutdown(secs(60)).await.unwrap();
        assert!(running.try_recv().is_err(), "no stale attempt ran later");
    });
}

/// Others may start what this process has no thread for.
#[tokio::test]
async fn a_queue_without_a_free_thread_hands_back_what_waits_for_one() {
    let (handler, mut running, release) = hanging();
    let builder = Bus::builder().only_registered().store_url("memory:");
    let builder = builder.queue("hangs", choices(2, 20));
    let bus = builder.register_blocking(handler).start().await.unwrap();
    let queue = bus.queue_named("hangs").unwrap();
    queue.push_many(0..10_u64, secs(0)).await.unwrap();
    loop {
        let stats = bus.stats("hangs").await.unwrap();
        if (stats.dead, stats.ready, stats.leased) == (2, 8, 0) {
            break;
        }
        tokio::task::yield_now().await;
    }
    // What comes later is not fetched.
    queue.push(10, When::Now).await.unwrap();
    assert_eq!(bus.stats("hangs").await.unwrap().ready, 9);
    assert_eq!(running.len(), 2);

    drop(release);
    for _ in 0..11 {
        let (_payload, attempt) = running.recv().await.unwrap();
        assert_eq!(attempt, 1, "what never started has lost no attempt");
    }
    bus.shutdown(secs(60)).await.unwrap();
}

/// Nothing can end it while it blocks; when it returns, its attempt is over all the same.
#[tokio::test(start_paused = true)]
async fn a_handler_that_blocks_its_thread_beyond_its_timeout_has_timed_out() {
    const BLOCKS: Annotation = ORDERS.backoff(RetryPolicy::fixed(ms(0)));
    let probe = Probe::<u64>::answering(|event, _cx| {
        if event.attempt() == 1 {
            // Time passes while the thread is not given back.
            let _ = advance(ms(400)).now_or_never();
        }
        Ok(())
    });
    let builder = Bus::builder().only_registered();
    let builder = builder.register_as(BLOCKS, probe.clone());
    let builder = builder.queue("orders", choices(1, 200));
    let bus = TestBus::start(builder).await.unwrap();
    let queue = bus.queue_named("orders").unwrap();
    let id = queue.push(1_u64, When::Now).await.unwrap().id();
    bus.run_until_idle(secs(5)).await.unwrap();
    let records = bus.history(id).await.unwrap();
    let how: Vec<_> = records.iter().map(|r| (r.outcome, r.cause)).collect();
    let timed_out = (Outcome::Retried, Some(Cause::TimedOut));
    assert_eq!(how, [timed_out, (Outcome::Acked, None)]);
}
