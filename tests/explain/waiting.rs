//! What an event waits for, as far as one process can tell.

use duly::ErrorKind;
use duly::event::{BucketId, State as EventState};
use duly::explain::{HolderStatus, Reason};
use duly::prelude::*;
use duly::testing::Probe;
use duly::time::When;

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    an_event_that_is_not_due_says_in_how_long_it_is,
    an_event_that_was_spread_says_by_how_much,
    a_retry_says_which_attempt_comes_and_why,
    a_pause_is_named_before_everything_else,
    a_pause_is_named_beside_the_due_time,
    a_queue_without_workers_is_named,
    a_rate_says_how_many_wait_and_when_its_turn_comes,
    a_declared_rate_is_named_as_such,
    a_queue_that_nobody_consumes_is_named,
    an_event_that_is_due_and_was_not_moved_says_so,
    a_busy_queue_says_how_many_are_before_it,
    a_full_ring_says_so,
    a_running_handler_is_named,
    what_is_read_ahead_is_held_and_not_due,
    an_event_is_found_by_its_id_alone,
    a_person_can_read_it,
}

fn hanging() -> Probe<u64> {
    Probe::running(|_event, _cx| std::future::pending())
}

async fn an_event_that_is_not_due_says_in_how_long_it_is(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    let sent = queue.event(1).after(secs(60)).key("order:1").push().await;
    let sent = sent.unwrap();
    bus.advance(secs(20)).await;
    let explained = bus.explain(sent.id()).await.unwrap();
    assert_eq!(explained.state, Some(EventState::Scheduled));
    assert_eq!(explained.queue.as_ref().unwrap().as_str(), "orders");
    assert_eq!(explained.key.as_deref(), Some("order:1"));
    let reason = Reason::NotDue {
        due: sent.due(),
        left: secs(40),
        spread: None,
    };
    assert_eq!(explained.reasons, [reason]);
    assert!(explained.to_string().contains("due in 40s"), "{explained}");
}

async fn an_event_that_was_spread_says_by_how_much(world: World) {
    let probe = Probe::<u64>::answering(|_, _| Err(Failure::retry("not yet")));
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let asked = bus.now() + secs(60);
    let sent = queue.event(1).at(asked).spread(secs(10)).push().await;
    let sent = sent.unwrap();
    let explained = bus.explain(sent.id()).await.unwrap();
    let [
        Reason::NotDue {
            due,
            spread: Some(spread),
            ..
        },
    ] = explained.reasons[..]
    else {
        panic!("{explained}");
    };
    assert_eq!(spread.window, secs(10));
    assert_eq!(due, asked + spread.part);
    let words = explained.to_string();
    assert!(words.contains("sooner, spread over 10s"), "{words}");
    assert!(words.contains(&format!("requested {asked}")), "{words}");
    assert_eq!(
        (spread.requested_due, spread.pushed, spread.rescheduled),
        (Some(When::At(asked)), bus.now(), false)
    );
    // Another due time by hand is told from the one that it was spread to.
    let _ = queue.reschedule(sent.id(), secs(30)).await.unwrap();
    let words = bus.explain(sent.id()).await.unwrap().to_string();
    assert!(words.contains("was rescheduled since"), "{words}");
    let _ = queue.reschedule(sent.id(), due).await.unwrap();

    let after = queue.event(2).after(secs(3_600)).spread(secs(10)).push();
    let words = bus
        .explain(after.await.unwrap().id())
        .await
        .unwrap()
        .to_string();
    let expected = format!("requested 1h from {}", bus.now());
    assert!(words.contains(&expected), "{words}");

    // Between two attempts, a second apart, and not so near to the next that it is read ahead.
    bus.advance(secs(60) + spread.part + ms(500)).await;
    let _ = queue.reschedule(sent.id(), secs(60)).await.unwrap();
    let explained = bus.explain(sent.id()).await.unwrap();
    assert!(explained.tries > 0, "{explained}");
    let [Reason::NotDue { spread: None, .. }] = explained.reasons[..] else {
        panic!("a retry is not spread: {explained}");
    };
}

async fn a_retry_says_which_attempt_comes_and_why(world: World) {
    let probe = Probe::<u64>::answering(|_, _| Err(Failure::retry("the partner is away")));
    let (bus, queue) = world.serve(ORDERS.attempts(5), &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(ms(1_500)).await;
    let explained = bus.explain(id).await.unwrap();
    assert_eq!((explained.tries, explained.tries_max), (2, Some(5)));
    assert!(matches!(explained.reasons[..], [Reason::NotDue { left, .. }] if left == ms(500)));
    assert_eq!(explained.attempts.records.len(), 2);
    let words = explained.to_string();
    assert!(words.contains("before attempt 3 of 5"), "{words}");
    assert!(words.contains("failed: the partner is away"), "{words}");
}

async fn a_pause_is_named_before_everything_else(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    bus.pause("orders").await.unwrap();
    bus.set_rate("orders", Some(1.0)).await.unwrap();
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(12)).await;
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.state, Some(EventState::Ready));
    assert_eq!(explained.at.since(explained.since.unwrap()), secs(12));
    assert_eq!(explained.reasons, [Reason::Paused]);
    assert!(explained.advice()[0].contains("bus.resume(\"orders\")"));
    bus.resume("orders").await.unwrap();
    bus.set_rate("orders", None).await.unwrap();
    bus.settle().await;
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.state, Some(EventState::Done));
}

async fn a_pause_is_named_beside_the_due_time(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    bus.pause("orders").await.unwrap();
    bus.pause("others").await.unwrap();
    let id = queue.push(1, secs(60)).await.unwrap().id();
    let explained = bus.explain(id).await.unwrap();
    let [Reason::NotDue { .. }, Reason::Paused] = explained.reasons[..] else {
        panic!("{explained}");
    };
}

async fn a_queue_without_workers_is_named(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    bus.set_workers("orders", 0).unwrap();
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.reasons, [Reason::NoWorkers { everywhere: false }]);
    bus.set_workers_everywhere("orders", Some(0)).await.unwrap();
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.reasons, [Reason::NoWorkers { everywhere: true }]);
    assert!(explained.advice()[0].contains("set_workers_everywhere"));
}

async fn a_rate_says_how_many_wait_and_when_its_turn_comes(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    bus.set_rate("orders", Some(2.0)).await.unwrap();
    let sent = queue.push_many(0..100, secs(0)).await.unwrap();
    bus.advance(secs(5)).await;
    let waiting = bus.stats("orders").await.unwrap().ready;
    let mut told = 0;
    for sent in sent {
        let explained = bus.explain(sent.id()).await.unwrap();
        if explained.state != Some(EventState::Ready) {
            continue;
        }
        let reason = Reason::RateLimited {
            per_second: 2.0,
            is_declared: false,
            ready: waiting,
            turn: ms(500) * waiting as u32,
        };
        assert_eq!(explained.reasons, [reason]);
        told += 1;
    }
    assert_eq!(told, waiting);
    assert!((80..=95).contains(&waiting), "{waiting}");
}

async fn a_declared_rate_is_named_as_such(world: World) {
    let (bus, queue) = world.serve(ORDERS.rate(2.0), &Probe::<u64>::new()).await;
    let sent = queue.push_many(0..100, secs(0)).await.unwrap();
    bus.advance(secs(5)).await;
    let last = sent.last().unwrap().id();
    let limited = |is: bool| move |reason: &Reason| matches!(reason, Reason::RateLimited { is_declared, .. } if *is_declared == is);
    let mut waiting = None;
    for sent in &sent {
        let explained = bus.explain(sent.id()).await.unwrap();
        if explained.state == Some(EventState::Ready) {
            assert!(explained.reasons.iter().any(limited(true)), "{explained}");
            assert!(
                explained.to_string().contains("2 per second, as declared"),
                "{explained}"
            );
            waiting = Some(sent.id());
        }
    }
    let waiting = waiting.unwrap_or(last);
    bus.set_rate("orders", Some(1.0)).await.unwrap();
    let explained = bus.explain(waiting).await.unwrap();
    assert!(explained.reasons.iter().any(limited(false)), "{explained}");
}

async fn a_queue_that_nobody_consumes_is_named(world: World) {
    let (bus, _queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    let lonely = bus.queue_named::<u64>("lonely").unwrap();
    let id = lonely.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(9)).await;
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.reasons, [Reason::NoConsumer { others: 1 }]);
    assert!(explained.advice()[0].contains("consumes queue lonely"));
}

async fn an_event_that_is_due_and_was_not_moved_says_so(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let id = queue.push(1, secs(5)).await.unwrap().id();
    bus.advance(secs(65)).await;
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.state, Some(EventState::Scheduled));
    let reasons = [
        Reason::NotMoved { late: secs(60) },
        Reason::NoConsumer { others: 0 },
    ];
    assert_eq!(explained.reasons, reasons);
}

async fn a_busy_queue_says_how_many_are_before_it(world: World) {
    // A ring that takes one event a worker, so that the others wait in the store.
    let (bus, queue) = world.serve(ORDERS.workers(64).ring(64), &hanging()).await;
    queue.push_many(0..64, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    let ids = queue.push_many(0..10, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    let explained = bus.explain(ids[9].id()).await.unwrap();
    let [
        Reason::Behind {
            ready: 10,
            leased: 64,
            consumers: 1,
            here: Some(here),
        },
    ] = &explained.reasons[..]
    else {
        panic!("{explained}");
    };
    assert_eq!((here.active, here.workers), (64, 64));
    assert!(explained.advice()[0].contains("more workers"));
}

async fn a_full_ring_says_so(world: World) {
    let (bus, queue) = world.serve(ORDERS.workers(2).ring(64), &hanging()).await;
    queue.push_many(0..64, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    // What is pushed wakes its bucket, which fetches while there is any room.
    for _ in 0..64 {
        queue.push(0, When::Now).await.unwrap();
        bus.advance(secs(1)).await;
    }
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let explained = bus.explain(id).await.unwrap();
    let [
        Reason::Behind {
            here: Some(here), ..
        },
    ] = &explained.reasons[..]
    else {
        panic!("{explained}");
    };
    assert_eq!((here.queued, here.active, here.ring), (62, 2, 64));
    let words = explained.to_string();
    assert!(words.contains("62 of 64 wait in the ring"), "{words}");
}

async fn a_running_handler_is_named(world: World) {
    let (bus, queue) = world.serve(ORDERS, &hanging()).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(7)).await;
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.at.since(explained.since.unwrap()), secs(7));
    let [
        Reason::Held {
            node,
            until: None,
            standing: HolderStatus::Here { runs: true, .. },
            ..
        },
    ] = explained.reasons[..]
    else {
        panic!("{explained}");
    };
    assert_eq!(node, bus.node_id());
    let words = explained.to_string();
    assert!(words.contains("its handler runs"), "{words}");
    assert!(words.contains("no attempt has ended yet"), "{words}");
}

async fn what_is_read_ahead_is_held_and_not_due(world: World) {
    let (bus, queue) = world.serve(ORDERS, &hanging()).await;
    let id = queue.push(1, secs(1)).await.unwrap().id();
    bus.advance(ms(950)).await;
    let explained = bus.explain(id).await.unwrap();
    let [
        Reason::Held {
            standing: HolderStatus::Here { runs: false, .. },
            ..
        },
        Reason::NotDue { left, .. },
    ] = explained.reasons[..]
    else {
        panic!("{explained}");
    };
    assert_eq!(left, ms(50));
    assert!(explained.advice().is_empty(), "{explained}");
}

async fn an_event_is_found_by_its_id_alone(world: World) {
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    let mut ids = Vec::new();
    for number in 0..50 {
        let name = format!("queue-{number}");
        let queue = bus.queue_named::<u64>(&name).unwrap();
        for sent in queue.push_many(0..20, secs(60)).await.unwrap() {
            ids.push((name.clone(), sent.id()));
        }
    }
    for (name, id) in ids {
        let explained = bus.explain(id).await.unwrap();
        assert_eq!(explained.queue.unwrap().as_str(), name);
    }
}

/// The guide to operations shows this one.
async fn a_person_can_read_it(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| match event.attempt() {
        1 => Err(Failure::retry("503\nService Unavailable")),
        _ => panic!("out of paper"),
    });
    let (bus, queue) = world.serve(ORDERS.attempts(16), &probe).await;
    let id = EventId::from_parts(bus.now(), BucketId(3), 0x5eed_5eed_5eed_5eed);
    let event = queue.event(1).after(secs(60)).key("order:7").id(id);
    event.push().await.unwrap();
    bus.advance(secs(61)).await;
    bus.pause("orders").await.unwrap();
    bus.advance(secs(90)).await;
    let expected = "\
event 01KDVDNA00001NXVAYXNFETQQD of queue orders, key order:7
is    ready for 1m29s, since 2026-01-01T00:01:02.000Z, before attempt 3 of 16
why   the queue is paused on every node
do    bus.resume(\"orders\") resumes it
past  2026-01-01T00:01:00.000Z  attempt 1 retried after 0s, failed: 503\\nService Unavailable
past  2026-01-01T00:01:01.000Z  attempt 2 retried after 0s, panicked: out of paper";
    assert_eq!(bus.explain(id).await.unwrap().to_string(), expected);
    let guide = include_str!("../../src/docs/operations.md");
    assert!(guide.contains(expected), "the guide shows something else");
}

#[test]
fn advice_that_names_a_section_names_one_of_the_guide() {
    let (by, is_ahead) = (secs(3), true);
    let (kind, error) = (ErrorKind::Corrupt, String::new());
    let guide = include_str!("../../src/docs/operations.md");
    for reason in [
        Reason::ClockDiffers { by, is_ahead },
        Reason::StoreAway { kind, error },
    ] {
        let id = EventId::from_parts(Default::default(), BucketId(0), 1);
        let advice = reason.advice(id, "orders").unwrap();
        let section = advice.split('`').nth(1).unwrap();
        assert!(guide.contains(&format!("\n## {section}\n")), "{advice}");
    }
}
