//! A push that is refused for want of room, and what ended its event while it waited to be written.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use duly::ErrorKind;
use duly::Unique;
use duly::event::{Payload, State};
use duly::store::operation::StoreOp;
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::{Clock, Mono, When};

use crate::embedded::child;
use crate::embedded::damage::damaged;
use crate::embedded::full::{ballast, runs_on_a_small_disk};
use crate::embedded::harness::*;

const ROOM: u64 = 4 << 20;
/// After so many commits that find no room the writer has given back all that it can, and takes
/// pushes again as soon as there is some.
const COMMITS: u64 = 10;

/// A clock that goes on by a second with each commit of the store's writer, and can hold it there.
#[derive(Debug)]
struct CommitClock {
    hand: Arc<Hand>,
    state: Mutex<Commits>,
    changed: Condvar,
}

#[derive(Debug)]
struct Commits {
    begun: u64,
    allowed: u64,
}

impl CommitClock {
    fn new() -> Arc<Self> {
        let allowed = u64::MAX;
        Arc::new(Self {
            hand: Hand::at(START),
            state: Mutex::new(Commits { begun: 0, allowed }),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, Commits> {
        self.state.lock().expect("no panic")
    }

    /// Holds the next commit.
    fn hold(&self) {
        let mut state = self.state();
        state.allowed = state.begun;
    }

    /// Lets `more` commits go on, and waits for the one after them, which it holds.
    fn hold_after(&self, more: u64) {
        let mut state = self.state();
        state.allowed += more;
        self.changed.notify_all();
        let goes_on = |state: &mut Commits| state.begun <= state.allowed;
        drop(self.changed.wait_while(state, goes_on).expect("no panic"));
    }

    fn go_on(&self) {
        self.state().allowed = u64::MAX;
        self.changed.notify_all();
    }
}

impl Clock for CommitClock {
    fn wall_us(&self) -> u64 {
        if std::thread::current().name() == Some("duly-writer") {
            let mut state = self.state();
            state.begun += 1;
            self.changed.notify_all();
            let is_held = |state: &mut Commits| state.begun > state.allowed;
            drop(self.changed.wait_while(state, is_held).expect("no panic"));
            self.hand.advance(Duration::from_secs(1));
        }
        self.hand.wall_us()
    }

    fn mono(&self) -> Mono {
        self.hand.mono()
    }
}

#[test]
fn what_ends_an_event_whose_push_finds_no_room_is_written_and_no_damage() {
    runs_on_a_small_disk("refused::ends_what_is_refused");
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn ends_what_is_refused() {
    let Some(path) = child::path() else { return };
    let mut other = unique(2);
    other.on_taken = Unique::Replace;
    let ends = [StoreOp::Push(vec![other]), StoreOp::Cancel { id: id(1) }];
    for (number, end) in ends.into_iter().enumerate() {
        for before in 0..2 {
            let path = path.with_file_name(format!("{number}-{before}.db"));
            refused_and_ended(&path, before, end.clone()).await;
            std::fs::remove_file(path.with_file_name("ballast")).expect("the ballast");
        }
    }
    println!("passed");
}

async fn refused_and_ended(path: &Path, before: u64, end: StoreOp) {
    let clock = CommitClock::new();
    let options = EmbeddedOptions::new().reserve_bytes(0).batch_max(1);
    let options = options.clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let store = EmbeddedStore::open_with(path, options).expect("a store");
    let replaces = matches!(end, StoreOp::Push(_));
    let case = format!("{before} before, replaces: {replaces}");

    let push = |n| StoreOp::Push(vec![event(n, When::Now, 3)]);
    store.apply(&key(), push(3)).await.expect("a push");

    // All is decided before anything of it is written, in a transaction each.
    clock.hold();
    let update = StoreOp::Update {
        id: id(3),
        payload: Payload::from(vec![1; 500_000]),
        by: None,
        dead_only: false,
    };
    let update = store.apply(&key(), update);
    let pushes = (10..10 + before).map(push);
    let pushes = pushes.chain([StoreOp::Push(vec![unique(1)])]);
    let pushes: Vec<_> = pushes.map(|push| store.apply(&key(), push)).collect();
    let ended = store.apply(&key(), end);
    let ballast = ballast(path);
    clock.hold_after(COMMITS);
    let ballast = File::options().write(true).open(ballast);
    let ballast = ballast.expect("the ballast");
    let len = ballast.metadata().expect("its length").len();
    ballast.set_len(len - ROOM).expect("a shorter file");
    clock.go_on();

    let limit = Duration::from_secs(60);
    for push in pushes {
        let reply = tokio::time::timeout(limit, push).await.expect("a reply");
        let refused = reply.expect_err("there is no room");
        assert_eq!(refused.kind(), ErrorKind::Full, "{case}: {refused}");
    }
    for change in [update, ended] {
        let reply = tokio::time::timeout(limit, change).await.expect("a reply");
        reply.unwrap_or_else(|error| panic!("{case}: {error}"));
    }
    store.close().await.expect("a close");
    drop(store);
    let store = EmbeddedStore::open_with(path, EmbeddedOptions::inline()).expect("a store");
    assert_eq!(damaged(&store), [], "{case}");
    let found = [1, 2].map(|n| get(&store, n).map(|it| it.state));
    let second = replaces.then_some(State::Scheduled);
    assert_eq!(found, [Some(State::Cancelled), second], "{case}");
    store.check().expect("all is in its place");
}
