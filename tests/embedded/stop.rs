//! Doubt about the disk stops the store at once, and says so to everyone.
//!
//! Disks that fail are in `tests/syscalls` and `tests/power`.

use std::sync::Arc;
use std::time::Duration;

use duly::event::{Envelope, Payload};
use duly::records::Cause;
use duly::store::operation::{
    AttemptOutcome, Delivery, FailureReason, NewEvent, StartMark, StoreOp,
};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::When;
use duly::{Error, ErrorKind};

use crate::embedded::harness::*;

#[tokio::test]
async fn after_a_failed_commit_nothing_is_acknowledged_any_more() {
    let place = Place::new();
    let options = EmbeddedOptions::new().reserve_bytes(0);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    for n in 1..=5 {
        push(&store, vec![large(n)]).await.expect("it is written");
    }
    // Somebody writes to the file, and the store waits for nobody.
    let other = rusqlite::Connection::open(place.path()).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    // One transaction, and one that waits behind it.
    let both = tokio::join!(
        push(&store, (10..200).map(large).collect()),
        push(&store, vec![large(300)]),
    );
    let first = both.0.expect_err("it cannot be written");
    assert_eq!(first.kind(), ErrorKind::Unknown, "{first}");
    assert!(std::error::Error::source(&first).is_some(), "{first}");
    let second = both.1.expect_err("it waited behind it").kind();
    assert!(matches!(second, ErrorKind::Unknown | ErrorKind::Closed));
    is_stopped(&store, "a commit failed").await;
    drop((other, store));
    let store = place.open();
    for n in 1..=5 {
        let found = get(&store, n).unwrap_or_else(|| panic!("event {n} was answered and is lost"));
        assert_eq!(found.body.expect("it is not over").payload.len(), 10_000);
    }
}

/// Each kind of change, as the one whose commit fails.
#[test]
fn no_change_is_answered_that_could_not_be_written() {
    type Change = fn(&[Delivery]) -> StoreOp;
    let changes: [Change; 6] = [
        |_| StoreOp::Push(vec![event(6, When::Now, 3)]),
        |leased| StoreOp::Settle {
            node: NODE,
            settlements: vec![settlement(&leased[0], AttemptOutcome::Ack)],
            started: StartMark::default(),
        },
        |leased| StoreOp::Revive {
            ids: vec![leased[1].id],
            by: None,
        },
        |_| StoreOp::Cancel { id: id(4) },
        |_| StoreOp::Reschedule {
            id: id(4),
            when: When::After(Duration::from_secs(60)),
        },
        |_| StoreOp::Update {
            id: id(4),
            payload: payload(7),
            by: None,
            dead_only: false,
        },
    ];
    for change in changes {
        let place = Place::new();
        let store = place.open();
        (1..=2).for_each(|n| push_now(&store, n));
        let leased = fetch(&store, 1);
        let failing = FailureReason {
            cause: Cause::Failed,
            error: None,
        };
        assert!(settle(&store, &leased[1], AttemptOutcome::Bury(failing)).expect("a settle"));
        push_now(&store, 4);
        let change = change(&leased);
        // Somebody writes to the file, and the store waits for nobody.
        let other = rusqlite::Connection::open(place.path()).expect("the file");
        other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
        let answer = ask(&store, change.clone());
        let error = answer.expect_err("it was not written");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{change:?}: {error}");
    }
}

fn large(n: u64) -> NewEvent {
    let mut event = event(n, When::Now, 3);
    Arc::make_mut(&mut event.envelope).payload = Payload::from(vec![1; 10_000]);
    event
}

async fn push(store: &EmbeddedStore, events: Vec<NewEvent>) -> Result<(), Error> {
    let pushed = store.apply(&key(), StoreOp::Push(events)).await;
    pushed.map(drop)
}

/// Everything that comes later is refused, and says why and what to do.
async fn is_stopped(store: &EmbeddedStore, why: &str) {
    let delivery = Delivery {
        id: id(1),
        body: Arc::new(Envelope::new(id(1), key().queue, payload(1))),
        due: START,
        attempt: 1,
        request: 1,
        place: 0,
        moved_us: 0,
    };
    for _ in 0..3 {
        let later = push(store, vec![large(900)]).await;
        let later = later.expect_err("it is stopped");
        assert_eq!(later.kind(), ErrorKind::Closed, "{later}");
        assert!(later.to_string().contains(why), "{later}");
        assert!(
            later.to_string().contains("open the store again"),
            "{later}"
        );
        let fetched = store.apply(&key(), fetch_op(1)).await;
        assert_eq!(
            fetched.expect_err("it is stopped").kind(),
            ErrorKind::Closed
        );
        let started = store.starting(&key().queue, &[&delivery]);
        assert_eq!(
            started.expect_err("it is stopped").kind(),
            ErrorKind::Closed
        );
    }
    assert!(
        store.close().await.is_err(),
        "a stopped store was not closed well"
    );
}
