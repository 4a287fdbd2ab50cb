//! Every counter counts what it says.

use duly::lease::{LeaseOutcome, LeaseStatus};
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::testing::Probe;

use crate::faulty::{Fault, Faulty};
use crate::metrics::seen::Seen;
use crate::world::{ORDERS, World, ms, secs};

#[tokio::test(start_paused = true)]
async fn pushes_are_counted_as_accepted_duplicate_or_refused() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let store = Faulty::to(&world.store);
    let builder = Bus::builder().publish_only().payload_bytes_max(100);
    let bus = world.start(builder.shared_store(store.clone())).await;
    let queue = bus.queue_named::<String>("orders").unwrap();
    let (short, long) = ("short".to_owned(), "x".repeat(200));
    let rejected = |reason| {
        seen.value(&format!(
            "duly_rejected_total{{queue=orders,reason={reason}}}"
        ))
    };

    queue.push(short.clone(), secs(60)).await.unwrap();
    queue.push(short.clone(), When::Now).await.unwrap();
    queue
        .push_many(vec![short.clone(); 300], secs(60))
        .await
        .unwrap();
    assert_eq!(seen.value("duly_pushed_total{queue=orders}"), 302.0);

    let id = queue.new_id();
    for _ in 0..3 {
        let again = queue.event(short.clone()).id(id).after(secs(60));
        again.push().await.unwrap();
    }
    let unique = || queue.event(short.clone()).after(secs(60));
    unique().unique("key", Unique::Keep).push().await.unwrap();
    unique().unique("key", Unique::Keep).push().await.unwrap();
    unique()
        .unique("key", Unique::Replace)
        .push()
        .await
        .unwrap();
    assert_eq!(seen.value("duly_pushed_total{queue=orders}"), 305.0);
    assert_eq!(seen.value("duly_duplicates_total{queue=orders}"), 3.0);

    assert_eq!(rejected("full"), 0.0, "it is there before the first one");
    let other = queue.event("other".to_owned()).id(id);
    other.push().await.unwrap_err();
    assert_eq!(rejected("conflict"), 1.0);
    queue.push(long.clone(), When::Now).await.unwrap_err();
    queue
        .push_many([short.clone(), long], secs(0))
        .await
        .unwrap_err();
    assert_eq!(
        rejected("invalid"),
        2.0,
        "one that was refused as a whole is one"
    );
    store.is(Fault::Refused(ErrorKind::Full));
    queue
        .push_many(vec![short.clone(); 20], secs(0))
        .await
        .unwrap_err();
    assert_eq!(rejected("full"), 20.0);
    store.is(Fault::Lost);
    queue.push(short.clone(), When::Now).await.unwrap_err();
    assert_eq!(rejected("unknown"), 1.0);
    bus.shutdown(secs(1)).await.unwrap();
    queue.push(short, When::Now).await.unwrap_err();
    assert_eq!(rejected("closed"), 1.0);

    assert_eq!(seen.value("duly_pushed_total{queue=orders}"), 305.0);
    assert_eq!(seen.value("duly_duplicates_total{queue=orders}"), 3.0);
    assert_eq!(seen.sum("duly_rejected_total"), 25.0);
}

#[tokio::test(start_paused = true)]
async fn each_settled_attempt_is_counted_once_by_what_became_of_it() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let probe = Probe::<u64>::running(|event, _cx| async move {
        match event.payload {
            0 if event.attempt() < 3 => Err(Failure::retry("not yet")),
            1 => Err(Failure::permanent("never")),
            2 => Err(Failure::discard("of no use")),
            3 if event.lateness() < secs(1) => Err(Failure::snooze(secs(5))),
            9 => std::future::pending().await,
            _ => Ok(()),
        }
    });
    let (bus, queue) = world.serve(ORDERS.timeout(secs(3_600)), &probe).await;
    let outcome = |outcome| {
        seen.value(&format!(
            "duly_settled_total{{outcome={outcome},queue=orders}}"
        ))
    };

    queue.push_many([0, 1, 2, 4, 5], ms(10)).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(outcome("acked"), 3.0);
    assert_eq!(outcome("retried"), 2.0);
    assert_eq!(outcome("buried"), 1.0);
    assert_eq!(outcome("discarded"), 1.0);
    assert_eq!(seen.value("duly_delivered_total{queue=orders}"), 7.0);
    assert_eq!(seen.values("duly_handler_seconds{queue=orders}").len(), 7);
    assert_eq!(
        seen.values("duly_lateness_seconds{queue=orders,stage=total}")
            .len(),
        7
    );
    let batches: f64 = seen.values("duly_settle_batch_size").iter().sum();
    assert_eq!(batches, 7.0);
    assert_eq!(seen.sum("duly_settled_total"), 7.0);
    assert_eq!(seen.value("duly_leases_lost_total{queue=orders}"), 0.0);

    // What waits for a worker until it is over, and what a stop hands back.
    bus.set_workers("orders", 1).unwrap();
    queue.push(9, When::Now).await.unwrap();
    bus.settle().await;
    let soon_over = queue.event(7).expires_after(secs(5));
    soon_over.push().await.unwrap();
    queue.push(8, When::Now).await.unwrap();
    bus.advance(secs(10)).await;
    bus.shutdown(secs(1)).await.unwrap();
    assert_eq!(outcome("released"), 2.0);
    assert_eq!(outcome("interrupted"), 1.0, "the one that was cut short");
    assert_eq!(outcome("retried"), 2.0);
    assert_eq!(seen.value("duly_delivered_total{queue=orders}"), 8.0);
}

#[tokio::test(start_paused = true)]
async fn a_snooze_and_an_expiry_are_counted_as_such() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let probe = Probe::<u64>::running(|event, _cx| async move {
        tokio::time::sleep(secs(10)).await;
        match event.payload {
            1 => Err(Failure::snooze(secs(3_600))),
            _ => Ok(()),
        }
    });
    let (bus, queue) = world.serve(ORDERS.workers(1).buckets(1), &probe).await;
    queue.push(1, When::Now).await.unwrap();
    bus.settle().await;
    let soon_over = queue.event(2).expires_after(secs(5));
    soon_over.push().await.unwrap();
    bus.advance(secs(60)).await;
    let outcome = |outcome| {
        seen.value(&format!(
            "duly_settled_total{{outcome={outcome},queue=orders}}"
        ))
    };
    assert_eq!((outcome("snoozed"), outcome("expired")), (1.0, 1.0));
    assert_eq!(seen.sum("duly_settled_total"), 2.0);
    assert_eq!(
        seen.value("duly_delivered_total{queue=orders}"),
        1.0,
        "it was not started"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_moved_is_counted_and_what_is_read_ahead_is_not() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let probe = Probe::<u64>::new();
    let builder = world.builder().read_ahead(secs(0));
    let bus = world
        .start(builder.register_as(ORDERS, probe.clone()))
        .await;
    let queue = bus.queue_named("orders").unwrap();
    queue.push_many(0..30, secs(5)).await.unwrap();
    queue.push_many(0..12, secs(0)).await.unwrap();
    bus.advance(secs(10)).await;
    assert_eq!(probe.count(), 42);
    assert_eq!(seen.value("duly_moved_total{queue=orders}"), 30.0);
    bus.shutdown(secs(1)).await.unwrap();

    let world = World::memory();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.push_many(0..30, secs(5)).await.unwrap();
    bus.advance(secs(10)).await;
    assert_eq!(probe.count(), 72);
    assert_eq!(seen.value("duly_moved_total{queue=orders}"), 30.0);
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_node_held_is_counted_as_taken_back_and_its_outcomes_as_lost() {
    let (seen, _guard) = Seen::recording();
    let world = World::shared();
    let orders = ORDERS.timeout(secs(3_600));
    let slow = Probe::<u64>::taking(secs(60));
    let way = Faulty::to(&world.store);
    let (cut_off, queue) = world.serve_by(way.clone(), orders, &slow).await;
    queue.push_many(0..5_u64, secs(0)).await.unwrap();
    cut_off.advance(secs(1)).await;
    let (bus, _queue) = world.serve(orders, &Probe::<u64>::taking(secs(100))).await;
    way.is(Fault::Hung);
    bus.advance(secs(10)).await;
    assert_eq!(seen.value("duly_reaped_total{queue=orders}"), 5.0);
    way.is(Fault::None);
    bus.advance(secs(200)).await;
    assert_eq!(seen.value("duly_leases_lost_total{queue=orders}"), 5.0);
    assert_eq!(
        seen.value("duly_settled_total{outcome=acked,queue=orders}"),
        5.0
    );
    assert_eq!(seen.sum("duly_settled_total"), 5.0);
}

#[tokio::test(start_paused = true)]
async fn a_settle_whose_answer_is_lost_is_counted_once() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve_by(way.clone(), ORDERS, &probe).await;
    let mut lost = 0;
    way.meets(move |_, op| match op {
        StoreOp::Settle { .. } if lost < 2 => {
            lost += 1;
            Fault::Lost
        }
        _ => Fault::None,
    });
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(10)).await;
    assert_eq!(
        seen.sum("duly_settled_total") + seen.sum("duly_leases_lost_total"),
        1.0
    );
    let errors = seen.value("duly_store_errors_total{kind=unknown,op=settle}");
    assert_eq!(errors, 2.0);
}

#[tokio::test(start_paused = true)]
async fn pulled_attempts_are_counted_as_handled_ones_are() {
    let (seen, _guard) = Seen::recording();
    let world = World::memory();
    let bus = world.start(Bus::builder().publish_only()).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..5, secs(10)).await.unwrap();
    bus.advance(secs(13)).await;
    let leased = queue.lease(5, secs(60)).send().await.unwrap();
    assert_eq!(seen.value("duly_delivered_total{queue=orders}"), 5.0);
    let late = seen.values("duly_lateness_seconds{queue=orders,stage=total}");
    assert_eq!(late, [3.0; 5]);
    let outcomes = [
        LeaseOutcome::Ack,
        LeaseOutcome::Release,
        LeaseOutcome::Snooze(secs(60)),
        LeaseOutcome::Bury(None),
        LeaseOutcome::Discard(None),
    ];
    for (leased, outcome) in leased.iter().zip(outcomes) {
        let settled = bus.settle_lease(leased.token(), outcome).await;
        assert_eq!(settled.unwrap(), LeaseStatus::Held);
    }
    for outcome in ["acked", "released", "snoozed", "buried", "discarded"] {
        let name = format!("duly_settled_total{{outcome={outcome},queue=orders}}");
        assert_eq!(seen.value(&name), 1.0, "{outcome}");
    }
    assert_eq!(seen.value("duly_leases_lost_total{queue=orders}"), 0.0);
    assert_eq!(leased[0].release().await.unwrap(), LeaseStatus::Lost);
    assert_eq!(seen.value("duly_leases_lost_total{queue=orders}"), 1.0);
    assert_eq!(seen.value("duly_reaped_total{queue=orders}"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn what_a_gone_consumer_has_pulled_is_counted_as_taken_back() {
    for (world, attempts) in [
        (World::memory(), 16),
        (World::shared(), 16),
        (World::memory(), 1),
        (World::shared(), 1),
    ] {
        let (seen, _guard) = Seen::recording();
        let bus = world.start(Bus::builder().publish_only()).await;
        let queue = bus.queue_named::<u64>("orders").unwrap();
        for number in 0..5 {
            let event = queue.event(number).attempts(attempts);
            event.push().await.unwrap();
        }
        let leased = queue.lease(5, secs(1)).send().await.unwrap();
        assert_eq!(leased.len(), 5);
        drop(leased);
        bus.advance(secs(5)).await;
        let stats = bus.stats("orders").await.unwrap();
        assert_eq!((stats.leased, stats.ready + stats.dead), (0, 5));
        assert_eq!(seen.value("duly_reaped_total{queue=orders}"), 5.0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_fetch_ends_is_counted_as_settled() {
    let (seen, _guard) = Seen::recording();
    let outcome = |outcome| {
        seen.value(&format!(
            "duly_settled_total{{outcome={outcome},queue=orders}}"
        ))
    };
    for pulls in [false, true] {
        let world = World::memory();
        let pusher = world.start(world.builder().publish_only()).await;
        let queue = pusher.queue_named::<u64>("orders").unwrap();
        for _ in 0..3 {
            let event = queue.event(7).expires_after(secs(5));
            event.push().await.unwrap();
        }
        let late = queue.event(8).late(LatePolicy::Bury(secs(5)));
        late.push().await.unwrap();
        pusher.advance(secs(10)).await;
        let before = seen.sum("duly_settled_total");
        if pulls {
            let leased = queue.lease(10, secs(1)).send().await.unwrap();
            assert!(leased.is_empty());
        } else {
            let probe = Probe::<u64>::new();
            let (bus, _) = world.serve(ORDERS, &probe).await;
            bus.advance(secs(1)).await;
            assert_eq!(probe.count(), 0);
        }
        assert_eq!(seen.sum("duly_settled_total") - before, 4.0, "{pulls}");
    }
    assert_eq!((outcome("expired"), outcome("buried")), (6.0, 2.0));
}
