//! What several nodes know of each other, and who of them is alive.

use std::sync::Arc;
use std::time::Duration;

use duly::event::{BucketKey, State as EventState};
use duly::explain::{HolderStatus, Reason};
use duly::prelude::*;
use duly::records::{Cause, NodeId};
use duly::store::MemberInfo;
use duly::store::operation::{Fetch, StoreOp};
use duly::testing::{Probe, TestBus};

use crate::world::{ORDERS, World, ms, secs};

fn hanging() -> Probe<u64> {
    Probe::running(|_event, _cx| std::future::pending())
}

/// An event that a node of its own holds, that node, and a bus that only pushes.
async fn held(world: &World) -> (EventId, TestBus, TestBus) {
    let (holder, queue) = world.serve(ORDERS, &hanging()).await;
    let (asked, _queue) = world.push_only::<u64>("orders").await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    asked.advance(secs(5)).await;
    (id, holder, asked)
}

async fn holder_of(bus: &TestBus, id: EventId) -> (NodeId, HolderStatus, usize) {
    let explained = bus.explain(id).await.unwrap();
    assert_eq!(explained.state, Some(EventState::Leased));
    match &explained.reasons[..] {
        [
            Reason::Held {
                node,
                until: None,
                standing,
                consumers,
                is_last: false,
            },
        ] => (*node, standing.clone(), *consumers),
        _ => panic!("{explained}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_holds_an_event_and_answers_is_called_alive() {
    let world = World::shared();
    let (id, holder, asked) = held(&world).await;
    let found = holder_of(&asked, id).await;
    assert_eq!(found, (holder.node_id(), HolderStatus::Answers, 1));
    let explained = asked.explain(id).await.unwrap();
    assert!(explained.at.since(explained.since.unwrap()) >= secs(5));
    assert!(explained.advice().is_empty(), "{explained}");
}

/// It is on the roll for a minute more, and must not be taken for alive.
#[tokio::test(start_paused = true)]
async fn a_node_that_died_is_called_silent_and_who_takes_over_is_said() {
    let world = World::shared();
    let (id, holder, asked) = held(&world).await;
    let (_other, _queue) = world.serve(ORDERS, &hanging()).await;
    asked.advance(secs(1)).await;
    let node = holder.node_id();
    drop(holder);
    let explained = asked.explain(id).await.unwrap();
    assert!(explained.to_string().contains("does not respond"));
    assert!(explained.advice()[0].contains("within about 3s"));
    assert_eq!(holder_of(&asked, id).await, (node, HolderStatus::Silent, 1));
    asked.advance(secs(3)).await;
    let (next, standing, _) = holder_of(&asked, id).await;
    assert_ne!(next, node);
    assert_eq!(standing, HolderStatus::Answers);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_node_holds_and_nobody_takes_over_says_who_should() {
    let world = World::shared();
    let (id, holder, asked) = held(&world).await;
    drop(holder);
    let (_, standing, consumers) = holder_of(&asked, id).await;
    assert_eq!((standing, consumers), (HolderStatus::Silent, 0));
    let explained = asked.explain(id).await.unwrap();
    let advice = explained.advice().join("\n");
    assert!(
        advice.contains("start a process that consumes queue orders"),
        "{advice}"
    );
    asked.advance(secs(120)).await;
    let (_, standing, consumers) = holder_of(&asked, id).await;
    assert_eq!((standing, consumers), (HolderStatus::Gone, 0));
}

/// The last consumer died a moment ago: it is on the roll, and nobody is there.
#[tokio::test(start_paused = true)]
async fn a_dead_node_is_no_consumer() {
    let world = World::shared();
    let (asked, queue) = world.push_only::<u64>("orders").await;
    let (dying, _queue) = world.serve(ORDERS, &hanging()).await;
    asked.advance(secs(2)).await;
    drop(dying);
    let id = queue.push(1, ms(100)).await.unwrap().id();
    let explained = asked.explain(id).await.unwrap();
    let [Reason::NotMoved { .. }, Reason::NoConsumer { others: 0 }] = explained.reasons[..] else {
        panic!("{explained}");
    };
}

#[tokio::test(start_paused = true)]
async fn a_live_node_of_another_process_is_a_consumer() {
    let world = World::shared();
    let (asked, queue) = world.push_only::<u64>("orders").await;
    let (_live, _queue) = world.serve(ORDERS, &hanging()).await;
    let id = queue.push(1, secs(60)).await.unwrap().id();
    let explained = asked.explain(id).await.unwrap();
    assert!(
        matches!(explained.reasons[..], [Reason::NotDue { .. }]),
        "{explained}"
    );
    let lonely = asked.queue_named::<u64>("lonely").unwrap();
    let id = lonely.push(1, When::Now).await.unwrap().id();
    let explained = asked.explain(id).await.unwrap();
    assert_eq!(explained.reasons, [Reason::NoConsumer { others: 1 }]);
}

/// The workers of this process are none; those of the other one are busy.
#[tokio::test(start_paused = true)]
async fn another_node_may_start_what_this_one_does_not() {
    let world = World::shared();
    let (bus, queue) = world.serve(ORDERS, &hanging()).await;
    let (_other, _queue) = world.serve(ORDERS.workers(64).ring(64), &hanging()).await;
    bus.set_workers("orders", 0).unwrap();
    bus.advance(secs(1)).await;
    queue.push_many(0..64, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let explained = bus.explain(id).await.unwrap();
    let [
        Reason::NoWorkers { everywhere: false },
        Reason::Behind {
            ready: 1,
            leased: 64,
            consumers: 2,
            ..
        },
    ] = explained.reasons[..]
    else {
        panic!("{explained}");
    };
}

#[tokio::test(start_paused = true)]
async fn a_lease_with_a_deadline_says_until_when() {
    let world = World::shared();
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    let fetch = StoreOp::Fetch(Fetch {
        node: NodeId(77),
        request: 1,
        limit: 10,
        ahead: Duration::ZERO,
        ahead_limit: 0,
        hold: Some(secs(30)),
        starts: usize::MAX,
    });
    let bucket = BucketKey::new(queue.name().clone(), id.bucket());
    world.store.apply(&bucket, fetch).await.unwrap();
    let until = bus.now() + secs(30);
    let explained = bus.explain(id).await.unwrap();
    let [
        Reason::Held {
            node: NodeId(77),
            until: Some(told),
            ..
        },
    ] = explained.reasons[..]
    else {
        panic!("{explained}");
    };
    assert_eq!(told, until);
    let text = explained.to_string();
    assert!(text.contains(&format!("until {until}")), "{text}");
    // It is no member, and so neither alive nor gone; nothing has to be started for it.
    assert!(
        text.contains("a consumer that pulls, as over HTTP"),
        "{text}"
    );
    assert!(!text.contains("it is gone"), "{text}");
    assert_eq!(explained.reasons[0].advice(id, "orders"), None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_says_what_becomes_of_its_event() {
    let world = World::shared();
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let event = queue.event(1).attempts(2);
    let id = event.push().await.unwrap().id();
    for (words, state) in [
        ("it is ready again then", EventState::Ready),
        ("it is a dead letter then", EventState::Dead),
    ] {
        let leased = queue.lease(1, secs(30)).send().await.unwrap();
        assert_eq!(leased.len(), 1);
        let text = bus.explain(id).await.unwrap().to_string();
        assert!(text.contains(words), "{text}");
        bus.advance(secs(31)).await;
        let found = queue.get(id).await.unwrap().unwrap();
        assert_eq!(found.state, state);
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_no_member_and_leaves_no_trace() {
    let world = World::shared();
    let (id, _holder, asked) = held(&world).await;
    let ghost = MemberInfo {
        node: NodeId(99),
        queues: Arc::from([]),
        host: "".into(),
        leaves: false,
    };
    let before = world.store.poll_members(ghost.clone()).await.unwrap();
    for _ in 0..3 {
        asked.explain(id).await.unwrap();
    }
    let after = world.store.poll_members(ghost).await.unwrap();
    let nodes = |roll: duly::store::Membership| -> Vec<_> {
        roll.members.iter().map(|member| member.node).collect()
    };
    assert_eq!(nodes(after), nodes(before));
}

/// While nodes are listened for, their events go on; what is told is how it is afterwards.
#[tokio::test(start_paused = true)]
async fn what_is_told_is_how_it_is_at_the_end() {
    let world = World::shared();
    let probe = Probe::<u64>::taking(ms(300));
    let (_holder, queue) = world.serve(ORDERS, &probe).await;
    let (asked, _queue) = world.push_only::<u64>("orders").await;
    asked.advance(secs(1)).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    asked.advance(ms(100)).await;
    let explained = asked.explain(id).await.unwrap();
    assert_eq!(explained.state, Some(EventState::Done));
    assert!(matches!(explained.reasons[..], [Reason::Over { .. }]));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_moves_on_meanwhile_is_told_where_it_went() {
    let world = World::shared();
    let probe = Probe::<u64>::running(|_event, _cx| async {
        tokio::time::sleep(ms(300)).await;
        Err(Failure::retry("not yet"))
    });
    let (_holder, queue) = world.serve(ORDERS, &probe).await;
    let (asked, _queue) = world.push_only::<u64>("orders").await;
    asked.advance(secs(1)).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    asked.advance(ms(100)).await;
    let explained = asked.explain(id).await.unwrap();
    let [Reason::NotDue { left, .. }] = explained.reasons[..] else {
        panic!("{explained}");
    };
    assert_eq!(left, ms(600));
    assert_eq!(explained.attempts.records.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_died_with_its_node_says_so() {
    let world = World::shared();
    let (holder, queue) = world.serve(ORDERS.attempts(1), &hanging()).await;
    let (asked, _queue) = world.serve(ORDERS.attempts(1), &hanging()).await;
    asked.set_workers("orders", 0).unwrap();
    let id = queue.push(1, When::Now).await.unwrap().id();
    asked.advance(secs(1)).await;
    drop((holder, queue));
    asked.advance(secs(10)).await;
    let explained = asked.explain(id).await.unwrap();
    let dead = Reason::Dead {
        cause: Some(Cause::LeaseLost),
        error: None,
    };
    assert_eq!(explained.reasons, [dead]);
    let words = explained.to_string();
    assert!(words.contains("lost with its node"), "{words}");
    let letters = asked.dead_letters().cause(Cause::LeaseLost).page().await;
    assert_eq!(letters.unwrap().items[0].id, id);
}
