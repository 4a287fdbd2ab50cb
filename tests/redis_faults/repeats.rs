//! Changes of dead letters that a client of a cluster sends again, since the reply to the first call is
//! lost: the reply to the second tells what the first has left, and not what was done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::event::{BucketId, BucketKey, Envelope, Payload, State};
use duly::prelude::*;
use duly::records::{Cause, NodeId, Query};
use duly::store::operation::{
    AttemptOutcome, DeadLetterEdit, FailureReason, Fetch, NewEvent, Settlement, StartMark, StoreOp,
};
use duly::store::{RedisStore, Store};
use duly::time::{Timestamp, When};
use duly::{ChangeOutcome, QueueName, Unique};

use crate::redis_faults::pushes::{proxies_before, until};
use crate::redis_faults::scripts::Call;
use crate::servers::{Cluster, Fault, Proxy, prefix};

const NODE: NodeId = NodeId(7);
/// What each change has in it, and nothing else.
const NEEDLE: &str = "a needle";

/// A bucket of a store, with dead letters in it.
struct Letters {
    store: RedisStore,
    bucket: BucketKey,
}

impl Letters {
    async fn op<R>(&self, op: duly::store::operation::Operation<R>) -> R {
        let reply = op.apply(&self.store, &self.bucket).await;
        reply.expect("the server is there")
    }

    /// Pushes an event and buries it.
    async fn dead(&self, request: u64) -> Envelope {
        let now = Timestamp::from_micros_up(self.store.now_us());
        let id = EventId::from_parts(now, self.bucket.bucket, request);
        let payload = Payload::from(&b"a letter"[..]);
        let envelope = Envelope::new(id, self.bucket.queue.clone(), payload);
        let event = NewEvent {
            envelope: Arc::new(envelope.clone()),
            when: When::Now,
            on_taken: Unique::Keep,
        };
        self.op(StoreOp::push(vec![event])).await;
        let fetch = Fetch {
            node: NODE,
            request,
            limit: 1_000,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: None,
            starts: usize::MAX,
        };
        let held = self.op(StoreOp::fetch(fetch)).await.deliveries;
        let failed = || FailureReason {
            cause: Cause::Failed,
            error: None,
        };
        let settlements = held.iter().map(|it| {
            let verdict = if it.id == id {
                AttemptOutcome::Bury(failed())
            } else {
                AttemptOutcome::Ack
            };
            Settlement {
                id: it.id,
                request,
                verdict,
                started_us: 1,
                fetched_us: 1,
            }
        });
        let settle = StoreOp::settle(NODE, settlements.collect(), StartMark::default());
        self.op(settle).await;
        envelope
    }

    /// How many records an event has.
    async fn records(&self, id: EventId) -> usize {
        let query = Query {
            id: Some(id),
            ..Query::default()
        };
        let page = duly::testing::records(&self.store, query).await;
        page.expect("records can be read").items.len()
    }

    /// Pushes an event, which expires after a while.
    async fn waiting(&self, when: When, expires_in: Option<Duration>, number: u64) -> EventId {
        let now_us = self.store.now_us();
        let now = Timestamp::from_micros_up(now_us);
        let id = EventId::from_parts(now, self.bucket.bucket, number);
        let payload = Payload::from(&b"a letter"[..]);
        let mut envelope = Envelope::new(id, self.bucket.queue.clone(), payload);
        envelope.expires =
            expires_in.map(|time| Timestamp::from_micros_up(now_us + time.as_micros() as u64));
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when,
            on_taken: Unique::Keep,
        };
        self.op(StoreOp::push(vec![event])).await;
        id
    }

    async fn state(&self, id: EventId) -> State {
        let found = self.op(StoreOp::get(id)).await;
        found.expect("it is known").state
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_a_cluster_may_have_made_twice_is_unknown() {
    let cluster = Cluster::masters(3);
    let (proxies, far) = proxies_before(&cluster).await;
    let queue = QueueName::new("letters").expect("a legal name");
    let bucket = BucketKey::new(queue, BucketId(0));
    let name = prefix();
    let open = async |url: &str| {
        let store = RedisStore::open(&format!("{url}?prefix={name}")).await;
        let (store, bucket) = (store.expect("a store"), bucket.clone());
        Letters { store, bucket }
    };
    let (near, far) = (open(&cluster.url()).await, open(&far).await);
    let changes = (0..4).flat_map(|change| [(change, "a word"), (change, NEEDLE)]);
    for ((change, word), request) in changes.zip(1..) {
        let letter = near.dead(request).await;
        let (id, was) = (letter.id, letter.fingerprint());
        let (payload, by) = (Payload::from(word.as_bytes()), Some(word.to_owned()));
        let ids = vec![id];
        let (op, left) = match change {
            0 => (StoreOp::Revive { ids, by }, State::Ready),
            1 => (StoreOp::Drop { ids, by }, State::Cancelled),
            2 => {
                let edit = DeadLetterEdit {
                    id,
                    was,
                    payload,
                    by,
                };
                (StoreOp::EditAndRevive(edit), State::Ready)
            }
            _ => {
                let dead_only = true;
                let update = StoreOp::Update {
                    id,
                    payload,
                    by,
                    dead_only,
                };
                (update, State::Dead)
            }
        };
        let tries = Arc::new(AtomicUsize::new(0));
        for proxy in &proxies {
            let tries = Arc::clone(&tries);
            proxy.on_request(move |bytes| {
                let mut parts = bytes.windows(NEEDLE.len());
                let is_it = parts.any(|part| part == NEEDLE.as_bytes());
                let is_first = is_it && tries.fetch_add(1, Ordering::Relaxed) == 0;
                is_first.then_some(Fault::CutAfter)
            });
        }
        let changed = far.store.apply(&far.bucket, op).await;
        proxies.iter().for_each(Proxy::heal);
        assert_eq!(near.state(id).await, left, "{change}");
        if word != NEEDLE {
            changed.expect("every server knows the script from now on");
            continue;
        }
        assert_eq!(tries.load(Ordering::Relaxed), 2, "{change}");
        let error = changed.expect_err("nobody knows");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{change}: {error}");
        let expected = if change == 2 { 3 } else { 2 }; // its end, and each thing that was done to it
        assert_eq!(near.records(id).await, expected, "{change}: once");
    }
}

/// A refusal that is answered to a call that was sent again is one as well: what has expired is ended,
/// and the call does its work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_a_cluster_refuses_twice_ends_what_has_expired() {
    let cluster = Cluster::masters(3);
    let (proxies, far) = proxies_before(&cluster).await;
    let queue = QueueName::new("letters").expect("a legal name");
    let bucket = BucketKey::new(queue, BucketId(0));
    let name = prefix();
    let open = async |url: &str| {
        let store = RedisStore::open(&format!("{url}?prefix={name}")).await;
        let (store, bucket) = (store.expect("a store"), bucket.clone());
        Letters { store, bucket }
    };
    let (near, far) = (open(&cluster.url()).await, open(&far).await);
    let later = When::After(Duration::from_secs(3_600));
    let first = near.waiting(later, None, 1).await;
    // Every server knows the script from now on.
    let _ = far.op(StoreOp::reschedule(first, later)).await;

    let id = near.waiting(later, None, 2).await;
    let soon = Duration::from_millis(50);
    let over = near.waiting(When::Now, Some(soon), 3).await;
    let until_us = near.store.now_us() + 100_000;
    until("it has expired", async || near.store.now_us() > until_us).await;
    let tries = Arc::new(AtomicUsize::new(0));
    for proxy in &proxies {
        let (tries, call) = (Arc::clone(&tries), Call::of("reschedule"));
        proxy.on_request(move |bytes| {
            let is_first = call.is_in(bytes) && tries.fetch_add(1, Ordering::Relaxed) == 0;
            is_first.then_some(Fault::CutAfter)
        });
    }
    let changing = StoreOp::reschedule(id, When::Now);
    let changed = changing.apply(&far.store, &bucket).await;
    proxies.iter().for_each(Proxy::heal);
    let changed = changed.expect("the first two calls were refused");
    assert!(matches!(changed, ChangeOutcome::Changed(_)), "{changed:?}");
    assert!(
        tries.load(Ordering::Relaxed) > 2,
        "twice, and once after that"
    );
    assert_eq!(near.state(id).await, State::Ready);
    assert_eq!(near.state(over).await, State::Expired);
}
