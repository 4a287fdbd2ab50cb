//! Things that are not as a node believes: the clock, the number of buckets, the script cache.

use std::time::Duration;

use crate::nodes::{Memory, Role, Site};
use crate::redis_faults::{busy, finish, let_it_run, server, wait_for_each, wait_for_more};

#[test]
fn a_clock_that_is_wrong_by_an_hour_changes_nothing() {
    let redis = server();
    let site = Site::new(redis.url());
    let nodes = [-3_600, 3_600, 0].map(|clock_s| {
        site.spawn(&Role {
            clock_s,
            ..busy(clock_s.unsigned_abs() + u64::from(clock_s < 0))
        })
    });
    wait_for_each(&site, &nodes);
    for _ in 0..5 {
        wait_for_more(&site);
    }
    let sum = finish("clocks wrong", &site, nodes.into(), 0, Memory::Keeps);
    assert_eq!(sum.leases_lost, 0, "nobody died: {sum:?}");
}

/// Raised and lowered while nodes with the old number run on.
#[test]
fn nodes_with_different_numbers_of_buckets_share_a_queue() {
    let redis = server();
    let site = Site::new(redis.url());
    let mut seed = 0;
    let mut spawn = |buckets| {
        seed += 1;
        site.spawn(&Role {
            buckets,
            ..busy(seed)
        })
    };
    let first = spawn(2);
    wait_for_more(&site);
    let second = spawn(16);
    wait_for_more(&site);
    first.stop();
    let third = spawn(1);
    wait_for_more(&site);
    second.kill();
    let fourth = spawn(5);
    wait_for_more(&site);
    finish(
        "buckets changed",
        &site,
        vec![third, fourth],
        1,
        Memory::Keeps,
    );
}

#[test]
fn scripts_and_functions_that_are_flushed_under_load_lose_nothing() {
    let redis = server();
    let site = Site::new(redis.url());
    // A call that a busy machine makes late is none that was refused.
    let patient = format!("{}?timeout=25s", redis.url());
    let nodes: Vec<_> = (1..=2)
        .map(|seed| site.spawn_at(&patient, &busy(seed)))
        .collect();
    wait_for_each(&site, &nodes);
    for _ in 0..60 {
        assert_eq!(redis.cli(&["SCRIPT", "FLUSH"]), "OK");
        assert_eq!(redis.cli(&["FUNCTION", "FLUSH"]), "OK");
        let_it_run(Duration::from_millis(20));
    }
    wait_for_more(&site);
    let sum = finish("scripts flushed", &site, nodes, 0, Memory::Keeps);
    assert_eq!(sum.unknown + sum.refused, 0, "nobody notices: {sum:?}");
}
