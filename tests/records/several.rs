//! Several buses and one journal: each record is there once, whoever carries it.

use duly::journal::RecorderOptions;
use duly::store::MemoryStore;
use duly::testing::Probe;

use crate::records::bad::Mode;
use crate::records::world::{ORDERS, Said, World, prompt, secs, status};

#[tokio::test(start_paused = true)]
async fn two_buses_on_one_store_record_each_attempt_once() {
    let said = Said::listen();
    let world = World::with(MemoryStore::shared);
    let (one, other) = (Probe::<u64>::new(), Probe::<u64>::new());
    let (first, queue) = world.serve(&one).await;
    let (second, _queue) = world.serve(&other).await;
    for _ in 0..20 {
        queue.push_many(0..100, secs(0)).await.unwrap();
        first.advance(secs(1)).await;
    }
    second.advance(secs(5)).await;
    assert_eq!(one.count() + other.count(), 2_000);
    world.has_all(2_000).await;
    assert_eq!(world.waiting().await, 0);
    for bus in [&first, &second] {
        assert_eq!(
            status(bus).dropped,
            0,
            "what another one carried is not lost"
        );
    }
    assert_eq!(said.lines("ERROR", ""), [""; 0]);
}

/// Loaded by one, read by the other before it was trimmed, and so on: at any speed of either.
#[tokio::test(start_paused = true)]
async fn a_slow_bus_beside_a_quick_one_does_no_harm() {
    let world = World::with(MemoryStore::shared);
    let slow = RecorderOptions {
        linger: secs(3),
        ..prompt()
    };
    let builder = world.builder(slow).register_as(ORDERS, Probe::<u64>::new());
    let (_slow, queue) = world.start(builder).await;
    let (quick, _queue) = world.serve(&Probe::<u64>::new()).await;
    for second in 0..30 {
        world.journal.now(match second % 3 {
            0 => Mode::LosesAnswers,
            1 => Mode::Takes(secs(1)),
            _ => Mode::Works,
        });
        queue.push_many(0..50, secs(0)).await.unwrap();
        quick.advance(secs(1)).await;
    }
    world.journal.now(Mode::Works);
    quick.advance(secs(10)).await;
    world.has_all(1_500).await;
    assert_eq!(world.waiting().await, 0);
}

/// What one has carried the other does not find any more, and so loads nothing.
#[tokio::test(start_paused = true)]
async fn a_journal_is_back_for_each_bus_whoever_has_carried_what_waited() {
    let said = Said::listen();
    let world = World::with(MemoryStore::shared);
    let (first, queue) = world.serve(&Probe::<u64>::new()).await;
    let (second, _queue) = world.serve(&Probe::<u64>::new()).await;
    world.journal.now(Mode::Fails);
    queue.push_many(0..100, secs(0)).await.unwrap();
    first.advance(secs(60)).await;
    for bus in [&first, &second] {
        let away = status(bus);
        assert!(away.away_since.is_some() && away.waiting == 100, "{away:?}");
    }
    world.journal.now(Mode::Works);
    first.advance(secs(10)).await;
    world.has_all(100).await;
    assert_eq!(said.lines("INFO", "journal available again").len(), 2);
    for bus in [&first, &second] {
        let back = status(bus);
        assert_eq!((back.away_since, back.waiting), (None, 0), "{back:?}");
        assert_eq!(back.lag, secs(0), "{back:?}");
    }
}

/// A bus handles a hundred events while its journal does badly, and is killed; answers how many
/// are in the journal by then. The next one, whose journal is well, has all of them recorded once.
async fn left_to_the_next(mode: Mode) -> usize {
    let world = World::new();
    world.journal.now(mode);
    let (bus, queue) = world.serve(&Probe::<u64>::new()).await;
    queue.push_many(0..100, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    drop((bus, queue)); // it is killed
    let there = world.numbers().await.len();
    assert_eq!(world.waiting().await, 100);

    world.journal.now(Mode::Works);
    let (bus, _queue) = world.start(world.builder(prompt())).await;
    bus.advance(secs(1)).await;
    world.has_all(100).await;
    assert_eq!(world.waiting().await, 0);
    there
}

#[tokio::test(start_paused = true)]
async fn what_a_bus_left_behind_is_recorded_by_the_next_at_its_start() {
    assert_eq!(left_to_the_next(Mode::Fails).await, 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_loaded_and_not_trimmed_is_there_once() {
    assert_eq!(left_to_the_next(Mode::LosesAnswers).await, 100);
}
