//! Pushes in transactions: an event exists if and only if its transaction has committed.

use std::time::Duration;

use duly::event::Envelope;
use duly::prelude::*;
use duly_outbox::{PushEventIn, PushIn, Relay, RelayOptions};

use crate::world::{World, eventually, order, orders, push_to};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_exists_if_and_only_if_its_transaction_commits() {
    let world = World::new().await;
    let relay = world.relay().await;
    let pool = &world.database.pool;
    let mut kept = pool.begin().await.unwrap();
    let mut undone = pool.begin().await.unwrap();
    world
        .orders
        .push_in(&mut kept, order(1), When::Now)
        .await
        .unwrap();
    world
        .orders
        .push_in(&mut undone, order(2), When::Now)
        .await
        .unwrap();
    let many = [3, 4, 5].map(order);
    let ids = world
        .orders
        .push_many_in(&mut kept, many, When::Now)
        .await
        .unwrap();
    assert_eq!(ids.len(), 3);
    undone.rollback().await.unwrap();
    kept.commit().await.unwrap();
    world.seen.reach(4).await;
    assert_eq!(world.seen.numbers(), [1, 3, 4, 5]);

    let mut client = world.database.client().await;
    let mut tx = client.transaction().await.unwrap();
    world
        .orders
        .push_in(&mut tx, order(6), When::Now)
        .await
        .unwrap();
    world.orders.event(order(7)).push_in(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    let many = [8, 9].map(order);
    world
        .orders
        .push_many_in(&mut tx, many, When::Now)
        .await
        .unwrap();
    world
        .orders
        .push_in(&mut tx, order(10), When::Now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    world.seen.reach(7).await;
    assert_eq!(world.seen.numbers(), [1, 3, 4, 5, 8, 9, 10]);
    assert!(world.seen.counts().values().all(|count| *count == 1));
    relay.stop().await;
}

/// A cursor over a number that grows would be past it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_commits_late_is_not_passed_over() {
    let world = World::new().await;
    let relay = world.relay().await;
    let pool = &world.database.pool;
    let mut late = pool.begin().await.unwrap();
    let mut later = pool.begin().await.unwrap();
    world
        .orders
        .push_in(&mut late, order(0), When::Now)
        .await
        .unwrap();
    world
        .orders
        .push_in(&mut later, order(100), When::Now)
        .await
        .unwrap();
    for number in 1..=20 {
        let mut tx = pool.begin().await.unwrap();
        world
            .orders
            .push_in(&mut tx, order(number), When::Now)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        world.seen.reach(usize::try_from(number).unwrap()).await;
        world
            .orders
            .push_in(&mut late, order(200 + number), When::Now)
            .await
            .unwrap();
    }
    assert!(!world.seen.numbers().contains(&0), "before its commit");
    late.commit().await.unwrap();
    world.seen.reach(41).await;
    let mut tx = pool.begin().await.unwrap();
    world
        .orders
        .push_in(&mut tx, order(21), When::Now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    world.seen.reach(42).await;
    later.commit().await.unwrap();
    world.seen.reach(43).await;
    assert!(world.seen.counts().values().all(|count| *count == 1));
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_says_all_that_a_pushed_one_does() {
    let world = World::new().await;
    let queue = world.bus.queue_named::<String>("mails").unwrap();
    let hour = Duration::from_secs(3_600);
    let build = |text: &str| {
        let event = queue.event(text.to_owned()).after(hour).key("customer:7");
        let event = event
            .unique(format!("welcome:{text}"), Unique::Keep)
            .unique_for(hour);
        let event = event
            .attempts(7)
            .expires_after(2 * hour)
            .header("from", "shop");
        event.keep_payload(true).late(LatePolicy::Deliver)
    };
    let direct = build("direct").push().await.unwrap();
    let mut tx = world.database.pool.begin().await.unwrap();
    let id = build("staged").push_in(&mut tx).await.unwrap();
    let named = queue.id_for_name("mail:9");
    let given = queue
        .event("given".to_owned())
        .after(hour)
        .id(named)
        .push_in(&mut tx)
        .await;
    assert_eq!(given.unwrap(), named);
    tx.commit().await.unwrap();
    let relay = world.relay().await;
    let pushed = async || {
        let (staged, named) = (
            queue.get(id).await.unwrap(),
            queue.get(named).await.unwrap(),
        );
        staged.is_some() && named.is_some()
    };
    eventually("both are on the bus", pushed).await;
    relay.stop().await;

    let direct = queue.get(direct.id()).await.unwrap().unwrap();
    let staged = queue.get(id).await.unwrap().unwrap();
    assert!(staged.due >= direct.due, "a delay counts from the insert");
    assert!(staged.due.since(direct.due) < Duration::from_secs(20));
    let envelope = |body: Option<std::sync::Arc<Envelope>>| {
        let mut envelope = (*body.unwrap()).clone();
        envelope.headers.retain(|(name, _)| name != "duly-bucket");
        envelope
    };
    let (mut direct, staged) = (envelope(direct.body), envelope(staged.body));
    assert!(staged.expires >= direct.expires && direct.expires.is_some());
    (direct.id, direct.pushed, direct.expires) = (id, staged.pushed, staged.expires);
    direct.payload = staged.payload.clone();
    direct.unique = Some("welcome:staged".to_owned());
    assert_eq!(direct, staged);
}

/// No store knows it, and neither a cancel nor an explanation says that it is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_relayed_yet_is_not_found_and_runs() {
    let world = World::new().await;
    let id = push_to(&world.database.pool, &world.orders, 1).await;
    let cancelled = world.orders.cancel(id).await.unwrap();
    assert_eq!(cancelled, CancelOutcome::NotFound);
    let explained = world.bus.explain(id).await.unwrap().to_string();
    assert!(
        explained.contains("an outbox that is not relayed yet"),
        "{explained}"
    );
    let relay = world.relay().await;
    world.seen.reach(1).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_push_refuses_an_insert_refuses_too() {
    let world = World::new().await;
    let mut tx = world.database.pool.begin().await.unwrap();
    let years = Duration::from_secs(1_000 * 366 * 86_400);
    let error = world
        .orders
        .push_in(&mut tx, order(1), years)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let queue = world.bus.queue_named::<String>("mails").unwrap();
    let large = "x".repeat(8 << 20);
    let error = queue.push_in(&mut tx, large, When::Now).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    // The transaction is as good as before.
    world
        .orders
        .push_in(&mut tx, order(2), When::Now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let relay = world.relay().await;
    world.seen.reach(1).await;
    relay.stop().await;
}

/// A future that could not move to another thread would be of no use in most programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_in_a_transaction_runs_in_a_task() {
    let world = World::new().await;
    let (pool, queue) = (world.database.pool.clone(), world.orders.clone());
    let mut client = world.database.client().await;
    let task = tokio::spawn(async move {
        let mut tx = pool.begin().await.unwrap();
        queue.push_in(&mut tx, order(1), When::Now).await.unwrap();
        queue
            .push_many_in(&mut tx, [order(2)], When::Now)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let mut tx = client.transaction().await.unwrap();
        queue.push_in(&mut tx, order(3), When::Now).await.unwrap();
        queue.event(order(4)).push_in(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
    });
    task.await.unwrap();
    let options = RelayOptions::default();
    let config = world.database.url.parse().unwrap();
    let relay = Relay::tokio_postgres(&world.bus, config, tokio_postgres::NoTls, options).await;
    world.seen.reach(4).await;
    relay.unwrap().stop().await;
    assert_eq!(orders(&world.bus).name().to_string(), "orders");
}
