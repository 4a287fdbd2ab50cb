//! Typed leases of annotated queues: they read what the queue's handler reads.

use duly::codec::{Codec, Frame};
use duly::prelude::*;
use duly::records::Cause;
use duly::{Annotation, OldPayload};

use crate::payloads::encrypted::ring;
use crate::world::{World, secs};

over_every_store! {
    a_lease_upgrades_what_the_handler_of_its_queue_would,
    a_lease_without_that_handler_takes_its_upgrade_from_the_annotation,
    a_failing_upgrade_is_a_dead_letter,
    a_queue_of_an_annotation_writes_as_that_says,
}

/// Version 2; version 1 and 0 were whole euros.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Price {
    cents: u64,
}

fn upgrade(old: OldPayload<'_>) -> Result<Price, Failure> {
    #[derive(Deserialize)]
    struct Euros {
        euros: u64,
    }
    let Euros { euros } = old.decode()?;
    match euros {
        13 => Err(Failure::permanent("nobody has 13")),
        euros => Ok(Price { cents: euros * 100 }),
    }
}

#[delay_event(queue = "prices", version = 2, upgrade = upgrade, register = false)]
async fn price(event: Event<Price>) -> Result<(), Failure> {
    assert!(event.payload.cents > 0);
    Ok(())
}

#[delay_event(
    queue = "cards",
    version = 3,
    encrypt = true,
    codec = "raw",
    register = false
)]
async fn card(event: Event<duly::codec::Raw>) -> Result<(), Failure> {
    assert!(!event.payload.is_empty());
    Ok(())
}

/// Pushes what a program of version 0 has pushed.
async fn push_old(world: &World, euros: u64) -> EventId {
    let old = world.start(world.builder().publish_only()).await;
    let queue = old.queue_named("prices").unwrap();
    let payload = serde_json::json!({ "euros": euros });
    queue.push(payload, When::Now).await.unwrap().id()
}

/// Leases two prices, of version 0 and of version 2.
async fn leased(queue: &Queue<Price>) {
    queue.push(Price { cents: 7 }, When::Now).await.unwrap();
    let leased = queue.lease(10, secs(60)).send().await.unwrap();
    let mut prices: Vec<_> = leased.iter().map(|it| it.event().payload.cents).collect();
    prices.sort_unstable();
    assert_eq!(prices, [7, 200]);
    for it in leased {
        let _ = it.ack().await.unwrap();
    }
}

async fn a_lease_upgrades_what_the_handler_of_its_queue_would(world: World) {
    push_old(&world, 2).await;
    // The handler is in this program and does not run, so that there is something to pull.
    let builder = world.builder().register(price {});
    let choices = QueueChoices {
        consume: Some(false),
        ..QueueChoices::default()
    };
    let bus = world.start(builder.queue("prices", choices)).await;
    leased(&bus.queue_named::<Price>("prices").unwrap()).await;
    push_old(&world, 2).await;
    leased(&bus.queue::<price>()).await;
    assert_eq!(bus.stats("prices").await.unwrap().dead, 0);
}

async fn a_lease_without_that_handler_takes_its_upgrade_from_the_annotation(world: World) {
    push_old(&world, 2).await;
    let bus = world.start(world.builder().publish_only()).await;
    leased(&bus.queue::<price>()).await;
    assert_eq!(bus.stats("prices").await.unwrap().dead, 0);
}

async fn a_failing_upgrade_is_a_dead_letter(world: World) {
    let id = push_old(&world, 13).await;
    let bus = world.start(world.builder().publish_only()).await;
    let leased = bus.queue::<price>().lease(10, secs(60)).send().await;
    assert!(leased.unwrap().is_empty());
    bus.settle().await;
    let history = bus.history(id).await.unwrap();
    assert_eq!(history[0].cause, Some(Cause::Undecodable));
    let words = history[0].error.as_deref().unwrap();
    assert!(words.contains("nobody has 13"), "{words}");
}

async fn a_queue_of_an_annotation_writes_as_that_says(world: World) {
    let payload = || duly::codec::Raw(b"4711".to_vec());
    let bus = world.start(world.builder().publish_only()).await;
    let error = bus
        .queue::<card>()
        .push(payload(), When::Now)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no active key"), "{error}");

    let builder = world.builder().publish_only().keys(ring(&["now"]));
    let bus = world.start(builder).await;
    let queue = bus.queue::<card>();
    let id = queue.push(payload(), When::Now).await.unwrap().id();
    let body = queue.get(id).await.unwrap().unwrap().body.unwrap();
    assert_eq!(body.version, 3);
    let stored = body.payload.as_bytes();
    assert!(!stored.windows(4).any(|it| it == b"4711"));
    let leased = queue.lease(1, secs(60)).send().await.unwrap();
    assert_eq!(leased[0].event().payload, payload());
    // A setting of the queue is stronger in what it says, and says nothing of the rest.
    let few = QueueChoices {
        workers: Some(7),
        version: Some(5),
        ..QueueChoices::default()
    };
    let builder = world.builder().publish_only().keys(ring(&["now"]));
    let bus = world.start(builder.queue("cards", few)).await;
    let queue = bus.queue::<card>();
    let id = queue.push(payload(), secs(9)).await.unwrap().id();
    let body = queue.get(id).await.unwrap().unwrap().body.unwrap();
    assert_eq!(body.version, 5);
    let frame = Frame::read(body.payload.as_bytes()).unwrap();
    assert_eq!((frame.codec, frame.key_id), (Codec::Raw, Some("now")));
    // Settings and a registered handler are stronger.
    let registered = Annotation::new("cards").codec(Codec::Json);
    let builder = world.builder().keys(ring(&["now"]));
    let builder = builder.register_as(registered, duly::testing::Probe::<duly::codec::Raw>::new());
    let bus = world.start(builder).await;
    let id = bus
        .queue::<card>()
        .push(payload(), secs(9))
        .await
        .unwrap()
        .id();
    let body = bus
        .queue::<card>()
        .get(id)
        .await
        .unwrap()
        .unwrap()
        .body
        .unwrap();
    assert_eq!(
        (body.version, body.payload.as_bytes()),
        (0, &b"[52,55,49,49]"[..])
    );
}
