//! Unit tests of the node.

use std::time::Duration;

use crate::core::node::Node;
use crate::core::op::{
    Delivery, FetchReport, HeartbeatReport, Holding, MoveReport, Reply, Response, StoreOp,
};
use crate::core::options::NodeOptions;
use crate::core::step::{Action, CallId, Input};
use crate::error::ErrorKind;
use crate::event::{BucketId, BucketKey, EventId, QueueName};
use crate::record::NodeId;
use crate::time::{Mono, Timestamp};

fn at(ms: u64) -> Mono {
    Mono::default() + Duration::from_millis(ms)
}

/// Takes a turn; returns the fetches with their buckets.
fn turn(node: &mut Node<()>, ms: u64) -> Vec<(CallId, usize)> {
    let mut actions = Vec::new();
    node.turn(at(ms), &mut actions);
    let calls = actions.into_iter().filter_map(|action| match action {
        Action::Call {
            call,
            bucket,
            op: StoreOp::Fetch(_),
        } => Some((call, bucket)),
        _ => None,
    });
    calls.collect()
}

fn response(node: &mut Node<()>, ms: u64, call: CallId, reply: Reply<()>) {
    let now_us = ms * 1_000;
    let answered = Input::Answered {
        call,
        arrived: at(ms),
        response: Ok(Response { now_us, reply }),
    };
    node.handle(at(ms), answered, &mut Vec::new());
}

/// A fetch brings nothing; `ready`: how many events are there.
fn brings_nothing(node: &mut Node<()>, ms: u64, call: CallId, ready: usize) {
    let reply = Reply::Fetched(FetchReport {
        ready,
        ..FetchReport::default()
    });
    response(node, ms, call, reply);
}

/// A bucket that waits for room, which fetches of others have reserved, is asked when they bring
/// less.
#[test]
fn a_bucket_that_waits_for_the_room_of_others_is_fetched_when_they_bring_nothing() {
    let options = NodeOptions::default().for_one_process();
    let mut node = Node::new(NodeId(1), options);
    let name: QueueName = "mail".parse().expect("a name");
    let queue = node.add_queue(name.clone(), 1_024, 64);
    for bucket in 0..4 {
        node.add_bucket(
            queue,
            BucketKey {
                queue: name.clone(),
                bucket: BucketId(bucket),
            },
        );
    }
    let mut calls = turn(&mut node, 1);
    assert_eq!(calls.len(), 4, "{calls:?}");
    // The later, the fewer they ask for.
    let (last, waits) = (calls.pop().expect("four"), calls.pop().expect("four"));
    brings_nothing(&mut node, 2, waits.0, 5);
    assert_eq!(turn(&mut node, 2), [], "the others may fill it up");
    brings_nothing(&mut node, 3, last.0, 0);
    let calls: Vec<_> = turn(&mut node, 3)
        .iter()
        .map(|(_, bucket)| *bucket)
        .collect();
    assert_eq!(calls, [waits.1]);
}

/// So is one that is new while the only other one has reserved all room, where so few are running
/// that any event is worth a fetch.
#[test]
fn a_new_bucket_that_waits_for_all_room_is_fetched_when_that_is_free() {
    let options = NodeOptions {
        ahead: Duration::ZERO,
        ..NodeOptions::default().for_one_process()
    };
    let mut node = Node::new(NodeId(1), options);
    let name: QueueName = "mail".parse().expect("a name");
    let queue = node.add_queue(name.clone(), 42, 42);
    let key = |bucket| BucketKey::new(name.clone(), BucketId(bucket));
    node.add_bucket(queue, key(0));
    let first = turn(&mut node, 1)[0].0;
    let serve = Input::Serve {
        queue,
        bucket: key(1),
    };
    node.handle(at(2), serve, &mut Vec::new());
    let mut actions = Vec::new();
    node.turn(at(2), &mut actions);
    let moves = actions.iter().find_map(|action| match action {
        Action::Call {
            call,
            bucket: 1,
            op: StoreOp::MoveDue { .. },
        } => Some(*call),
        _ => None,
    });
    let one_is_ready = MoveReport {
        moved: 0,
        ready: 1,
        next_due: None,
        aside: Default::default(),
    };
    let moves = moves.expect("there is no room for a fetch");
    response(&mut node, 3, moves, Reply::Moved(one_is_ready));
    assert_eq!(turn(&mut node, 3), []);
    brings_nothing(&mut node, 4, first, 0);
    let calls = turn(&mut node, 4);
    let calls: Vec<_> = calls.iter().map(|(_, bucket)| *bucket).collect();
    assert_eq!(calls, [1]);
}

/// Takes a turn; returns the calls that settle nothing.
fn calls_for_time(node: &mut Node<()>, ms: u64) -> Vec<CallId> {
    let mut actions = Vec::new();
    node.turn(at(ms), &mut actions);
    let calls = actions.into_iter().filter_map(|action| match action {
        Action::Call {
            call,
            op: StoreOp::Settle { settlements, .. },
            ..
        } if settlements.is_empty() => Some(call),
        _ => None,
    });
    calls.collect()
}

/// What tells the store's time best is the reply to a call that does little.
#[test]
fn the_time_is_asked_for_once_shortly_before_an_event_is_due() {
    for is_shared in [true, false] {
        let options = if is_shared {
            NodeOptions::default()
        } else {
            NodeOptions::default().for_one_process()
        };
        let mut node = Node::new(NodeId(1), options);
        let name: QueueName = "mail".parse().expect("a name");
        let queue = node.add_queue(name.clone(), 1_024, 64);
        let key = BucketKey::new(name, BucketId(0));
        node.add_bucket(queue, key);
        let (fetch, _) = turn(&mut node, 1)[0];
        let deliveries = (0..2).map(|place| Delivery {
            id: EventId::from_parts(Timestamp::default(), BucketId(0), place),
            body: (),
            due: Timestamp::from_millis(100 + 100 * place),
            attempt: 1,
            request: 1,
            place: usize::try_from(place).expect("small"),
            moved_us: 0,
        });
        let fetched = FetchReport {
            deliveries: deliveries.collect(),
            ..FetchReport::default()
        };
        response(&mut node, 2, fetch, Reply::Fetched(fetched));
        assert!(calls_for_time(&mut node, 94).is_empty(), "too early");
        let calls = calls_for_time(&mut node, 96);
        assert_eq!(calls.len(), usize::from(is_shared));
        assert!(
            calls_for_time(&mut node, 196).is_empty(),
            "one is in flight"
        );
        for call in calls {
            response(&mut node, 197, call, Reply::Settled(Vec::new()));
            assert_eq!(calls_for_time(&mut node, 197).len(), 1, "the next event");
        }
    }
}

/// A node with one bucket.
fn with_one_bucket() -> Node<()> {
    let mut node = Node::new(NodeId(1), NodeOptions::default());
    let name: QueueName = "mail".parse().expect("a name");
    let queue = node.add_queue(name.clone(), 1_024, 64);
    node.add_bucket(queue, BucketKey::new(name, BucketId(0)));
    node
}

/// The reply to a fetch that brings one event, and there are more.
fn brings(request: u64, holding: Holding) -> Reply<()> {
    let delivery = Delivery {
        id: EventId::from_parts(Timestamp::default(), BucketId(0), request),
        body: (),
        due: Timestamp::from_millis(60_000),
        attempt: 1,
        request,
        place: 0,
        moved_us: 0,
    };
    Reply::Fetched(FetchReport {
        deliveries: vec![delivery],
        ready: 1,
        full: true,
        holding,
        ..FetchReport::default()
    })
}

/// Handles a reply, and returns through which fetch all leases may be lost.
fn lost_by(node: &mut Node<()>, ms: u64, call: CallId, reply: Reply<()>) -> Option<u64> {
    let now_us = ms * 1_000;
    let answered = Input::Answered {
        call,
        arrived: at(ms),
        response: Ok(Response { now_us, reply }),
    };
    let mut actions = Vec::new();
    node.handle(at(ms), answered, &mut actions);
    actions.iter().find_map(|action| match action {
        Action::Lost { through, .. } => Some(*through),
        _ => None,
    })
}

/// Its record is gone, and with it that its leases were taken: another node may have run those events.
#[test]
fn a_node_that_the_store_has_forgotten_starts_nothing_that_it_had_fetched() {
    for (last, is_known) in [(1, true), (0, false)] {
        let mut node = with_one_bucket();
        let (first, _) = turn(&mut node, 1)[0];
        response(&mut node, 2, first, brings(1, Holding::default()));
        let (second, _) = turn(&mut node, 3)[0];
        let leases = 2;
        let lost = lost_by(&mut node, 4, second, brings(2, Holding { leases, last }));
        assert_eq!(lost, (!is_known).then_some(1));
    }
}

/// The fetch whose reply was lost has made a new record, and is in it.
#[test]
fn a_node_that_the_store_has_forgotten_is_told_by_the_repeat_of_a_fetch() {
    for (leases, is_known) in [(2, true), (1, false)] {
        let mut node = with_one_bucket();
        let (first, _) = turn(&mut node, 1)[0];
        response(&mut node, 2, first, brings(1, Holding::default()));
        let (second, _) = turn(&mut node, 3)[0];
        let answered = Input::Answered {
            call: second,
            arrived: at(4),
            response: Err(ErrorKind::Unknown),
        };
        node.handle(at(4), answered, &mut Vec::new());
        let (again, _) = turn(&mut node, 1_000)[0];
        let reply = brings(2, Holding { leases, last: 2 });
        let lost = lost_by(&mut node, 1_001, again, reply);
        assert_eq!(lost, (!is_known).then_some(1));
    }
}

/// As after a failover to a server that lacks the last fetch, and still has the one before.
#[test]
fn a_heartbeat_that_tells_of_a_forgotten_fetch_lets_nothing_of_it_start() {
    for (last, is_known) in [(2, true), (1, false)] {
        let mut node = with_one_bucket();
        for request in 1..3 {
            let ms = request * 2;
            let (fetch, _) = turn(&mut node, ms)[0];
            let (leases, last) = (request as usize, request - 1);
            response(
                &mut node,
                ms + 1,
                fetch,
                brings(request, Holding { leases, last }),
            );
        }
        let mut actions = Vec::new();
        node.turn(at(1_000), &mut actions);
        let heartbeat = actions.iter().find_map(|action| match action {
            Action::Call { call, op, .. } => {
                matches!(op, StoreOp::Heartbeat { .. }).then_some(*call)
            }
            _ => None,
        });
        let reply = Reply::Heartbeat(HeartbeatReport {
            stands: true,
            holding: Holding { leases: 1, last },
        });
        let heartbeat = heartbeat.expect("a heartbeat");
        let lost = lost_by(&mut node, 1_001, heartbeat, reply);
        assert_eq!(lost, (!is_known).then_some(2));
    }
}

/// As while handlers block the runtime of one queue beyond their timeout, and another has its own.
#[test]
fn a_halted_queue_says_nothing_and_the_others_go_on() {
    let mut node = Node::new(NodeId(1), NodeOptions::default());
    for queue in ["halted", "well"] {
        let name: QueueName = queue.parse().expect("a name");
        let place = node.add_queue(name.clone(), 1_024, 64);
        node.add_bucket(place, BucketKey::new(name, BucketId(0)));
    }
    for (call, bucket) in turn(&mut node, 1) {
        response(
            &mut node,
            2,
            call,
            brings(bucket as u64 + 1, Holding::default()),
        );
    }
    let calls = |node: &mut Node<()>, ms| {
        let mut actions = Vec::new();
        node.turn(at(ms), &mut actions);
        let calls = actions.iter().filter_map(|action| match action {
            Action::Call { bucket, op, .. } => {
                Some((*bucket, matches!(op, StoreOp::Heartbeat { .. })))
            }
            _ => None,
        });
        calls.collect::<Vec<_>>()
    };
    calls(&mut node, 3);
    let halt = |node: &mut Node<()>, is_halted| {
        let queue = 0;
        node.handle(at(4), Input::Halted { queue, is_halted }, &mut Vec::new());
    };
    halt(&mut node, true);
    node.handle(at(4), Input::Woken { bucket: 0 }, &mut Vec::new());
    let mut said = Vec::new();
    let mut ms = 5;
    while ms < 3_000 {
        said.extend(calls(&mut node, ms));
        let wakes = node.wakes();
        assert!(wakes > at(ms), "it has nothing to do");
        ms = (wakes.since(Mono::default()).as_millis() as u64).max(ms + 1);
    }
    assert!(said.iter().all(|(bucket, _)| *bucket == 1), "{said:?}");
    assert!(said.contains(&(1, true)), "{said:?}");
    halt(&mut node, false);
    assert!(calls(&mut node, 3_001).contains(&(0, true)));
}
