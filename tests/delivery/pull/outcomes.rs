//! How a lease ends: by an outcome, by its deadline, with its process; and later, once extended.

use duly::event::State;
use duly::lease::{LeaseOutcome, LeaseStatus, LeaseToken};
use duly::prelude::*;

use super::{payloads, pulling, stats};
use crate::world::{World, ms, secs};

over_every_store! {
    every_outcome_does_what_it_says,
    a_lease_that_ends_counts_an_attempt_and_then_there_is_a_dead_letter,
    an_extended_lease_ends_later,
    a_shortened_lease_ends_earlier,
}

async fn every_outcome_does_what_it_says(world: World) {
    let (bus, queue) = pulling(&world).await;
    let mut outcomes = Vec::new();
    for (number, outcome) in [
        LeaseOutcome::Ack,
        LeaseOutcome::Retry {
            after: Some(secs(5)),
            reason: Some("why".to_owned()),
        },
        LeaseOutcome::Snooze(secs(5)),
        LeaseOutcome::Release,
        LeaseOutcome::Bury(None),
        LeaseOutcome::Discard(Some("old".to_owned())),
    ]
    .into_iter()
    .enumerate()
    {
        let id = queue.push(number as u64, When::Now).await.unwrap().id();
        let leased = queue.lease(1, secs(60)).send().await.unwrap();
        let token: LeaseToken = leased[0].token().to_string().parse().unwrap();
        let settled = bus.settle_lease(&token, outcome.clone()).await.unwrap();
        assert_eq!(settled, LeaseStatus::Held, "{outcome:?}");
        let state = queue.get(id).await.unwrap().unwrap();
        outcomes.push((state.state, state.tries));
        if outcome == LeaseOutcome::Release {
            queue.end(id).await.map(drop).unwrap();
        }
        let again = bus
            .settle_lease(&token, LeaseOutcome::Snooze(secs(1)))
            .await;
        assert!(again.unwrap() == LeaseStatus::Lost || outcome == LeaseOutcome::Snooze(secs(5)));
    }
    let expected = [
        (State::Done, 1),
        (State::Scheduled, 1),
        (State::Scheduled, 0),
        (State::Ready, 0),
        (State::Dead, 1),
        (State::Discarded, 1),
    ];
    let states = |all: &[(State, u16)]| all.iter().map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(states(&outcomes), states(&expected));
    assert_eq!(outcomes[1..5], expected[1..5]);
    bus.advance(secs(5)).await;
    let leased = queue.lease(10, secs(60)).send().await.unwrap();
    let mut attempts: Vec<_> = leased.iter().map(|it| it.attempt()).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 2], "the snoozed and the retried");
}

async fn a_lease_that_ends_counts_an_attempt_and_then_there_is_a_dead_letter(world: World) {
    let (bus, queue) = pulling(&world).await;
    let id = queue.event(1).attempts(2).push().await.unwrap().id();
    for attempt in 1..=2 {
        let leased = queue
            .lease(1, secs(2))
            .wait(secs(100))
            .send()
            .await
            .unwrap();
        assert_eq!(leased[0].attempt(), attempt);
        assert_eq!(bus.clock().elapsed(), secs(2) * u32::from(attempt - 1));
    }
    // Nobody waits and no handler runs; still it is taken back, and not early.
    bus.advance(ms(1_999)).await;
    assert_eq!(stats(&bus, "orders").await.leased, 1);
    bus.advance(ms(100)).await;
    let stats = stats(&bus, "orders").await;
    assert_eq!((stats.leased, stats.dead), (0, 1));
    let outcomes = bus.outcomes(id).await.unwrap();
    assert_eq!(outcomes, [Outcome::LeaseLost, Outcome::LeaseLost]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_its_process_and_ends_at_its_deadline() {
    let world = World::memory();
    let (bus, queue) = pulling(&world).await;
    queue.push(1, When::Now).await.unwrap();
    let leased = queue.lease(1, secs(10)).send().await.unwrap();
    let token = leased[0].token().clone();
    drop((leased, queue));
    bus.shutdown(secs(1)).await.unwrap();
    drop(bus);
    let world = world.restart();
    let (bus, queue) = pulling(&world).await;
    assert!(payloads(&queue, 1).await.is_empty(), "it is leased still");
    bus.advance(secs(5)).await;
    assert_eq!(
        bus.extend_lease(&token, secs(10)).await.unwrap(),
        LeaseStatus::Held
    );
    let again = queue
        .lease(1, secs(10))
        .wait(secs(60))
        .send()
        .await
        .unwrap();
    assert_eq!(again[0].attempt(), 2);
    assert_eq!(bus.clock().elapsed(), secs(15));
    let late = bus.settle_lease(&token, LeaseOutcome::Ack).await.unwrap();
    assert_eq!(late, LeaseStatus::Lost, "another one has it");
}

/// The embedded store has one process, and forgets leases with it; the attempt was made.
#[tokio::test(start_paused = true)]
async fn in_a_file_a_lease_ends_with_its_process_and_its_attempt_counts() {
    let world = World::embedded();
    let (bus, queue) = pulling(&world).await;
    let id = queue.event(1).attempts(2).push().await.unwrap().id();
    let leased = queue.lease(1, secs(10)).send().await.unwrap();
    let token = leased[0].token().clone();
    drop((leased, queue));
    bus.shutdown(secs(1)).await.unwrap();
    drop(bus);
    let world = world.restart();
    let (bus, queue) = pulling(&world).await;
    let late = bus.settle_lease(&token, LeaseOutcome::Ack).await.unwrap();
    assert_eq!(late, LeaseStatus::Lost);
    let again = queue.lease(1, secs(10)).send().await.unwrap();
    assert_eq!((again[0].id(), again[0].attempt()), (id, 2));
}

#[tokio::test(start_paused = true)]
async fn in_a_file_a_released_lease_does_not_count() {
    let world = World::embedded();
    let (bus, queue) = pulling(&world).await;
    let id = queue.event(1).attempts(2).push().await.unwrap().id();
    let leased = queue.lease(1, secs(10)).send().await.unwrap();
    assert_eq!(leased[0].release().await.unwrap(), LeaseStatus::Held);
    drop((leased, queue));
    bus.shutdown(secs(1)).await.unwrap();
    drop(bus);
    let world = world.restart();
    let (_bus, queue) = pulling(&world).await;
    let again = queue.lease(1, secs(10)).send().await.unwrap();
    assert_eq!((again[0].id(), again[0].attempt()), (id, 1));
}

async fn an_extended_lease_ends_later(world: World) {
    let (bus, queue) = pulling(&world).await;
    queue.push(1, When::Now).await.unwrap();
    let mut leased = queue.lease(1, secs(2)).send().await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(leased[0].extend(secs(5)).await.unwrap(), LeaseStatus::Held);
    assert_eq!(leased[0].deadline(), bus.now() + secs(5));
    bus.advance(ms(4_999)).await;
    assert!(payloads(&queue, 1).await.is_empty());
    bus.advance(ms(101)).await;
    assert_eq!(payloads(&queue, 1).await, [1]);
    assert_eq!(leased[0].extend(secs(5)).await.unwrap(), LeaseStatus::Lost);
}

async fn a_shortened_lease_ends_earlier(world: World) {
    let (bus, queue) = pulling(&world).await;
    queue.push(1, When::Now).await.unwrap();
    let mut leased = queue.lease(1, secs(3_600)).send().await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(leased[0].extend(secs(5)).await.unwrap(), LeaseStatus::Held);
    bus.advance(ms(4_999)).await;
    assert!(payloads(&queue, 1).await.is_empty());
    bus.advance(ms(101)).await;
    assert_eq!(payloads(&queue, 1).await, [1]);
    assert_eq!(leased[0].ack().await.unwrap(), LeaseStatus::Lost);
}
