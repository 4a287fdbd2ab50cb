//! Shortages of the process and of the disk that come and go: nothing is lost by one, nothing of
//! what was refused happened, and when it is over everything works again without a restart.
//!
//! A child lowers and raises its own limits, so that no other test is short of anything.
//! `DULY_SHORTAGE_CASES` sets how many children there are, `DULY_SHORTAGE_SEED` the first seed.

mod limits;
mod story;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use duly::prelude::*;
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::testing::Probe;
use duly::{Annotation, ErrorKind};
use rustix::process::Resource;

use crate::embedded::child::{self, Running};
use crate::embedded::full::on_a_small_disk;
use crate::embedded::harness::*;
use crate::embedded::shortage::limits::Short;
use crate::embedded::shortage::story::{Known, Story, assert_all};

const SEED: &str = "DULY_SHORTAGE_SEED";
/// How often in a child something is short, and how much is done meanwhile.
const ROUNDS: usize = 10;
const STEPS: usize = 12;
fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |set| set.parse().expect("a number"))
}

#[test]
#[allow(clippy::print_stdout)] // a failure says its seed
fn when_a_shortage_is_over_everything_works_and_nothing_was_lost() {
    let first = number(SEED, fastrand::u64(..1 << 32));
    let cases = number("DULY_SHORTAGE_CASES", 3);
    // They wait for most of their time.
    let seeds: Vec<u64> = (first..first + cases).collect();
    for seeds in seeds.chunks(4) {
        let run = |seed: &u64| {
            println!("{SEED}={seed}");
            let mount = tempfile::tempdir().expect("a directory");
            let mut command = on_a_small_disk("shortage::comes_and_goes", mount.path());
            command.env(SEED, seed.to_string());
            (*seed, mount, Running::start(command))
        };
        for (seed, _mount, mut child) in seeds.iter().map(run).collect::<Vec<_>>() {
            let passed = child.next("passed");
            let end = child.child.wait().expect("its end");
            assert!(end.success() && passed.is_some(), "{SEED}={seed}: {end}");
        }
    }
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn comes_and_goes() {
    let Some(path) = child::path() else { return };
    let mut story = Story::new(&path, number(SEED, 0));
    story.works().await;
    for round in 0..ROUNDS {
        let (what, short) = Short::random(&path, &mut story.rng);
        story.now = format!("round {round}, {what}");
        for _ in 0..STEPS {
            story.step().await;
        }
        drop(short);
        story.works().await;
    }
    story.ends(&path).await;
    println!("passed");
}

/// At each file that it opens, and with each size that a file may have.
#[test]
fn an_open_that_finds_too_little_says_so_and_helps_when_it_is_there() {
    let place = Place::new();
    let mut child = Running::start(child::command("shortage::opens", &place.path()));
    let passed = child.next("passed");
    let end = child.child.wait().expect("its end");
    assert!(end.success() && passed.is_some(), "{end}");
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn opens() {
    let Some(path) = child::path() else { return };
    let place = Place::new();
    let limits = (0..20).map(|more| (Resource::Nofile, more));
    let sizes = [0, 1, 4_095, 20_000, 60_000, 200_000, 300_000, 1 << 20];
    let (mut refused, mut opened) = (0, 0);
    for (number, (resource, most)) in limits
        .chain(sizes.map(|size| (Resource::Fsize, size)))
        .enumerate()
    {
        for is_new in [true, false] {
            let path = if is_new {
                path.with_file_name(format!("{number}.db"))
            } else {
                path.clone()
            };
            let open = || EmbeddedStore::open_with(&path, place.options());
            if !is_new {
                drop(open().expect("nothing is short"));
            }
            let short = match resource {
                Resource::Nofile => Short::descriptors(most as usize),
                _ => Short::of(resource, most),
            };
            match open() {
                Ok(store) => {
                    opened += 1;
                    drop(store);
                }
                Err(error) => {
                    refused += 1;
                    let words = error.to_string();
                    match resource {
                        Resource::Nofile => {
                            assert_eq!(error.kind(), ErrorKind::Unavailable, "{words}");
                            assert!(words.contains("limits"), "{words}");
                        }
                        _ => assert_eq!(error.kind(), ErrorKind::Full, "{words}"),
                    }
                }
            }
            drop(short);
            push_now(
                &open().unwrap_or_else(|error| panic!("{number}: {error}")),
                number as u64 + 1,
            );
        }
    }
    assert!(refused > 10 && opened > 10, "{refused} and {opened}");
    println!("passed");
}

/// Rust ends a process that finds no memory for what it must have; what SQLite, threads and mappings
/// do not find is an error.
#[test]
fn a_process_without_memory_loses_nothing() {
    for spare in [64 << 10, 512 << 10, 3 << 20] {
        let place = Place::new();
        let mut command = child::command("shortage::memory_runs_out", &place.path());
        command.env(SEED, u64::to_string(&spare));
        let mut child = Running::start(command);
        let mut events = BTreeMap::new();
        let mut is_through = false;
        while let Some(Ok(line)) = child.lines.next() {
            let Some((_, said)) = line.split_once("event ") else {
                is_through |= line.contains("passed");
                continue;
            };
            let (n, known) = said.split_once(' ').expect("what is known");
            let known = match known {
                "stored" => Known::Stored,
                "over" => Known::Over,
                _ => Known::Either,
            };
            events.insert(n.parse().expect("a number"), known);
        }
        let end = child.child.wait().expect("its end");
        assert!(is_through == end.success(), "{end}");
        assert!(!events.is_empty());
        assert_all(&place.path(), &events);
    }
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn memory_runs_out() {
    let Some(path) = child::path() else { return };
    let mut story = Story::new(&path, 7);
    story.works().await;
    let pages = fs::read_to_string("/proc/self/statm").expect("its size");
    let pages: u64 = pages
        .split(' ')
        .next()
        .and_then(|pages| pages.parse().ok())
        .expect("a number");
    let short = Short::of(Resource::As, pages * 4_096 + number(SEED, 0));
    let tell = |story: &Story| {
        for (n, known) in &story.events {
            println!("event {n} {}", format!("{known:?}").to_lowercase());
        }
    };
    tell(&story);
    for _ in 0..30 {
        // What was on its way when it died may be so or not.
        let next = story.events.len() as u64 + 1;
        (next..next + 20).for_each(|n| println!("event {n} either"));
        for delivery in &story.leased {
            println!("event {} either", delivery.id.entropy());
        }
        story.step().await;
        tell(&story);
    }
    drop(short);
    story.works().await;
    tell(&story);
    story.store.close().await.expect("a close");
    println!("passed");
}

/// Threads with such stacks do not fit into the addresses of a process.
#[test]
fn a_bus_that_finds_no_thread_leaves_its_store() {
    let place = Place::new();
    let mut command = child::command("shortage::has_no_thread", &place.path());
    command.env("RUST_MIN_STACK", (1_u64 << 47).to_string());
    let mut child = Running::start(command);
    let passed = child.next("passed");
    let end = child.child.wait().expect("its end");
    assert!(end.success() && passed.is_some(), "{end}");
}

/// Threads of their own would read many events, and index those of several buckets.
#[test]
fn a_store_opens_without_a_thread() {
    for part in [
        "many_events_are_restored_in_the_order_of_their_due_times",
        "events_of_several_buckets_are_restored",
    ] {
        let place = Place::new();
        let mut command = child::command(&format!("many::{part}"), &place.path());
        command.env("RUST_MIN_STACK", (1_u64 << 47).to_string());
        let mut child = Running::start(command);
        let passed = child.next("1 passed");
        let end = child.child.wait().expect("its end");
        assert!(end.success() && passed.is_some(), "{part}: {end}");
    }
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn has_no_thread() {
    let Some(path) = child::path() else { return };
    let open = || EmbeddedStore::open_with(&path, EmbeddedOptions::inline());
    for is_blocking in [false, true] {
        let store: Arc<dyn Store> = Arc::new(open().expect("nobody has it"));
        let kept = Arc::downgrade(&store);
        let builder = Bus::builder().only_registered().shared_store(store);
        let builder = if is_blocking {
            builder.register_blocking(Nothing)
        } else {
            builder.register_as(Annotation::new("orders"), Probe::<u64>::new())
        };
        let error = builder.start().await.expect_err("it finds no thread");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("the mover's thread"), "{error}");
        while kept.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        let store = open().expect("nobody has it any more");
        push_now(&store, 1 + u64::from(is_blocking));
    }
    println!("passed");
}

#[delay_event(queue = "blocking", blocking, register = false)]
struct Nothing;

impl BlockingHandler for Nothing {
    type Payload = u64;

    fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}
