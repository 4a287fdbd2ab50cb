//! Nodes to which a bucket or the roll does not answer, while everything else does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::event::{BucketId, BucketKey};
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::testing::Probe;

use crate::delivery::nodes::node;
use crate::faulty::Fault;
use crate::world::{ORDERS, World, ms, secs};

/// It is alive and calls the roll, but the store refuses whatever it asks of its buckets.
#[tokio::test(start_paused = true)]
async fn an_owner_that_the_store_refuses_delays_nobody_for_long() {
    for kind in [
        ErrorKind::Invalid,
        ErrorKind::Corrupt,
        ErrorKind::Unavailable,
    ] {
        let world = World::shared();
        let probe = Probe::new();
        let (refused, way) = node(&world, &[ORDERS], &probe).await;
        let (bus, _way) = node(&world, &[ORDERS], &probe).await;
        bus.advance(secs(5)).await;
        way.meets(move |_, _| Fault::Refused(kind));
        let queue = bus.queue_named::<u64>("orders").unwrap();
        for round in 1..=4 {
            let began = world.clock.elapsed();
            for number in 0..512 {
                queue.push(number, ms(500)).await.unwrap();
            }
            bus.advance(secs(30)).await;
            let times = probe.times();
            assert_eq!(times.len(), round * 512, "{kind:?}");
            let latest = *times.last().unwrap() - began;
            assert!(latest <= ms(650), "{kind:?}, {round}: {latest:?}");
        }
        way.is(Fault::None);
        bus.advance(secs(31)).await;
        drop(refused);
    }
}

/// How many attempts there were in bucket 0.
fn in_bucket_0(probe: &Probe<u64>) -> usize {
    let attempts = probe.attempts();
    let there = attempts.iter().filter(|(id, _)| id.bucket() == BucketId(0));
    there.count()
}

/// What it holds there and cannot keep is handed on, also where it can do everything else.
#[tokio::test(start_paused = true)]
async fn what_a_node_holds_in_a_bucket_that_refuses_it_is_handed_on() {
    let world = World::shared();
    let hanging = Probe::<u64>::running(|_event, _cx| std::future::pending());
    let (refused, way) = node(&world, &[ORDERS], &hanging).await;
    let queue = refused.queue_named::<u64>("orders").unwrap();
    for number in 0..512 {
        queue.push(number, When::Now).await.unwrap();
    }
    refused.advance(secs(1)).await;
    let held = hanging.count();
    let probe = Probe::new();
    let (bus, _way) = node(&world, &[ORDERS], &probe).await;
    bus.advance(secs(2)).await;
    let refuses = |bucket: &BucketKey| bucket.bucket == BucketId(0);
    way.meets(move |bucket, _| {
        if refuses(bucket) {
            Fault::Refused(ErrorKind::Invalid)
        } else {
            Fault::None
        }
    });
    bus.advance(secs(10)).await;
    let there = in_bucket_0(&hanging);
    let handed_on = in_bucket_0(&probe);
    assert!(
        held > 0 && there > 0,
        "it held {held}, {there} of them there"
    );
    assert!(handed_on >= there, "{handed_on} of {there}");
}

/// It is silent for as long as it takes until others have what it held there.
#[tokio::test(start_paused = true)]
async fn a_node_that_one_bucket_refuses_stays_a_member() {
    let world = World::shared();
    let slow = Probe::taking(secs(300));
    let orders = ORDERS.timeout(secs(600)).workers(64);
    let (_refused, way) = node(&world, &[orders], &slow).await;
    let (bus, other) = node(&world, &[orders], &slow).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    for number in 0..512 {
        queue.push(number, When::Now).await.unwrap();
    }
    bus.advance(secs(2)).await;
    way.meets(|bucket, _| {
        if bucket.bucket == BucketId(0) {
            Fault::Refused(ErrorKind::Invalid)
        } else {
            Fault::None
        }
    });
    bus.advance(secs(20)).await;
    let looks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looks);
    other.meets(move |_, op| {
        count.fetch_add(
            usize::from(matches!(op, StoreOp::Reap { .. })),
            Ordering::Relaxed,
        );
        Fault::None
    });
    bus.advance(secs(30)).await;
    // A holder that nobody vouches for has every bucket of its looked at every 150 ms.
    let looks = looks.load(Ordering::Relaxed);
    assert!(looks < 100, "{looks} looks");
}

/// While the roll cannot be called each bucket is looked at now and then, not all the time, and who
/// is dead is found all the same.
#[tokio::test(start_paused = true)]
async fn nodes_that_hear_of_nobody_look_now_and_then() {
    let world = World::shared();
    let slow = Probe::taking(secs(300));
    let orders = ORDERS.timeout(secs(600)).workers(64);
    let (dying, dead_way) = node(&world, &[orders], &slow).await;
    let queue = dying.queue_named::<u64>("orders").unwrap();
    for number in 0..512 {
        queue.push(number, When::Now).await.unwrap();
    }
    dying.advance(secs(1)).await;
    let probe = Probe::new();
    let (bus, way) = node(&world, &[orders], &probe).await;
    bus.advance(secs(1)).await;
    let looks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looks);
    way.meets(move |_, op| {
        count.fetch_add(
            usize::from(matches!(op, StoreOp::Reap { .. })),
            Ordering::Relaxed,
        );
        Fault::None
    });
    for way in [&way, &dead_way] {
        way.rolls_are(Fault::Refused(ErrorKind::Unavailable));
    }
    bus.advance(secs(60)).await;
    let looks = looks.load(Ordering::Relaxed);
    // Eight buckets, each every two seconds; every 150 ms would be 3,200.
    assert!((200..400).contains(&looks), "{looks} looks");

    let before = probe.count();
    drop((dying, queue));
    bus.advance(secs(6)).await;
    assert!(
        probe.count() >= before + 64,
        "{} of {before}",
        probe.count()
    );
}
