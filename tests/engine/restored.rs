//! What comes back at start.

use duly::__internal::{Restored, Tombstone};
use duly::event::State;
use duly::store::DedupWindow;
use duly::store::operation::{PushOutcome, Reply, StoreOp};
use duly::time::{Timestamp, When};
use duly::{CancelOutcome, EventId, LatePolicy, Unique};

use crate::engine::kit::{Side, event, id, unique};

fn restored(id: EventId, due_ms: u64) -> Restored<u64> {
    Restored {
        id,
        body: id.entropy(),
        due: Timestamp::from_millis(due_ms),
        tries: 1,
        interruptions: 0,
        attempts: 3,
        fingerprint: event(id, When::Now).envelope.fingerprint(),
        key: None,
        unique: None,
        unique_for: None,
        expires: None,
        late: LatePolicy::Deliver,
        tells: false,
        bytes: 0,
        dead_at: None,
    }
}

#[test]
fn what_comes_back_goes_on_where_it_stood() {
    let mut side = Side::new();
    assert!(side.bucket.restore(restored(id(1, 1), 5)));
    assert!(side.bucket.restore(restored(id(1, 2), 61_000)));
    assert!(side.bucket.restore(Restored {
        dead_at: Some(Timestamp::from_millis(7)),
        ..restored(id(1, 3), 5)
    }));
    let delivery = side.fetch().remove(0);
    assert_eq!(
        (delivery.id, delivery.body, delivery.attempt),
        (id(1, 1), 1, 2)
    );
    let stats = side.bucket.stats();
    assert_eq!((stats.scheduled, stats.leased, stats.dead), (1, 1, 1));
    assert_eq!(
        side.op(StoreOp::Revive {
            ids: vec![id(1, 3)],
            by: None,
        }),
        Reply::Counted(1)
    );
    let duplicate = PushOutcome::Duplicate(id(1, 2));
    assert_eq!(side.push(event(id(1, 2), When::Now)), duplicate);
}

#[test]
fn the_last_restored_has_the_unique_key() {
    let mut side = Side::new();
    for entropy in [1, 2] {
        assert!(side.bucket.restore(Restored {
            unique: Some("k".into()),
            ..restored(id(1, entropy), 61_000)
        }));
    }
    let pushed = side.push(unique(id(1, 3), Unique::Keep));
    assert_eq!(pushed, PushOutcome::Duplicate(id(1, 2)));
}

#[test]
fn what_is_there_already_or_is_over_does_not_come_back() {
    let mut side = Side::new();
    side.bucket.restore_tombstone(Tombstone {
        id: id(1, 1),
        state: State::Done,
        fingerprint: None,
        due: Timestamp::EPOCH,
        tries: 0,
        maybe_running: false,
        settled: None,
        ended_us: 61_000_000,
    });
    assert!(!side.bucket.restore(restored(id(1, 1), 5)));
    assert!(side.bucket.restore(restored(id(1, 2), 5)));
    assert!(!side.bucket.restore(restored(id(1, 2), 61_000)));
    assert_eq!(side.bucket.stats().scheduled, 1);
    assert_eq!(side.bucket.check(), Ok(()));
}

#[test]
fn the_memory_of_what_is_over_comes_back_whole() {
    let mut side = Side::new();
    let ended_us = side.now_us;
    let over = |id, fingerprint| Tombstone {
        id,
        state: State::Done,
        fingerprint,
        due: Timestamp::from_millis(1),
        tries: 0,
        maybe_running: false,
        settled: None,
        ended_us,
    };
    side.bucket.raise_watermark(Timestamp::from_millis(10));
    side.bucket.restore_tombstone(over(id(11, 1), None));
    side.bucket.restore_tombstone(over(id(12, 2), None));
    side.bucket.restore_tombstone(over(id(13, 3), Some(4)));
    side.bucket.check().unwrap();
    let pushes = [
        (id(10, 9), PushOutcome::TooOld),
        (id(11, 1), PushOutcome::Duplicate(id(11, 1))),
        (id(12, 2), PushOutcome::Duplicate(id(12, 2))),
        (id(13, 3), PushOutcome::Conflict),
        (id(13, 4), PushOutcome::Accepted),
    ];
    for (id, verdict) in pushes {
        assert_eq!(side.push(event(id, When::Now)), verdict);
    }
    let cancel = side.op(StoreOp::Cancel { id: id(12, 2) });
    assert_eq!(
        cancel,
        Reply::Cancelled(CancelOutcome::TooLate(State::Done))
    );
}

/// A bucket that was closed by an id from the future, before such ids were refused, heals.
#[test]
fn a_watermark_from_the_future_closes_the_bucket_to_nobody() {
    let mut side = Side::new();
    side.bucket
        .raise_watermark(Timestamp::from_millis(106_000_000_000_000));
    let now_ms = side.now_us / 1_000;
    let before = side.push(event(id(now_ms - 1, 1), When::Now));
    assert_eq!(before, PushOutcome::TooOld, "nobody can know");
    let now = side.push(event(id(now_ms, 2), When::Now));
    assert_eq!(now, PushOutcome::Accepted);
    // Within the minute it is honest.
    side.bucket
        .raise_watermark(Timestamp::from_millis(now_ms + 60_000));
    let soon = side.push(event(id(now_ms + 60_000, 3), When::Now));
    assert_eq!(soon, PushOutcome::TooOld);
}

/// A store shares its cap among its buckets, so that of one shrinks as others come: what it has forgotten
/// counts, and not how many it may remember now.
#[test]
fn a_bucket_that_forgot_nothing_refuses_no_id_that_was_made_ahead() {
    let mut side = Side::new();
    side.bucket.set_window(DedupWindow::default());
    let ahead_ms = side.now_us / 1_000 + 50_000;
    for entropy in 1..=5 {
        let id = id(ahead_ms, entropy);
        assert_eq!(side.push(event(id, When::Now)), PushOutcome::Accepted);
        side.op(StoreOp::Cancel { id });
    }
    side.bucket.set_window(DedupWindow {
        max: 2,
        cap: 2,
        ..DedupWindow::default()
    });
    let new = side.push(event(id(ahead_ms, 6), When::Now));
    assert_eq!(new, PushOutcome::Accepted);
    side.op(StoreOp::Cancel {
        id: id(ahead_ms, 6),
    }); // for which others are forgotten
    let new = side.push(event(id(ahead_ms, 7), When::Now));
    assert_eq!(new, PushOutcome::TooOld, "nobody can know");
    let later = side.push(event(id(ahead_ms + 1, 7), When::Now));
    assert_eq!(later, PushOutcome::Accepted);
}

/// No operation forgets more than a bounded number, and a surplus shrinks all the same.
#[test]
fn a_large_surplus_is_forgotten_in_parts() {
    let mut side = Side::new();
    side.bucket.set_window(DedupWindow::default());
    for number in 0..5_000 {
        let over = Tombstone {
            id: id(1, number),
            state: State::Done,
            fingerprint: None,
            due: Timestamp::EPOCH,
            tries: 0,
            maybe_running: false,
            settled: None,
            ended_us: 1_000,
        };
        side.bucket.restore_tombstone(over);
    }
    side.bucket.set_window(DedupWindow {
        cap: 10,
        ..DedupWindow::default()
    });
    let look = || StoreOp::Reap {
        silent: Vec::new(),
        limit: 1,
    };
    let mut left = Vec::new();
    for _ in 0..4 {
        side.op(look());
        left.push(side.bucket.remembered());
    }
    assert_eq!(left, [3_000, 1_000, 10, 10]);
}
