//! A person is erased: what is stored under a key goes, that it was and how it ended stays.

use std::sync::Arc;

use duly::dead_letters::DeadLetters;
use duly::prelude::*;
use duly::records::Record;
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    what_waits_is_not_erased_unasked,
    what_waits_is_cancelled_where_that_is_asked_for,
    records_lose_what_they_hold_and_keep_how_it_ended,
    dead_letters_go_and_what_runs_is_told,
    what_dies_meanwhile_is_dropped_and_what_is_revived_meanwhile_is_cancelled,
    other_keys_and_other_queues_keep_theirs,
    a_dry_run_counts_and_changes_nothing,
    an_erasure_goes_on_step_by_step,
    an_erasure_is_in_the_audit_once,
    many_of_another_namespace_hide_none_and_are_not_shown,
    many_that_run_hide_none_that_wait,
}

const ANN: &str = "customer:8";

async fn push(queue: &Queue<String>, key: &str, after: std::time::Duration) -> EventId {
    let event = queue.event("Dear Ann".to_owned()).after(after);
    event.key(key).push().await.unwrap().id()
}

/// Ends in every way that a record has: with an error, and with a payload.
fn failing() -> Probe<String> {
    Probe::answering(|event: &Event<String>, _cx| {
        Err(Failure::discard(format!("no address: {}", event.payload)))
    })
}

async fn records(bus: &TestBus, key: &str) -> Vec<Record> {
    let page = bus.records().key(key).limit(1_000).page().await.unwrap();
    page.items
}

fn dead(bus: &TestBus) -> DeadLetters {
    bus.dead_letters().key(ANN)
}

async fn what_waits_is_not_erased_unasked(world: World) {
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &failing()).await;
    push(&queue, ANN, ms(0)).await;
    bus.advance(secs(1)).await;
    let id = push(&queue, ANN, secs(60)).await;
    let error = bus.erase(ANN).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error.to_string().contains("1 event with this key waits"),
        "{error}"
    );
    assert!(
        records(&bus, ANN).await[0].has_content(),
        "nothing was erased"
    );
    assert!(bus.event(id).await.unwrap().unwrap().payload.is_some());
    assert!(bus.audit(None, 10).await.unwrap().items.is_empty());
}

async fn what_waits_is_cancelled_where_that_is_asked_for(world: World) {
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &failing()).await;
    let ids = [
        push(&queue, ANN, secs(60)).await,
        push(&queue, ANN, secs(90)).await,
    ];
    let report = bus.erase(ANN).cancel().run().await.unwrap();
    assert_eq!((report.cancelled, report.running), (2, 0));
    for id in ids {
        assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::Cancelled]);
    }
    let records = records(&bus, ANN).await;
    assert_eq!(records.len(), 2, "that they were stays");
    assert!(!records.iter().any(Record::has_content), "{records:?}");
    let again = bus.erase(ANN).cancel().run().await.unwrap();
    assert_eq!(again, Default::default(), "it may be repeated");
}

async fn records_lose_what_they_hold_and_keep_how_it_ended(world: World) {
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &failing()).await;
    for _ in 0..3 {
        push(&queue, ANN, ms(0)).await;
    }
    bus.advance(secs(1)).await;
    let before = records(&bus, ANN).await;
    assert!(
        before
            .iter()
            .all(|it| it.payload.is_some() && it.error.is_some())
    );
    let report = bus.erase(ANN).run().await.unwrap();
    assert_eq!((report.records, report.unreached), (3, 0));
    let after = records(&bus, ANN).await;
    let expected = before.into_iter().map(|mut record| {
        record.erase();
        record
    });
    assert_eq!(after, expected.collect::<Vec<_>>());
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let (bus, _queue) = world.serve(ORDERS, &Probe::<String>::new()).await;
    assert_eq!(records(&bus, ANN).await, after, "also for the next process");
}

async fn dead_letters_go_and_what_runs_is_told(world: World) {
    let runs = std::sync::Arc::new(tokio::sync::Notify::new());
    let ends = std::sync::Arc::clone(&runs);
    let probe = Probe::running(move |event: Event<String>, _cx| {
        let ends = std::sync::Arc::clone(&ends);
        async move {
            if event.payload == "runs" {
                ends.notified().await;
                return Ok(());
            }
            Err(Failure::retry(event.payload))
        }
    });
    let (bus, queue) = world
        .serve(ORDERS.keep_payload(true).attempts(1), &probe)
        .await;
    let letter = push(&queue, ANN, ms(0)).await;
    let running = queue.event("runs".to_owned()).key(ANN);
    let running = running.push().await.unwrap().id();
    bus.advance(secs(1)).await;
    assert_eq!(dead(&bus).page().await.unwrap().items.len(), 1);

    let report = bus.erase(ANN).by("ann").run().await.unwrap();
    assert_eq!((report.dropped, report.running), (1, 1));
    assert!(dead(&bus).page().await.unwrap().items.is_empty());
    let history = bus.history(letter).await.unwrap();
    let outcomes: Vec<_> = history.iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, [Outcome::Buried, Outcome::Dropped]);
    assert_eq!(history[1].by.as_deref(), Some("ann"));
    assert!(!history.iter().any(Record::has_content), "{history:?}");

    runs.notify_one();
    bus.advance(secs(1)).await;
    assert!(bus.history(running).await.unwrap()[0].has_content());
    let report = bus.erase(ANN).run().await.unwrap();
    assert_eq!((report.records, report.running), (1, 0));
    assert!(!records(&bus, ANN).await.iter().any(Record::has_content));
}

async fn what_dies_meanwhile_is_dropped_and_what_is_revived_meanwhile_is_cancelled(world: World) {
    let dies = Probe::<String>::answering(|_event, _cx| Err(Failure::permanent("no")));
    let way = Faulty::to(&world.store);
    let (bus, queue) = world.serve_by(Arc::clone(&way) as _, ORDERS, &dies).await;
    let id = push(&queue, ANN, secs(60)).await;
    // It has its only attempt between the look at it and the cancellation.
    way.meets(move |_, op| match op {
        StoreOp::Cancel { id: it } if *it == id => Fault::LatePolicy(secs(61)),
        _ => Fault::None,
    });
    let report = bus.erase(ANN).cancel().run().await.unwrap();
    assert_eq!(
        (report.cancelled, report.dropped, report.running),
        (0, 1, 0)
    );
    assert_eq!(dies.count(), 1);
    assert!(dead(&bus).page().await.unwrap().items.is_empty());

    let id = push(&queue, ANN, ms(0)).await;
    bus.advance(secs(1)).await;
    bus.pause("orders").await.unwrap();
    way.meets(|_, op| match op {
        StoreOp::Drop { .. } => Fault::LatePolicy(secs(2)),
        _ => Fault::None,
    });
    let revive = async {
        bus.advance(secs(1)).await;
        bus.dead_letters().revive([id]).await.unwrap().done
    };
    let (report, revived) = tokio::join!(bus.erase(ANN).cancel().run(), revive);
    assert_eq!(revived, 1);
    let report = report.unwrap();
    assert_eq!(
        (report.cancelled, report.dropped, report.running),
        (1, 0, 0)
    );
    assert_eq!(dies.count(), 2);
}

async fn other_keys_and_other_queues_keep_theirs(world: World) {
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &failing()).await;
    let others = bus.queue_named::<String>("shop.mail").unwrap();
    push(&queue, ANN, ms(0)).await;
    push(&queue, "customer:80", ms(0)).await;
    let letter = push(&others, ANN, secs(60)).await;
    bus.advance(secs(1)).await;
    let report = bus.erase(ANN).queue("orders").run().await.unwrap();
    assert_eq!(
        report.records, 1,
        "what waits in another queue is no reason to refuse"
    );
    assert!(records(&bus, "customer:80").await[0].has_content());
    assert!(others.get(letter).await.unwrap().is_some());

    let report = bus
        .erase(ANN)
        .namespace("shop")
        .cancel()
        .run()
        .await
        .unwrap();
    assert_eq!(report.cancelled, 1);
    let error = bus.erase("").run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = bus.erase(ANN).by("").run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

async fn a_dry_run_counts_and_changes_nothing(world: World) {
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &failing()).await;
    push(&queue, ANN, ms(0)).await;
    bus.advance(secs(1)).await;
    let id = push(&queue, ANN, secs(60)).await;
    let report = bus.erase(ANN).dry_run().run().await.unwrap();
    assert_eq!((report.cancelled, report.records), (1, 1));
    assert!(records(&bus, ANN).await[0].has_content());
    assert!(bus.event(id).await.unwrap().unwrap().payload.is_some());
    assert!(bus.audit(None, 10).await.unwrap().items.is_empty());
}

async fn an_erasure_goes_on_step_by_step(world: World) {
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &failing()).await;
    for _ in 0..2_100 {
        push(&queue, ANN, ms(0)).await;
    }
    bus.advance(secs(10)).await;
    let (mut next, mut steps, mut erased) = (None, 0, 0);
    loop {
        // Each step by what a text says of the one before, as over HTTP.
        let step = bus.erase(ANN).step(next).await.unwrap();
        erased += step.report.records;
        steps += 1;
        let Some(then) = step.next else { break };
        next = Some(then.to_string().parse().unwrap());
    }
    assert_eq!(erased, 2_100);
    assert!(steps < 20, "{steps} steps");
    assert!(!records(&bus, ANN).await.iter().any(Record::has_content));
}

async fn an_erasure_is_in_the_audit_once(world: World) {
    let (bus, queue) = world.serve(ORDERS.keep_payload(true), &failing()).await;
    push(&queue, ANN, ms(0)).await;
    bus.advance(secs(1)).await;
    bus.erase(ANN)
        .queue("orders")
        .by("ann")
        .run()
        .await
        .unwrap();
    let audit = bus.audit(None, 10).await.unwrap();
    assert_eq!(audit.items.len(), 1);
    let line = &audit.items[0];
    assert_eq!(&*line.actor, "ann");
    assert_eq!(&*line.action, "events of a key erased");
    assert_eq!(&*line.target, "orders, key customer:8");
}

/// More than a step looks at.
const MANY: usize = 10_500;

async fn push_many(queue: &Queue<String>, many: usize, after: std::time::Duration) {
    for first in (0..many).step_by(1_000) {
        let events = (first..many.min(first + 1_000)).map(|_| {
            let event = queue.event("Dear Ann".to_owned());
            event.key(ANN).keep_payload(true)
        });
        queue.push_many(events, after).await.unwrap();
    }
}

async fn many_of_another_namespace_hide_none_and_are_not_shown(world: World) {
    let (bus, _queue) = world.serve(ORDERS, &failing()).await;
    let theirs = bus.queue_named::<String>("acme.mail").unwrap();
    let own = bus.queue_named::<String>("shop.mail").unwrap();
    push_many(&theirs, MANY, secs(3_600)).await;
    push_many(&own, 2, secs(3_600)).await;
    // Records of theirs, more than a page has.
    let mut gone = 0;
    while gone <= 1_000 {
        let page = theirs.events().key(ANN).limit(1_000).page().await.unwrap();
        for event in &page.items {
            let _ = event.cancel().await.unwrap();
        }
        gone += page.items.len();
    }
    let refused = bus.erase(ANN).namespace("shop").run().await.unwrap_err();
    assert!(
        refused.to_string().contains("2 events with this key wait"),
        "{refused}"
    );
    let step = bus.erase(ANN).namespace("shop").cancel().step(None).await;
    let step = step.unwrap();
    assert_eq!((step.report.cancelled, step.report.records), (2, 2));
    assert_eq!(
        step.next, None,
        "another step would show that others are there"
    );
    let (mut left, mut next) = (0, None);
    loop {
        let page = theirs
            .events()
            .key(ANN)
            .limit(1_000)
            .after(next)
            .page()
            .await;
        let page = page.unwrap();
        left += page.items.len();
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(left, MANY - gone);
}

async fn many_that_run_hide_none_that_wait(world: World) {
    let (bus, _queue) = world.serve(ORDERS, &failing()).await;
    let queue = bus.queue_named::<String>("shop.mail").unwrap();
    push_many(&queue, MANY, ms(0)).await;
    let mut leased = Vec::new();
    while leased.len() < MANY {
        let more = queue.lease(1_000, secs(600)).send().await.unwrap();
        assert!(!more.is_empty(), "{} of {MANY} are leased", leased.len());
        leased.extend(more);
    }
    push_many(&queue, 2, secs(3_600)).await;
    let refused = bus.erase(ANN).run().await.unwrap_err();
    // A step looks at ten pages, in the order of hashes of ids: one of the two may be on a later page.
    let messages = [
        "at least 1 event with this key waits",
        "2 events with this key wait",
    ];
    let refused = refused.to_string();
    assert!(messages.iter().any(|it| refused.contains(it)), "{refused}");
    let dry = bus.erase(ANN).cancel().dry_run().run().await.unwrap();
    assert_eq!((dry.cancelled, dry.running), (2, MANY as u64));
    let report = bus.erase(ANN).cancel().run().await.unwrap();
    assert_eq!((report.cancelled, report.running), (2, MANY as u64));
}
