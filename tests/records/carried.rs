//! Records reach the journal, each once, soon, and many at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use duly::EventId;
use duly::event::{BucketId, BucketKey};
use duly::journal::RecorderOptions;
use duly::prelude::*;
use duly::records::{NodeId, Numbered, Outcome, Record, Stages};
use duly::store::Outbox;
use duly::testing::Probe;
use duly::time::Timestamp;

use crate::records::bad::Mode;
use crate::records::deaf::Deaf;
use crate::records::world::{DAY, World, ids, long, ms, prompt, secs, status};

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
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(1)).await; // it is being loaded
    queue.push(2, When::Now).await.unwrap();
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
                .register_as(crate::records::world::ORDERS, Probe::<u64>::new()),
        )
        .await;
    for payload in 0..40 {
        queue.push(payload, When::Now).await.unwrap();
        bus.advance(ms(1)).await;
    }
    assert_eq!(world.journal.loads(), [0; 0]);
    bus.advance(ms(11)).await;
    assert_eq!(world.journal.loads(), [40]);
    queue.push(40, When::Now).await.unwrap();
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
    let _ = queue.cancel(id).await.unwrap();
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
    let queue = duly::config::QueueChoices {
        keep_payload: Some(true),
        ..Default::default()
    };
    let builder = world.builder(options).queue("texts", queue);
    let (bus, _) = world.start(builder).await;
    let texts: Queue<String> = bus.queue_named("texts").unwrap();
    for _ in 0..1_500 {
        let receipt = texts.push(payload.clone(), secs(60)).await.unwrap();
        let _ = texts.cancel(receipt.id()).await.unwrap();
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
    let deaf = crate::records::deaf::Deaf::to(&world.store);
    let options = RecorderOptions {
        fallback_poll_every: Some(secs(10)),
        ..prompt()
    };
    let builder = world.builder(options).shared_store(deaf);
    let (bus, queue) = world.start(builder).await;
    for _ in 0..3 {
        let id = queue.push(1, secs(60)).await.unwrap().id();
        let _ = queue.cancel(id).await.unwrap();
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
    assert!(world.store.fallback_poll_every() >= Duration::from_secs(1));
}

/// Outboxes of this many buckets, with so many records each that finished then, and the ids of all.
pub(crate) fn outboxes(
    buckets: u16,
    records: u64,
    finished_us: u64,
) -> (BTreeMap<Outbox, Vec<Numbered>>, BTreeSet<EventId>) {
    let mut ids = BTreeSet::new();
    let mut outboxes = BTreeMap::new();
    for bucket in 0..buckets {
        let of_bucket = (1..=records).map(|number| {
            let entropy = u64::from(bucket) << 32 | number;
            let created = Timestamp::from_millis(finished_us / 1_000);
            let id = EventId::from_parts(created, BucketId(bucket), entropy);
            ids.insert(id);
            (number, acked(id, finished_us))
        });
        let key = BucketKey::new("orders".parse().expect("a legal name"), BucketId(bucket));
        outboxes.insert(Outbox::Bucket(key), of_bucket.collect());
    }
    (outboxes, ids)
}

fn acked(id: EventId, finished_us: u64) -> Record {
    Record {
        id,
        queue: "orders".parse().expect("a legal name"),
        key: None,
        attempt: 1,
        outcome: Outcome::Acked,
        cause: None,
        due: Timestamp::from_millis(finished_us / 1_000),
        stages: Stages {
            moved_us: finished_us,
            fetched_us: finished_us,
            started_us: finished_us,
            finished_us,
        },
        node: NodeId(7),
        error: None,
        trace: None,
        payload: None,
        by: None,
    }
}

/// What waits of many outboxes is loaded two loads at a time, and each record is there once,
/// although some loads fail on the way.
#[tokio::test(start_paused = true)]
async fn a_long_wait_is_made_up_for_by_two_loads_at_a_time() {
    for fails in [false, true] {
        let world = World::new();
        let (outboxes, ids) = outboxes(40, 1_500, world.store.now_us());
        let store = Deaf::with(&world.store, outboxes);
        world.journal.now(Mode::Takes(ms(100)));
        let builder = world
            .builder(prompt())
            .shared_store(Arc::clone(&store) as _);
        let (bus, _) = world.start(builder).await;
        // Three loads, one after the other, of some of the records of each outbox.
        bus.advance(ms(250)).await;
        if fails {
            // The next two, while the turn of the third has not come.
            world.journal.now(Mode::LosesAnswers);
            bus.advance(ms(250)).await;
            world.journal.now(Mode::Takes(ms(100)));
        }
        bus.advance(secs(60)).await;
        let found = world.journal.all().await;
        assert_eq!(found.len(), ids.len());
        assert_eq!(
            found.iter().map(|(_, it)| it.id).collect::<BTreeSet<_>>(),
            ids
        );
        assert_eq!(store.waiting(), 0);
        assert_eq!(world.journal.most_under_way(), 2);
    }
}

/// While one load takes its time, what the other lane has goes on, so far as a pass goes.
#[tokio::test(start_paused = true)]
async fn a_load_that_takes_its_time_does_not_hold_up_the_other_lane() {
    let world = World::new();
    let (outboxes, _) = outboxes(2, 60_000, world.store.now_us());
    let store = Deaf::with(&world.store, outboxes);
    world.journal.now(Mode::Takes(ms(100)));
    let builder = world
        .builder(prompt())
        .shared_store(Arc::clone(&store) as _);
    let (bus, _) = world.start(builder).await;
    // The first load has some records of both, and is one lane's.
    bus.advance(ms(50)).await;
    assert_eq!(world.journal.loads().len(), 1);
    world.journal.now(Mode::OneTakes(secs(1)));
    bus.advance(ms(500)).await;
    assert_eq!(world.journal.most_under_way(), 2);
    assert!(world.journal.loads().len() > 4, "one waits for the other");
    bus.advance(secs(60)).await;
    assert_eq!(store.waiting(), 0);
    assert_eq!(world.journal.all().await.len(), 120_000);
}
