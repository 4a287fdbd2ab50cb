//! Encrypted payloads: nobody reads them without the key, and whoever lacks it loses nothing.

use std::sync::atomic::Ordering;

use duly::codec::{Codec, Frame, Key, KeyRing};
use duly::dead_letters::Edited;
use duly::event::TRACE_HEADER;
use duly::prelude::*;
use duly::records::{Cause, Outcome};
use duly::testing::{Probe, TestBus};

use crate::faulty::Faulty;
use crate::payloads::{letter, stored};
use crate::world::{ORDERS, World, secs};

over_every_store! {
    what_is_encrypted_shows_nothing_of_its_value,
    the_same_push_again_is_a_duplicate_and_another_value_a_conflict,
    a_push_again_after_a_rotation_is_a_duplicate_too,
    every_way_to_push_encrypts,
    a_missing_key_makes_a_dead_letter_that_lives_again_once_the_key_is_there,
    another_key_of_the_same_id_makes_a_dead_letter_that_says_so,
    what_is_no_such_value_is_told_without_quoting_it,
    what_was_pushed_in_clear_is_read_once_the_queue_encrypts,
    a_record_keeps_a_payload_encrypted,
    a_dead_letter_is_shown_encrypted_and_read_with_the_key,
    an_edited_dead_letter_stays_encrypted_whoever_edits_it,
    an_event_stays_encrypted_whoever_updates_it,
    a_queue_that_encrypts_does_not_start_without_a_key,
}

const SECRET: &str = "the card number is 4711";

/// A key for each id.
pub(crate) fn key(id: &str) -> Key {
    let mut key = [7; 32];
    key[..id.len()].copy_from_slice(id.as_bytes());
    Key::new(key)
}

/// A ring with these keys, the last of which is used.
pub(crate) fn ring(ids: &[&str]) -> KeyRing {
    let keys = KeyRing::new();
    for id in ids {
        keys.add(id, key(id)).unwrap();
        keys.choose(id).unwrap();
    }
    keys
}

/// A bus that encrypts, with one handler, and its queue.
pub(crate) async fn encrypting<T>(
    world: &World,
    keys: &KeyRing,
    probe: &Probe<T>,
) -> (TestBus, Queue<T>)
where
    T: Clone + Serialize + for<'de> Deserialize<'de> + Send + Sync + 'static,
{
    let builder = world
        .builder()
        .keys(keys.clone())
        .register_as(ORDERS.encrypt(true), probe.clone());
    let bus = world.start(builder).await;
    let queue = bus.queue_named("orders").unwrap();
    (bus, queue)
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

async fn what_is_encrypted_shows_nothing_of_its_value(world: World) {
    let probe = Probe::<String>::new();
    let (bus, queue) = encrypting(&world, &ring(&["k1"]), &probe).await;
    let id = queue.push(SECRET.to_owned(), secs(60)).await.unwrap().id();
    let twin = queue.push(SECRET.to_owned(), secs(60)).await.unwrap().id();

    let (one, other) = (stored(&queue, id).await, stored(&queue, twin).await);
    assert_eq!(Frame::read(one.as_bytes()).unwrap().key_id, Some("k1"));
    assert!(!holds(one.as_bytes(), "4711"));
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let sealed = |bytes: &[u8]| Frame::read(bytes).unwrap().rest.to_vec();
    assert_ne!(sealed(one), sealed(other), "two events with one value");
    bus.advance(secs(60)).await;
    assert_eq!(probe.payloads(), [SECRET, SECRET]);
}

async fn the_same_push_again_is_a_duplicate_and_another_value_a_conflict(world: World) {
    let (bus, queue) = encrypting(&world, &ring(&["k1"]), &Probe::<u64>::new()).await;
    let id = queue.new_id();
    for _ in 0..2 {
        let again = |value| queue.event(value).id(id).after(secs(1)).push();
        assert_eq!(again(7).await.unwrap().id(), id);
        assert!(again(7).await.unwrap().is_duplicate());
        assert_eq!(again(8).await.unwrap_err().kind(), ErrorKind::Conflict);
        bus.advance(secs(2)).await; // and when it is over
    }
}

async fn a_push_again_after_a_rotation_is_a_duplicate_too(world: World) {
    let keys = ring(&["k1", "k2", "k3"]);
    let probe = Probe::<u64>::new();
    let (bus, queue) = encrypting(&world, &keys, &probe).await;
    for codec in [Codec::Json, Codec::MsgPack] {
        keys.choose("k1").unwrap();
        let id = queue.new_id();
        let event = |value| queue.event(value).codec(codec).id(id).after(secs(60));
        assert!(event(7).push().await.unwrap().is_accepted());
        for key in ["k2", "k3"] {
            keys.choose(key).unwrap();
            assert!(event(7).push().await.unwrap().is_duplicate(), "{codec}");
            let again = queue.push_many([event(7)], When::Now).await.unwrap();
            assert!(again[0].is_duplicate(), "{codec}");
            let other = event(8).push().await.unwrap_err();
            assert_eq!(other.kind(), ErrorKind::Conflict);
        }
        bus.advance(secs(61)).await;
        assert!(
            event(7).push().await.unwrap().is_duplicate(),
            "when it is over"
        );
    }
    assert_eq!(probe.payloads(), [7, 7]);
}

async fn every_way_to_push_encrypts(world: World) {
    let probe = Probe::<u64>::running(|_event, cx| {
        cx.reply(&()).unwrap();
        std::future::ready(Ok(()))
    });
    let (bus, queue) = encrypting(&world, &ring(&["k1"]), &probe).await;
    let mut ids = vec![queue.push(1, secs(60)).await.unwrap().id()];
    ids.push(queue.push(2, bus.now() + secs(60)).await.unwrap().id());
    ids.push(
        queue
            .event(3)
            .after(secs(60))
            .key("k")
            .header("a", "b")
            .push()
            .await
            .unwrap()
            .id(),
    );
    let many = queue.push_many([4, 5, 6], secs(60)).await.unwrap();
    ids.extend(many.iter().map(|receipt| receipt.id()));
    let updated = queue.push(0, secs(60)).await.unwrap().id();
    let _ = queue.update(updated, &7).await.unwrap();
    ids.push(updated);
    for id in ids {
        let payload = stored(&queue, id).await;
        assert_eq!(Frame::read(payload.as_bytes()).unwrap().key_id, Some("k1"));
    }
    queue.call::<()>(8, secs(5)).await.unwrap();
    bus.advance(secs(61)).await;
    let mut seen = probe.payloads();
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
}

async fn a_missing_key_makes_a_dead_letter_that_lives_again_once_the_key_is_there(world: World) {
    let probe = Probe::<u64>::new();
    let keys = ring(&["old", "new"]);
    keys.choose("old").unwrap();
    let (bus, queue) = encrypting(&world, &keys, &probe).await;
    let id = queue.push(7, secs(60)).await.unwrap().id();
    keys.choose("new").unwrap();
    keys.remove("old").unwrap();
    bus.advance(secs(61)).await;

    let dead = letter(&bus, id).await;
    assert_eq!(dead.cause(), Some(Cause::Undecryptable));
    let words = dead.error().unwrap();
    assert!(
        words.contains("key old, which the key ring does not have"),
        "{words}"
    );
    assert!(dead.payload_as::<u64>().is_err());
    assert_eq!((probe.count(), dead.tries), (0, 1));

    keys.add("old", key("old")).unwrap();
    assert_eq!(bus.dead_letters().revive([id]).await.unwrap().done, 1);
    bus.advance(secs(1)).await;
    assert_eq!(probe.payloads(), [7]);
}

async fn another_key_of_the_same_id_makes_a_dead_letter_that_says_so(world: World) {
    let (before, queue) = encrypting(&world, &ring(&["k1"]), &Probe::<u64>::new()).await;
    let id = queue.push(7, secs(60)).await.unwrap().id();
    before.shutdown(secs(1)).await.unwrap();
    let world = world.restart();
    let other = KeyRing::new();
    other.add("k1", Key::new([9; 32])).unwrap();
    other.choose("k1").unwrap();
    let probe = Probe::<u64>::new();
    let (bus, _queue) = encrypting(&world, &other, &probe).await;
    bus.advance(secs(61)).await;
    let dead = letter(&bus, id).await;
    assert_eq!(dead.cause(), Some(Cause::Undecryptable));
    let words = dead.error().unwrap();
    assert!(words.contains("key k1 does not decrypt it"), "{words}");
    assert_eq!(probe.count(), 0);
}

async fn what_is_no_such_value_is_told_without_quoting_it(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, _) = encrypting(&world, &ring(&["k1"]), &probe).await;
    let queue = bus.queue_named::<String>("orders").unwrap();
    let id = queue.push(SECRET.to_owned(), When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let dead = letter(&bus, id).await;
    assert_eq!(dead.cause(), Some(Cause::Undecodable));
    assert!(!dead.error().unwrap().contains("4711"), "{dead}");
    let error = dead.payload_as::<u64>().unwrap_err();
    assert!(!format!("{error} {error:?}").contains("4711"), "{error:?}");
    assert_eq!(dead.payload_as::<String>().unwrap(), SECRET);
}

async fn what_was_pushed_in_clear_is_read_once_the_queue_encrypts(world: World) {
    let (before, queue) = world.push_only::<u64>("orders").await;
    queue.push(7, secs(60)).await.unwrap();
    let probe = Probe::<u64>::new();
    let (bus, _) = encrypting(&world, &ring(&["k1"]), &probe).await;
    bus.advance(secs(61)).await;
    assert_eq!(probe.payloads(), [7]);
    drop(before);
}

async fn a_record_keeps_a_payload_encrypted(world: World) {
    let (bus, queue) = encrypting(&world, &ring(&["k1"]), &Probe::<String>::new()).await;
    let event = queue.event(SECRET.to_owned()).keep_payload(true);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let id = event.header(TRACE_HEADER, trace).push().await.unwrap().id();
    bus.advance(secs(1)).await;
    let record = bus.history(id).await.unwrap().pop().unwrap();
    assert_eq!(record.outcome, Outcome::Acked);
    let kept = record.payload.unwrap();
    assert!(!holds(kept.as_bytes(), "4711"));
    assert_eq!(queue.read_payload(id, &kept).unwrap(), SECRET);
    assert!(
        queue.read_payload(queue.new_id(), &kept).is_err(),
        "as another event's"
    );
}

async fn a_dead_letter_is_shown_encrypted_and_read_with_the_key(world: World) {
    let dies = Probe::<String>::answering(|_event, _cx| Err(Failure::permanent("no")));
    let (bus, queue) = encrypting(&world, &ring(&["k1"]), &dies).await;
    let id = queue.push(SECRET.to_owned(), When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let dead = letter(&bus, id).await;
    assert!(dead.payload_shown().starts_with("encrypted under key k1, "));
    assert!(!format!("{dead:?} {dead}").contains("4711"));
    assert_eq!(dead.payload_as::<String>().unwrap(), SECRET);

    bus.dead_letters().edit(id, "another 4711").await.unwrap();
    assert!(!holds(stored(&queue, id).await.as_bytes(), "4711"));
    bus.dead_letters()
        .edit_bytes(id, br#""a third 4711""#.to_vec())
        .await
        .unwrap();
    assert!(!holds(stored(&queue, id).await.as_bytes(), "4711"));
    assert_eq!(
        letter(&bus, id).await.payload_as::<String>().unwrap(),
        "a third 4711"
    );
}

async fn an_edited_dead_letter_stays_encrypted_whoever_edits_it(world: World) {
    let dies = Probe::<String>::answering(|_event, _cx| Err(Failure::permanent("no")));
    let (bus, queue) = encrypting(&world, &ring(&["k1"]), &dies).await;
    let id = queue.push(SECRET.to_owned(), When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    // One that knows no annotation, as a server.
    let builder = world.builder().publish_only().keys(ring(&["k1"]));
    let other = world.start(builder).await;
    let letters = || other.dead_letters().queue("orders");
    letters().edit(id, "another 4711").await.unwrap();
    assert!(!holds(stored(&queue, id).await.as_bytes(), "4711"));
    let bytes = br#""a third 4711""#.to_vec();
    letters().edit_bytes(id, bytes).await.unwrap();
    let was = stored(&queue, id).await;
    assert!(!holds(was.as_bytes(), "4711"));
    let edited = letters().edit_and_revive(id, &was, "a fourth 4711").await;
    assert_eq!(edited.unwrap(), Edited::Edited);
    assert!(!holds(stored(&queue, id).await.as_bytes(), "4711"));
    bus.advance(secs(1)).await;
    assert_eq!(dies.payloads(), [SECRET, "a fourth 4711"]);
}

async fn an_event_stays_encrypted_whoever_updates_it(world: World) {
    let seen = Probe::<String>::new();
    let (bus, queue) = encrypting(&world, &ring(&["k1"]), &seen).await;
    let id = queue.push(SECRET.to_owned(), secs(60)).await.unwrap().id();
    let builder = world.builder().publish_only().keys(ring(&["k1"]));
    let other = world.start(builder).await;
    let theirs = other.queue_named::<String>("orders").unwrap();
    let updated = theirs.update(id, &"another 4711".to_owned()).await.unwrap();
    assert!(matches!(updated, ChangeOutcome::Changed(_)), "{updated:?}");
    assert!(!holds(stored(&queue, id).await.as_bytes(), "4711"));
    let clear = theirs
        .push("clear".to_owned(), secs(60))
        .await
        .unwrap()
        .id();
    let _ = theirs.update(clear, &"clear too".to_owned()).await.unwrap();
    assert!(holds(stored(&queue, clear).await.as_bytes(), "clear too"));
    bus.advance(secs(61)).await;
    assert_eq!(seen.payloads().len(), 2);
    assert!(seen.payloads().contains(&"another 4711".to_owned()));
}

async fn a_queue_that_encrypts_does_not_start_without_a_key(world: World) {
    let unused = KeyRing::new();
    unused.add("k1", Key::new([1; 32])).unwrap();
    for keys in [KeyRing::new(), unused] {
        let builder = world.builder().keys(keys);
        let builder = builder.register_as(ORDERS.encrypt(true), Probe::<u64>::new());
        let started = TestBus::start_on(world.clock.clone(), builder).await;
        let error = started.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error.to_string().contains("queue orders: encrypt is true"),
            "{error}"
        );
    }
}

/// An id of one's own that the store calls too old is made anew, and what is encrypted is bound to
/// the new one.
#[tokio::test(start_paused = true)]
async fn a_push_whose_id_is_made_anew_can_be_read() {
    let world = World::memory_of_ten();
    let (probe, keys) = (Probe::<u64>::new(), ring(&["k1"]));
    let builder = world.builder().keys(keys.clone());
    let builder = builder.register_as(ORDERS.buckets(1).encrypt(true), probe.clone());
    let bus = world.start(builder).await;
    bus.advance(secs(7_200)).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..100, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;

    let way = Faulty::to(&world.store);
    way.behind_us.store(3_600_000_000, Ordering::Relaxed);
    let choices = QueueChoices {
        buckets: Some(1),
        encrypt: Some(true),
        ..QueueChoices::default()
    };
    let builder = Bus::builder().publish_only().queue("orders", choices);
    let wrong = world.start(builder.keys(keys).shared_store(way)).await;
    let queue = wrong.queue_named::<u64>("orders").unwrap();
    queue.push(100, secs(0)).await.unwrap();
    queue.push_many(101..108, secs(0)).await.unwrap();
    bus.settle().await;
    assert_eq!(probe.count(), 108);
}
