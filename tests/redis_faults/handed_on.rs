//! How soon the work of a killed node is handed on.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::EventId;
use duly_conformance::history::Entry;

use crate::nodes::{ATTEMPTS, Memory, Node, Role, Site, Start, node_of, starts, starts_of};
use crate::redis_faults::{finish, let_it_run, number};
use crate::servers::Redis;

/// How many nodes are killed in a round; there is a round for each 30 of `DULY_REDIS_KILLS`.
const VICTIMS: u64 = 16;
/// One that owns no bucket works only where others have no room, so not all of them hold something.
const BUCKETS: u16 = 48;
/// So many do at least.
const HOLDERS: usize = 12;
/// What is promised is three seconds for 99 of 100; a busy machine is given more.
const BOUND: Duration = Duration::from_secs(10);

#[test]
fn the_work_of_a_killed_node_is_handed_on() {
    let mut times = Vec::new();
    let rounds = number("DULY_REDIS_KILLS").map_or(1, |kills| kills.div_ceil(30));
    for round in 0..rounds {
        one_round(round, &mut times);
    }
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize] as f64 / 1e3;
    let kills = rounds * HOLDERS as u64;
    println!(
        "handed on after {kills} kills and more, {} attempts: p50 {:.0} ms, p99 {:.0} ms, max {:.0} ms",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    assert!(times.len() as u64 >= kills, "{} attempts only", times.len());
    assert!(at(1.0) / 1e3 < BOUND.as_secs_f64());
}

/// Nodes hold whatever they are given for ever, and are killed while another one waits for it.
fn one_round(round: u64, times: &mut Vec<u64>) {
    let redis = Redis::plain();
    let site = Site::new(redis.url());
    let holder = Role {
        buckets: BUCKETS,
        holds: true,
        workers: 4,
        timeout: Duration::from_secs(600),
        ..Role::worker()
    };
    let victims: Vec<_> = (0..VICTIMS).map(|_| site.spawn(&holder)).collect();
    let pusher = site.spawn(&Role {
        seed: round,
        buckets: BUCKETS,
        pushers: 1,
        pace: Duration::from_millis(5),
        workers: 0,
        mortal: false,
        ..Role::default()
    });
    let ids: Vec<u32> = victims.iter().map(Node::id).collect();
    let holds = |entries: &[Entry], id: u32| starts_of(entries, id) > 0;
    site.wait_until("most victims hold something", |entries| {
        ids.iter().filter(|id| holds(entries, **id)).count() >= HOLDERS
    });
    // It has room for all of it: what is measured is when it comes, not how fast it is worked off.
    let heir = site.spawn(&Role {
        buckets: BUCKETS,
        workers: 512,
        ring: Some(1_024),
        ..Role::worker()
    });
    let heir_id = heir.id();
    site.wait_until("the heir is there", |entries| {
        starts_of(entries, heir_id) > 0
    });
    pusher.stop();
    let mut killed = BTreeMap::new();
    for victim in victims {
        let node = node_of(&site.entries(), victim.id());
        let died_us = victim.kill();
        if let Some(node) = node {
            killed.insert(node, died_us);
        }
        let_it_run(Duration::from_millis(120));
    }
    // A victim may have had the last attempt of what the heir had failed before: that is over.
    let is_left = |last: &Start| killed.contains_key(&last.node) && last.attempt < ATTEMPTS;
    site.wait_until("everything is handed on", |entries| {
        !last_starts(entries).values().any(is_left)
    });
    let kills = killed.len() as u64;
    finish("handed on", &site, vec![heir], kills, Memory::Keeps);

    // The attempt after one that a victim had started, counted from the victim's death.
    let mut last = BTreeMap::new();
    for start in starts(&site.entries()) {
        let holder = last.insert(start.id, start.node);
        if let Some(died_us) = holder.and_then(|holder| killed.get(&holder)) {
            times.push(start.at_us.saturating_sub(*died_us));
        }
    }
}

/// The last start of each event.
fn last_starts(entries: &[Entry]) -> BTreeMap<EventId, Start> {
    starts(entries).map(|start| (start.id, start)).collect()
}
