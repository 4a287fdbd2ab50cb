//! Tests of last records, in outboxes and journal, and of formatted payloads.

use std::sync::Arc;

use crate::bus::dead_letters::dead_letter::LastRecord;
use crate::bus::dead_letters::display;
use crate::bus::dead_letters::page::last_of;
use crate::bus::dead_letters::retention::kept;
use crate::core::op::{
    AttemptOutcome, FailureReason, Fetch, NewEvent, Reply, Response, Settlement, Snapshot,
    StartMark, StoreOp, Unique,
};
use crate::event::{BucketId, BucketKey, Envelope, EventId, Payload, QueueName};
use crate::journal::{Batch, Journal, MemoryJournal};
use crate::record::{Cause, NodeId, Outcome};
use crate::store::{MemoryStore, Outbox, Store};
use crate::time::{Timestamp, When};

fn bucket() -> BucketKey {
    BucketKey::new(QueueName::new("orders").unwrap(), BucketId(0))
}

async fn apply(store: &MemoryStore, op: StoreOp) -> Reply {
    let Response { reply, .. } = store.apply(&bucket(), op).await.unwrap();
    reply
}

/// Creates ten dead letters, each with its number in its error.
async fn dead(store: &MemoryStore) -> Vec<Snapshot> {
    for number in 0..10 {
        let id = EventId::from_parts(Timestamp::from_millis(number), BucketId(0), number);
        let envelope = Envelope::new(id, bucket().queue, Payload::default());
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when: When::Now,
            on_taken: Unique::Keep,
        };
        apply(store, StoreOp::Push(vec![event])).await;
        bury(store, id, number + 1).await;
    }
    let page = StoreOp::read_dead(None, 100).apply(store, &bucket()).await;
    page.expect("a page").letters
}

async fn bury(store: &MemoryStore, id: EventId, request: u64) {
    let node = NodeId(1);
    let fetch = Fetch {
        node,
        request,
        limit: 1,
        ahead: std::time::Duration::ZERO,
        ahead_limit: 0,
        hold: None,
        starts: usize::MAX,
    };
    apply(store, StoreOp::Fetch(fetch)).await;
    let failing = FailureReason {
        cause: Cause::Failed,
        error: Some(format!("request {request}")),
    };
    let settlements = vec![Settlement {
        id,
        request,
        verdict: AttemptOutcome::Bury(failing),
        started_us: 1,
        fetched_us: 1,
    }];
    apply(
        store,
        StoreOp::Settle {
            node,
            settlements,
            started: StartMark::default(),
        },
    )
    .await;
}

/// Moves the records with numbers up to `through` to a journal.
async fn carry(store: &MemoryStore, journal: &MemoryJournal, through: u64) {
    let page = store.read_outbox(&Outbox::Store, 0, 100).await.unwrap();
    let mut records = page.records;
    records.retain(|(number, _)| *number <= through);
    let outbox = "store".to_owned();
    journal.load(vec![Batch { outbox, records }]).await.unwrap();
    store.trim_outbox(&Outbox::Store, through).await.unwrap();
}

#[tokio::test]
async fn why_letters_died_is_told_from_outbox_and_journal_together() {
    let (store, journal) = (MemoryStore::new(), MemoryJournal::new());
    let letters = dead(&store).await;
    assert_eq!(letters.len(), 10);
    for through in [0, 4, 10] {
        carry(&store, &journal, through).await;
        let last_records = last_of(&store, Some(&journal), (&bucket(), &letters)).await;
        for (number, last) in (1..).zip(&last_records) {
            let expected = format!("request {number}");
            assert_eq!(last.error(), Some(expected.as_str()), "after {through}");
        }
    }
    let last_records = last_of(&store, None, (&bucket(), &letters)).await;
    assert!(last_records.iter().all(|last| *last == LastRecord::Pruned));
}

/// The record of the last death counts, not of one before it, and no later record.
#[tokio::test]
async fn of_several_deaths_the_last_one_is_told() {
    let (store, journal) = (MemoryStore::new(), MemoryJournal::new());
    let letters = dead(&store).await;
    let id = letters[0].id;
    let (ids, by) = (vec![id], None);
    apply(&store, StoreOp::Revive { ids, by }).await;
    bury(&store, id, 77).await;
    let payload = Payload::default();
    apply(
        &store,
        StoreOp::Update {
            id,
            payload,
            by: None,
            dead_only: false,
        },
    )
    .await;
    for through in [0, 12, 13] {
        carry(&store, &journal, through).await;
        let last_records = last_of(&store, Some(&journal), (&bucket(), &letters[..1])).await;
        let record = last_records[0].record().expect("it is known");
        assert_eq!(record.outcome, Outcome::Buried);
        assert_eq!(record.error.as_deref(), Some("request 77"));
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "a failure is told by its seed")]
fn what_each_bucket_keeps_is_the_limit_in_all_however_far_others_have_come() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20_000 {
        let buckets = random.usize(1..20);
        let mut dead: Vec<_> = (0..buckets).map(|_| random.usize(0..10)).collect();
        let max = random.usize(0..100);
        let first = kept(&dead, max);
        let sum = dead.iter().sum::<usize>();
        assert_eq!(first.iter().sum::<usize>(), max.min(sum), "{dead:?}");
        for (dead, keep) in dead.iter_mut().zip(&first) {
            *dead = random.usize(*keep..=*dead);
        }
        assert_eq!(kept(&dead, max), first, "{dead:?}");
    }
}

/// Random payloads from fragments, so that some are nearly JSON and some nearly text.
#[test]
#[allow(clippy::print_stdout, reason = "a failure is told by its seed")]
fn no_payload_is_too_odd_to_be_shown() {
    let parts: [&[u8]; 16] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b"\\",
        b":",
        b",",
        b" ",
        b"1.5e9",
        b"true",
        b"\"a\":",
        b"\n",
        b"\x1b",
        b"\xff",
        "\u{9b}\u{e4}".as_bytes(),
    ];
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20_000 {
        let len = random.usize(0..40);
        let parts = (0..len).map(|_| parts[random.usize(0..parts.len())]);
        let payload = parts.collect::<Vec<_>>().concat();
        let shown = display::payload(&payload);
        let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
        assert!(shown.chars().all(is_plain), "{payload:?}: {shown:?}");
        let value = serde_json::from_slice::<serde_json::Value>(&payload);
        if let Ok(value) = value {
            let read = serde_json::from_str::<serde_json::Value>(&shown);
            assert_eq!(read.ok(), Some(value), "{payload:?}: {shown:?}");
        }
    }
}
