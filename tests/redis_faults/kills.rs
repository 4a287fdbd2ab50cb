//! Nodes that are killed, and nodes that are stopped for longer than their leases.

use std::time::Duration;

use crate::nodes::{Line, Memory, Site, Sum};
use crate::servers::Redis;
use crate::{busy, finish, let_it_run, number, server, wait_for_more};

/// How many cases are run when nobody says otherwise.
const CASES: u64 = 2;
/// How many nodes share the queue.
const NODES: usize = 3;

/// While they open the store, move, handle or settle: wherever a kill meets them.
#[test]
fn nodes_killed_at_any_moment_lose_nothing() {
    let cases = number("DULY_REDIS_CASES").unwrap_or(CASES);
    let first = number("DULY_REDIS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut all = Sum::default();
    for seed in first..first + cases {
        println!("DULY_REDIS_SEED={seed} DULY_REDIS_CASES=1");
        let mut random = fastrand::Rng::with_seed(seed);
        let redis = Redis::plain();
        let site = Site::new(redis.url());
        let mut next = seed * 100;
        let mut spawn = || {
            next += 1;
            site.spawn(&busy(next))
        };
        let mut nodes: Vec<_> = (0..NODES).map(|_| spawn()).collect();
        let kills = random.usize(6..12);
        for _ in 0..kills {
            let_it_run(Duration::from_micros(random.u64(20_000..400_000)));
            let victim = nodes.swap_remove(random.usize(..nodes.len()));
            victim.kill();
            nodes.push(spawn());
        }
        wait_for_more(&site);
        all += finish("nodes killed", &site, nodes, kills, Memory::Keeps);
    }
    println!("{cases} cases: {all:?}");
}

#[test]
fn a_node_stopped_beyond_its_lease_costs_no_event_and_its_late_settle_is_refused() {
    let redis = server();
    let site = Site::new(redis.url());
    let stopped = site.spawn(&busy(1));
    let other = site.spawn(&busy(2));
    let process = u64::from(stopped.id());
    let starts_of = |lines: &[Line]| {
        let own = lines
            .iter()
            .filter(|line| matches!(line, Line::Started { process: by, .. } if *by == process));
        own.count()
    };
    for round in 1..=2 {
        let before = starts_of(&site.lines());
        site.wait_until("it handles", |lines| starts_of(lines) > before + 20);
        stopped.signal("STOP");
        // What it held is handed on, and so the lease of a running handler is lost.
        let_it_run(Duration::from_millis(3_500));
        wait_for_more(&site);
        stopped.signal("CONT");
        let before = starts_of(&site.lines());
        site.wait_until("it handles again", |lines| starts_of(lines) > before + 20);
        println!("stopped and continued, round {round}");
    }
    let said = "outcomes came after their lease was lost";
    assert!(
        site.said().contains(said),
        "no settle was late: {}",
        site.said()
    );
    let nodes = vec![stopped, other];
    let sum = finish("stopped beyond its lease", &site, nodes, 0, Memory::Keeps);
    assert!(
        sum.leases_lost > 0,
        "it held nothing when it was stopped: {sum:?}"
    );
}
