//! What a handler is given, and how handlers that block their threads are kept apart.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ThreadId};

use duly::Annotation;
use duly::prelude::*;
use duly::records::Cause;
use duly::testing::Probe;
use tokio::sync::mpsc;

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_delayed_event_has_an_entry_of_its_own,
    a_handler_sees_what_its_pusher_said,
    a_handler_pushes_to_any_queue,
    what_a_handler_spawned_is_told_when_the_attempt_is_over,
    a_blocking_handler_is_a_handler_in_everything_else,
}

async fn a_delayed_event_has_an_entry_of_its_own(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| match event.attempt() {
        1 => Err(Failure::retry("once more, the same way")),
        _ => Ok(()),
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let now = queue.push(1, When::Now).await.unwrap().id();
    let later = queue.push(2, secs(10)).await.unwrap().id();
    bus.advance(secs(60)).await;
    let seen: Vec<_> = probe.seen().iter().map(|s| (s.id, s.delayed)).collect();
    assert_eq!(
        seen,
        [(now, false), (now, false), (later, true), (later, true)]
    );
}

async fn a_handler_sees_what_its_pusher_said(world: World) {
    let probe = Probe::<u64>::answering(|event, cx| {
        assert_eq!(cx.queue_name().as_str(), "orders");
        assert_eq!(event.key(), Some("order:8"));
        assert_eq!(event.header("who"), Some("me"));
        assert_eq!(event.headers().len(), 2);
        assert_eq!((event.attempt(), event.attempts()), (1, 5));
        assert_eq!(event.lateness(), secs(0));
        assert_eq!(event.due(), event.pushed().map(|pushed| pushed + secs(60)));
        Ok(())
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let event = queue.event(1).after(secs(60)).key("order:8").attempts(5);
    let event = event.header("who", "me").header("why", "");
    let id = event.push().await.unwrap().id();
    bus.advance(secs(60)).await;
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Acked]);
}

async fn a_handler_pushes_to_any_queue(world: World) {
    const CLOSED: Annotation = Annotation::new("closed");
    let closing = Probe::<u64>::running(|event, cx| {
        let queue = cx.bus().queue_named::<u64>("closed");
        async move {
            queue?.push(event.payload + 1, secs(5)).await?;
            Ok(())
        }
    });
    let closed = Probe::<u64>::new();
    let builder = world.builder().register_as(ORDERS, closing.clone());
    let bus = world
        .start(builder.register_as(CLOSED, closed.clone()))
        .await;
    bus.queue_named("orders")
        .unwrap()
        .push(7_u64, When::Now)
        .await
        .unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(
        (closed.payloads(), closed.times()),
        (vec![8], vec![secs(5)])
    );
}

async fn what_a_handler_spawned_is_told_when_the_attempt_is_over(world: World) {
    let (told, mut tokens) = mpsc::unbounded_channel();
    let probe = Probe::<u64>::running(move |event, cx| {
        told.send(cx.cancellation()).unwrap();
        async move {
            tokio::time::sleep(secs(event.payload)).await;
            Ok(())
        }
    });
    let orders = ORDERS.timeout(secs(10)).attempts(1);
    let (bus, queue) = world.serve(orders, &probe).await;
    for (takes, over_after) in [(2, ms(2_000)), (60, ms(10_030))] {
        queue.push(takes, When::Now).await.unwrap();
        bus.advance(ms(1_500)).await;
        let token = tokens.recv().await.unwrap();
        assert!(!token.is_cancelled());
        bus.advance(over_after - ms(1_500)).await;
        assert!(token.is_cancelled());
    }
}

/// Writes down the thread it runs on, and does badly where asked.
struct Compress(Mutex<Vec<(ThreadId, bool, u16)>>);

impl Compress {
    fn note(&self, event: &Event<u64>, delayed: bool) -> Result<(), Failure> {
        let mut seen = self.0.lock().unwrap();
        seen.push((thread::current().id(), delayed, event.attempt()));
        drop(seen);
        match (event.payload, event.attempt()) {
            (1, 1) => Err(Failure::retry("once more")),
            (2, 1) => panic!("and once more"),
            _ => Ok(()),
        }
    }
}

#[delay_event(queue = "orders", blocking, backoff = "fixed(1s)", register = false)]
struct Blocking(std::sync::Arc<Compress>);

impl BlockingHandler for Blocking {
    type Payload = u64;

    fn handle(&self, event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        assert!(!cx.is_cancelled());
        cx.reply(&event.payload)?;
        self.0.note(&event, false)
    }

    fn handle_delayed(&self, event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        self.0.note(&event, true)
    }
}

async fn a_blocking_handler_is_a_handler_in_everything_else(world: World) {
    let compress = std::sync::Arc::new(Compress(Mutex::default()));
    let blocking = Blocking(std::sync::Arc::clone(&compress));
    let bus = world
        .start(world.builder().register_blocking(blocking))
        .await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let mut ids = Vec::new();
    for payload in [1, 2] {
        ids.push(queue.push(payload, secs(5)).await.unwrap().id());
        bus.advance(secs(60)).await;
    }
    assert_eq!(queue.call::<u64>(3, secs(5)).await.unwrap(), 3);

    for id in ids {
        let starts = bus.starts(id).await.unwrap();
        assert_eq!(starts[1] - starts[0], secs(1));
        let outcomes = bus.outcomes(id).await.unwrap();
        assert_eq!(outcomes, [Outcome::Retried, Outcome::Acked]);
    }
    let seen = compress.0.lock().unwrap();
    let here = thread::current().id();
    assert!(seen.iter().all(|(thread, ..)| *thread != here));
    let how: Vec<_> = seen
        .iter()
        .map(|(_, how, attempt)| (*how, *attempt))
        .collect();
    assert_eq!(
        how,
        [(true, 1), (true, 2), (true, 1), (true, 2), (false, 1)]
    );
}

/// Says that it runs, and blocks until it is let go.
struct Stuck {
    running: mpsc::UnboundedSender<(u64, u16)>,
    go: Mutex<Receiver<()>>,
}

impl BlockingHandler for Stuck {
    type Payload = u64;

    fn handle(&self, event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        let _ = self.running.send((event.payload, event.attempt()));
        let _ = self.go.lock().unwrap().recv();
        assert!(event.payload != 1 || cx.is_cancelled(), "it was too slow");
        Ok(())
    }
}

#[delay_event(queue = "stuck", blocking, workers = 1, attempts = 2, register = false)]
struct Annotated(Stuck);

impl BlockingHandler for Annotated {
    type Payload = u64;

    fn handle(&self, event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        self.0.handle(event, cx)
    }
}

fn stuck() -> (Annotated, mpsc::UnboundedReceiver<(u64, u16)>, Sender<()>) {
    let (running, started) = mpsc::unbounded_channel();
    let (release, go) = channel();
    let go = Mutex::new(go);
    (Annotated(Stuck { running, go }), started, release)
}

/// On real time, since time that is virtual stands still while a thread is blocked.
#[tokio::test]
async fn a_blocking_handler_that_is_too_slow_is_told_on_at_once_and_keeps_its_place() {
    let (handler, mut started, release) = stuck();
    let choices = QueueChoices {
        timeout: Some(ms(20)),
        backoff: Some(RetryPolicy::fixed(ms(0))),
        ..QueueChoices::default()
    };
    let builder = Bus::builder().only_registered().store_url("memory:");
    let builder = builder.register_blocking(handler).queue("stuck", choices);
    let bus = builder.start().await.unwrap();
    let queue = bus.queue_named("stuck").unwrap();
    let id = queue.push(1, When::Now).await.unwrap().id();
    assert_eq!(started.recv().await, Some((1, 1)));

    let record = loop {
        let page = bus.records().id(id).page().await.unwrap();
        match page.items.into_iter().next() {
            Some(record) => break record,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(record.outcome, Outcome::Retried);
    assert_eq!(record.cause, Some(Cause::TimedOut));
    assert!(started.try_recv().is_err(), "its place is not free yet");
    assert_eq!(bus.load()[0].active, 1);

    release.send(()).unwrap();
    assert_eq!(started.recv().await, Some((1, 2)));
    release.send(()).unwrap();
    bus.shutdown(secs(5)).await.unwrap();
}

/// A stop cannot stop a thread; it says so instead of waiting for it.
#[tokio::test]
async fn a_stop_does_not_wait_for_a_thread_that_is_stuck() {
    let (handler, mut started, release) = stuck();
    let builder = Bus::builder().only_registered().store_url("memory:");
    let bus = builder.register_blocking(handler).start().await.unwrap();
    let queue = bus.queue_named("stuck").unwrap();
    let id = queue.push(2, When::Now).await.unwrap().id();
    started.recv().await.unwrap();

    bus.shutdown(ms(10)).await.unwrap();

    let page = bus.records().id(id).page().await.unwrap();
    assert_eq!(page.items[0].cause, Some(Cause::Interrupted));
    drop(release);
}
