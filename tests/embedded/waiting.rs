//! What waits to be written is bounded, whatever carries it.

use std::sync::Arc;

use duly::ErrorKind;
use duly::event::Payload;
use duly::records::Cause;
use duly::store::operation::{AttemptOutcome, DeadLetterEdit, FailureReason, Rewriting, StoreOp};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::When;

use crate::embedded::harness::*;

fn update(n: u64, len: usize) -> StoreOp {
    StoreOp::Update {
        id: id(n),
        payload: Payload::from(vec![1; len]),
        by: None,
        dead_only: false,
    }
}

#[test]
fn when_too_much_waits_to_be_written_no_payload_is_changed() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    push(&store, event(2, When::Now, 1)).expect("a push");
    let dead = fetch(&store, 1).remove(1);
    let failing = FailureReason {
        cause: Cause::Failed,
        error: None,
    };
    assert!(settle(&store, &dead, AttemptOutcome::Bury(failing)).expect("a settle"));
    drop(store);
    let options = place.options().pending_max(0);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    let before = [1, 2].map(|n| get(&store, n));
    let was = |n: usize| {
        let snapshot = before[n - 1].as_ref().expect("it is there");
        snapshot.body.as_ref().expect("a body").fingerprint()
    };
    let edit = DeadLetterEdit {
        id: id(2),
        was: was(2),
        payload: payload(3),
        by: None,
    };
    let rewriting = Rewriting {
        id: id(1),
        was: was(1),
        payload: payload(3),
    };
    for op in [
        update(1, 1),
        StoreOp::EditAndRevive(edit),
        StoreOp::Rewrite(vec![rewriting]),
    ] {
        let refused = ask(&store, op).expect_err("there is no room");
        assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    }
    assert_eq!([1, 2].map(|n| get(&store, n)), before);
}

#[tokio::test]
async fn the_payloads_of_updates_that_wait_to_be_written_count_with_all_their_bytes() {
    let place = Place::new();
    let options = EmbeddedOptions::new()
        .clock(Arc::clone(&place.clock) as _)
        .reserve_bytes(4_096)
        .pending_max(1 << 20);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    let pushed = StoreOp::Push(vec![event(1, When::Now, 1)]);
    store.apply(&key(), pushed).await.expect("a push");
    // The writer waits for somebody else.
    let other = rusqlite::Connection::open(place.path()).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let first = store.apply(&key(), update(1, 2 << 20));
    let refused = store.apply(&key(), update(1, 2 << 20)).await;
    let refused = refused.expect_err("there is no room");
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    other.execute_batch("ROLLBACK").expect("it is free");
    first.await.expect("an update");
}
