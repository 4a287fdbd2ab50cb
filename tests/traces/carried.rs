//! The place in a trace that an event carries, from its push to its handler and on.

use std::sync::{Arc, Mutex};

use duly::event::TraceContext;
use duly::prelude::*;
use duly::testing::{Probe, TestBus};
use duly::{Annotated, Annotation};

use crate::traces::kit::{ORDERS, PLACE, STATE, TRACE, orders, secs};

const NEXT: Annotation = Annotation::new("next").buckets(1);

/// What the handlers of a queue saw.
type Seen = Arc<Mutex<Vec<(u64, Option<TraceContext>)>>>;

fn seeing(seen: &Seen) -> Probe<u64> {
    let seen = Arc::clone(seen);
    Probe::answering(move |event: &Event<u64>, _cx| {
        seen.lock().unwrap().push((event.payload, event.trace()));
        Ok(())
    })
}

fn place() -> Option<TraceContext> {
    TraceContext::new(PLACE, Some(STATE))
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_set_by_hand_reaches_the_handler_and_the_record() {
    let seen = Seen::default();
    let (bus, queue) = orders(ORDERS, seeing(&seen)).await;
    let event = queue.event(7).header("traceparent", PLACE);
    let sent = event.header("tracestate", STATE).push().await.unwrap();
    queue.push(8, When::Now).await.unwrap();
    bus.advance(secs(1)).await;

    assert_eq!(*seen.lock().unwrap(), [(7, place()), (8, None)]);
    let history = bus.history(sent.id()).await.unwrap();
    assert_eq!(history[0].trace, Some(TRACE.parse().unwrap()));
}

/// A bus with a handler that pushes to a queue whose handler sees.
async fn chain(handler: Probe<u64>, seen: &Seen) -> (TestBus, Queue<u64>) {
    let builder = Bus::builder().only_registered();
    let builder = builder.register_as(ORDERS, handler);
    let bus = TestBus::start(builder.register_as(NEXT, seeing(seen))).await;
    let bus = bus.unwrap();
    let queue = bus.queue_named("orders").unwrap();
    (bus, queue)
}

fn next(cx: &Context) -> Queue<u64> {
    cx.bus().queue_named("next").unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_pushes_carries_on_the_trace() {
    let seen = Seen::default();
    let pushing = Probe::running(|event: Event<u64>, cx| {
        let next = next(cx);
        async move {
            next.push(event.payload, When::Now).await?;
            next.push_many([event.payload + 1], secs(1)).await?;
            Ok(())
        }
    });
    let (bus, queue) = chain(pushing, &seen).await;
    let event = queue.event(7).header("traceparent", PLACE);
    event.header("tracestate", STATE).push().await.unwrap();
    bus.advance(secs(5)).await;
    assert_eq!(*seen.lock().unwrap(), [(7, place()), (8, place())]);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_run_at_once_do_not_carry_on_each_others_trace() {
    let seen = Seen::default();
    let pushing = Probe::running(|event: Event<u64>, cx| {
        let next = next(cx);
        async move {
            tokio::time::sleep(secs(event.payload)).await;
            next.push(event.payload, When::Now).await?;
            Ok(())
        }
    });
    let (bus, queue) = chain(pushing, &seen).await;
    for (payload, is_traced) in [(1, false), (2, true), (3, false), (4, true)] {
        let event = queue.event(payload);
        let event = if is_traced {
            event.header("traceparent", PLACE)
        } else {
            event
        };
        event.push().await.unwrap();
    }
    bus.advance(secs(10)).await;
    let traced = seen
        .lock()
        .unwrap()
        .iter()
        .map(|(payload, trace)| (*payload, trace.is_some()))
        .collect::<Vec<_>>();
    assert_eq!(traced, [(1, false), (2, true), (3, false), (4, true)]);
}

/// Pushes from a thread of its own.
struct Blocks;

impl Annotated for Blocks {
    type Value = u64;
    const ANNOTATION: Annotation = ORDERS.blocking();
}

impl BlockingHandler for Blocks {
    type Payload = u64;

    fn handle(&self, event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        let runtime = tokio::runtime::Handle::current();
        runtime.block_on(next(cx).push(event.payload, When::Now))?;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_blocking_handler_pushes_carries_on_the_trace() {
    let seen = Seen::default();
    let builder = Bus::builder().only_registered();
    let builder = builder.register_blocking(Blocks);
    let bus = TestBus::start(builder.register_as(NEXT, seeing(&seen))).await;
    let bus = bus.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let event = queue.event(7).header("traceparent", PLACE);
    event.header("tracestate", STATE).push().await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(*seen.lock().unwrap(), [(7, place())]);
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_says_by_hand_is_not_overruled() {
    const OTHER: &str = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00";
    let seen = Seen::default();
    let pushing = Probe::running(|event: Event<u64>, cx| {
        let next = next(cx).event(event.payload);
        async move {
            next.header("traceparent", OTHER).push().await?;
            Ok(())
        }
    });
    let (bus, queue) = chain(pushing, &seen).await;
    let event = queue.event(7).header("traceparent", PLACE);
    event.header("tracestate", STATE).push().await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(*seen.lock().unwrap(), [(7, TraceContext::new(OTHER, None))]);
}

#[tokio::test(start_paused = true)]
async fn an_event_without_room_for_another_header_is_pushed_without_a_trace() {
    let seen = Seen::default();
    let pushing = Probe::running(|event: Event<u64>, cx| {
        let mut full = next(cx).event(event.payload);
        let mut nearly = next(cx).event(event.payload + 1);
        for number in 0..32 {
            full = full.header(format!("h{number}"), "");
            nearly = match number {
                0 => nearly,
                _ => nearly.header(format!("h{number}"), ""),
            };
        }
        async move {
            full.push().await?;
            nearly.push().await?;
            Ok(())
        }
    });
    let (bus, queue) = chain(pushing, &seen).await;
    let event = queue.event(7).header("traceparent", PLACE);
    event.header("tracestate", STATE).push().await.unwrap();
    bus.advance(secs(1)).await;
    let without_state = TraceContext::new(PLACE, None);
    assert_eq!(*seen.lock().unwrap(), [(7, None), (8, without_state)]);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_place_is_no_error_and_goes_nowhere() {
    let seen = Seen::default();
    let pushing = Probe::running(|event: Event<u64>, cx| {
        let next = next(cx);
        async move {
            next.push(event.payload, When::Now).await?;
            Ok(())
        }
    });
    let (bus, queue) = chain(pushing, &seen).await;
    let malformed = [
        "",
        "-",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
        "\u{e4}0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ];
    for text in malformed {
        assert_eq!(TraceContext::new(text, None), None, "{text:?}");
        let event = queue.event(7).header("traceparent", text);
        event.header("tracestate", STATE).push().await.unwrap();
    }
    bus.advance(secs(1)).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), malformed.len());
    assert!(seen.iter().all(|(_, trace)| trace.is_none()));
}

#[test]
fn a_state_that_is_none_is_left_out() {
    let long = "k=".to_owned() + &"v".repeat(511);
    let state = |text| TraceContext::new(PLACE, Some(text)).unwrap();
    assert_eq!(state(&long[..512]).tracestate(), Some(&long[..512]));
    for text in ["", &long, "k=\n", "k=\u{e4}"] {
        assert_eq!(state(text).tracestate(), None, "{text:?}");
    }
    let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more";
    assert!(
        TraceContext::new(later, None).is_some(),
        "a later version may say more"
    );
}
