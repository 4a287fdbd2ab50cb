//! Events that wait for their confirmation.

use std::sync::Arc;

use duly::__internal::Head;
use duly::event::Payload;
use duly::records::Outcome;
use duly::store::operation::{PeekBy, PeekPage, PushOutcome, Reply, StoreOp};
use duly::time::{Timestamp, When};
use duly::{CancelOutcome, ChangeOutcome, EventId, Unique};

use crate::engine::kit::{FAR, Side, event, id, unique};

#[test]
fn a_held_event_is_seen_and_leased_by_nobody() {
    let mut side = Side::new();
    let mut held = event(id(1, 1), When::Now);
    Arc::make_mut(&mut held.envelope).key = Some("order:1".into());
    assert_eq!(side.push(held), PushOutcome::Accepted);
    assert_eq!(side.bucket.head(), Head::default());
    assert_eq!(side.fetch(), []);
    assert_eq!(
        side.op(StoreOp::Get { id: id(1, 1) }),
        Reply::Snapshot(None)
    );
    for by in [PeekBy::All, PeekBy::Key("order:1".into())] {
        let (from, limit) = (None, 9);
        let (events, next) = (Vec::new(), None);
        let peeked = side.op(StoreOp::Peek { by, from, limit });
        assert_eq!(peeked, Reply::Peeked(PeekPage { events, next }));
    }
    assert_eq!(
        side.bucket.stats(),
        duly::store::operation::Stats::default()
    );
    assert!(!side.bucket.is_empty(), "it is there all the same");
}

#[test]
fn a_confirmed_event_goes_where_its_due_time_says_in_the_order_given() {
    let mut side = Side::new();
    for entropy in [3, 1, 2] {
        side.push(event(id(1, entropy), When::Now));
    }
    side.push(event(id(1, 4), When::After(FAR)));
    side.bucket
        .confirm(&[id(1, 3), id(1, 1), id(1, 2), id(1, 4), id(9, 9)]);
    let due = Timestamp::from_millis(61_000);
    let head = Head {
        ready: true,
        next_due: Some(due),
    };
    assert_eq!(side.bucket.head(), head);
    let order: Vec<_> = side.fetch().iter().map(|delivery| delivery.id).collect();
    assert_eq!(order, [id(1, 3), id(1, 1), id(1, 2)]);
    side.bucket.confirm(&[id(1, 3)]);
    side.bucket.check().unwrap();
    assert_eq!(
        side.bucket.stats().leased,
        3,
        "a second confirmation changes nothing"
    );
}

#[test]
fn a_held_event_is_a_duplicate_and_has_its_unique_key() {
    let mut side = Side::new();
    side.push(unique(id(1, 1), Unique::Keep));
    let duplicate = PushOutcome::Duplicate(id(1, 1));
    assert_eq!(side.push(unique(id(1, 1), Unique::Keep)), duplicate);
    assert_eq!(side.push(unique(id(1, 2), Unique::Keep)), duplicate);
    let replaced = PushOutcome::Replaced(id(1, 1));
    assert_eq!(side.push(unique(id(1, 3), Unique::Replace)), replaced);
    side.bucket.confirm(&[id(1, 1), id(1, 3)]);
    let left: Vec<_> = side.fetch().iter().map(|delivery| delivery.id).collect();
    assert_eq!(left, [id(1, 3)]);
}

#[test]
fn a_forgotten_event_was_never_pushed() {
    let mut side = Side::new();
    side.push(unique(id(1, 1), Unique::Keep));
    side.bucket.forget(&[id(1, 1), id(9, 9)]);
    side.bucket.check().unwrap();
    assert!(side.bucket.is_empty());
    assert_eq!(
        side.push(unique(id(1, 2), Unique::Keep)),
        PushOutcome::Accepted
    );
    side.bucket.confirm(&[id(1, 2)]);
    side.bucket.forget(&[id(1, 2)]);
    assert_eq!(side.fetch().len(), 1, "a confirmed one is not forgotten");
    assert_eq!(side.push(event(id(1, 1), When::Now)), PushOutcome::Accepted);
    assert_eq!(side.rows.records, []);
}

#[test]
fn a_held_event_can_be_cancelled_rescheduled_and_updated() {
    let mut side = Side::new();
    for entropy in [1, 2, 3] {
        side.push(event(id(1, entropy), When::After(FAR)));
    }
    let cancelled = side.op(StoreOp::Cancel { id: id(1, 1) });
    assert_eq!(cancelled, Reply::Cancelled(CancelOutcome::Cancelled));
    let when = When::At(Timestamp::from_millis(900));
    let changed = side.op(StoreOp::Reschedule { id: id(1, 2), when });
    let past = Timestamp::from_millis(900);
    assert_eq!(changed, Reply::Rescheduled(ChangeOutcome::Changed(past)));
    assert_eq!(side.bucket.head(), Head::default(), "it is still held");
    let payload = Payload::from(b"new".as_slice());
    side.op(StoreOp::Update {
        id: id(1, 3),
        payload,
        by: None,
        dead_only: false,
    });
    side.bucket.confirm(&[id(1, 1), id(1, 2), id(1, 3)]);
    side.bucket.check().unwrap();
    let left: Vec<_> = side.fetch().iter().map(|delivery| delivery.id).collect();
    assert_eq!(left, [id(1, 2)]);
    assert_eq!(side.rows.records[0].outcome, Outcome::Cancelled);
    let written = ["removed 1", "changed 2 900 0", "updated 3 to 4"];
    assert_eq!(side.rows.written[3..], written);
}

/// Whatever ends it before it is confirmed.
#[test]
fn nothing_is_kept_of_an_unconfirmed_event_that_took_a_key_and_is_over() {
    type End = fn(&mut Side, EventId);
    let ends: [End; 4] = [
        |side, id| side.bucket.confirm(&[id]),
        |side, id| side.bucket.forget(&[id]),
        |side, id| {
            let cancelled = side.op(StoreOp::Cancel { id });
            assert_eq!(cancelled, Reply::Cancelled(CancelOutcome::Cancelled));
        },
        |side, taken| {
            let replaced = side.push(unique(id(1, 9), Unique::Replace));
            assert_eq!(replaced, PushOutcome::Replaced(taken));
        },
    ];
    for end in ends {
        let mut side = Side::new();
        side.push(unique(id(1, 1), Unique::Keep));
        side.bucket.confirm(&[id(1, 1)]);
        assert_eq!(side.fetch().len(), 1);
        let taken = side.push(unique(id(1, 2), Unique::Replace));
        assert_eq!(taken, PushOutcome::Accepted);
        end(&mut side, id(1, 2));
        side.bucket.check().expect("all is in its place");
        // Not given to one that comes after it.
        side.bucket.forget(&[id(1, 2), id(1, 9)]);
        side.bucket.check().expect("all is in its place");
    }
}

#[test]
fn what_is_refused_gives_the_unique_key_back_that_it_took_from_one_that_runs() {
    let mut side = Side::new();
    let first = id(1, 1);
    side.push(unique(first, Unique::Keep));
    side.bucket.confirm(&[first]);
    assert_eq!(side.fetch().len(), 1);
    let second = unique(id(1, 2), Unique::Replace);
    assert_eq!(side.push(second), PushOutcome::Accepted);
    side.bucket.forget(&[id(1, 2)]);
    side.bucket.check().unwrap();
    let third = side.push(unique(id(1, 3), Unique::Keep));
    assert_eq!(third, PushOutcome::Duplicate(first), "it still runs");
}
