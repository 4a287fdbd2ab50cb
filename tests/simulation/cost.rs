//! What nodes ask of the store for each event, by how many nodes there are.

use duly::config::NodeOptions;

use crate::plan::{Class, Handlers, Plan};
use crate::rng::Rng;
use crate::world::World;

const BUCKETS: usize = 64;

/// Handlers of a few milliseconds that do not fail.
const QUICK: Handlers = Handlers {
    fail: 0,
    snooze: 0,
    bury: 0,
    discard: 0,
    hang: 0,
    long: 0,
    long_us: 6_000_000,
    timeout_us: 7_000_000,
};

/// So many nodes that share 64 buckets, and nothing that goes wrong.
fn calm(nodes: usize, rng: &mut Rng) -> Plan {
    let mut plan = Plan::draw(rng);
    while plan.class != Class::Calm {
        plan = Plan::draw(rng);
    }
    Plan {
        nodes,
        queues: 1,
        serves: vec![1; nodes],
        buckets: vec![(0, BUCKETS)],
        events: 0, // they are planned apart
        capacity: 1_024,
        workers: 256,
        options: NodeOptions::default(),
        latency_us: (100, 500),
        rate: None,
        stays_paused: None,
        late_joins: 0,
        handler: QUICK,
        roomy: false,
        goes_on: false,
        heal_us: 1_000_000,
        check_every: 10_000,
        ..plan
    }
}

/// Calls of nodes for so many events within a time, roll calls among them.
fn calls(nodes: usize, events: u64, span_us: u64) -> f64 {
    let mut rng = Rng::new(7);
    let plan = calm(nodes, &mut rng);
    let mut world = World::of(rng, plan, None);
    world.plan_steady(events, span_us);
    let broken = world.run();
    assert!(broken.is_none(), "{broken:?}");
    let handled = world.checker.starts();
    assert!(handled >= events, "{handled} were handled");
    world.node_calls as f64
}

/// 60,000 events a second. What the start of the nodes costs is in both runs.
#[test]
fn many_nodes_ask_hardly_more_than_one() {
    let [one, twenty] = [1, 20].map(|nodes| {
        let more = calls(nodes, 22_500, 375_000) - calls(nodes, 15_000, 250_000);
        more / 7_500.0
    });
    eprintln!("calls an event: {one:.3} of one node, {twenty:.3} of twenty");
    assert!(one < 0.6 && twenty < 0.8, "{one}, {twenty}");
}

/// Two events a second and bucket: far enough apart for each node to look after every one of them.
#[test]
fn a_lone_event_is_looked_for_by_two_nodes_and_not_by_all() {
    let [two, twenty] = [2, 20].map(|nodes| calls(nodes, 2_560, 20_000_000) / 2_560.0);
    assert!(
        twenty < two + 4.0,
        "{two}, {twenty}: the 18 others look too"
    );
}

/// More events than the handlers can take: a node asks for many at a time, and not for one whenever
/// one has ended.
#[test]
fn a_node_that_is_full_fetches_many_at_a_time() {
    let each = calls(1, 60_000, 250_000) / 60_000.0;
    eprintln!("calls an event: {each:.3}");
    assert!(each < 0.2, "{each}");
}
