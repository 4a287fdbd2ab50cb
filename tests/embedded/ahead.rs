//! A clock that was ahead when a store was closed, and is right when it is opened.

use std::sync::Arc;
use std::time::Duration;

use duly::EventId;
use duly::event::{BucketId, BucketKey};
use duly::journal::Keep;
use duly::store::operation::{AttemptOutcome, PushOutcome, StoreOp};
use duly::store::{DedupWindow, EmbeddedStore, Store};
use duly::time::{Timestamp, When};
use futures_util::FutureExt;

use crate::embedded::damage::history;
use crate::embedded::harness::*;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// No id whose time is further ahead is accepted.
const NEAR: Duration = Duration::from_secs(60);
/// From less than a period or a window to far more than both.
const AHEAD: [Duration; 4] = [
    Duration::from_secs(2),
    Duration::from_secs(5_000),
    Duration::from_secs(26 * 3_600),
    Duration::from_secs(366 * 24 * 3_600),
];

impl Place {
    fn open_after(&self, span: Duration) -> EmbeddedStore {
        self.clock.set(START + span);
        self.open()
    }
}

#[test]
fn a_key_stays_taken_for_its_period_from_when_the_clock_is_right() {
    for ahead in AHEAD {
        let place = Place::new();
        end(&place.open_after(ahead), unique(1));
        // Neither a restart begins it anew.
        for passed in [Duration::ZERO, HOUR / 3, HOUR - Duration::from_secs(1)] {
            let store = place.open_after(passed);
            let taken = PushOutcome::Duplicate(id(1));
            assert_eq!(verdict(&store, unique(2)), taken, "{ahead:?} {passed:?}");
        }
        let store = place.open_after(HOUR);
        assert_eq!(
            verdict(&store, unique(2)),
            PushOutcome::Accepted,
            "{ahead:?}"
        );
    }
}

#[test]
fn what_ended_is_forgotten_in_time_once_the_clock_is_right() {
    let look = |store: &EmbeddedStore| {
        let silent = Vec::new();
        ask(store, StoreOp::Reap { silent, limit: 0 }).expect("a look");
    };
    // What ended later was made later, too.
    let made = |n| {
        let made = START + Duration::from_millis(u64::from(n > 3));
        EventId::from_parts(made, key().bucket, n)
    };
    let of = |n| {
        let mut new = event(n, When::Now, 3);
        Arc::make_mut(&mut new.envelope).id = made(n);
        new
    };
    for ahead in AHEAD {
        let place = Place::new();
        let store = place.open();
        (1..=3).for_each(|n| end(&store, of(n)));
        drop(store);
        let store = place.open_after(ahead);
        (4..=6).for_each(|n| end(&store, of(n)));
        drop(store);
        let verdicts = |store: &EmbeddedStore| -> Vec<PushOutcome> {
            look(store);
            (1..=6).map(|n| verdict(store, of(n))).collect()
        };
        let known = |n| {
            if n <= 3 && ahead >= DAY {
                PushOutcome::TooOld
            } else {
                PushOutcome::Duplicate(made(n))
            }
        };
        let known: Vec<_> = (1..=6).map(known).collect();
        for passed in [Duration::ZERO, DAY / 2, DAY - Duration::from_secs(1)] {
            let store = place.open_after(passed);
            assert_eq!(verdicts(&store), known, "{ahead:?} {passed:?}");
            store.check().expect("all is in its place");
        }
        for _ in 0..2 {
            let store = place.open_after(DAY);
            assert_eq!(verdicts(&store), [PushOutcome::TooOld; 6], "{ahead:?}");
        }
    }
}

/// An id that was made while the clock was ahead.
#[test]
fn an_id_of_a_later_time_is_known_until_its_time() {
    for ahead in AHEAD {
        let place = Place::new();
        let made = EventId::from_parts(START + ahead, key().bucket, 1);
        let of = || {
            let mut new = event(1, When::Now, 3);
            Arc::make_mut(&mut new.envelope).id = made;
            new
        };
        end(&place.open_after(ahead), of());
        let store = place.open_after(Duration::ZERO);
        assert_eq!(verdict(&store, of()), PushOutcome::Duplicate(made));
        assert_eq!(
            verdict(&store, event(2, When::Now, 3)),
            PushOutcome::Accepted
        );
    }
}

/// What was dropped from a window while the clock was ahead closes nothing once it is right: neither
/// at once nor when its time is near, whether there was a restart or not.
#[test]
fn a_bucket_that_takes_pushes_again_does_so_after_a_restart() {
    let window = DedupWindow {
        keep_for: Duration::ZERO,
        max: 1,
        ..DedupWindow::default()
    };
    let of = |made: Duration, n| {
        let mut new = event(n, When::Now, 3);
        Arc::make_mut(&mut new.envelope).id = EventId::from_parts(START + made, key().bucket, n);
        new
    };
    for ahead in AHEAD.into_iter().filter(|ahead| *ahead > NEAR) {
        let place = Place::new();
        let open_after = |span: Duration| {
            place.clock.set(START + span);
            EmbeddedStore::open_with(place.path(), place.options().window(window)).expect("a store")
        };
        let store = open_after(ahead);
        // The row that says what was dropped stays, as it has the last of them.
        (1..=3).for_each(|n| end(&store, of(ahead - Duration::from_millis(9 - n), n)));
        drop(store);
        let store = open_after(Duration::ZERO);
        let first = verdict(&store, of(Duration::ZERO, 4));
        assert_eq!(first, PushOutcome::Accepted, "{ahead:?}");
        drop(store);
        let near = ahead - NEAR / 2;
        for n in 5..=6 {
            let store = open_after(near);
            assert_eq!(
                verdict(&store, of(near, n)),
                PushOutcome::Accepted,
                "{ahead:?}"
            );
            // What is older than what was dropped last is refused as before.
            let mut older = of(Duration::ZERO, 7);
            let before = Timestamp::from_millis(START.as_millis() - 1);
            Arc::make_mut(&mut older.envelope).id = EventId::from_parts(before, key().bucket, 7);
            assert_eq!(verdict(&store, older), PushOutcome::TooOld, "{ahead:?}");
            store.check().expect("all is in its place");
        }
    }
}

/// What was noted last counts, and not what a clock that was ahead had noted: a row of that stays for
/// another bucket.
#[test]
fn ids_that_were_forgotten_before_their_time_stay_so_after_a_restart() {
    let window = DedupWindow {
        keep_for: Duration::ZERO,
        max: 1,
        cap: 1,
        ..DedupWindow::default()
    };
    let (soon, ms) = (Duration::from_secs(50), Duration::from_millis);
    let of = |made: Duration, bucket: BucketId, n| {
        let mut new = event(n, When::Now, 3);
        Arc::make_mut(&mut new.envelope).id = EventId::from_parts(START + made, bucket, n);
        new
    };
    let place = Place::new();
    let open_after = |span: Duration| {
        place.clock.set(START + span);
        EmbeddedStore::open_with(place.path(), place.options().window(window)).expect("a store")
    };
    let (mine, other) = (key(), BucketKey::new(key().queue, BucketId(1)));
    let store = open_after(HOUR);
    (1..=4).for_each(|n| end(&store, of(HOUR + soon + ms(n), mine.bucket, n)));
    let stays = of(HOUR, other.bucket, 1);
    let id = stays.envelope.id;
    for op in [StoreOp::Push(vec![stays]), StoreOp::Cancel { id }] {
        let answer = store.apply(&other, op).now_or_never();
        answer.expect("at once").expect("no failure");
    }
    drop(store);
    let store = open_after(Duration::ZERO);
    (5..=8).for_each(|n| end(&store, of(soon + ms(n), mine.bucket, n)));
    drop(store);
    for n in [10, 20] {
        let store = open_after(Duration::ZERO);
        let may_be_one = verdict(&store, of(soon, mine.bucket, n));
        assert_eq!(may_be_one, PushOutcome::TooOld);
        let later = of(soon + ms(n), mine.bucket, n);
        assert_eq!(verdict(&store, later), PushOutcome::Accepted);
    }
}

/// Retention goes by when records finished: those of a clock that was ahead stay, and younger ones go.
#[test]
fn an_attempt_that_is_over_does_not_count_whichever_records_were_pruned() {
    const STEP: Duration = Duration::from_millis(3);
    const KEPT: u64 = 3;
    let snoozed = AttemptOutcome::Snooze(HOUR);
    let interrupted = AttemptOutcome::Interrupt { free: 10 };
    for outcome in [snoozed, interrupted] {
        let cases = AHEAD
            .iter()
            .flat_map(|ahead| [0, 1, 3].map(|many| (*ahead, many)));
        let cases = cases.flat_map(|(ahead, before)| [0, 2, 6].map(|many| (ahead, before, many)));
        for (ahead, before, after) in cases {
            let case = format!("{outcome:?}: {before} records, {ahead:?} ahead, then {after}");
            let place = Place::new();
            let store = place.open_after(ahead);
            (1..=before).for_each(|n| end(&store, event(n, When::Now, 3)));
            drop(store);
            let store = place.open_after(Duration::ZERO);
            keep(&store, KEPT);
            push_now(&store, 20);
            place.clock.advance(STEP);
            let delivery = fetch(&store, 20).remove(0);
            store.starting(&key().queue, &[&delivery]).expect("a note");
            place.clock.advance(STEP);
            assert!(settle(&store, &delivery, outcome.clone()).expect("a settle"));
            let due = get(&store, 20).expect("it waits").due;
            for n in 21..=20 + after {
                place.clock.advance(STEP);
                push_now(&store, n);
                let deliveries = fetch(&store, n);
                // One that was interrupted is leased again, and does not start.
                let delivery = deliveries
                    .iter()
                    .find(|it| it.id == id(n))
                    .expect("it is due");
                assert!(settle(&store, delivery, AttemptOutcome::Ack).expect("a settle"));
            }
            let records = history(&store);
            drop(store);
            let store = place.open();
            let found = get(&store, 20).expect("it waits");
            assert_eq!((found.tries, found.due), (0, due), "{case}");
            assert_eq!(history(&store), records, "{case}");
        }
    }
}

/// As many are kept as there are to be, also of those that a clock wrote that was ahead.
#[test]
fn only_so_many_records_are_kept_of_a_clock_that_was_ahead() {
    for ahead in AHEAD {
        let place = Place::new();
        let store = place.open_after(ahead);
        (1..=10).for_each(|n| end(&store, event(n, When::Now, 3)));
        drop(store);
        let store = place.open_after(Duration::ZERO);
        end(&store, event(11, When::Now, 3));
        drop(store);
        let store = place.open();
        keep(&store, 5);
        end(&store, event(12, When::Now, 3));
        assert_eq!(history(&store).len(), 5, "{ahead:?}");
    }
}

fn keep(store: &EmbeddedStore, count: u64) {
    store.records().expect("it keeps its records").keep(Keep {
        age: None,
        count: Some(count),
        ..Keep::default()
    });
}

/// What is said of every bucket takes the place of that of names that are not used any more: it
/// closed each of them in a process, and none in the next one.
#[test]
fn every_bucket_is_as_open_before_a_restart_as_after_it() {
    let place = Place::new();
    let forgets_at_once = DedupWindow {
        keep_for: Duration::ZERO,
        max: 0,
        ..DedupWindow::default()
    };
    let open = |span| {
        place.clock.set(START + span);
        let options = place.options().window(forgets_at_once);
        EmbeddedStore::open_with(place.path(), options).expect("a store")
    };
    let bucket = |name: &str| BucketKey::new(name.parse().expect("a legal name"), BucketId(0));
    let pushed = |store: &EmbeddedStore, name: &str, made: Duration, n| {
        let mut new = event(n, When::After(DAY), 3);
        let envelope = Arc::make_mut(&mut new.envelope);
        envelope.id = EventId::from_parts(START + made, BucketId(0), n);
        envelope.queue = bucket(name).queue;
        let bucket = bucket(name);
        let push = StoreOp::push(vec![new]).apply(store, &bucket);
        push.now_or_never().expect("at once").expect("a push")[0].verdict
    };
    let cancel = |store: &EmbeddedStore, name: &str, made: Duration, n| {
        let id = EventId::from_parts(START + made, BucketId(0), n);
        let cancel = store.apply(&bucket(name), StoreOp::Cancel { id });
        cancel.now_or_never().expect("at once").expect("a cancel");
    };
    let (early, ahead, right) = (Duration::ZERO, NEAR, NEAR / 4);
    let store = open(early);
    let _ = pushed(&store, "waits", early, 1);
    for n in 0..150 {
        let _ = pushed(&store, &format!("old-{n}"), early, 1);
    }
    drop(store);
    let store = open(ahead);
    for n in 0..300 {
        let name = format!("gone-{n}");
        let _ = pushed(&store, &name, ahead, 1);
        cancel(&store, &name, ahead, 1);
    }
    drop(store);
    let store = open(right);
    assert_eq!(pushed(&store, "new", right, 1), PushOutcome::TooOld);
    for n in 0..150 {
        cancel(&store, &format!("old-{n}"), early, 1);
    }
    let verdicts = |store: &EmbeddedStore, n| {
        let names = ["waits", "new", "gone-299", "old-149"];
        names.map(|name| pushed(store, name, right + Duration::from_secs(1), n))
    };
    place.clock.set(START + right + Duration::from_secs(2));
    let before = verdicts(&store, 8);
    drop(store);
    let store = open(right + Duration::from_secs(2));
    assert_eq!(before, verdicts(&store, 9));
    assert_eq!(before[..2], [PushOutcome::Accepted; 2]);
}
