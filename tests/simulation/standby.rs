//! Tests of the node that is next in line for a bucket, driven by hand: what a look finds that was
//! on its way while something happened.

use std::time::Duration;

use duly::__internal::{Action, CallId, Input, Node};
use duly::QueueName;
use duly::config::NodeOptions;
use duly::event::{BucketId, BucketKey};
use duly::records::NodeId;
use duly::store::Member;
use duly::store::operation::{FetchReport, Reply, Response, StoreOp};
use duly::time::{Mono, Timestamp};

/// A node that is no owner, whose first look has found nothing that is due before `DUE_MS`.
struct NextInLine(Node<()>);

/// When the event is due.
const DUE_MS: u64 = 1_000;

fn at(ms: u64) -> Mono {
    Mono::from_nanos(60_000_000_000) + Duration::from_millis(ms)
}

impl NextInLine {
    fn new() -> Self {
        let candidates = (1..100).map(|id| Self(node(NodeId(id))));
        let looks = candidates.map(|mut node| (node.look(0), node));
        let is_owner = |op: &StoreOp| matches!(op, StoreOp::Fetch(fetch) if fetch.ahead_limit > 0);
        let mut others = looks.filter_map(|(look, node)| {
            let (call, _) = look.filter(|(_, op)| !is_owner(op))?;
            Some((call, node))
        });
        let (call, mut node) = others.next().expect("one of many is no owner");
        node.finds_nothing(0, call);
        node
    }

    /// What it asks of waiting events then, if it asks.
    fn look(&mut self, ms: u64) -> Option<(CallId, StoreOp)> {
        let mut actions = Vec::new();
        self.0.turn(at(ms), &mut actions);
        actions.into_iter().find_map(|action| match action {
            Action::Call {
                call,
                op: op @ (StoreOp::Fetch(_) | StoreOp::MoveDue { .. }),
                ..
            } => Some((call, op)),
            _ => None,
        })
    }

    /// A fetch is answered: nothing is ready, and the event waits where it was.
    fn finds_nothing(&mut self, ms: u64, call: CallId) {
        let reply = Reply::Fetched(FetchReport {
            next_due: Some(Timestamp::from_millis(DUE_MS)),
            ..FetchReport::default()
        });
        let now_us = ms * 1_000;
        let response = Ok(Response { now_us, reply });
        let answered = Input::Answered {
            call,
            arrived: at(ms),
            response,
        };
        self.0.handle(at(ms), answered, &mut Vec::new());
    }
}

fn node(id: NodeId) -> Node<()> {
    let name = QueueName::new("orders").expect("a legal name");
    let mut node = Node::new(id, NodeOptions::default());
    let queue = node.add_queue(name.clone(), 8, 8);
    node.add_bucket(queue, BucketKey::new(name.clone(), BucketId(0)));
    let owner = Member {
        node: NodeId(1_000),
        host: "a".into(),
        beat: 1,
        queues: [name].into(),
    };
    let members = vec![owner];
    node.handle(at(0), Input::MembersSeen { members }, &mut Vec::new());
    node
}

#[test]
fn what_is_overdue_waits_from_its_due_time_and_not_anew_from_each_look() {
    let mut next = NextInLine::new();
    // A wake has it look when the event is overdue, and not yet its own to move.
    next.0
        .handle(at(980), Input::Woken { bucket: 0 }, &mut Vec::new());
    assert!(next.look(1_079).is_none(), "the owner looks first");
    let (call, fetch) = next.look(1_080).expect("a look after the wake");
    assert!(matches!(fetch, StoreOp::Fetch(_)), "{fetch:?}");
    next.finds_nothing(1_081, call);
    assert!(next.look(1_099).is_none(), "the owner moves it first");
    let looked = next.look(1_100);
    assert!(
        matches!(looked, Some((_, StoreOp::MoveDue { .. }))),
        "{looked:?}"
    );
}

#[test]
fn a_call_that_comes_during_a_look_is_heard_when_the_look_found_nothing() {
    let mut next = NextInLine::new();
    next.0
        .handle(at(500), Input::Woken { bucket: 0 }, &mut Vec::new());
    let (call, _) = next.look(600).expect("a look after the wake");
    next.0
        .handle(at(601), Input::Called { bucket: 0 }, &mut Vec::new());
    next.finds_nothing(602, call);
    let (call, _) = next.look(602).expect("a look after the call, at once");
    // That is one look, and then it waits as before.
    next.finds_nothing(603, call);
    assert!(next.look(700).is_none());
}
