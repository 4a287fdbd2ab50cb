//! What only a store that outlives its process asks of the reference store: events that wait for
//! their confirmation, and what comes back at start.

use std::sync::Arc;
use std::time::Duration;

use duly::core::op::{
    Cancelled, Changed, Delivery, Fetch, Ledger, NewEvent, PeekBy, PushVerdict, Reply, StoreOp,
    Unique,
};
use duly::core::reference::{Bucket, DedupWindow, Finished, Head, Restored};
use duly::event::{BucketKey, Envelope, Late, Payload};
use duly::record::{NodeId, Outcome, Record};
use duly::time::When;
use duly::{BucketId, EventId, EventState as State, Timestamp};

/// Keeps a number for each envelope, as a store with a file does, and confirms late.
#[derive(Debug, Default)]
struct Rows {
    written: Vec<String>,
    records: Vec<Record>,
    next: u64,
}

impl Ledger for Rows {
    type Body = u64;
    const CONFIRMS: bool = true;

    fn added(&mut self, _: &Arc<Envelope>, due: Timestamp) -> u64 {
        self.next += 1;
        self.written
            .push(format!("added {} {}", self.next, due.as_millis()));
        self.next
    }

    fn changed(&mut self, row: &u64, due: Timestamp, tries: u16) {
        self.written
            .push(format!("changed {row} {} {tries}", due.as_millis()));
    }

    fn updated(&mut self, row: &mut u64, _: &Payload) {
        self.next += 1;
        self.written.push(format!("updated {row} to {}", self.next));
        *row = self.next;
    }

    fn buried(&mut self, row: &u64, at: Timestamp, tries: u16) {
        self.written
            .push(format!("buried {row} {} {tries}", at.as_millis()));
    }

    fn revived(&mut self, row: &u64, due: Timestamp) {
        self.written
            .push(format!("revived {row} {}", due.as_millis()));
    }

    fn removed(&mut self, row: &u64) {
        self.written.push(format!("removed {row}"));
    }

    fn recorded(&mut self, record: Record, _telling: Option<&Self::Body>) {
        self.records.push(record);
    }
}

struct Side {
    bucket: Bucket<u64>,
    rows: Rows,
    now_us: u64,
    request: u64,
}

impl Side {
    fn new() -> Self {
        let key = BucketKey::new("rows".parse().expect("a legal name"), BucketId(0));
        Self {
            bucket: Bucket::new(key).with_window(DedupWindow {
                max: 2,
                cap: 2,
                ..DedupWindow::default()
            }),
            rows: Rows::default(),
            now_us: 1_000_000,
            request: 0,
        }
    }

    fn op(&mut self, op: StoreOp) -> Reply<u64> {
        let answer = self.bucket.apply(self.now_us, op, &mut self.rows);
        let answer = answer.expect("it is accepted");
        self.bucket.check().expect("all is in its place");
        answer.reply
    }

    fn push(&mut self, event: NewEvent) -> PushVerdict {
        match self.op(StoreOp::Push(vec![event])) {
            Reply::Pushed(pushed) => pushed[0].verdict,
            other => panic!("a push answered {other:?}"),
        }
    }

    fn fetch(&mut self) -> Vec<Delivery<u64>> {
        self.request += 1;
        self.op(StoreOp::MoveDue {
            limit: 10,
            calls: false,
        });
        let fetch = Fetch {
            node: NodeId(1),
            request: self.request,
            limit: 10,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: None,
        };
        match self.op(StoreOp::Fetch(fetch)) {
            Reply::Fetched { deliveries, .. } => deliveries,
            other => panic!("a fetch answered {other:?}"),
        }
    }
}

fn id(created_ms: u64, entropy: u64) -> EventId {
    EventId::from_parts(Timestamp::from_millis(created_ms), BucketId(0), entropy)
}

fn event(id: EventId, when: When) -> NewEvent {
    let payload = Payload::from(b"x".as_slice());
    let mut envelope = Envelope::new(id, "rows".parse().expect("a legal name"), payload);
    envelope.attempts = 3;
    NewEvent {
        envelope: Arc::new(envelope),
        when,
        on_taken: Unique::Keep,
    }
}

fn unique(id: EventId, on_taken: Unique) -> NewEvent {
    let mut event = event(id, When::Now);
    Arc::make_mut(&mut event.envelope).unique = Some("k".into());
    NewEvent { on_taken, ..event }
}

const FAR: Duration = Duration::from_secs(60);

#[test]
fn a_held_event_is_seen_and_leased_by_nobody() {
    let mut side = Side::new();
    let mut held = event(id(1, 1), When::Now);
    Arc::make_mut(&mut held.envelope).key = Some("order:1".into());
    assert_eq!(side.push(held), PushVerdict::Accepted);
    assert_eq!(side.bucket.head(), Head::default());
    assert_eq!(side.fetch(), []);
    assert_eq!(side.op(StoreOp::Get { id: id(1, 1) }), Reply::Found(None));
    for by in [PeekBy::All, PeekBy::Key("order:1".into())] {
        let (from, limit) = (None, 9);
        let (events, next) = (Vec::new(), None);
        let peeked = side.op(StoreOp::Peek { by, from, limit });
        assert_eq!(peeked, Reply::Peeked { events, next });
    }
    assert_eq!(side.bucket.stats(), duly::core::op::Stats::default());
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
    let duplicate = PushVerdict::Duplicate(id(1, 1));
    assert_eq!(side.push(unique(id(1, 1), Unique::Keep)), duplicate);
    assert_eq!(side.push(unique(id(1, 2), Unique::Keep)), duplicate);
    let replaced = PushVerdict::Replaced(id(1, 1));
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
        PushVerdict::Accepted
    );
    side.bucket.confirm(&[id(1, 2)]);
    side.bucket.forget(&[id(1, 2)]);
    assert_eq!(side.fetch().len(), 1, "a confirmed one is not forgotten");
    assert_eq!(side.push(event(id(1, 1), When::Now)), PushVerdict::Accepted);
    assert_eq!(side.rows.records, []);
}

#[test]
fn a_held_event_can_be_cancelled_rescheduled_and_updated() {
    let mut side = Side::new();
    for entropy in [1, 2, 3] {
        side.push(event(id(1, entropy), When::After(FAR)));
    }
    let cancelled = side.op(StoreOp::Cancel { id: id(1, 1) });
    assert_eq!(cancelled, Reply::Cancelled(Cancelled::Cancelled));
    let when = When::At(Timestamp::from_millis(900));
    let changed = side.op(StoreOp::Reschedule { id: id(1, 2), when });
    let past = Timestamp::from_millis(900);
    assert_eq!(changed, Reply::Rescheduled(Changed::Changed(past)));
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

fn restored(id: EventId, due_ms: u64) -> Restored<u64> {
    Restored {
        id,
        body: id.entropy(),
        due: Timestamp::from_millis(due_ms),
        tries: 1,
        attempts: 3,
        fingerprint: event(id, When::Now).envelope.fingerprint(),
        key: None,
        unique: None,
        unique_for: None,
        expires: None,
        late: Late::Deliver,
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
    let duplicate = PushVerdict::Duplicate(id(1, 2));
    assert_eq!(side.push(event(id(1, 2), When::Now)), duplicate);
}

#[test]
fn what_is_refused_gives_the_unique_key_back_that_it_took_from_one_that_runs() {
    let mut side = Side::new();
    let first = id(1, 1);
    side.push(unique(first, Unique::Keep));
    side.bucket.confirm(&[first]);
    assert_eq!(side.fetch().len(), 1);
    let second = unique(id(1, 2), Unique::Replace);
    assert_eq!(side.push(second), PushVerdict::Accepted);
    side.bucket.forget(&[id(1, 2)]);
    side.bucket.check().unwrap();
    let third = side.push(unique(id(1, 3), Unique::Keep));
    assert_eq!(third, PushVerdict::Duplicate(first), "it still runs");
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
    assert_eq!(pushed, PushVerdict::Duplicate(id(1, 2)));
}

#[test]
fn what_is_there_already_or_is_over_does_not_come_back() {
    let mut side = Side::new();
    side.bucket.restore_finished(
        Finished {
            id: id(1, 1),
            state: State::Done,
            fingerprint: None,
            due: Timestamp::EPOCH,
            tries: 0,
            haunted: false,
        },
        61_000_000,
    );
    assert!(!side.bucket.restore(restored(id(1, 1), 5)));
    assert!(side.bucket.restore(restored(id(1, 2), 5)));
    assert!(!side.bucket.restore(restored(id(1, 2), 61_000)));
    assert_eq!(side.bucket.stats().scheduled, 1);
    assert_eq!(side.bucket.check(), Ok(()));
}

#[test]
fn the_memory_of_what_is_over_comes_back_within_its_bound() {
    let mut side = Side::new();
    let over = |id, fingerprint| Finished {
        id,
        state: State::Done,
        fingerprint,
        due: Timestamp::from_millis(1),
        tries: 0,
        haunted: false,
    };
    side.bucket.forgotten_before(Timestamp::from_millis(10));
    side.bucket.restore_finished(over(id(11, 1), None), 20_000);
    side.bucket.restore_finished(over(id(12, 2), None), 20_000);
    side.bucket
        .restore_finished(over(id(13, 3), Some(4)), 20_000);
    side.bucket.check().unwrap();
    let pushes = [
        (id(10, 9), PushVerdict::TooOld),
        (id(11, 1), PushVerdict::TooOld),
        (id(12, 2), PushVerdict::Duplicate(id(12, 2))),
        (id(13, 3), PushVerdict::Conflict),
        (id(13, 4), PushVerdict::Accepted),
    ];
    for (id, verdict) in pushes {
        assert_eq!(side.push(event(id, When::Now)), verdict);
    }
    let cancel = side.op(StoreOp::Cancel { id: id(12, 2) });
    assert_eq!(cancel, Reply::Cancelled(Cancelled::TooLate(State::Done)));
}

#[test]
fn a_head_is_earlier_when_something_is_ready_or_due_sooner() {
    let head = |ready, due: Option<u64>| Head {
        ready,
        next_due: due.map(Timestamp::from_millis),
    };
    let none = head(false, None);
    assert!(head(true, None).is_earlier_than(none));
    assert!(head(false, Some(5)).is_earlier_than(none));
    assert!(head(false, Some(5)).is_earlier_than(head(false, Some(6))));
    for (this, that) in [
        (none, none),
        (none, head(false, Some(5))),
        (head(true, Some(5)), head(true, Some(5))),
        (head(false, Some(6)), head(false, Some(5))),
        (head(false, None), head(true, None)),
    ] {
        assert!(!this.is_earlier_than(that), "{this:?} {that:?}");
    }
}

/// A bucket that was closed by an id from the future, before such ids were refused, heals.
#[test]
fn a_watermark_from_the_future_closes_the_bucket_to_nobody() {
    let mut side = Side::new();
    side.bucket
        .forgotten_before(Timestamp::from_millis(106_000_000_000_000));
    let now_ms = side.now_us / 1_000;
    let before = side.push(event(id(now_ms - 1, 1), When::Now));
    assert_eq!(before, PushVerdict::TooOld, "nobody can know");
    let now = side.push(event(id(now_ms, 2), When::Now));
    assert_eq!(now, PushVerdict::Accepted);
    // Within the minute it is honest.
    side.bucket
        .forgotten_before(Timestamp::from_millis(now_ms + 60_000));
    let soon = side.push(event(id(now_ms + 60_000, 3), When::Now));
    assert_eq!(soon, PushVerdict::TooOld);
}

/// No operation forgets more than a bounded number, and a surplus shrinks all the same.
#[test]
fn a_large_surplus_is_forgotten_in_parts() {
    let mut side = Side::new();
    side.bucket.set_window(DedupWindow::default());
    for number in 0..5_000 {
        let over = Finished {
            id: id(1, number),
            state: State::Done,
            fingerprint: None,
            due: Timestamp::EPOCH,
            tries: 0,
            haunted: false,
        };
        side.bucket.restore_finished(over, 1_000);
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
