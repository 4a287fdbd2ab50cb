//! Codecs: what lies in the store, and that it is read whatever the queue says later.

use duly::__server::payloads;
use duly::BusBuilder;
use duly::codec::{Codec, Frame, Raw};
use duly::prelude::*;
use duly::testing::Probe;

use crate::payloads::{letter, stored};
use crate::world::{ORDERS, World, secs};

over_every_store! {
    json_lies_in_the_store_as_it_is,
    raw_bytes_come_back_whatever_they_are,
    what_was_pushed_by_another_codec_is_read_all_the_same,
    an_update_and_an_edit_are_written_by_the_queue_s_codec,
    what_is_not_bytes_is_refused_by_the_codec_raw,
    what_was_encoded_before_is_stored_as_it_was,
}

fn by(codec: Codec) -> QueueChoices {
    QueueChoices {
        codec: Some(codec),
        ..QueueChoices::default()
    }
}

fn pusher(world: &World, codec: Codec) -> BusBuilder {
    world.builder().publish_only().queue("orders", by(codec))
}

async fn json_lies_in_the_store_as_it_is(world: World) {
    let (_bus, queue) = world.push_only::<(u64, String)>("orders").await;
    let id = queue
        .push((7, "a".to_owned()), secs(60))
        .await
        .unwrap()
        .id();
    assert_eq!(stored(&queue, id).await.as_bytes(), br#"[7,"a"]"#);
}

async fn raw_bytes_come_back_whatever_they_are(world: World) {
    let probe = Probe::<Raw>::new();
    let builder = world
        .builder()
        .register_as(ORDERS.codec(Codec::Raw), probe.clone());
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<Raw>("orders").unwrap();
    let all: Vec<Raw> = (0..=255_u8)
        .map(|first| Raw::from(vec![first, 0, 255]))
        .collect();
    queue.push_many(all.clone(), secs(1)).await.unwrap();
    let id = queue.push(Raw::default(), secs(2)).await.unwrap().id();
    assert_eq!(stored(&queue, id).await.as_bytes(), [0xFA, 2, 0]);
    bus.advance(secs(3)).await;
    let mut seen = probe.payloads();
    assert_eq!(seen.pop(), Some(Raw::default()));
    seen.sort();
    assert_eq!(seen, all);
}

async fn what_was_pushed_by_another_codec_is_read_all_the_same(world: World) {
    let before = world.start(pusher(&world, Codec::Json)).await;
    let queue = before.queue_named::<Raw>("orders").unwrap();
    queue.push(Raw(vec![1, 2]), secs(60)).await.unwrap();
    let later = world.start(pusher(&world, Codec::Raw)).await;
    let queue = later.queue_named::<Raw>("orders").unwrap();
    queue.push(Raw(vec![3, 4]), secs(61)).await.unwrap();

    let probe = Probe::<Raw>::new();
    let (bus, _) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(100)).await;
    assert_eq!(probe.payloads(), [Raw(vec![1, 2]), Raw(vec![3, 4])]);
}

async fn an_update_and_an_edit_are_written_by_the_queue_s_codec(world: World) {
    let probe = Probe::<Raw>::answering(|event, _cx| match event.payload.0[0] {
        b'x' => Err(Failure::permanent("no")),
        _ => Ok(()),
    });
    let (bus, _) = world.serve(ORDERS.codec(Codec::Raw), &probe).await;
    let queue = bus.queue_named::<Raw>("orders").unwrap();
    let updated = queue.push(Raw(b"a".to_vec()), secs(60)).await.unwrap().id();
    let _ = queue.update(updated, &Raw(b"b".to_vec())).await.unwrap();
    assert_eq!(stored(&queue, updated).await.as_bytes(), b"\xFA\x02\0b");

    let dead = queue
        .push(Raw(b"x".to_vec()), When::Now)
        .await
        .unwrap()
        .id();
    bus.advance(secs(1)).await;
    let letter = letter(&bus, dead).await;
    assert_eq!(letter.payload_as::<Raw>().unwrap(), Raw(b"x".to_vec()));
    assert_eq!(letter.payload_shown(), "x");
    bus.dead_letters()
        .edit(dead, &Raw(b"y".to_vec()))
        .await
        .unwrap();
    assert_eq!(stored(&queue, dead).await.as_bytes(), b"\xFA\x02\0y");
    bus.dead_letters()
        .edit_bytes(dead, b"\xFAz".to_vec())
        .await
        .unwrap();
    assert_eq!(stored(&queue, dead).await.as_bytes(), b"\xFA\x02\0\xFAz");
    assert_eq!(bus.dead_letters().revive([dead]).await.unwrap().done, 1);
    bus.advance(secs(100)).await;
    assert_eq!(probe.payloads().pop(), Some(Raw(b"b".to_vec())));
}

async fn what_is_not_bytes_is_refused_by_the_codec_raw(world: World) {
    let bus = world.start(pusher(&world, Codec::Raw)).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let error = queue.push(7, When::Now).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let queue = bus.queue_named::<Vec<u8>>("orders").unwrap();
    assert!(
        queue.push(vec![7], When::Now).await.is_err(),
        "a list of numbers is no bytes to serde"
    );
}

#[cfg(feature = "msgpack")]
#[tokio::test(start_paused = true)]
async fn messagepack_has_the_names_of_fields_so_that_a_type_may_grow() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Old {
        order: u64,
    }
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct New {
        #[serde(default)]
        note: Option<String>,
        order: u64,
    }
    let world = World::memory();
    let bus = world.start(pusher(&world, Codec::MsgPack)).await;
    let queue = bus.queue_named::<Old>("orders").unwrap();
    let id = queue.push(Old { order: 7 }, secs(60)).await.unwrap().id();
    assert_eq!(
        stored(&queue, id).await.as_bytes(),
        b"\xFA\x01\0\x81\xA5order\x07"
    );

    let probe = Probe::<New>::answering(|_event, _cx| Err(Failure::permanent("no")));
    let (bus, _) = world.serve(ORDERS, &probe).await;
    bus.advance(secs(61)).await;
    assert_eq!(
        probe.payloads(),
        [New {
            note: None,
            order: 7
        }]
    );
    let letter = letter(&bus, id).await;
    assert_eq!(letter.payload_shown(), "{\n  \"order\": 7\n}");
}

#[cfg(not(feature = "msgpack"))]
#[tokio::test(start_paused = true)]
async fn messagepack_without_its_feature_fails_the_start() {
    let world = World::memory();
    let started = pusher(&world, Codec::MsgPack)
        .settings(Default::default())
        .start()
        .await;
    let error = started.unwrap_err().to_string();
    assert!(error.contains("needs duly's feature `msgpack`"), "{error}");
}

async fn what_was_encoded_before_is_stored_as_it_was(world: World) {
    let (_bus, queue) = world.push_only::<Raw>("orders").await;
    let packed = b"\x92\x07\xA1a".to_vec(); // [7, "a"] as MessagePack
    let event = queue.event(Raw(packed.clone())).after(secs(60));
    let event = payloads::versioned(payloads::encoded_by(event, Codec::MsgPack), 2);
    let id = event.push().await.unwrap().id();
    let body = queue.get(id).await.unwrap().unwrap().body.unwrap();
    assert_eq!(body.version, 2);
    let frame = Frame::read(body.payload.as_bytes()).unwrap();
    assert_eq!((frame.codec, frame.rest), (Codec::MsgPack, &packed[..]));
}
