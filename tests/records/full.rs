//! An outbox that is full because the journal is away.

use duly::journal::RecordChoices;
use duly::prelude::*;
use duly::store::{MemoryStore, OutboxLimit, WhenFull};
use duly::testing::{Probe, TestBus};

use crate::records::bad::Mode;
use crate::records::world::{ORDERS, Said, World, prompt, secs, status};

/// Buses on a world whose outbox takes 50 records, and a journal that takes none. `limit`: what the
/// settings say, of which a store that several processes share may keep less.
async fn full(
    world: World,
    (when_full, limit): (WhenFull, u64),
    probe: &Probe<u64>,
) -> (World, TestBus, Queue<u64>) {
    let choices = RecordChoices {
        outbox_max: Some(limit),
        when_full: Some(when_full),
        ..RecordChoices::default()
    };
    let builder = world.builder(prompt()).records(choices);
    let (bus, queue) = world
        .start(builder.register_as(ORDERS, probe.clone()))
        .await;
    let max = Some(50);
    let share = OutboxLimit { max, when_full };
    world.store.limit_outboxes(share).expect("it can");
    queue.push(0, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    world.journal.now(Mode::Fails);
    (world, bus, queue)
}

#[tokio::test(start_paused = true)]
async fn the_oldest_are_dropped_and_that_is_logged_and_counted() {
    for limit in [50, 1_000, 100_000] {
        for world in [World::new(), World::with(MemoryStore::shared)] {
            drops_and_counts(world, limit).await;
        }
    }
}

async fn drops_and_counts(world: World, limit: u64) {
    let said = Said::listen();
    let probe = Probe::<u64>::new();
    let (world, bus, queue) = full(world, (WhenFull::DropOldest, limit), &probe).await;
    queue.push_many(1..=80, secs(0)).await.unwrap();
    bus.advance(secs(10)).await;
    assert_eq!(probe.count(), 81, "handlers go on");
    assert_eq!(world.waiting().await, 50);

    world.journal.now(Mode::Works);
    bus.advance(secs(6)).await;
    let status = status(&bus);
    assert_eq!((status.dropped, status.waiting), (30, 0), "{status:?}");
    let mut kept = vec![1];
    kept.extend(32..=81);
    assert_eq!(world.numbers().await, kept);
    let lines = said.lines("ERROR", "has let go of records");
    let counted: u64 = lines.iter().map(|line| count(line)).sum();
    assert_eq!(counted, 30, "{lines:?}");
}

/// The number after `records=`.
fn count(line: &str) -> u64 {
    let (_, rest) = line.split_once("records=").expect("it says how many");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[tokio::test(start_paused = true)]
async fn pushes_are_refused_and_no_record_is_dropped() {
    let said = Said::listen();
    let probe = Probe::<u64>::new();
    let refuses = (WhenFull::RefusePushes, 50);
    let (world, bus, queue) = full(World::new(), refuses, &probe).await;
    queue.push_many(1..=80, secs(0)).await.unwrap();
    bus.advance(secs(10)).await;
    assert_eq!(probe.count(), 81, "what is there is handled");
    let refused = queue.push(81, When::Now).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full);
    assert_eq!(world.waiting().await, 80);

    world.journal.now(Mode::Works);
    bus.advance(secs(6)).await;
    queue.push(81, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    world.has_all(82).await;
    assert_eq!(status(&bus).dropped, 0);
    assert_eq!(said.lines("ERROR", ""), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_a_journal_pushes_cannot_be_refused_for_it() {
    let world = World::new();
    let choices = RecordChoices {
        when_full: Some(WhenFull::RefusePushes),
        ..RecordChoices::default()
    };
    let builder = Bus::builder().only_registered().records(choices);
    let refused = TestBus::start_on(world.clock, builder).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(
        refused.to_string().contains("records.when_full"),
        "{refused}"
    );
}
