//! Nodes that are killed, and nodes that are stopped for longer than their leases.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duly_conformance::history::{Entry, EntryKind, Report};

use crate::nodes::{HANGS, Memory, Node, Role, Site, node_of, now_us, starts, starts_of};
use crate::redis_faults::scripts::Call;
use crate::redis_faults::{busy, finish, let_it_run, number, server, wait_for_more};
use crate::servers::{Fault, Proxy, Redis};

/// How many cases are run when nobody says otherwise.
const CASES: u64 = 2;
/// How many nodes share the queue.
const NODES: usize = 3;

/// While they open the store, move, handle or settle: wherever a kill meets them.
#[test]
fn nodes_killed_at_any_moment_lose_nothing() {
    let cases = number("DULY_REDIS_CASES").unwrap_or(CASES);
    let first = number("DULY_REDIS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut all = Report::default();
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
        let kills = random.u64(6..12);
        for _ in 0..kills {
            let_it_run(Duration::from_micros(random.u64(20_000..400_000)));
            let victim = nodes.swap_remove(random.usize(..nodes.len()));
            victim.kill();
            nodes.push(spawn());
        }
        wait_for_more(&site);
        all += finish("nodes killed", &site, nodes, kills, Memory::Keeps);
    }
    println!("{cases} cases\n{all}");
}

#[test]
fn a_node_stopped_beyond_its_lease_costs_no_event_and_its_late_settle_is_refused() {
    let redis = server();
    let site = Site::new(redis.url());
    // Its handlers that hang do so for longer: whenever it is stopped, some are running.
    let stopped = site.spawn(&Role {
        timeout: Duration::from_secs(1),
        ..busy(1)
    });
    let other = site.spawn(&busy(2));
    let id = stopped.id();
    let before = starts_of(&site.entries(), id);
    site.wait_until("it handles", |lines| starts_of(lines, id) > before + 20);
    stop_while_it_handles(&site, &stopped);
    // The lease of a running handler is lost.
    site.wait_until("what it held is handed on", |lines| is_handed_on(lines, id));
    stopped.signal("CONT");
    let before = starts_of(&site.entries(), id);
    site.wait_until("it handles again", |lines| {
        starts_of(lines, id) > before + 20
    });
    let nodes = vec![stopped, other];
    let sum = finish("stopped beyond its lease", &site, nodes, 0, Memory::Keeps);
    let said = "outcomes arrived after their lease was lost";
    assert!(
        site.said().contains(said),
        "no settle was late: {}",
        site.said()
    );
    assert!(
        sum.leases_lost > 0,
        "it held nothing when it was stopped: {sum:?}"
    );
}

/// Stops a process while one of its handlers runs that hangs; however long another test keeps the
/// machine busy between the look and the signal.
fn stop_while_it_handles(site: &Site, node: &Node) {
    for _ in 0..100 {
        site.wait_until("one of its handlers hangs", |lines| hangs(lines, node.id()));
        node.signal("STOP");
        if hangs(&site.entries(), node.id()) {
            return;
        }
        node.signal("CONT");
    }
    panic!("whenever it was stopped, no handler of it ran");
}

/// Whether a handler of a process hangs, and will for another fifth of its second.
fn hangs(entries: &[Entry], process: u32) -> bool {
    let (node, since_us) = (node_of(entries, process), now_us() - 800_000);
    entries.iter().any(|entry| match entry.what {
        EntryKind::Started { lease, payload, .. } => {
            Some(lease.node) == node && payload % 20 == HANGS && entry.at_us > since_us
        }
        _ => false,
    })
}

/// Whether something that a process started was started by another one much later than a retry
/// would be.
fn is_handed_on(entries: &[Entry], from: u32) -> bool {
    const LATER_US: u64 = 2_000_000;
    let from = node_of(entries, from);
    let mut held = BTreeMap::new();
    starts(entries).any(|start| {
        if Some(start.node) == from {
            held.insert(start.id, start.at_us);
            return false;
        }
        let since = held.remove(&start.id);
        since.is_some_and(|since_us| start.at_us > since_us + LATER_US)
    })
}

/// At the very call: half of the nodes die before the server sees it, half before its answer.
fn killed_at(script: &str) {
    let redis = Redis::plain();
    let site = Site::new(redis.url());
    let survivor = site.spawn(&busy(1));
    let kills = 4;
    for kill in 0..kills {
        let proxy = Proxy::before(redis.address());
        let victim = site.spawn_at(&proxy.url(), &busy(10 + kill));
        let id = victim.id();
        site.wait_until("it handles", |lines| starts_of(lines, id) > 10);
        let call = Call::of(script);
        let is_killed = Arc::new(AtomicBool::new(false));
        let kills_it = Arc::clone(&is_killed);
        proxy.on_request(move |bytes| {
            if kills_it.load(Ordering::Relaxed) || !call.is_in(bytes) {
                return None;
            }
            kill_by_id(id);
            kills_it.store(true, Ordering::Relaxed);
            (kill % 2 == 0).then_some(Fault::CutBefore)
        });
        site.wait_until("it makes the call", |_| is_killed.load(Ordering::Relaxed));
        victim.kill();
    }
    wait_for_more(&site);
    let case = format!("killed at {script}");
    finish(&case, &site, vec![survivor], kills, Memory::Keeps);
}

#[test]
fn a_node_killed_while_it_pushes_loses_nothing() {
    killed_at("push");
}

#[test]
fn a_node_killed_while_it_moves_loses_nothing() {
    killed_at("move_due");
}

#[test]
fn a_node_killed_while_it_fetches_loses_nothing() {
    killed_at("fetch");
}

#[test]
fn a_node_killed_while_it_settles_loses_nothing() {
    killed_at("settle");
}

/// `kill -9` of a child that nobody has waited for yet.
fn kill_by_id(id: u32) {
    let status = Command::new("kill").args(["-9", &id.to_string()]).status();
    assert!(status.expect("kill starts").success());
}
