//! The whole system on virtual time, from a seed: the machines of several nodes, the reference
//! store, and between them everything that can go wrong.
//!
//! `DULY_SIM_SEEDS` says how many seeds are run, `DULY_SIM_FROM` with which one to begin. A seed
//! that fails prints its story and the command that tells it again.

#![allow(clippy::print_stderr)] // a story is told to whoever runs the tests
#![allow(unreachable_pub)] // a test has no outside

mod attempt;
mod bugs;
mod checker;
mod clients;
mod executor;
mod faults;
mod history;
mod life;
mod network;
mod node;
mod plan;
mod planted;
mod pool;
mod rng;
mod roll;
mod store;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::bugs::Bug;
use crate::world::{Broken, World};

/// Seeds that failed once; they are run first, for ever.
const FAILED_ONCE: &str = include_str!("seeds.txt");

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn seeds() -> impl Iterator<Item = u64> {
    // Whoever names the first seed wants that one and those that follow.
    let is_named = std::env::var("DULY_SIM_FROM").is_ok();
    let lines = FAILED_ONCE.lines().filter(move |_| !is_named);
    let failed = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let from = setting("DULY_SIM_FROM", 0);
    failed.chain(from..from + setting("DULY_SIM_SEEDS", 1_000))
}

/// What happened to the event whose promise was broken, and how to see it again.
fn story(seed: u64, world: &World, broken: &Broken) -> String {
    let mut text = format!(
        "\nseed {seed}, at {:.3} ms: {}\n{:?}\n",
        broken.at_us as f64 / 1_000.0,
        broken.text,
        world.plan
    );
    for (at, node) in world.nodes.iter().enumerate() {
        let _ = writeln!(text, "node {at} accounts for {:?}", node.loads());
    }
    for entry in world.history.of(broken.id) {
        let _ = writeln!(text, "{entry}");
    }
    let again = "DULY_SIM_SEEDS=1 cargo test --test simulation no_seed";
    let _ = writeln!(text, "again: DULY_SIM_FROM={seed} {again}");
    text
}

#[test]
fn no_seed_breaks_a_promise() {
    let (mut starts, mut lost, mut steps, mut worlds) = (0, 0, 0, 0);
    // For each promise that was broken: how often, and the story of the first time.
    let mut broken_ones = BTreeMap::<String, (u64, u64, String)>::new();
    for seed in seeds() {
        let mut world = World::new(seed, None);
        if let Some(broken) = world.run() {
            let first = || (0, seed, story(seed, &world, &broken));
            let known = broken_ones.entry(broken.text.clone()).or_insert_with(first);
            known.0 += 1;
        }
        starts += world.checker.starts;
        lost += world.checker.leases_lost;
        steps += world.steps;
        worlds += 1;
    }
    eprintln!("{worlds} worlds, {steps} steps, {starts} starts, {lost} leases lost");
    assert!(starts > 0, "nothing was ever started");
    for (_, _, story) in broken_ones.values() {
        eprintln!("{story}");
    }
    let summary: Vec<_> = broken_ones
        .iter()
        .map(|(text, (times, seed, _))| format!("{times} times, first in seed {seed}: {text}"))
        .collect();
    assert!(summary.is_empty(), "\n{}", summary.join("\n"));
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in seeds().take(60) {
        let hashes = [(); 2].map(|()| {
            let mut world = World::new(seed, None);
            world.run();
            (world.history.hash(), world.steps)
        });
        assert_eq!(hashes[0], hashes[1], "seed {seed} is not the same twice");
    }
}

#[test]
fn every_planted_bug_is_found() {
    let most = setting("DULY_SIM_BUG_SEEDS", 10_000);
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let found = (0..most).find_map(|seed| {
            let broken = World::new(seed, Some(bug)).run()?;
            Some((seed, broken.text))
        });
        match found {
            Some((seed, text)) => eprintln!("{bug:?}: seed {seed}: {text}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "{missed:?} not found in {most} seeds");
}
