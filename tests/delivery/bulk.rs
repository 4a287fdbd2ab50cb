//! Many events are changed a page at a time, each once, and what is pushed meanwhile is left alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duly::Bus;
use duly::admin::{ChangedPage, EventAction, Events};
use duly::event::State as EventState;
use duly::prelude::*;
use duly::store::Store;
use duly::store::operation::StoreOp;
use duly::testing::Probe;
use parking_lot::Mutex;

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    what_matches_is_cancelled_page_by_page,
    what_matches_is_due_at_another_time,
    a_count_changes_nothing,
    one_id_in_two_queues_is_two_events,
    what_is_pushed_meanwhile_is_left_alone,
    what_a_clock_that_was_ahead_has_pushed_is_not_left_out,
    what_runs_and_what_is_dead_stays,
    a_schedule_is_none_of_the_events,
    one_that_is_so_already_is_left_alone,
    a_page_that_failed_midway_is_changed_again,
    one_that_is_run_and_fails_waits_for_its_retry,
    each_of_many_that_are_run_and_fail_waits_for_its_retry,
}

/// How many events a page of a sweep is asked for.
const LIMIT: u64 = 10;
/// How many more it may change.
const MORE: u64 = 8;

/// Goes through all pages, each time from the text of a cursor, and sums up.
async fn sweep(events: impl Fn() -> Events, action: Option<EventAction>) -> (u64, u64, usize) {
    let (mut sum, mut after) = ((0, 0, 0), None);
    loop {
        let events = events().limit(LIMIT as usize).after(after);
        let ChangedPage {
            matched,
            changed,
            next,
            ..
        } = events.change_page(action).await.unwrap();
        assert!(changed <= LIMIT + MORE, "{changed} at once: too fast");
        sum = (sum.0 + matched, sum.1 + changed, sum.2 + 1);
        let Some(next) = next else { return sum };
        after = Some(next.to_string().parse().unwrap());
        assert_eq!(after, Some(next));
    }
}

async fn push(bus: &Bus, queue: &str, many: u64) {
    let queue = bus.queue_named::<u64>(queue).unwrap();
    for number in 0..many {
        let key = format!("customer:{}", number % 3);
        let event = queue.event(number).after(secs(600 + number)).key(key);
        event.push().await.unwrap();
    }
}

async fn what_matches_is_cancelled_page_by_page(world: World) {
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    push(&bus, "orders", 90).await;
    push(&bus, "mail", 30).await;
    let of_customer = || bus.events().key("customer:1");
    let (matched, changed, pages) = sweep(of_customer, Some(EventAction::Cancel)).await;
    assert_eq!((matched, changed), (40, 40));
    assert!(pages >= 4, "{pages}");
    let of_orders = || bus.events().queue("orders");
    let (matched, changed, _) = sweep(of_orders, Some(EventAction::Cancel)).await;
    assert_eq!((matched, changed), (60, 60));
    assert_eq!(bus.stats("mail").await.unwrap().scheduled, 20);
}

async fn what_matches_is_due_at_another_time(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    push(&bus, "orders", 60).await;
    let early = bus.now() + secs(630);
    let now = EventAction::Reschedule(When::Now);
    let (matched, changed, _) = sweep(|| bus.events().until(early), Some(now)).await;
    assert_eq!((matched, changed), (30, 30));
    bus.settle().await;
    assert_eq!(probe.count(), 30);
    let later = EventAction::Reschedule(When::After(secs(10_000)));
    let (matched, changed, _) = sweep(|| bus.events(), Some(later)).await;
    assert_eq!((matched, changed), (30, 30));
    bus.advance(secs(9_999)).await;
    assert_eq!(probe.count(), 30);
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), 60);
}

async fn a_count_changes_nothing(world: World) {
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    push(&bus, "orders", 60).await;
    let of_customer = || bus.events().key("customer:1");
    assert_eq!(sweep(of_customer, None).await.0, 20);
    assert_eq!(bus.stats("orders").await.unwrap().scheduled, 60);
}

async fn one_id_in_two_queues_is_two_events(world: World) {
    let (bus, orders) = world.push_only::<u64>("orders").await;
    let mail = bus.queue_named::<u64>("mail").unwrap();
    for number in 0..30 {
        let event = orders.event(number).after(secs(600)).key("customer:1");
        let id = event.push().await.unwrap().id();
        let event = mail.event(number).after(secs(600)).key("customer:1");
        event.id(id).push().await.unwrap();
    }
    let of_customer = || bus.events().key("customer:1");
    assert_eq!(sweep(of_customer, None).await.0, 60);
    let later = EventAction::Reschedule(When::After(secs(10_000)));
    for action in [later, EventAction::Cancel] {
        let (matched, changed, _) = sweep(of_customer, Some(action)).await;
        assert_eq!((matched, changed), (60, 60), "{action:?}");
    }
}

async fn what_is_pushed_meanwhile_is_left_alone(world: World) {
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    push(&bus, "orders", 30).await;
    let began = bus.now();
    bus.advance(secs(1)).await;
    push(&bus, "orders", 30).await;
    let old = || bus.events().queue("orders").pushed_until(began);
    assert_eq!(sweep(old, Some(EventAction::Cancel)).await.1, 30);
    assert_eq!(bus.stats("orders").await.unwrap().scheduled, 30);
}

async fn what_a_clock_that_was_ahead_has_pushed_is_not_left_out(world: World) {
    let way = Faulty::to(&world.store);
    let builder = Bus::builder().only_registered().publish_only();
    let store = Arc::clone(&way) as Arc<dyn Store>;
    let bus = world.start(builder.shared_store(store)).await;
    for ahead in [secs(90), secs(3_600), secs(400 * 86_400)] {
        let by = |ahead: Duration| {
            way.ahead_us
                .store(ahead.as_micros() as u64, Ordering::Relaxed);
        };
        push(&bus, "orders", 20).await;
        by(ahead);
        push(&bus, "orders", 30).await;
        by(secs(0));
        let began = bus.store_time();
        bus.advance(secs(1)).await;
        push(&bus, "orders", 10).await;
        // Another process takes the time for a later one.
        by(secs(20));
        push(&bus, "orders", 10).await;
        by(secs(0));
        let old = || bus.events().queue("orders").pushed_until(began);
        let (matched, changed, _) = sweep(old, Some(EventAction::Cancel)).await;
        assert_eq!((matched, changed), (50, 50), "{ahead:?}");
        bus.advance(secs(60)).await;
        let all = || bus.events().queue("orders").pushed_until(bus.store_time());
        assert_eq!(sweep(all, Some(EventAction::Cancel)).await.1, 20);
    }
}

async fn what_runs_and_what_is_dead_stays(world: World) {
    let probe = Probe::running(|event: Event<u64>, _cx| async move {
        if event.payload == 0 {
            return Err(Failure::retry("no"));
        }
        std::future::pending().await
    });
    let (bus, queue) = world.serve(ORDERS.attempts(1).workers(4), &probe).await;
    queue.push(0, When::Now).await.unwrap();
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    let sum = sweep(|| bus.events().queue("orders"), Some(EventAction::Cancel)).await;
    assert_eq!((sum.0, sum.1), (0, 0));
    let stats = bus.stats("orders").await.unwrap();
    assert_eq!((stats.dead, stats.leased), (1, 1));
    let dead = bus.events().state(EventState::Dead).page().await.unwrap();
    assert_eq!(dead.items.len(), 1);
}

async fn a_schedule_is_none_of_the_events(world: World) {
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    push(&bus, "orders", 10).await;
    let nightly = duly::schedule::ScheduleOptions::new("orders", "0 2 * * *").unwrap();
    bus.schedules().set("nightly", nightly).await.unwrap();
    let changed = sweep(|| bus.events(), Some(EventAction::Cancel)).await.1;
    assert!(changed >= 10, "{changed}");
    assert!(bus.schedules().get("nightly").await.unwrap().is_some());
    let own = bus.stats("duly.schedules").await.unwrap();
    assert!(own.scheduled + own.ready + own.leased >= 1, "{own:?}");
}

async fn one_that_is_so_already_is_left_alone(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let due = bus.now() + secs(600);
    queue.push_many(0..20, due).await.unwrap();
    queue.push(20, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    let to_due = EventAction::Reschedule(When::At(due));
    assert_eq!(sweep(|| bus.events(), Some(to_due)).await.1, 1);
    let to_now = EventAction::Reschedule(When::At(bus.now()));
    assert_eq!(sweep(|| bus.events(), Some(to_now)).await.1, 21);
    assert_eq!(sweep(|| bus.events(), Some(to_now)).await.1, 0);
}

/// Of one that is due now, and has failed before its page is changed again, this is the price: it is
/// due now once more.
async fn a_page_that_failed_midway_is_changed_again(world: World) {
    let probe = Probe::<u64>::answering(|_, _| Err(Failure::retry("not today")));
    let day = RetryPolicy::fixed(secs(86_400));
    let way = Faulty::to(&world.store);
    let annotation = ORDERS.attempts(50).backoff(day);
    let (bus, _queue) = world.serve_by(way.clone(), annotation, &probe).await;
    let now = EventAction::Reschedule(When::Now);
    for (queue, action) in [("orders", now), ("mail", EventAction::Cancel)] {
        push(&bus, queue, 60).await;
        let mut changes = 0;
        way.meets(move |_, op| {
            let is_change = matches!(op, StoreOp::Reschedule { .. } | StoreOp::Cancel { .. });
            changes += usize::from(is_change);
            if is_change && changes == 25 {
                Fault::Lost
            } else {
                Fault::None
            }
        });
        let all = || bus.events().queue(queue);
        let page = all().limit(40).change_page(action).await;
        assert_eq!(page.unwrap_err().kind(), ErrorKind::Unknown);
        bus.advance(secs(1)).await;
        let ran = probe.count();
        assert!(ran >= 24);
        let (_, changed, _) = sweep(all, Some(action)).await;
        bus.advance(secs(1)).await;
        let left = all().limit(100).page().await.unwrap().items;
        if action == now {
            assert_eq!((left.len(), changed), (60, 60));
            let twice = left.iter().filter(|event| event.tries == 2).count();
            assert!(left.iter().all(|event| (1..=2).contains(&event.tries)));
            assert_eq!(twice, ran, "the others once");
        } else {
            assert!(left.is_empty());
            let ended = bus.records().queue(queue).limit(100).page().await.unwrap();
            assert_eq!(ended.items.len(), 60, "each once");
        }
    }
}

/// Runs events as a sweep with a pace does, so that each has failed before the next page is read.
async fn run_and_fail(world: World, many: u64, limit: usize) {
    let runs = Arc::new(Mutex::new(BTreeMap::new()));
    let counted = Arc::clone(&runs);
    let probe = Probe::running(move |event: Event<u64>, _cx| {
        *counted.lock().entry(event.payload).or_insert(0) += 1;
        async { Err(Failure::retry("not today")) }
    });
    let options = ORDERS
        .attempts(50)
        .backoff(RetryPolicy::fixed(secs(86_400)));
    let (bus, _queue) = world.serve(options, &probe).await;
    push(&bus, "orders", many).await;
    let began = bus.store_time();
    let mut after = None;
    loop {
        let events = bus.events().queue("orders").pushed_until(began);
        let events = events.limit(limit).after(after);
        let now = EventAction::Reschedule(When::Now);
        after = events.change_page(now).await.unwrap().next;
        bus.advance(ms(10)).await;
        if after.is_none() {
            break;
        }
    }
    let runs = runs.lock();
    assert_eq!(runs.len() as u64, many, "each was run");
    let again: Vec<_> = runs.iter().filter(|(_, runs)| **runs > 1).collect();
    assert!(
        again.is_empty(),
        "run again, without their backoff: {again:?}"
    );
}

async fn one_that_is_run_and_fails_waits_for_its_retry(world: World) {
    run_and_fail(world, 60, 1).await;
}

async fn each_of_many_that_are_run_and_fail_waits_for_its_retry(world: World) {
    run_and_fail(world, 700, 20).await;
}
