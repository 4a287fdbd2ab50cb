//! The spans of a push, an attempt and its settling.

use duly::prelude::*;
use duly::testing::{Probe, TestBus};
use duly::trace::names;
use duly::{Annotated, Annotation};
use tracing::{Dispatch, Level};

use crate::traces::capture::Capture;
use crate::traces::kit::{ORDERS, PLACE, TRACE, orders, secs};

#[tokio::test(start_paused = true)]
async fn a_push_an_attempt_and_its_settling_are_spans() {
    let capture = Capture::everything();
    let (bus, queue) = orders(ORDERS, Probe::new()).await;
    let event = queue.event(7).after(secs(60)).header("traceparent", PLACE);
    let receipt = event.push().await.unwrap();
    bus.advance(secs(61)).await;

    let [push] = &capture.spans(names::PUSH)[..] else {
        panic!("one push: {:?}", capture.all());
    };
    let id = receipt.id().to_string();
    assert_eq!(push.field(names::QUEUE), "orders");
    assert_eq!(push.field(names::ID), id);
    assert_eq!(push.field(names::BUCKET), "0");
    assert_eq!(push.field(names::EVENTS), "1");
    assert_eq!(push.field(names::DUE), receipt.due().to_string());
    assert_eq!(push.field(names::OUTCOME), names::ACCEPTED);

    let [handle] = &capture.spans(names::HANDLE)[..] else {
        panic!("one attempt: {:?}", capture.all());
    };
    assert_eq!(handle.field(names::QUEUE), "orders");
    assert_eq!(handle.field(names::ID), id);
    assert_eq!(handle.field(names::ATTEMPT), "1");
    assert_eq!(handle.field(names::ATTEMPTS), "16");
    assert_eq!(handle.field(names::DUE), receipt.due().to_string());
    assert_eq!(handle.field(names::LATE_US), "0");
    assert_eq!(handle.field(names::TRACE), TRACE);
    assert_eq!(handle.field(names::OUTCOME), "acked");

    let [settle] = &capture.spans(names::SETTLE)[..] else {
        panic!("one settling: {:?}", capture.all());
    };
    assert_eq!(settle.field(names::QUEUE), "orders");
    assert_eq!(settle.field(names::EVENTS), "1");
    assert_eq!(settle.field(names::OUTCOME), names::SETTLED);
    for span in [push, handle, settle] {
        assert_eq!((span.level, &*span.target), (Level::DEBUG, names::SPANS));
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_lies_in_its_pushers_span_and_an_attempt_in_none() {
    let capture = Capture::everything();
    let (bus, queue) = orders(ORDERS, Probe::new()).await;
    let pusher = tracing::info_span!("request");
    let push = tracing::Instrument::instrument(queue.push(7, When::Now), pusher.clone());
    push.await.unwrap();
    let _open = pusher.entered(); // whoever polls has a span open, which is none of the handler's
    bus.advance(secs(1)).await;

    assert_eq!(capture.spans(names::PUSH)[0].within, Some("request"));
    assert_eq!(capture.spans(names::HANDLE)[0].within, None);
    assert_eq!(capture.spans(names::SETTLE)[0].within, None);
}

#[tokio::test(start_paused = true)]
async fn a_push_of_many_is_one_span() {
    let capture = Capture::everything();
    let (_bus, queue) = orders(ORDERS, Probe::new()).await;
    queue.push_many(0..100, secs(60)).await.unwrap();
    let [push] = &capture.spans(names::PUSH)[..] else {
        panic!("one push: {:?}", capture.all());
    };
    assert_eq!(push.field(names::EVENTS), "100");
    assert_eq!(push.field(names::OUTCOME), names::ACCEPTED);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_span_that_says_how_it_ended() {
    let capture = Capture::everything();
    let probe = Probe::answering(|event: &Event<u64>, _cx| match event.attempt() {
        1 => Err(Failure::retry("the bank is closed")),
        2 => panic!("the bank has gone"),
        _ => Err(Failure::permanent("the bank never was")),
    });
    let (bus, queue) = orders(ORDERS, probe).await;
    queue.push(7, When::Now).await.unwrap();
    bus.advance(secs(60)).await;

    let attempts = capture.spans(names::HANDLE);
    let told = |name| attempts.iter().map(move |span| span.field(name));
    assert!(told(names::OUTCOME).eq(["retried", "retried", "buried"]));
    assert!(told(names::CAUSE).eq(["failed", "panicked", "failed"]));
    let words = [
        "the bank is closed",
        "the bank has gone",
        "the bank never was",
    ];
    assert!(told(names::ERROR).eq(words));
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_says_lies_in_its_span_also_after_it_was_suspended() {
    let capture = Capture::everything();
    let probe = Probe::running(|event: Event<u64>, _cx| async move {
        tokio::time::sleep(secs(event.payload)).await;
        tracing::info!(target: "mine", "awake");
        Ok(())
    });
    let (bus, queue) = orders(ORDERS, probe).await;
    queue.push(2, When::Now).await.unwrap();
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(5)).await;

    let lines = capture.lines("mine");
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.within == Some(names::HANDLE)));
}

/// Says something on a thread of its own.
struct Blocks(Dispatch);

impl Annotated for Blocks {
    type Value = u64;
    const ANNOTATION: Annotation = ORDERS.blocking();
}

impl BlockingHandler for Blocks {
    type Payload = u64;

    fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        // The test's listener hears only its own thread.
        tracing::dispatcher::with_default(&self.0, || tracing::info!(target: "mine", "here"));
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_blocking_handler_says_lies_in_its_span() {
    let capture = Capture::everything();
    let handler = Blocks(capture.dispatch.clone());
    let builder = Bus::builder().only_registered();
    let bus = TestBus::start(builder.register_blocking(handler)).await;
    let bus = bus.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.push(7, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(capture.lines("mine")[0].within, Some(names::HANDLE));
}

#[tokio::test(start_paused = true)]
async fn there_are_no_spans_at_the_ordinary_level() {
    let capture = Capture::at(Level::INFO);
    let probe = Probe::new();
    let (bus, queue) = orders(ORDERS, probe.clone()).await;
    queue.push(7, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), 1);
    let spans = [names::PUSH, names::HANDLE, names::SETTLE];
    assert!(spans.iter().all(|name| capture.spans(name).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_push_that_fails_says_so() {
    let capture = Capture::everything();
    let (bus, queue) = orders(ORDERS, Probe::new()).await;
    let id = queue.new_id();
    queue.event(7).id(id).push().await.unwrap();
    queue.event(7).id(id).push().await.unwrap();
    queue.event(8).id(id).push().await.unwrap_err();
    drop(bus);
    let pushes = capture.spans(names::PUSH);
    let outcomes = pushes.iter().map(|push| push.field(names::OUTCOME));
    assert!(outcomes.eq([names::ACCEPTED, names::DUPLICATE, names::FAILED]));
    assert!(pushes[2].field(names::ERROR).contains("another payload"));
}
