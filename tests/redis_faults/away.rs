//! The server goes and comes back, or another one takes its place.

use std::time::Duration;

use crate::nodes::{Memory, Site};
use crate::redis_faults::{busy, finish, let_it_run, number, server, wait_for_each, wait_for_more};
use crate::servers::{Aof, Cluster, Redis, RedisOptions, Sentinels};

/// How often a server is killed and started again, when nobody says otherwise; another one takes
/// its place a third as often, which takes longer.
fn kills() -> u64 {
    number("DULY_REDIS_KILLS").unwrap_or(3)
}

pub(crate) fn failovers() -> u64 {
    kills().div_ceil(3)
}

/// Kills a server under load and starts it again, a few times.
fn killed_and_restarted(case: &str, mut redis: Redis, memory: Memory) {
    let site = Site::new(redis.url());
    let nodes: Vec<_> = (1..=3).map(|seed| site.spawn(&busy(seed))).collect();
    wait_for_each(&site, &nodes);
    for kill in 0..kills() {
        wait_for_more(&site);
        redis.kill();
        let_it_run(Duration::from_millis(150 * (1 + kill % 3)));
        redis.restart();
    }
    wait_for_more(&site);
    finish(case, &site, nodes, kills(), memory);
}

#[test]
fn a_redis_that_syncs_each_change_loses_nothing_when_it_is_killed() {
    killed_and_restarted("redis killed, synced", server(), Memory::Keeps);
}

#[test]
fn a_redis_that_syncs_each_second_is_never_early_when_it_is_killed() {
    let redis = Redis::start(RedisOptions {
        aof: Aof::Everysec,
        tcp: true,
        ..RedisOptions::default()
    });
    killed_and_restarted("redis killed, each second", redis, Memory::MayForget);
}

/// A replica may not have what the master answered, and so it may forget.
#[test]
fn work_goes_on_after_a_sentinel_failover() {
    let mut sentinels = Sentinels::start();
    let site = Site::new(sentinels.url());
    let nodes: Vec<_> = (1..=2).map(|seed| site.spawn(&busy(seed))).collect();
    wait_for_each(&site, &nodes);
    for _ in 0..failovers() {
        sentinels.failover();
        wait_for_more(&site);
        sentinels.restart_dead(); // or there is soon nobody left to take over
    }
    let case = "sentinel failover";
    finish(case, &site, nodes, failovers(), Memory::MayForget);
    println!("failovers: {}", sentinels.failovers());
}

#[test]
fn a_slot_that_moves_under_load_loses_nothing() {
    let cluster = Cluster::start(6);
    let site = Site::new(cluster.url());
    let nodes: Vec<_> = (1..=2).map(|seed| site.spawn(&busy(seed))).collect();
    wait_for_each(&site, &nodes);
    let masters = [0, 6_000, 12_000].map(|slot| cluster.master_of(slot));
    let mut moved = 0;
    for tag in [
        "{work:0}", "{work:1}", "{work:2}", "{hub}", "{work:0}", "{work:1}",
    ] {
        let slot = cluster.slot_of(tag);
        let from = cluster.master_of(slot);
        let to = masters.into_iter().find(|master| *master != from);
        cluster.move_slot(slot, to.expect("there are three"));
        moved += 1;
        wait_for_more(&site);
    }
    println!("slots moved: {moved}");
    finish("slots moved", &site, nodes, 0, Memory::Keeps);
}

/// A replica may not have what the master answered, and so it may forget.
#[test]
fn work_goes_on_after_a_master_of_a_cluster_is_killed() {
    let mut cluster = Cluster::start(6);
    let site = Site::new(cluster.url());
    let nodes: Vec<_> = (1..=2).map(|seed| site.spawn(&busy(seed))).collect();
    wait_for_each(&site, &nodes);
    let slot = cluster.slot_of("{work:0}");
    for _ in 0..failovers() {
        let killed = cluster.kill_master_of(slot);
        cluster.wait_for_another_master(slot, killed);
        cluster.restart(killed);
        cluster.wait_until_served();
        wait_for_more(&site);
    }
    let case = "master killed";
    finish(case, &site, nodes, failovers(), Memory::MayForget);
}
