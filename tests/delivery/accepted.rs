//! Promise 1: accepted means delivered, and the receipt says what was proven.

use std::collections::BTreeMap;

use duly::prelude::*;
use duly::store::Durability;
use duly::testing::Probe;

use crate::world::{Numbers, ORDERS, World, ms, secs};

over_every_store! {
    an_accepted_event_is_handled_once_when_nothing_goes_wrong,
    the_receipt_names_what_was_reached,
    every_accepted_event_ends_on_record,
    a_push_of_many_is_a_push_of_each,
    a_delay_beyond_the_longest_is_refused,
    what_was_accepted_before_a_restart_is_handled_after_it,
}

async fn an_accepted_event_is_handled_once_when_nothing_goes_wrong(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let now = queue.push(1_u64, When::Now).await.unwrap();
    let later = queue.push(2, secs(60)).await.unwrap();

    bus.advance(secs(3_600)).await;

    assert_eq!(probe.attempts(), [(now.id(), 1), (later.id(), 1)]);
    assert_eq!(probe.times(), [secs(0), secs(60)]);
    assert_eq!(bus.outcomes(now.id()).await.unwrap(), [Outcome::Acked]);
    assert_eq!(bus.outcomes(later.id()).await.unwrap(), [Outcome::Acked]);
}

async fn the_receipt_names_what_was_reached(world: World) {
    let (bus, queue) = world.push_only("orders").await;
    let before = bus.now();
    let receipt = queue.push(1_u64, ms(1_500)).await.unwrap();

    assert!(receipt.is_accepted() && !receipt.is_duplicate());
    assert_eq!(receipt.due(), before + ms(1_500));
    assert_eq!(receipt.durability(), world.store.durability());
    let expected = [Durability::Memory, Durability::Disk];
    assert!(expected.contains(&receipt.durability()));
}

/// Each event ends in its own way, and however it ends, the last record says so.
async fn every_accepted_event_ends_on_record(world: World) {
    let probe = Probe::answering(|event: &Event<u64>, _cx| match event.payload % 5 {
        0 => Err(Failure::retry("always")),
        1 => Err(Failure::permanent("never")),
        2 => Err(Failure::discard("no use")),
        _ => Ok(()),
    });
    let (bus, queue) = world.serve(ORDERS.attempts(3), &probe).await;
    let mut numbers = Numbers(1);
    let mut expected = BTreeMap::new();
    for number in 0..300 {
        let delay = ms(numbers.below(20_000));
        let event = queue.event(number).after(delay);
        let (event, end) = match number % 10 {
            3 => (event.expires_after(secs(0)), Outcome::Expired),
            0 | 5 | 1 | 6 => (event, Outcome::Buried),
            2 | 7 => (event, Outcome::Discarded),
            _ => (event, Outcome::Acked),
        };
        expected.insert(event.push().await.unwrap().id(), end);
    }
    let taken_back = queue.push(4, secs(30)).await.unwrap().id();
    let _ = queue.cancel(taken_back).await.unwrap();
    expected.insert(taken_back, Outcome::Cancelled);

    bus.run_until_idle(secs(3_600)).await.unwrap();

    for (id, end) in expected {
        assert_eq!(bus.outcomes(id).await.unwrap().last(), Some(&end), "{id}");
    }
}

async fn a_push_of_many_is_a_push_of_each(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let receipts = queue.push_many(0..3_000_u64, secs(10)).await.unwrap();
    assert_eq!(receipts.len(), 3_000);
    assert!(receipts.iter().all(Receipt::is_accepted));

    bus.advance(ms(9_999)).await;
    assert_eq!(probe.count(), 0);
    bus.advance(secs(1)).await;

    let mut payloads = probe.payloads();
    payloads.sort_unstable();
    assert!(payloads.into_iter().eq(0..3_000));
    let error = queue.push_many(0..100_001, secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

async fn a_delay_beyond_the_longest_is_refused(world: World) {
    let (_bus, queue) = world.push_only("orders").await;
    let error = queue.push(1_u64, duly::time::DELAY_MAX + ms(1)).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    queue.push(1, duly::time::DELAY_MAX).await.unwrap();
}

async fn what_was_accepted_before_a_restart_is_handled_after_it(world: World) {
    let (bus, queue) = world.push_only("orders").await;
    let mut ids = Vec::new();
    for number in 0..100_u64 {
        ids.push(queue.push(number, ms(number * 7)).await.unwrap().id());
    }
    bus.shutdown(secs(1)).await.unwrap();

    let world = world.restart();
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(1)).await;

    let mut seen: Vec<_> = probe.attempts();
    let mut expected: Vec<_> = ids.into_iter().map(|id| (id, 1)).collect();
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected);
}
