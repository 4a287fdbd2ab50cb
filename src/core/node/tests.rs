//! Unit tests of the node.

use std::time::Duration;

use crate::core::node::Node;
use crate::core::op::{Answer, Fetched, Holding, Reply, StoreOp};
use crate::core::options::NodeOptions;
use crate::core::step::{Action, CallId, Input};
use crate::event::{BucketId, BucketKey, QueueName};
use crate::record::NodeId;
use crate::time::Mono;

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

/// A fetch brings nothing; `ready`: how many events are there.
fn brings_nothing(node: &mut Node<()>, ms: u64, call: CallId, ready: usize) {
    let reply = Reply::Fetched(Fetched {
        deliveries: Vec::new(),
        ready,
        next_due: None,
        crowd_due: None,
        full: false,
        holding: Holding::default(),
    });
    let answered = Input::Answered {
        call,
        arrived: at(ms),
        answer: Ok(Answer {
            now_us: ms * 1_000,
            reply,
        }),
    };
    node.handle(at(ms), answered, &mut Vec::new());
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
