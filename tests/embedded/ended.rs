//! Ids that ended are known after a restart as before it, whatever records are kept.

use std::sync::Arc;
use std::time::Duration;

use duly::event::{BucketId, BucketKey, Envelope, Payload};
use duly::journal::Keep;
use duly::store::operation::{
    AttemptOutcome, Fetch, NewEvent, PushOutcome, Reply, StartMark, StoreOp,
};
use duly::store::{DedupWindow, EmbeddedStore, Store};
use duly::time::{Timestamp, When};
use duly::{EventId, Unique};
use futures_util::FutureExt;

use crate::embedded::damage::{damaged, handle, history, meddle};
use crate::embedded::harness::*;

/// The `n`th event under an id that tells no time.
fn named(n: u64, payload: &str) -> NewEvent {
    let id = EventId::from_parts(Timestamp::EPOCH, key().bucket, n);
    let payload = Payload::from(payload.as_bytes());
    NewEvent {
        envelope: Arc::new(Envelope::new(id, key().queue, payload)),
        when: When::Now,
        on_taken: Unique::Keep,
    }
}

#[test]
fn another_payload_under_an_ended_id_is_a_conflict_after_a_restart() {
    let place = Place::new();
    let store = place.open();
    end(&store, named(1, "first"));
    end(&store, event(2, When::Now, 3));
    drop(store);
    for _ in 0..2 {
        let store = place.open();
        let again = PushOutcome::Duplicate(named(1, "").envelope.id);
        assert_eq!(verdict(&store, named(1, "first")), again);
        assert_eq!(verdict(&store, named(1, "other")), PushOutcome::Conflict);
        let mut other = event(2, When::Now, 3);
        Arc::make_mut(&mut other.envelope).payload = payload(3);
        assert_eq!(verdict(&store, other), PushOutcome::Conflict);
    }
}

#[test]
fn the_retention_of_records_forgets_no_id() {
    let place = Place::new();
    let store = place.open();
    let few = Keep {
        count: Some(1),
        ..Keep::default()
    };
    store.records().expect("its own").keep(few);
    for n in 1..=20 {
        end(&store, named(n, "first"));
    }
    place.clock.advance(Duration::from_secs(4));
    handle(&store, 30, 5);
    drop(store);
    let store = place.open();
    for n in 1..=20 {
        let again = PushOutcome::Duplicate(named(n, "").envelope.id);
        assert_eq!(verdict(&store, named(n, "first")), again, "{n}");
    }
}

/// What was dropped from a window stays so, and what it means: an id may have been forgotten.
#[test]
fn a_window_is_the_same_after_a_restart() {
    let place = Place::new();
    let window = DedupWindow {
        keep_for: Duration::ZERO,
        max: 3,
        ..DedupWindow::default()
    };
    let open = || EmbeddedStore::open_with(place.path(), place.options().window(window));
    let mut store = open().expect("a store");
    for n in 1..=10 {
        place.clock.advance(Duration::from_secs(1));
        let made = START + Duration::from_secs(n);
        let id = EventId::from_parts(made, key().bucket, n);
        let mut new = event(n, When::Now, 3);
        Arc::make_mut(&mut new.envelope).id = id;
        end(&store, new.clone());
        if n % 2 == 0 {
            drop(store);
            store = open().expect("a store");
        }
        for old in 1..=n {
            let made = START + Duration::from_secs(old);
            let id = EventId::from_parts(made, key().bucket, old);
            let envelope = Arc::make_mut(&mut new.envelope);
            (envelope.id, envelope.payload) = (id, payload(old));
            let expected = if old + 3 > n {
                PushOutcome::Duplicate(id)
            } else {
                PushOutcome::TooOld
            };
            assert_eq!(verdict(&store, new.clone()), expected, "{old} of {n}");
        }
        assert_eq!(store.check(), Ok(()));
    }
}

/// Of many buckets that are empty the file keeps one watermark, which is that of every bucket: also
/// before a restart, and of one with live events.
#[test]
fn an_id_is_as_old_before_a_restart_as_after_it() {
    const QUEUES: u64 = 300;
    let place = Place::new();
    let window = DedupWindow {
        keep_for: Duration::ZERO,
        max_age: Duration::from_secs(1),
        ..DedupWindow::default()
    };
    let open = || EmbeddedStore::open_with(place.path(), place.options().window(window));
    let store = open().expect("a store");
    push(&store, event(1, When::After(Duration::from_secs(3_600)), 3)).expect("a push");
    let made =
        |secs: u64| EventId::from_parts(START + Duration::from_secs(secs), BucketId(0), secs);
    let asked = |number: u64, op: StoreOp| {
        let queue = format!("queue-{number}").parse().expect("a legal name");
        let reply = store
            .apply(&BucketKey::new(queue, BucketId(0)), op)
            .now_or_never();
        reply
            .expect("an inline store replies at once")
            .expect("it works");
    };
    for number in 1..=QUEUES {
        place.clock.advance(Duration::from_secs(1));
        let mut new = event(1, When::After(Duration::from_secs(3_600)), 3);
        let envelope = Arc::make_mut(&mut new.envelope);
        (envelope.id, envelope.queue) = (
            made(number),
            format!("queue-{number}").parse().expect("a legal name"),
        );
        asked(number, StoreOp::Push(vec![new]));
        asked(number, StoreOp::Cancel { id: made(number) });
    }
    place.clock.advance(Duration::from_secs(10));
    for number in 1..=QUEUES {
        asked(
            number,
            StoreOp::MoveDue {
                limit: 1,
                calls: false,
            },
        );
    }
    let too_old = |store: &EmbeddedStore, entropy: u64| {
        [1, 50, 100, 150, 200, 250, 300, 305].map(|secs| {
            let mut new = event(1, When::After(Duration::from_secs(3_600)), 3);
            let time = START + Duration::from_secs(secs);
            Arc::make_mut(&mut new.envelope).id =
                EventId::from_parts(time, BucketId(0), entropy + secs);
            verdict(store, new) == PushOutcome::TooOld
        })
    };
    let before = too_old(&store, 1_000);
    assert!(before[0] && !before[7], "{before:?}");
    drop(store);
    let store = open().expect("a store");
    assert_eq!(too_old(&store, 2_000), before);
    assert_eq!(store.check(), Ok(()));
}

/// The rows of tombstones go with the windows that have them.
#[test]
fn what_no_window_has_is_not_in_the_file() {
    let place = Place::new();
    let window = DedupWindow {
        keep_for: Duration::ZERO,
        max: 3,
        ..DedupWindow::default()
    };
    let store = EmbeddedStore::open_with(place.path(), place.options().window(window));
    let store = store.expect("a store");
    for n in 1..=200 {
        end(&store, named(n, "first"));
    }
    drop(store);
    let file = rusqlite::Connection::open(place.path()).expect("the file");
    let rows: i64 = file
        .query_row("SELECT count(*) FROM tombstones", [], |row| row.get(0))
        .expect("a count");
    assert!((1..=4).contains(&rows), "{rows}");
}

/// Nobody knows which ids they were: what was made before is refused, what comes after is not.
#[test]
fn damaged_tombstones_accept_no_id_twice() {
    let place = Place::new();
    let store = place.open();
    end(&store, event(2, When::Now, 3));
    drop(store);
    meddle(&place, "UPDATE tombstones SET sum = sum + 1");
    place.clock.advance(Duration::from_secs(1));
    for _ in 0..2 {
        let store = place.open();
        let old = verdict(&store, event(2, When::Now, 3));
        assert_eq!(old, PushOutcome::TooOld);
        let mut new = event(2, When::After(Duration::from_secs(60)), 3);
        let made = START + Duration::from_secs(1);
        Arc::make_mut(&mut new.envelope).id = EventId::from_parts(made, key().bucket, 3);
        let id = new.envelope.id;
        let pushed = verdict(&store, new);
        assert!([PushOutcome::Accepted, PushOutcome::Duplicate(id)].contains(&pushed));
    }
}

/// Whatever operation ends it, with the least retention of records.
#[test]
fn what_expires_while_nobody_fetches_is_on_record() {
    let place = Place::new();
    let mut expiring = event(1, When::Now, 1);
    Arc::make_mut(&mut expiring.envelope).expires = Some(START + Duration::from_millis(1));
    let store = place.open();
    push(&store, expiring).expect("a push");
    drop(store);
    let store = place.open();
    store.records().expect("its own").keep(Keep {
        count: Some(3),
        ..Keep::default()
    });
    (2..=4).for_each(|n| push_now(&store, n));
    let fetch = Fetch {
        ahead_limit: 1,
        limit: 3,
        ..fetch_of(1)
    };
    let Reply::Fetched(fetched) = ask(&store, StoreOp::Fetch(fetch)).expect("a fetch") else {
        panic!("a fetch was answered otherwise");
    };
    place.clock.advance(Duration::from_millis(1));
    let [acked, .., released] = &fetched.deliveries[..] else {
        panic!("{} events", fetched.deliveries.len());
    };
    let settlements = vec![
        settlement(acked, AttemptOutcome::Ack),
        settlement(released, AttemptOutcome::Release),
    ];
    let settle = StoreOp::Settle {
        node: NODE,
        settlements,
        started: StartMark::default(),
    };
    ask(&store, settle).expect("a settle");
    assert_eq!(history(&store), [2]);
    let reap = StoreOp::Reap {
        silent: Vec::new(),
        limit: 0,
    };
    ask(&store, reap).expect("a reap");
    assert_eq!(history(&store), [2, 1]);
}

/// Also where nobody has looked at its bucket since: a push may be the first thing of a process.
#[test]
fn an_id_is_new_to_the_first_push_when_its_tombstone_has_reached_its_greatest_age() {
    let place = Place::new();
    let store = place.open();
    end(&store, named(1, "weekly"));
    drop(store);
    place.clock.advance(Duration::from_secs(24 * 3_600 - 1));
    let store = place.open();
    let again = PushOutcome::Duplicate(named(1, "").envelope.id);
    assert_eq!(verdict(&store, named(1, "weekly")), again);
    drop(store);
    place.clock.advance(Duration::from_secs(2));
    let store = place.open();
    end(&store, named(1, "weekly"));
    assert_eq!(verdict(&store, named(1, "weekly")), again);
    assert_eq!(store.check(), Ok(()));
}

/// A row of tombstones may stay in the file longer than they count.
#[test]
fn a_tombstone_that_has_reached_its_greatest_age_sets_no_event_aside() {
    let place = Place::new();
    let store = place.open();
    end(&store, named(1, "weekly"));
    drop(store);
    let before = rusqlite::Connection::open(place.path()).expect("the file");
    let row = before.query_row("SELECT * FROM tombstones", [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    });
    let row: (i64, i64, Vec<u8>, i64) = row.expect("a row");
    drop(before);
    place.clock.advance(Duration::from_secs(25 * 3_600));
    let store = place.open();
    let again = named(1, "weekly");
    assert_eq!(verdict(&store, again.clone()), PushOutcome::Accepted);
    drop(store);
    let after = rusqlite::Connection::open(place.path()).expect("the file");
    after.execute("DELETE FROM tombstones", []).expect("rows");
    let back = "INSERT INTO tombstones VALUES (?1, ?2, ?3, ?4)";
    assert_eq!(after.execute(back, row).expect("a row"), 1);
    drop(after);
    for _ in 0..2 {
        let store = place.open();
        assert_eq!(store.check(), Ok(()));
        assert!(damaged(&store).is_empty());
        let known = PushOutcome::Duplicate(again.envelope.id);
        assert_eq!(verdict(&store, again.clone()), known);
        assert_eq!(stats(&store).scheduled + stats(&store).ready, 1);
    }
}
