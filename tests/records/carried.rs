//! Records reach the journal, each once, soon, and many at a time.

use std::time::Duration;

use duly::journal::RecorderOptions;
use duly::prelude::*;

use duly::testing::Probe;

use crate::bad::Mode;
use crate::world::{DAY, World, ids, long, ms, prompt, secs, status};

#[tokio::test(start_paused = true)]
async fn every_record_reaches_the_journal_and_leaves_the_outbox() {
    let world = World::new();
    let probe = Probe::<u64>::answering(|event, _cx| match event.payload % 2 {
        0 => Ok(()),
        _ => Err(Failure::permanent("odd")),
    });
    let (bus, queue) = world.serve(&probe).await;
    queue.push_many(0..3_000, secs(1)).await.unwrap();
    bus.advance(secs(2)).await;

    world.has_all(3_000).await;
    assert_eq!(world.waiting().await, 0);
    let status = status(&bus);
    assert_eq!(
        (status.recorded, status.waiting, status.dropped),
        (3_000, 0, 0)
    );
    assert_eq!((status.away_since, status.last_error), (None, None));
    let outboxes = world.journal.outboxes();
    assert_eq!(outboxes, ["store/store"]);
}

/// What comes while something is loaded is not forgotten.
#[tokio::test(start_paused = true)]
async fn what_is_written_during_a_load_is_carried_by_the_next() {
    let world = World::new();
    let (bus, queue) = world.serve(&Probe::<u64>::new()).await;
    world.journal.now(Mode::Takes(secs(5)));
    queue.push_now(1).await.unwrap();
    bus.advance(secs(1)).await; // it is being loaded
    queue.push_now(2).await.unwrap();
    bus.advance(secs(10)).await;
    assert_eq!(world.journal.loads(), [1, 1]);
    assert_eq!(world.numbers().await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_comes_within_the_linger_is_loaded_together() {
    let world = World::new();
    let options = RecorderOptions {
        linger: ms(50),
        ..prompt()
    };
    let (bus, queue) = world
        .start(
            world
                .builder(options)
                .register_as(crate::world::ORDERS, Probe::<u64>::new()),
        )
        .await;
    for payload in 0..40 {
        queue.push_now(payload).await.unwrap();
        bus.advance(ms(1)).await;
    }
    assert_eq!(world.journal.loads(), [0; 0]);
    bus.advance(ms(11)).await;
    assert_eq!(world.journal.loads(), [40]);
    queue.push_now(40).await.unwrap();
    bus.advance(ms(51)).await;
    assert_eq!(world.journal.loads(), [40, 1]);
}

/// The 50 ms of the defaults, on a bus that chooses nothing.
#[tokio::test(start_paused = true)]
async fn a_record_is_in_the_journal_a_tenth_of_a_second_later() {
    let world = World::new();
    let options = RecorderOptions::default();
    let (bus, queue) = world.start(world.builder(options)).await;
    let id = queue.push(1, secs(60)).await.unwrap().id();
    queue.cancel(id).await.unwrap();
    bus.advance(ms(100)).await;
    assert_eq!(ids(&world.journal.all().await), [id]);
}

/// Sixteen megabytes or so, whatever the records hold.
#[tokio::test(start_paused = true)]
async fn a_load_is_bounded_in_records_and_in_bytes() {
    let world = World::new();
    world.journal.now(Mode::Fails);
    let payload = long(60_000);
    let options = RecorderOptions {
        retry_max: ms(100),
        ..prompt()
    };
    let queue = duly::QueueChoices {
        keep_payload: Some(true),
        ..Default::default()
    };
    let builder = world.builder(options).queue("texts", queue);
    let (bus, _) = world.start(builder).await;
    let texts: Queue<String> = bus.queue_named("texts").unwrap();
    for _ in 0..1_500 {
        let receipt = texts.push(payload.clone(), secs(60)).await.unwrap();
        texts.cancel(receipt.id()).await.unwrap();
    }
    world.journal.now(Mode::Works);
    let before = world.journal.loads().len();
    bus.advance(secs(1)).await;
    assert_eq!(world.numbers().await.len(), 1_500);
    let loads = world.journal.loads();
    let most = loads[before + 1..].iter().max().copied();
    assert!(most <= Some((20 << 20) / 60_000), "{loads:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_tells_nobody_is_looked_into_again_and_again() {
    let world = World::new();
    let deaf = crate::deaf::Deaf::to(&world.store);
    let options = RecorderOptions {
        look_every: Some(secs(10)),
        ..prompt()
    };
    let builder = world.builder(options).shared_store(deaf);
    let (bus, queue) = world.start(builder).await;
    for _ in 0..3 {
        let id = queue.push(1, secs(60)).await.unwrap().id();
        queue.cancel(id).await.unwrap();
        bus.advance(secs(11)).await;
        assert_eq!(world.waiting().await, 0);
    }
    assert_eq!(world.numbers().await, [1, 2, 3]);
}

/// Nothing is asked of the journal, and the store is looked into seldom.
#[tokio::test(start_paused = true)]
async fn an_idle_recorder_does_nothing() {
    let world = World::new();
    let (bus, _queue) = world.serve(&Probe::<u64>::new()).await;
    bus.advance(DAY / 2).await;
    assert_eq!(world.journal.loads(), [0; 0]);
    assert!(world.store.look_every() >= Duration::from_secs(1));
}
