//! `kill -9` between push and answer: what was answered is there, and nothing is there twice.

use std::collections::BTreeSet;

use duly::store::operation::{PushOutcome, StoreOp};
use duly::store::{EmbeddedStore, Store};
use duly::time::When;

use crate::embedded::child::{self, Running};
use crate::embedded::harness::*;

/// `DULY_CRASH_CASES` sets how many processes are killed.
fn cases() -> u64 {
    std::env::var("DULY_CRASH_CASES").map_or(4, |cases| cases.parse().expect("a number"))
}

/// The number in a line, unless the line was cut.
fn number(line: &str) -> Option<u64> {
    line.strip_suffix('.')?.parse().ok()
}

#[test]
fn whatever_was_answered_survives_kill_9() {
    let place = Place::new();
    let mut random = fastrand::Rng::with_seed(3);
    let mut acknowledged = BTreeSet::new();
    for _ in 0..cases() {
        let mut pusher = Running::start(child::command(
            "crash::pushes_until_it_is_killed",
            &place.path(),
        ));
        let wanted = acknowledged.len() + random.usize(20..800);
        while acknowledged.len() < wanted
            && let Some(line) = pusher.next("ok ")
        {
            acknowledged.extend(number(&line));
        }
        pusher.kill();
        // What it managed to say before it died was answered too.
        while let Some(line) = pusher.next("ok ") {
            acknowledged.extend(number(&line));
        }
        let store = place.open();
        for n in &acknowledged {
            let found =
                get(&store, *n).unwrap_or_else(|| panic!("event {n} was answered and is lost"));
            assert_eq!(found.body.expect("it is not over").payload, payload(*n));
        }
        let again = push(
            &store,
            event(*acknowledged.first().expect("one"), When::Now, 1),
        );
        let verdict = again.expect("a push").verdict;
        assert!(matches!(verdict, PushOutcome::Duplicate(_)), "{verdict:?}");
    }
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn pushes_until_it_is_killed() {
    let Some(path) = child::path() else { return };
    let store = EmbeddedStore::open(path).expect("a store");
    let first = u64::from(std::process::id()) << 32;
    let store = std::sync::Arc::new(store);
    let mut pushers = tokio::task::JoinSet::new();
    for pusher in 0..8 {
        let store = std::sync::Arc::clone(&store);
        pushers.spawn(async move {
            for n in 0..100_000 {
                let n = first + pusher * 100_000 + n;
                let op = StoreOp::Push(vec![event(n, When::Now, 1)]);
                store.apply(&key(), op).await.expect("a push");
                println!("ok {n}.");
            }
        });
    }
    pushers.join_all().await;
}
