//! Hostile events through the whole bus: each is refused, or ends with its reason on record, and
//! its neighbours are delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duly::Unique;
use duly::event::{BucketId, BucketKey, Envelope, Payload};
use duly::prelude::*;
use duly::records::{Cause, Cursor, ERROR_BYTES_MAX, Query};
use duly::store::Store;
use duly::store::operation::{NewEvent, PushOutcome, Reply, StoreOp};
use duly::testing::Probe;
use duly::time::{Timestamp, When};
use serde::de::{Deserializer, Error as _};

use crate::world::{ORDERS, World, secs};

over_every_store! {
    poison_is_a_dead_letter_with_its_reason_and_its_neighbours_are_delivered,
    a_decoder_that_panics_costs_its_own_event_alone,
    what_is_too_large_is_refused_and_its_neighbours_are_delivered,
    texts_of_any_kind_come_back_as_they_were,
    a_cursor_from_nowhere_is_an_empty_page,
}

/// A list of lists: as deep as its payload says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tree(Vec<Self>);

/// Payloads that are no tree.
fn poison() -> Vec<(&'static str, Vec<u8>)> {
    let deep = 100_000;
    vec![
        ("nothing", Vec::new()),
        ("a word", b"poison".to_vec()),
        ("an end that is missing", b"[[],[".to_vec()),
        ("an end too many", b"[]]".to_vec()),
        ("NULs", vec![0; 1_000]),
        ("a NUL behind it", b"[]\0".to_vec()),
        ("bytes that are no UTF-8", b"[\"\xFF\xFE\"]".to_vec()),
        ("UTF-8 that is too long", b"[\"\xC0\x80\"]".to_vec()),
        ("half a pair", br#"["\ud800"]"#.to_vec()),
        ("another type", br#"{"0":[]}"#.to_vec()),
        (
            "a number without end",
            [b"[1e", &[b'9'; 5_000][..]].concat(),
        ),
        ("lists in lists", vec![b'['; deep]),
        (
            "lists in lists that end",
            [vec![b'['; deep], vec![b']'; deep]].concat(),
        ),
        ("objects in objects", br#"{"0":"#.repeat(deep)),
        (
            "a text of 10 MB",
            [b"\"", &vec![b'x'; 10 << 20][..], b"\""].concat(),
        ),
    ]
}

/// Pushes a payload past the bus, as another program on the same store might.
async fn push_raw(store: &Arc<dyn Store>, number: u64, payload: Vec<u8>) -> EventId {
    let created = Timestamp::from_millis(store.now_us() / 1_000);
    let id = EventId::from_parts(created, BucketId(0), number);
    let bucket = BucketKey::new("orders".parse().expect("a name"), BucketId(0));
    let envelope = Envelope::new(id, bucket.queue.clone(), Payload::from(payload));
    let event = NewEvent {
        envelope: Arc::new(Envelope {
            attempts: 5,
            ..envelope
        }),
        when: When::Now,
        on_taken: Unique::Keep,
    };
    let answer = store.apply(&bucket, StoreOp::Push(vec![event])).await;
    let Reply::Pushed(pushed) = answer.expect("an answer").reply else {
        panic!("a push was answered with something else");
    };
    assert_eq!(pushed[0].verdict, PushOutcome::Accepted);
    id
}

async fn poison_is_a_dead_letter_with_its_reason_and_its_neighbours_are_delivered(world: World) {
    let probe = Probe::<Tree>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let good = Tree(vec![Tree(vec![])]);
    let mut poisoned = Vec::new();
    for (number, (what, payload)) in (0..).zip(poison()) {
        queue.push(good.clone(), When::Now).await.unwrap();
        poisoned.push((what, push_raw(&world.store, number, payload).await));
    }
    queue.push(good.clone(), When::Now).await.unwrap();
    bus.advance(secs(3_600)).await;

    assert_eq!(probe.payloads(), vec![good; poisoned.len() + 1]);
    assert_eq!(bus.stats("orders").await.unwrap().dead, poisoned.len());
    for (what, id) in poisoned {
        let history = bus.history(id).await.unwrap();
        let [record] = &history[..] else {
            panic!("{what}: {history:?}");
        };
        let ended = (record.outcome, record.cause, record.attempt);
        assert_eq!(
            ended,
            (Outcome::Buried, Some(Cause::Undecodable), 1),
            "{what}"
        );
        let words = record.error.as_deref().unwrap_or_default();
        assert!(words.contains("does not decode"), "{what}: {words}");
        assert!(
            words.len() <= ERROR_BYTES_MAX,
            "{what}: {} bytes",
            words.len()
        );
    }
}

/// A type whose author thought that nobody sends a 13.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Fragile(u64);

impl<'de> Deserialize<'de> for Fragile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        assert_ne!(number, 13, "nobody sends a 13");
        if number > 1_000 {
            return Err(D::Error::custom("ä".repeat(5_000)));
        }
        Ok(Self(number))
    }
}

async fn a_decoder_that_panics_costs_its_own_event_alone(world: World) {
    let probe = Probe::<Fragile>::new();
    let (bus, own) = world.serve(ORDERS.workers(1), &probe).await;
    for number in [13, 2_000] {
        let error = own.push(Fragile(number), When::Now).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    // Another program pushes numbers.
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let mut ids = Vec::new();
    for number in [1, 13, 2, 2_000, 3, 13, 4] {
        ids.push(queue.push(number, When::Now).await.unwrap().id());
    }
    bus.advance(secs(3_600)).await;
    let mut seen: Vec<_> = probe.payloads().into_iter().map(|it| it.0).collect();
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4]);
    let stats = bus.stats("orders").await.unwrap();
    assert_eq!((stats.dead, stats.leased, stats.ready), (3, 0, 0));
    for id in [ids[1], ids[3], ids[5]] {
        let history = bus.history(id).await.unwrap();
        assert_eq!(history.len(), 1, "{history:?}");
        assert_eq!(history[0].cause, Some(Cause::Undecodable));
    }
    let history = bus.history(ids[1]).await.unwrap();
    let words = history[0].error.as_deref().unwrap();
    assert!(words.contains("nobody sends a 13"), "{words}");
}

async fn what_is_too_large_is_refused_and_its_neighbours_are_delivered(world: World) {
    let probe = Probe::<String>::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let large = "x".repeat(10 << 20);
    let kept = queue.push("kept".to_owned(), secs(60)).await.unwrap().id();
    let errors = [
        queue.push(large.clone(), When::Now).await.unwrap_err(),
        queue.update(kept, &large).await.unwrap_err(),
        queue
            .event("a".to_owned())
            .key(&large)
            .push()
            .await
            .unwrap_err(),
        queue
            .event("b".to_owned())
            .header("h", &large)
            .push()
            .await
            .unwrap_err(),
        queue
            .event("c".to_owned())
            .unique(&large, Unique::Keep)
            .push()
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let words = error.to_string();
        assert!(words.contains("at most") && words.len() < 200, "{words}");
    }
    queue.push("neighbour".to_owned(), When::Now).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(probe.payloads(), ["neighbour", "kept"]);
    assert_eq!(bus.stats("orders").await.unwrap().dead, 0);
}

async fn texts_of_any_kind_come_back_as_they_were(world: World) {
    let texts = [
        " ",
        "\0",
        "{hub}:0",
        "a\r\nb",
        "\u{202e}\u{feff}",
        "ß",
        "\u{1b}[31m",
        "'; --",
    ];
    let count = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&count);
    let probe = Probe::<String>::answering(move |event, _cx| {
        let text = event.payload.as_str();
        assert_eq!(event.key(), Some(text));
        assert_eq!(event.header("name"), Some(text));
        seen.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let mut ids = Vec::new();
    for text in texts {
        let event = queue.event(text.to_owned()).key(text).header("name", text);
        let sent = event.unique(text, Unique::Keep).push().await.unwrap();
        ids.push((sent.id(), text));
    }
    bus.advance(secs(1)).await;
    assert_eq!(count.load(Ordering::Relaxed), texts.len() as u64);
    for (id, text) in ids {
        let history = bus.history(id).await.unwrap();
        assert_eq!(history[0].key.as_deref(), Some(text));
        assert_eq!(history[0].outcome, Outcome::Acked);
    }
}

async fn a_cursor_from_nowhere_is_an_empty_page(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(1)).await;
    for finished_us in [1 << 52, u64::MAX >> 1, u64::MAX - 1, u64::MAX] {
        let after = Cursor {
            finished_us,
            number: u64::MAX,
            id: EventId::from_bytes([0xFF; 16]),
        };
        let query = Query {
            after: Some(after),
            limit: Some(u32::MAX),
            ..Query::default()
        };
        let page = duly::testing::records(&*world.store, query).await.unwrap();
        assert_eq!(page.items, [], "after {after}");
        assert_eq!(page.next, None, "after {after}");
    }
}
