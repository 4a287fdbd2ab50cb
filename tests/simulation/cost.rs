//! What nodes ask of the store for each event, by how many nodes there are.

use duly::config::NodeOptions;

use crate::plan::{Class, Handlers, Plan};
use crate::rng::Rng;
use crate::world::World;

const BUCKETS: usize = 64;
const EVENTS: u64 = 60_000;
const SPAN_US: u64 = 1_000_000;

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

/// So many nodes that share 64 buckets and 30,000 events a second, and nothing that goes wrong.
fn busy(nodes: usize, rng: &mut Rng) -> Plan {
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
        heal_us: SPAN_US,
        check_every: 10_000,
        ..plan
    }
}

/// Calls of nodes for each event, roll calls among them.
fn calls_an_event(nodes: usize, seed: u64) -> f64 {
    let mut rng = Rng::new(seed);
    let plan = busy(nodes, &mut rng);
    let mut world = World::of(rng, plan, None);
    world.plan_steady(EVENTS, SPAN_US);
    let broken = world.run();
    assert!(broken.is_none(), "{broken:?}");
    let handled = world.checker.starts();
    assert!(handled >= EVENTS, "{handled} were handled");
    let calls = world.node_calls as f64 / handled as f64;
    eprintln!("{nodes:3} nodes: {calls:.3} calls an event");
    calls
}

#[test]
fn many_nodes_ask_hardly_more_than_one() {
    let [one, five, twenty] = [1, 5, 20].map(|nodes| calls_an_event(nodes, 7));
    assert!(five < one * 1.5 && twenty < 1.2, "{one}, {five}, {twenty}");
}
