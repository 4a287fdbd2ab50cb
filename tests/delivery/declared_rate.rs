//! A rate that an annotation or settings declare: below what an operator sets, from the first start
//! on, and with another one in each build.

use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{ORDERS, World, secs};

over_every_store! {
    a_declared_rate_holds_from_the_first_start,
    what_is_set_wins_over_what_is_declared_and_over_a_deploy,
    a_declared_rate_holds_for_who_pulls,
}

/// How many started in the seconds `from` to `until`.
fn started(probe: &Probe<u64>, from: u64, until: u64) -> usize {
    let times = probe.times();
    let within = times
        .iter()
        .filter(|at| (from..until).contains(&at.as_secs()));
    within.count()
}

fn is_about(counted: usize, wanted: usize) {
    assert!(
        counted.abs_diff(wanted) * 20 <= wanted,
        "{counted} of {wanted}"
    );
}

async fn a_declared_rate_holds_from_the_first_start(world: World) {
    let probe = Probe::<u64>::new();
    let (pusher, queue) = world.push_only::<u64>("orders").await;
    queue.push_many(0..2_000, secs(0)).await.unwrap();
    pusher.shutdown(secs(1)).await.unwrap();
    drop((pusher, queue));

    let world = world.restart();
    let (bus, _queue) = world.serve(ORDERS.rate(100.0), &probe).await;
    bus.advance(secs(12)).await;
    let all = probe.count();
    assert!((1_100..=1_225).contains(&all), "{all} in twelve seconds");
    let kept = bus.controls().await.unwrap();
    assert!(kept.is_empty(), "nothing is set in the store: {kept:?}");
}

async fn what_is_set_wins_over_what_is_declared_and_over_a_deploy(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, queue) = world.serve(ORDERS.rate(100.0), &probe).await;
    queue.push_many(0..6_000, secs(0)).await.unwrap();
    bus.set_rate("orders", Some(10.0)).await.unwrap();
    bus.advance(secs(1)).await;
    let before = probe.count();
    bus.advance(secs(10)).await;
    is_about(probe.count() - before, 100);
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS.rate(300.0), &probe).await;
    bus.advance(secs(10)).await;
    assert!((95..=110).contains(&probe.count()), "{}", probe.count());

    bus.set_rate("orders", None).await.unwrap();
    bus.advance(secs(1)).await;
    let before = probe.count();
    bus.advance(secs(10)).await;
    is_about(probe.count() - before, 3_000);
}

async fn a_declared_rate_holds_for_who_pulls(world: World) {
    let choices = QueueChoices {
        rate: Some(10.0),
        ..Default::default()
    };
    let builder = world.builder().publish_only().queue("orders", choices);
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..500, secs(0)).await.unwrap();
    let mut got = 0;
    let until = bus.clock().elapsed() + secs(10);
    while bus.clock().elapsed() < until {
        let request = queue.lease(100, secs(600)).wait(secs(1));
        got += request.send().await.unwrap().len();
    }
    assert!((98..=102).contains(&got), "{got} in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn nodes_of_two_builds_start_between_their_rates() {
    let world = World::shared();
    let probe = Probe::<u64>::new();
    let mut nodes = Vec::new();
    for rate in [100.0, 100.0, 300.0, 300.0] {
        nodes.push(world.serve(ORDERS.rate(rate), &probe).await);
    }
    let (bus, queue) = &nodes[0];
    bus.advance(secs(2)).await;
    queue.push_many(0..4_000, secs(0)).await.unwrap();
    bus.advance(secs(14)).await;
    is_about(started(&probe, 3, 13), 2_000);

    bus.set_rate("orders", Some(50.0)).await.unwrap();
    bus.advance(secs(12)).await;
    is_about(started(&probe, 18, 28), 500);
}

#[tokio::test]
async fn a_declared_rate_of_zero_is_refused() {
    let error = Bus::builder()
        .store_url("memory:")
        .publish_only()
        .queue(
            "orders",
            QueueChoices {
                rate: Some(0.0),
                ..Default::default()
            },
        )
        .start()
        .await
        .err()
        .map(|error| error.to_string());
    let words = "queue orders: rate is 0/s; it must be 0.001/s to 1000000/s; to start nothing, pause \
                 the queue";
    assert_eq!(error.as_deref(), Some(words));
}
