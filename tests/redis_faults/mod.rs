//! Redis and its nodes under faults, with real processes, and a full account of every event.
//!
//! Each case prints its counters: pushes sent and answered, handled, early, lost, unaccounted.
//!
//! `DULY_REDIS_CASES` sets the number of cases with random kills, `DULY_REDIS_SEED` selects them;
//! `DULY_REDIS_KILLS` sets how often each server is killed and its file torn, and a third of it how
//! often one fails over.

#![allow(clippy::print_stdout)] // counts that are not printed show nothing

mod away;
mod blocked;
mod confirmed;
mod cut;
mod full;
mod handed_on;
mod kills;
mod pair;
mod pushes;
mod reads;
mod repeats;
mod scripts;
mod starts;
mod torn;
mod unheard;
mod upgrade;
mod waking;
mod wrong;

use std::env;
use std::thread;
use std::time::Duration;

use crate::nodes::{Memory, Node, Role, Site, account};
use crate::servers::{Aof, Redis, RedisOptions};
use duly_conformance::history::Report;

/// A server that syncs each change before it answers, on a socket and a port.
fn server() -> Redis {
    Redis::start(RedisOptions {
        aof: Aof::Always,
        tcp: true,
        ..RedisOptions::default()
    })
}

/// A node that pushes some hundred events a second and handles.
fn busy(seed: u64) -> Role {
    Role {
        seed,
        pushers: 2,
        pace: Duration::from_millis(4),
        mortal: false,
        ..Role::default()
    }
}

/// Waits until so many handlers have started since the history had `from` entries.
fn wait_for_starts(site: &Site, from: usize, many: usize) {
    site.wait_until("handlers start", |entries| {
        crate::nodes::starts(&entries[from..]).count() >= many
    });
}

/// Waits until each node is there: it has opened the store and handles.
fn wait_for_each(site: &Site, nodes: &[Node]) {
    site.wait_until("each node handles", |entries| {
        let is_there = |node: &Node| crate::nodes::starts_of(entries, node.id()) > 5;
        nodes.iter().all(is_there)
    });
}

/// Waits until the nodes push and handle again.
fn wait_for_more(site: &Site) {
    wait_for_starts(site, site.entries().len(), 50);
}

/// Lets nodes finish, works off what is left, and prints the account.
fn finish(case: &str, site: &Site, nodes: Vec<Node>, kills: u64, memory: Memory) -> Report {
    for node in nodes {
        node.stop();
    }
    let sum = Report {
        kills,
        ..account(site, memory)
    };
    println!("{case}\n{sum}");
    assert!(
        sum.answered > 0 && sum.starts > 0,
        "nothing happened: {sum:?}"
    );
    sum
}

/// Time under load: what is waited for is that the fault meets many moments.
fn let_it_run(time: Duration) {
    thread::sleep(time);
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}
