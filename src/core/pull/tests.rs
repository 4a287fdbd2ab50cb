//! Tests of the puller on the engine, without a driver.

mod away;
mod forgotten;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::core::engine::Bucket;
use crate::core::op::{NewEvent, Reply, Unique};
use crate::event::{BucketId, Envelope, EventId, Payload};
use crate::time::When;

mod rate;

mod sink {
    use super::*;
    use crate::core::op::{ChangeSink, UsedAttempts};
    use crate::record::Record;

    /// Keeps bodies and forgets records.
    #[derive(Default)]
    pub(super) struct Forget;

    impl ChangeSink for Forget {
        type Body = Arc<Envelope>;

        fn added(&mut self, envelope: &Arc<Envelope>, _due: Timestamp) -> Self::Body {
            Arc::clone(envelope)
        }
        fn changed(
            &mut self,
            _id: EventId,
            _body: &Self::Body,
            _due: Timestamp,
            _used: UsedAttempts,
        ) {
        }
        fn updated(&mut self, _id: EventId, _body: &mut Self::Body, _payload: &Payload) {}
        fn buried(&mut self, _id: EventId, _body: &Self::Body, _at: Timestamp, _tries: u16) {}
        fn revived(&mut self, _id: EventId, _body: &Self::Body, _due: Timestamp) {}
        fn removed(&mut self, _id: EventId, _body: &Self::Body) {}
        fn recorded(&mut self, _record: Record, _telling: Option<&Self::Body>) {}
    }
}

/// The wall clock when the monotonic one begins, in microseconds.
const START_US: u64 = 1_767_225_600_000_000;

/// One bucket, a puller, and the calls between them.
struct Rig {
    puller: Puller<Arc<Envelope>>,
    bucket: Bucket<Arc<Envelope>>,
    key: BucketKey,
    /// Those of other queues; whatever is not among them is the one above.
    others: BTreeMap<BucketKey, Bucket<Arc<Envelope>>>,
    now: Mono,
    ids: u64,
    /// The size of each payload, and what callers take at most.
    payload_len: usize,
    bytes_max: usize,
    /// The operations that were sent, by name.
    sent: Vec<&'static str>,
    /// The most events that one fetch asked for.
    fetched_max: usize,
    replies: Vec<(RequesterId, Result<usize, ErrorKind>)>,
}

impl Rig {
    fn new(is_shared: bool) -> Self {
        let options = PullOptions {
            is_shared,
            poll_every: Duration::from_secs(30),
            retry: (Duration::from_millis(20), Duration::from_secs(2)),
            drift_ppm: 0,
        };
        let key = BucketKey::new(QueueName::new("orders").unwrap(), BucketId(0));
        let mut rig = Self {
            puller: Puller::new(NodeId(7), options, |body| body.payload.len()),
            bucket: Bucket::new(key.clone()),
            key,
            others: BTreeMap::new(),
            now: Mono::from_nanos(1_000_000_000),
            ids: 0,
            payload_len: 1,
            bytes_max: usize::MAX,
            sent: Vec::new(),
            fetched_max: 0,
            replies: Vec::new(),
        };
        let (queue, buckets) = (rig.key.queue.clone(), vec![rig.key.clone()]);
        rig.input(PullInput::Serve { queue, buckets });
        rig.sent.clear();
        rig
    }

    fn now_us(&self) -> u64 {
        START_US + self.now.as_nanos() / 1_000
    }

    /// Handles an input, and everything that follows from it at once.
    fn input(&mut self, input: PullInput<Arc<Envelope>>) {
        let mut actions = Vec::new();
        self.puller.handle(self.now, input, &mut actions);
        self.run(actions);
    }

    fn run(&mut self, mut actions: Vec<PullAction<Arc<Envelope>>>) {
        for _ in 0..10_000 {
            self.puller.turn(self.now, &mut actions);
            if actions.is_empty() && self.puller.wakes() > self.now {
                return;
            }
            self.run_once(&mut actions);
        }
        panic!("it never rests");
    }

    /// Carries actions out, and leaves those that follow.
    fn run_once(&mut self, actions: &mut Vec<PullAction<Arc<Envelope>>>) {
        for action in std::mem::take(actions) {
            match action {
                PullAction::Reply { requester, leased } => {
                    self.replies.push((requester, leased.map(|it| it.len())));
                }
                PullAction::Call { call, bucket, op } => {
                    self.sent.push(name_of(&op));
                    if let StoreOp::Fetch(fetch) = &op {
                        self.fetched_max = self.fetched_max.max(fetch.limit);
                    }
                    let now_us = self.now_us();
                    let other = self.others.get_mut(&bucket);
                    let bucket = other.unwrap_or(&mut self.bucket);
                    let response = bucket.apply(now_us, op, &mut sink::Forget);
                    let response = response.map_err(|error| error.kind());
                    let answered = PullInput::Answered { call, response };
                    self.puller.handle(self.now, answered, actions);
                }
            }
        }
    }

    /// Moves time, from timer to timer.
    fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        while self.puller.wakes() <= until {
            self.now = self.now.max(self.puller.wakes());
            self.run(Vec::new());
        }
        self.now = until;
    }

    fn push(&mut self, when: When) {
        let key = self.key.clone();
        self.push_to(&key, when);
        self.input(PullInput::Woken(key));
    }

    /// Pushes without a notification.
    fn push_to(&mut self, key: &BucketKey, when: When) {
        self.ids += 1;
        let created = Timestamp::from_millis(self.now_us() / 1_000);
        let id = EventId::from_parts(created, key.bucket, self.ids);
        let payload = Payload::from(vec![b'1'; self.payload_len]);
        let envelope = Envelope::new(id, key.queue.clone(), payload);
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when,
            on_taken: Unique::Keep,
        };
        let push = StoreOp::Push(vec![event]);
        let now_us = self.now_us();
        let bucket = self.others.get_mut(key).unwrap_or(&mut self.bucket);
        let pushed = bucket.apply(now_us, push, &mut sink::Forget);
        assert!(matches!(pushed.unwrap().reply, Reply::Pushed(_)));
    }

    fn lease(&mut self, requester: RequesterId, max: usize, hold: Duration, waits: bool) {
        self.input(PullInput::Lease(LeaseOrder {
            requester,
            queues: vec![self.key.queue.clone()],
            max,
            bytes_max: self.bytes_max,
            hold,
            waits,
        }));
    }

    fn count(&self, name: &str) -> usize {
        self.sent.iter().filter(|sent| **sent == name).count()
    }
}

fn name_of(op: &StoreOp) -> &'static str {
    match op {
        StoreOp::Fetch(_) => "fetch",
        StoreOp::MoveDue { .. } => "probe",
        StoreOp::Reap { .. } => "reap",
        StoreOp::Settle { .. } => "settle",
        _ => "other",
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn one_event_causes_one_fetch_however_many_wait() {
    let mut rig = Rig::new(false);
    for requester in 0..5_000 {
        rig.lease(requester, 10, MINUTE, true);
    }
    assert_eq!(rig.sent, [""; 0]);
    rig.push(When::Now);
    assert_eq!(rig.sent, ["fetch"]);
    assert_eq!(rig.replies, [(0, Ok(1))]);
}

#[test]
fn callers_that_want_other_durations_get_their_own_fetches() {
    let mut rig = Rig::new(false);
    for _ in 0..4 {
        rig.push(When::Now);
    }
    for (requester, secs) in [(0, 60), (1, 30), (2, 60)] {
        rig.lease(requester, 1, Duration::from_secs(secs), true);
    }
    let served: Vec<_> = rig.replies.iter().map(|(it, got)| (*it, *got)).collect();
    assert_eq!(served, [(0, Ok(1)), (1, Ok(1)), (2, Ok(1))]);
}

#[test]
fn a_caller_that_does_not_wait_asks_a_shared_store_each_time_and_its_own_never() {
    for (is_shared, probes) in [(true, 3), (false, 0)] {
        let mut rig = Rig::new(is_shared);
        for requester in 0..3 {
            rig.now = rig.now + Duration::from_millis(1);
            rig.lease(requester, 1, MINUTE, false);
            assert_eq!(rig.replies.pop(), Some((requester, Ok(0))));
        }
        assert_eq!(rig.count("probe"), probes);
    }
}

#[test]
fn leases_are_reaped_at_their_deadline_and_not_before() {
    let mut rig = Rig::new(false);
    rig.push(When::Now);
    rig.lease(0, 1, Duration::from_secs(5), true);
    rig.sent.clear();
    rig.advance(Duration::from_millis(4_999));
    assert_eq!(rig.count("reap"), 0);
    rig.advance(Duration::from_millis(2));
    assert_eq!(rig.count("reap"), 1);
    assert_eq!(rig.bucket.stats().leased, 0);
    assert_eq!(rig.bucket.stats().dead, 1);
}

#[test]
fn a_lease_that_is_granted_while_a_reap_is_on_its_way_is_reaped_at_its_deadline() {
    let mut rig = Rig::new(true);
    rig.push(When::Now);
    rig.now = rig.now + Duration::from_secs(1);
    let mut actions = Vec::new();
    rig.puller.turn(rig.now, &mut actions);
    let [PullAction::Call { call, op, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(name_of(op), "reap");
    // The store reaps, then it leases; the second reply comes first.
    let response = rig
        .bucket
        .apply(rig.now_us(), op.clone(), &mut sink::Forget);
    let response = response.map_err(|error| error.kind());
    rig.lease(0, 1, Duration::from_secs(5), true);
    assert_eq!(rig.replies, [(0, Ok(1))]);
    rig.input(PullInput::Answered {
        call: *call,
        response,
    });
    rig.advance(Duration::from_millis(5_001));
    assert_eq!(rig.bucket.stats().dead, 1);
}

#[test]
fn a_bucket_of_a_shared_store_is_scanned_while_it_is_in_use_and_left_alone_otherwise() {
    let mut rig = Rig::new(true);
    rig.advance(Duration::from_secs(2));
    rig.sent.clear();
    rig.advance(Duration::from_secs(20));
    assert_eq!(rig.sent, [""; 0], "nothing is there");
    rig.push(When::Now);
    rig.advance(Duration::from_secs(10));
    assert!((9..=12).contains(&rig.count("reap")), "{:?}", rig.sent);
}

#[test]
fn what_a_caller_that_is_gone_was_given_is_handed_back() {
    let mut rig = Rig::new(false);
    rig.push(When::Now);
    let mut actions = Vec::new();
    let lease = LeaseOrder {
        requester: 0,
        queues: vec![rig.key.queue.clone()],
        max: 1,
        bytes_max: usize::MAX,
        hold: MINUTE,
        waits: true,
    };
    rig.puller
        .handle(rig.now, PullInput::Lease(lease), &mut actions);
    rig.puller.turn(rig.now, &mut actions);
    // The fetch is on its way when the caller hangs up.
    rig.puller
        .handle(rig.now, PullInput::Cancelled(0), &mut actions);
    rig.run(actions);
    assert_eq!(rig.count("settle"), 1);
    assert_eq!(
        (rig.bucket.stats().ready, rig.bucket.stats().leased),
        (1, 0)
    );
}

#[test]
fn a_stop_refuses_callers_and_ends() {
    let mut rig = Rig::new(false);
    rig.lease(0, 1, MINUTE, true);
    rig.input(PullInput::Stop);
    assert_eq!(rig.replies, [(0, Err(ErrorKind::Closed))]);
    assert!(rig.puller.is_stopped());
    rig.lease(1, 1, MINUTE, true);
    assert_eq!(rig.replies[1], (1, Err(ErrorKind::Closed)));
}

#[test]
fn a_caller_gets_no_more_bytes_than_it_takes_and_one_event_in_any_case() {
    for (payload_len, bytes_max, expected) in [
        (1, usize::MAX, 300),
        (1 << 20, 16 << 20, 16),
        ((1 << 20) + 1, 16 << 20, 16),
        (1 << 20, 1, 1),
        (1 << 20, 0, 1),
        (100_000, 1_000_000, 10),
    ] {
        let mut rig = Rig::new(false);
        (rig.payload_len, rig.bytes_max) = (payload_len, bytes_max);
        for _ in 0..300 {
            rig.push(When::Now);
        }
        rig.lease(0, 300, MINUTE, false);
        assert_eq!(
            rig.replies,
            [(0, Ok(expected))],
            "{payload_len} {bytes_max}"
        );
        rig.advance(Duration::from_secs(1));
        let stats = rig.bucket.stats();
        assert_eq!((stats.leased, stats.ready), (expected, 300 - expected));
        assert!(
            rig.fetched_max <= FETCH_BYTES / BODY_BYTES_MIN,
            "{}",
            rig.fetched_max
        );
        // The second time the size is known.
        rig.fetched_max = 0;
        rig.lease(1, 300, MINUTE, false);
        assert!(rig.fetched_max * payload_len <= FETCH_BYTES + payload_len);
    }
}
