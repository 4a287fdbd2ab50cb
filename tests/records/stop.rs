//! A stop records what is left, and waits for no journal for long.

use duly::journal::RecorderOptions;
use duly::prelude::*;
use duly::testing::Probe;
use tokio::time::Instant;

use crate::records::bad::{Bad, Mode};
use crate::records::world::{ORDERS, Said, World, prompt, secs, status};

#[tokio::test(start_paused = true)]
async fn a_stop_records_what_is_left() {
    let world = World::new();
    let options = RecorderOptions {
        linger: secs(10),
        ..prompt()
    };
    let builder = world.builder(options);
    let (bus, queue) = world
        .start(builder.register_as(ORDERS, Probe::<u64>::new()))
        .await;
    queue.push_many(0..2_500, secs(0)).await.unwrap();
    bus.settle().await;
    assert_eq!(world.journal.loads(), [0; 0]);
    bus.shutdown(secs(1)).await.unwrap();
    world.has_all(2_500).await;
    assert_eq!(world.waiting().await, 0);
    assert_eq!(status(&bus).recorded, 2_500);
}

/// Also what the stop itself brings about.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_ends_while_the_bus_stops_is_recorded() {
    let world = World::new();
    let (bus, queue) = world.serve(&Probe::taking(secs(5))).await;
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    bus.shutdown(secs(30)).await.unwrap();
    assert_eq!(world.numbers().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_two_seconds_for_a_journal_that_hangs() {
    let said = Said::listen();
    let world = World::new();
    let (bus, queue) = world.serve(&Probe::<u64>::new()).await;
    world.journal.now(Mode::Hangs);
    queue.push_many(0..10, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    let began = Instant::now();
    bus.shutdown(secs(1)).await.unwrap();
    assert!(began.elapsed() <= secs(3), "{:?}", began.elapsed());
    assert_eq!(world.waiting().await, 10, "they stay in the store");
    let words = "the bus stops while records wait";
    assert_eq!(said.lines("WARN", words).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_journal_is_away_tries_once_more() {
    let world = World::new();
    let (bus, queue) = world.serve(&Probe::<u64>::new()).await;
    world.journal.now(Mode::Fails);
    queue.push_many(0..10, secs(0)).await.unwrap();
    bus.advance(secs(60)).await;
    world.journal.now(Mode::Works); // it waits before it tries again, and knows nothing of this
    bus.shutdown(secs(1)).await.unwrap();
    world.has_all(10).await;
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_its_own_is_closed_by_the_bus_and_a_shared_one_is_not() {
    let world = World::new();
    let (bus, _queue) = world.serve(&Probe::<u64>::new()).await;
    bus.shutdown(secs(1)).await.unwrap();
    assert!(!world.journal.is_closed());

    let hung = Bad::default();
    hung.now(Mode::Hangs);
    let builder = Bus::builder().only_registered().journal(hung);
    let (bus, _queue) = World::new().start(builder).await;
    let began = Instant::now();
    bus.shutdown(secs(1)).await.unwrap();
    assert!(began.elapsed() <= secs(5), "closing is not waited for long");
}
