//! Promise 9: a lost worker is noticed by its lease, not by the age of its work.
//!
//! Here several buses of one process share a memory store; `nodes.rs` has more of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::__internal::{Action, CallId, Input, Node};
use duly::config::NodeOptions;
use duly::event::{BucketId, BucketKey};
use duly::prelude::*;
use duly::records::NodeId;
use duly::store::operation::{Delivery, FetchReport, Reply, RequestId, Response, StoreOp};
use duly::testing::{Probe, TestBus};
use duly::time::{Mono, Timestamp};
use duly::{Annotation, QueueName};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, ms, secs};

/// A bus on its own way to the store, and that way.
async fn distant(world: &World, probe: &Probe<u64>) -> (TestBus, Arc<Faulty>) {
    distant_as(ORDERS.timeout(secs(86_400)), world, probe).await
}

async fn distant_as(
    orders: Annotation,
    world: &World,
    probe: &Probe<u64>,
) -> (TestBus, Arc<Faulty>) {
    let store = Faulty::to(&world.store);
    let (bus, _queue) = world.serve_by(store.clone(), orders, probe).await;
    (bus, store)
}

fn hanging() -> Probe<u64> {
    Probe::running(|_event, _cx| std::future::pending())
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_node_held_is_handed_on_within_three_seconds() {
    let world = World::shared();
    let first = hanging();
    let (dying, queue) = world.serve(ORDERS.workers(64), &first).await;
    let second = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &second).await;
    bus.set_workers("orders", 0).unwrap();
    queue.push_many(0..64, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(first.count(), 64);
    bus.set_workers("orders", 16).unwrap();
    bus.advance(ms(100)).await;

    drop((dying, queue));
    let died = world.clock.elapsed();
    bus.advance(secs(10)).await;

    let times = second.times();
    assert_eq!(times.len(), 64);
    let last = *times.last().unwrap();
    assert!(last - died <= secs(3), "{:?} after it died", last - died);
    assert!(second.attempts().iter().all(|(_, attempt)| *attempt == 2));
    let lost = bus.records().outcome(Outcome::LeaseLost).page().await;
    assert_eq!(lost.unwrap().items.len(), 64);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_runs_for_an_hour_keeps_its_event() {
    let world = World::shared();
    let probe = Probe::taking(secs(3_600));
    let (bus, queue) = world.serve(ORDERS.timeout(secs(7_200)), &probe).await;
    let other = Probe::<u64>::new();
    let (other_bus, _queue) = world.serve(ORDERS, &other).await;
    other_bus.set_workers("orders", 0).unwrap();
    queue.push_many(0..4_u64, secs(0)).await.unwrap();
    bus.settle().await;
    assert_eq!(probe.running_now(), 4);
    other_bus.set_workers("orders", 16).unwrap();
    bus.advance(secs(3_700)).await;

    assert_eq!((probe.count(), probe.running_now()), (4, 0));
    assert_eq!(other.count(), 0);
    let acked = bus.records().outcome(Outcome::Acked).page().await.unwrap();
    assert_eq!(acked.items.len(), 4);
    assert_eq!(bus.records().page().await.unwrap().items.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_comes_after_the_lease_was_lost_is_refused() {
    let world = World::shared();
    let slow = Probe::taking(secs(60));
    let (cut_off, way) = distant(&world, &slow).await;
    let queue = cut_off.queue_named("orders").unwrap();
    let id = queue.push(1_u64, When::Now).await.unwrap().id();
    cut_off.advance(secs(1)).await;
    let probe = Probe::<u64>::taking(secs(100));
    let (bus, _queue) = world.serve(ORDERS.timeout(secs(600)), &probe).await;
    way.is(Fault::Hung);

    bus.advance(secs(10)).await;
    assert_eq!(probe.attempts(), [(id, 2)]);
    way.is(Fault::None);
    bus.advance(secs(60)).await;
    assert_eq!(slow.running_now(), 0, "it has ended, and told the store");
    assert_eq!(bus.outcomes(id).await.unwrap(), [Outcome::LeaseLost]);
    bus.advance(secs(100)).await;

    let outcomes = bus.outcomes(id).await.unwrap();
    assert_eq!(outcomes, [Outcome::LeaseLost, Outcome::Acked]);
    assert_eq!((slow.count(), probe.count()), (1, 1));
}

/// What waits in its ring must not start once another node may have it.
#[tokio::test(start_paused = true)]
async fn nothing_starts_on_a_lease_that_may_be_gone() {
    let world = World::shared();
    let slow = Probe::taking(secs(20));
    let (cut_off, way) = distant(&world, &slow).await;
    let queue = cut_off.queue_named("orders").unwrap();
    queue.push_many(0..100_u64, secs(0)).await.unwrap();
    cut_off.advance(secs(1)).await;
    assert_eq!(slow.count(), 16);
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    way.is(Fault::Hung);
    let cut = world.clock.elapsed();
    bus.advance(secs(60)).await;

    assert_eq!(slow.count(), 16, "the others were in its ring");
    assert_eq!(probe.count(), 100);
    assert!(*probe.times().last().unwrap() - cut <= secs(3));
}

/// Blocks its thread until it is let go, and counts.
#[delay_event(
    queue = "orders",
    blocking,
    workers = 1,
    timeout = "1d",
    register = false
)]
struct Holds {
    runs: Arc<AtomicUsize>,
    go: Mutex<Receiver<()>>,
}

impl BlockingHandler for Holds {
    type Payload = u64;

    fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let _ = self.go.lock().unwrap().recv();
        Ok(())
    }
}

/// Its thread looks at the lease once more: what waited for the thread may be with another node.
#[tokio::test(start_paused = true)]
async fn a_blocking_handler_does_not_start_on_a_lease_that_may_be_gone() {
    let world = World::shared();
    let way = Faulty::to(&world.store);
    let (release, go) = channel();
    let (runs, go) = (Arc::<AtomicUsize>::default(), Mutex::new(go));
    let holds = Holds {
        runs: Arc::clone(&runs),
        go,
    };
    let builder = Bus::builder().only_registered().register_blocking(holds);
    let builder = builder.shared_store(way.clone());
    let clock = Arc::clone(&world.clock);
    let bus = TestBus::start_on(clock, builder).await.unwrap();
    let queue = bus.queue_named("orders").unwrap();
    queue.push_many(0..8_u64, secs(0)).await.unwrap();
    while runs.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    way.is(Fault::Hung);
    // Time does not pass by itself while a thread works.
    for _ in 0..100 {
        tokio::time::advance(ms(100)).await;
    }
    drop(release);
    bus.advance(secs(10)).await;

    assert_eq!(
        runs.load(Ordering::Relaxed),
        1,
        "the others were in its ring"
    );
}

/// Its lease is fresh again by then, but not for what it held before.
#[tokio::test(start_paused = true)]
async fn what_a_node_has_lost_is_not_started_when_it_is_back() {
    let world = World::shared();
    let slow = Probe::taking(secs(20));
    let orders = ORDERS.buckets(1); // a lease is fresh, or lost, in one bucket
    let (back, way) = distant_as(orders, &world, &slow).await;
    let queue = back.queue_named("orders").unwrap();
    queue.push_many(0..100_u64, secs(0)).await.unwrap();
    back.advance(secs(1)).await;
    assert_eq!(slow.count(), 16, "the others are in its ring");
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(orders, &probe).await;
    way.is(Fault::Hung);
    bus.advance(secs(10)).await;
    assert_eq!(probe.count(), 100);
    bus.set_workers("orders", 0).unwrap();
    way.is(Fault::None);
    queue.push_many(100..164, secs(0)).await.unwrap();
    bus.advance(secs(60)).await;

    let (again, new): (Vec<u64>, Vec<u64>) =
        (slow.payloads().into_iter()).partition(|payload| *payload < 100);
    assert_eq!(again.len(), 16, "what it had started before");
    assert!(!new.is_empty(), "it does not work");
}

/// A node that has asked for the events of its bucket.
struct Asking {
    node: Node<()>,
    bucket: usize,
    asked: Mono,
    call: CallId,
    request: RequestId,
}

impl Asking {
    fn new() -> Self {
        let mut node = Node::<()>::new(NodeId(1), NodeOptions::default());
        let queue = node.add_queue(QueueName::new("orders").unwrap(), 64, 4);
        let key = BucketKey::new(QueueName::new("orders").unwrap(), BucketId(0));
        let bucket = node.add_bucket(queue, key);
        let mut actions = Vec::new();
        let asked = Mono::default() + secs(100);
        node.turn(asked, &mut actions);
        let fetch = actions.iter().find_map(|action| match action {
            Action::Call {
                call,
                op: StoreOp::Fetch(fetch),
                ..
            } => Some((*call, fetch.request)),
            _ => None,
        });
        let (call, request) = fetch.expect("it fetches");
        Self {
            node,
            bucket,
            asked,
            call,
            request,
        }
    }

    /// An event that is due `ahead` after the store's time is the reply, which arrives after
    /// `way`, and is read after `late`. Returns what the node does then.
    fn reads(&mut self, ahead: Duration, way: Duration, late: Duration) -> Vec<Action<()>> {
        let now = Timestamp::from_millis(1_000);
        let due = now + ahead;
        let delivery = Delivery {
            id: EventId::from_parts(due, BucketId(0), 1),
            body: (),
            due,
            attempt: 1,
            request: self.request,
            place: 0,
            moved_us: 0,
        };
        let reply = Reply::Fetched(FetchReport {
            deliveries: vec![delivery],
            ..FetchReport::default()
        });
        let answered = Input::Answered {
            call: self.call,
            arrived: self.asked + way,
            response: Ok(Response {
                now_us: now.as_micros(),
                reply,
            }),
        };
        let mut actions = Vec::new();
        let read = self.asked + late;
        self.node.handle(read, answered, &mut actions);
        self.node.turn(read, &mut actions);
        actions
    }
}

/// The answer may have been long on its way, and the others count from what the store saw.
#[test]
fn trust_in_a_lease_counts_from_when_it_was_asked_for() {
    let options = NodeOptions::default();
    let mut asking = Asking::new();
    let actions = asking.reads(secs(0), secs(1), secs(1));
    let (bucket, asked) = (asking.bucket, asking.asked);
    let fresh = actions.iter().find_map(|action| match action {
        Action::Fresh { bucket: of, until } if *of == bucket => Some(*until),
        _ => None,
    });
    assert_eq!(
        fresh,
        Some(asked + options.lease_timeout - options.safety_margin)
    );
}

#[test]
fn the_stores_time_counts_from_when_a_reply_arrived() {
    let starts = |late| {
        let actions = Asking::new().reads(ms(50), ms(1), late);
        let is_start = |action: &Action<()>| matches!(action, Action::Publish { .. });
        actions.iter().any(is_start)
    };
    assert!(!starts(ms(50)), "the store may not be there yet");
    assert!(starts(ms(52)), "however late the node reads it");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_believed_dead_goes_on_when_it_is_back() {
    let world = World::shared();
    let probe = Probe::new();
    let (back, way) = distant(&world, &probe).await;
    let queue = back.queue_named("orders").unwrap();
    let other = hanging();
    let (bus, _queue) = world.serve(ORDERS, &other).await;
    bus.set_workers("orders", 0).unwrap();
    queue.push_many(0..32_u64, ms(50)).await.unwrap();
    back.advance(ms(10)).await;
    way.is(Fault::Hung);
    back.advance(secs(30)).await;
    way.is(Fault::None);
    back.advance(secs(30)).await;

    let mut payloads = probe.payloads();
    payloads.sort_unstable();
    payloads.dedup();
    assert!(payloads.into_iter().eq(0..32));
    queue.push_many(32..64, secs(0)).await.unwrap();
    back.advance(ms(100)).await; // their bucket may be the other's, who has no room
    let late = probe
        .payloads()
        .into_iter()
        .filter(|payload| *payload >= 32);
    assert_eq!(late.count(), 32);
}

/// Its holder, believed dead, may still be running it, and that is said.
#[tokio::test(start_paused = true)]
async fn a_cancel_says_when_a_lost_attempt_may_still_run() {
    let world = World::shared();
    let slow = hanging();
    let (cut_off, way) = distant(&world, &slow).await;
    let queue = cut_off.queue_named("orders").unwrap();
    let id = queue.push(1_u64, When::Now).await.unwrap().id();
    cut_off.advance(secs(1)).await;
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    bus.set_workers("orders", 0).unwrap();
    way.is(Fault::Hung);
    bus.advance(secs(10)).await;

    let moved = queue.reschedule(id, secs(60)).await.unwrap();
    assert_eq!(
        moved,
        ChangeOutcome::ChangedAfterAttempt(bus.now() + secs(60))
    );
    let cancelled = queue.cancel(id).await.unwrap();
    assert_eq!(cancelled, CancelOutcome::CancelledAfterAttempt);
    assert_eq!(slow.running_now(), 1);
}

/// An event whose every holder dies has used its attempts all the same.
#[tokio::test(start_paused = true)]
async fn an_event_that_kills_each_of_its_nodes_is_a_dead_letter() {
    let world = World::shared();
    let (pusher, queue) = world.push_only("orders").await;
    let id = queue.event(1_u64).attempts(3).push().await.unwrap().id();
    let mut started = 0;
    for _ in 0..5 {
        let probe = hanging();
        let (node, _queue) = world.serve(ORDERS, &probe).await;
        node.advance(secs(10)).await;
        started += probe.count();
        drop(node);
    }
    assert_eq!(started, 3);
    let dead = pusher.dead_letters().page().await.unwrap();
    assert_eq!(dead.items[0].id, id);
}
