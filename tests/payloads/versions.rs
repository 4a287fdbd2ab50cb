//! Payloads of older versions and of newer ones.

use std::sync::Arc;

use duly::event::{BucketKey, Payload};
use duly::prelude::*;
use duly::records::Cause;
use duly::store::operation::{Rewriting, StoreOp};
use duly::store::{MemoryStore, Store};
use duly::testing::{Probe, TestBus, VirtualClock};
use duly::{Annotated, Annotation, OldPayload};

use crate::payloads::encrypted::ring;
use crate::payloads::letter;
use crate::world::{ORDERS, World, secs};

over_every_store! {
    an_older_payload_is_upgraded_and_a_new_one_is_not,
    an_older_payload_is_upgraded_through_codec_and_cipher,
    an_upgrade_that_fails_or_panics_makes_a_dead_letter_with_the_reason,
    an_older_payload_without_an_upgrade_is_read_as_it_is,
    a_newer_payload_is_tried_and_tried_again_before_it_is_buried,
    what_an_update_writes_is_of_the_version_of_who_wrote_it,
    an_older_build_replaces_what_a_newer_one_has_pushed_by_what_is_older,
    who_does_not_know_the_type_replaces_a_payload_by_one_of_its_version,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Euros {
    euros: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cents {
    cents: u64,
}

fn in_cents(old: OldPayload<'_>) -> Result<Cents, Failure> {
    let Euros { euros } = old.decode()?;
    match euros {
        13 => panic!("unlucky"),
        0 => Err(Failure::retry("nothing to pay")),
        _ => Ok(Cents {
            cents: euros * 100 + u64::from(old.version()),
        }),
    }
}

#[delay_event(queue = "orders", version = 2, upgrade = in_cents, register = false, backoff = "fixed(1s)")]
struct Prices(Probe<Cents>);

impl Handler for Prices {
    type Payload = Cents;

    async fn handle(&self, event: Event<Cents>, cx: &Context) -> Result<(), Failure> {
        self.0.handle(event, cx).await
    }
}

fn version(version: u32) -> QueueChoices {
    QueueChoices {
        version: Some(version),
        ..QueueChoices::default()
    }
}

/// Pushes by a build whose payloads are of this version.
async fn push<T: Serialize + Send + Sync + 'static>(
    world: &World,
    by: QueueChoices,
    payload: T,
) -> EventId {
    let builder = world.builder().publish_only().keys(ring(&["k1"]));
    let bus = world.start(builder.queue("orders", by)).await;
    let queue = bus.queue_to_push("orders").unwrap();
    queue.push(payload, secs(1)).await.unwrap().id()
}

async fn an_older_payload_is_upgraded_and_a_new_one_is_not(world: World) {
    push(&world, version(1), Euros { euros: 3 }).await;
    push(&world, version(0), Euros { euros: 4 }).await;
    push(&world, version(2), Cents { cents: 5 }).await;
    let probe = Probe::new();
    let bus = world
        .start(world.builder().register(Prices(probe.clone())))
        .await;
    bus.advance(secs(2)).await;
    let mut seen: Vec<u64> = probe.payloads().iter().map(|it: &Cents| it.cents).collect();
    seen.sort_unstable();
    assert_eq!(seen, [5, 301, 400]);
}

async fn an_older_payload_is_upgraded_through_codec_and_cipher(world: World) {
    let by = QueueChoices {
        encrypt: Some(true),
        ..version(1)
    };
    push(&world, by, Euros { euros: 3 }).await;
    let probe = Probe::new();
    let builder = world.builder().keys(ring(&["k1"]));
    let bus = world.start(builder.register(Prices(probe.clone()))).await;
    bus.advance(secs(2)).await;
    assert_eq!(probe.payloads(), [Cents { cents: 301 }]);
}

async fn an_upgrade_that_fails_or_panics_makes_a_dead_letter_with_the_reason(world: World) {
    let probe = Probe::new();
    let bus = world
        .start(world.builder().register(Prices(probe.clone())))
        .await;
    for (euros, words) in [
        (
            0,
            "the payload of version 1 could not be upgraded: nothing to pay",
        ),
        (
            13,
            "the payload of version 1 could not be upgraded: its upgrade panicked: unlucky",
        ),
    ] {
        let id = push(&world, version(1), Euros { euros }).await;
        bus.advance(secs(2)).await;
        let dead = letter(&bus, id).await;
        assert_eq!(
            (dead.cause(), dead.error()),
            (Some(Cause::Undecodable), Some(words))
        );
    }
    assert_eq!(probe.count(), 0);
}

async fn an_older_payload_without_an_upgrade_is_read_as_it_is(world: World) {
    let id = push(&world, version(1), 7_u64).await;
    let other = push(&world, version(1), "seven").await;
    let probe = Probe::<u64>::new();
    let (bus, _) = world.serve(ORDERS.version(2), &probe).await;
    bus.advance(secs(2)).await;
    assert_eq!(probe.seen()[0].id, id);
    assert_eq!(letter(&bus, other).await.cause(), Some(Cause::Undecodable));
}

async fn a_newer_payload_is_tried_and_tried_again_before_it_is_buried(world: World) {
    const ONE: Annotation = ORDERS.version(1).attempts(3);
    let readable = push(&world, version(2), 7_u64).await;
    let waits = push(&world, version(2), "seven").await;
    let probe = Probe::<u64>::new();
    let (bus, _) = world.serve(ONE.attempts(3), &probe).await;
    bus.advance(secs(2)).await;
    assert_eq!(probe.seen()[0].id, readable);
    let outcomes = bus.outcomes(waits).await.unwrap();
    assert_eq!(outcomes[..2], [Outcome::Retried, Outcome::Retried]);
    let words = bus.history(waits).await.unwrap().remove(0).error.unwrap();
    assert!(
        words.contains("version 2 does not decode here, where version 1"),
        "{words}"
    );
    bus.shutdown(secs(1)).await.unwrap();

    // The new build comes before the attempts are used up.
    let world = world.restart();
    let probe = Probe::<String>::new();
    let (bus, _) = world.serve(ORDERS.version(2), &probe).await;
    bus.advance(secs(2)).await;
    assert_eq!(probe.payloads(), ["seven"]);
}

#[derive(Clone, Copy, Debug)]
enum Consumer {
    Handler,
    Lease,
    LeaseOfBytes,
}

/// Waits until the events that are due have been consumed.
async fn consume(bus: &TestBus, by: Consumer) -> usize {
    let queue = bus.queue_named::<String>("orders").unwrap();
    match by {
        Consumer::Handler => {
            bus.settle().await;
            0
        }
        Consumer::Lease => queue.lease(10, secs(60)).send().await.unwrap().len(),
        Consumer::LeaseOfBytes => {
            let queues = ["orders".parse().unwrap()];
            let lease = bus.lease_from(&queues, 10, secs(60));
            lease.send().await.unwrap().len()
        }
    }
}

/// Of a codec or a cipher that this build does not know.
#[tokio::test(start_paused = true)]
async fn a_payload_of_a_newer_duly_is_tried_again_whoever_consumes_it() {
    const THREE: Annotation = ORDERS.attempts(3);
    const NEWER: [&[u8]; 4] = [
        b"\xFA\x03\0it",
        b"\xFA\x40\0it",
        b"\xFA\x8F\0\x02\0\0\0it",
        b"\xFA\0\x02\x02k1it",
    ];
    for (frame, by) in NEWER.iter().flat_map(|frame| {
        [Consumer::Handler, Consumer::Lease, Consumer::LeaseOfBytes].map(|by| (*frame, by))
    }) {
        let clock = Arc::new(VirtualClock::new());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _));
        let builder = Bus::builder().shared_store(Arc::clone(&store));
        let mut builder = builder.register_as(THREE, Probe::<String>::new());
        if !matches!(by, Consumer::Handler) {
            builder = builder.publish_only();
        }
        let bus = TestBus::start_on(clock, builder).await.unwrap();
        let queue = bus.queue_named::<String>("orders").unwrap();
        let event = queue.event("it".to_owned()).after(secs(1));
        let id = event.push().await.unwrap().id();
        let body = queue.get(id).await.unwrap().unwrap().body.unwrap();
        let rewriting = Rewriting {
            id,
            was: body.fingerprint(),
            payload: Payload::from(frame.to_vec()),
        };
        let bucket = BucketKey::new("orders".parse().unwrap(), body.bucket());
        let rewritten = StoreOp::rewrite(vec![rewriting]).apply(&*store, &bucket);
        assert_eq!(rewritten.await.unwrap(), 1);
        for _ in 0..3 {
            bus.advance(secs(600)).await;
            assert_eq!(consume(&bus, by).await, 0);
            bus.settle().await;
        }
        let outcomes = bus.outcomes(id).await.unwrap();
        let expected = [Outcome::Retried, Outcome::Retried, Outcome::Buried];
        assert_eq!(outcomes, expected, "{by:?}, {frame:?}");
        let letter = letter(&bus, id).await;
        assert_eq!(letter.cause(), Some(Cause::Undecodable));
        let words = letter.error().unwrap();
        assert!(words.contains("which a newer duly may know"), "{words}");
    }
}

async fn what_an_update_writes_is_of_the_version_of_who_wrote_it(world: World) {
    let updated = push(&world, version(1), Euros { euros: 3 }).await;
    let probe = Probe::new();
    let bus = world
        .start(world.builder().register(Prices(probe.clone())))
        .await;
    assert_eq!(Prices::ANNOTATION.version, Some(2));
    let queue = bus.queue::<Prices>();
    let _ = queue.update(updated, &Cents { cents: 7 }).await.unwrap();
    let edited = push(&world, version(1), Euros { euros: 0 }).await;
    bus.advance(secs(2)).await;
    bus.dead_letters()
        .edit(edited, &Cents { cents: 8 })
        .await
        .unwrap();
    assert_eq!(bus.dead_letters().revive([edited]).await.unwrap().done, 1);
    bus.advance(secs(2)).await;
    assert_eq!(probe.payloads(), [Cents { cents: 7 }, Cents { cents: 8 }]);
}

/// As in a deploy: the newer build has pushed an event, the older one changes it, the newer one
/// handles it.
async fn an_older_build_replaces_what_a_newer_one_has_pushed_by_what_is_older(world: World) {
    for by in [0, 1] {
        let pushed = push(&world, version(2), Cents { cents: 900 }).await;
        let builder = world.builder().publish_only();
        let older = world.start(builder.queue("orders", version(by))).await;
        let queue = older.queue_named("orders").unwrap();
        let changed = queue.update(pushed, &Euros { euros: 3 }).await.unwrap();
        assert!(matches!(changed, ChangeOutcome::Changed(_)), "{changed:?}");
        let probe = Probe::new();
        let builder = world.builder().register(Prices(probe.clone()));
        let bus = world.start(builder).await;
        bus.advance(secs(2)).await;
        let cents = 300 + u64::from(by);
        assert_eq!(probe.payloads(), [Cents { cents }], "by version {by}");
    }
}

async fn who_does_not_know_the_type_replaces_a_payload_by_one_of_its_version(world: World) {
    // Of version 1 as it was pushed, and of version 2 since an update.
    let old = push(&world, version(1), Euros { euros: 3 }).await;
    let new = push(&world, version(1), Euros { euros: 3 }).await;
    let builder = world.builder().publish_only();
    let builder = builder.queue("orders", version(2));
    let newer = world.start(builder).await;
    let queue = newer.queue_named("orders").unwrap();
    let _ = queue.update(new, &Cents { cents: 7 }).await.unwrap();
    let stranger = world.start(world.builder().publish_only()).await;
    let queue = stranger.queue_to_push("orders").unwrap();
    let _ = queue.update(old, &Euros { euros: 4 }).await.unwrap();
    let queue = stranger.queue_to_push("orders").unwrap();
    let _ = queue.update(new, &Cents { cents: 8 }).await.unwrap();
    let probe = Probe::new();
    let builder = world.builder().register(Prices(probe.clone()));
    let bus = world.start(builder).await;
    bus.advance(secs(2)).await;
    let mut seen: Vec<u64> = probe.payloads().iter().map(|it: &Cents| it.cents).collect();
    seen.sort_unstable();
    assert_eq!(seen, [8, 401]);
}
