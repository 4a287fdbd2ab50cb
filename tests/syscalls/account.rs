//! The account: after the last kill the store is opened once more and worked off, and then the
//! diary, the store and the records must tell one story of every event.

use std::fmt::{self, Display, Formatter};
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duly::event::{BucketKey, State as EventState};
use duly::prelude::*;
use duly::records::{Query, Record};
use duly::store::operation::{Reply, StoreOp};
use duly::store::{EmbeddedStore, Store};

use crate::syscalls::child;
use crate::syscalls::diary::{Answer, Ask, Diary};
use crate::syscalls::script;
use crate::syscalls::story::{self, Story};
use crate::syscalls::work::{self, Load, Work};

/// How long working off what was left may take.
const DRAIN_MAX: Duration = Duration::from_secs(20);

/// What was counted, and what was wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) pushed: usize,
    pub(crate) answered: usize,
    /// Pushes that were never answered, and of which nothing had happened.
    pub(crate) nothing: usize,
    /// Pushes that were never answered, and whose event was there.
    pub(crate) whole: usize,
    pub(crate) refused: usize,
    pub(crate) handled: usize,
    /// Attempts that ended with their process.
    pub(crate) leases_lost: usize,
    pub(crate) lost: usize,
    pub(crate) early: usize,
    /// Everything else that does not fit.
    pub(crate) unaccounted: usize,
    /// All of it in words.
    pub(crate) wrong: Vec<String>,
}

impl Display for Tally {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} pushed, {} answered, {} refused; without an answer {} not there, {} there; \
             {} handled, {} attempts ended by a death; {} lost, {} early, {} unaccounted",
            self.pushed,
            self.answered,
            self.refused,
            self.nothing,
            self.whole,
            self.handled,
            self.leases_lost,
            self.lost,
            self.early,
            self.unaccounted
        )
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.pushed += other.pushed;
        self.answered += other.answered;
        self.nothing += other.nothing;
        self.whole += other.whole;
        self.refused += other.refused;
        self.handled += other.handled;
        self.leases_lost += other.leases_lost;
        self.lost += other.lost;
        self.early += other.early;
        self.unaccounted += other.unaccounted;
        self.wrong.extend(other.wrong);
    }
}

/// Opens the store of a folder, works it off and accounts for every event, after so many processes
/// that died or stopped in the middle.
pub(crate) fn account(folder: &Path, deaths: usize) -> Tally {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let lines = Diary::read(folder);
        let diary = Arc::new(Diary::open(folder));
        let store = child::open(folder).expect("the store opens again");
        store.check().expect("what must be so at any time");
        let damaged = store.damaged().await.expect("the store answers");
        assert!(damaged.is_empty(), "nothing was damaged: {damaged:?}");
        let store = Arc::new(store);

        let mut tally = Tally::default();
        let mut stories = story::tell(&lines);
        for (id, story) in &mut stories {
            before(&mut tally, &store, *id, story).await;
        }
        let work = Arc::new(Work::new(&diary, &lines).alone());
        let bus = child::bus(&store, work).await.expect("a bus");
        let queue = bus.queue_named(child::WORK).expect("a legal name");
        for (id, story) in &stories {
            push_again(&queue, *id, story).await;
        }
        for id in stories.keys() {
            drain(&queue, *id).await;
        }

        // What started since then is in the diary too.
        for (id, story) in story::tell(&Diary::read(folder)) {
            let known = stories.get_mut(&id).expect("it was pushed before");
            known.starts = story.starts;
        }
        for record in records(&store).await {
            match stories.get_mut(&record.id) {
                Some(story) => story.records.push(record),
                None => tally.wrong.push(format!("nobody pushed {record:?}")),
            }
        }
        for (id, story) in &stories {
            let found = queue.get(*id).await.expect("the store answers");
            count(
                &mut tally,
                *id,
                story,
                found.map(|found| found.state),
                deaths,
            );
        }
        let rates = story::rates(&lines);
        let controls = bus.controls().await.expect("the store answers");
        let rate = controls.get(child::OTHER).and_then(|control| control.rate);
        if !rates.contains(&rate) {
            tally.unaccounted += 1;
            let words = format!("the rate is {rate:?}, and must be one of {rates:?}");
            tally.wrong.push(words);
        }
        let ended = bus.shutdown(Duration::from_secs(5)).await;
        ended.expect("a healthy store is closed well");
        tally
    })
}

/// Looks at what is there before anything is done to it: all of a push or nothing.
async fn before(tally: &mut Tally, store: &EmbeddedStore, id: EventId, story: &mut Story) {
    let key = BucketKey::new(child::WORK.parse().expect("a legal name"), id.bucket());
    let found = store.apply(&key, StoreOp::Get { id }).await;
    let Reply::Snapshot(found) = found.expect("the store answers").reply else {
        panic!("a get was answered with something else");
    };
    let of_it = Query {
        id: Some(id),
        ..Query::default()
    };
    let past = duly::testing::records(store, of_it).await;
    let past = past.expect("the store answers").items;
    let is_there = found.is_some() || !past.is_empty();
    story.was_there = is_there;
    tally.pushed += 1;
    match story.answer(Ask::Push) {
        Some(Answer::Yes { .. }) => {
            tally.answered += 1;
            if !is_there {
                tally.lost += 1;
                tally
                    .wrong
                    .push(format!("{id} was accepted and is lost: {story:?}"));
            }
        }
        Some(Answer::Refused(_) | Answer::No(_)) => {
            tally.refused += 1;
            if is_there || !story.starts.is_empty() {
                tally.unaccounted += 1;
                let words = format!("{id} was refused and happened: {found:?} {story:?}");
                tally.wrong.push(words);
            }
        }
        Some(Answer::Unknown) | None if is_there => tally.whole += 1,
        Some(Answer::Unknown) | None => {
            tally.nothing += 1;
            if !story.starts.is_empty() {
                tally.unaccounted += 1;
                tally
                    .wrong
                    .push(format!("{id} started and is nowhere: {story:?}"));
            }
        }
    }
}

/// Repeats a push that was never answered, as its pusher would: that is safe.
async fn push_again(queue: &Queue<Load>, id: EventId, story: &Story) {
    if !matches!(story.answer(Ask::Push), Some(Answer::Unknown) | None) {
        return;
    }
    let mut event = queue.event(Load::new(story.task)).id(id);
    if story.far {
        event = event.after(script::FAR);
    }
    if story.replaces.is_some() {
        event = event.unique("only", Unique::Replace);
    }
    let receipt = event.push().await.expect("a repeat is accepted");
    assert_eq!(receipt.is_duplicate(), story.was_there, "{id}: {story:?}");
}

/// Waits until an event is over, dead, or due in the far future.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
async fn drain(queue: &Queue<Load>, id: EventId) {
    let began = Instant::now();
    let soon_us = work::now_us() + DRAIN_MAX.as_micros() as u64;
    while let Some(found) = queue.get(id).await.expect("the store answers") {
        let is_far = found.state == EventState::Scheduled && found.due.as_micros() > soon_us;
        if is_far || found.state.is_final() || found.state == EventState::Dead {
            return;
        }
        assert!(began.elapsed() < DRAIN_MAX, "{id} hangs: {found:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn records(store: &EmbeddedStore) -> Vec<Record> {
    let query = Query {
        limit: Some(1_000),
        ..Query::default()
    };
    let page = duly::testing::records(store, query)
        .await
        .expect("the store answers");
    assert!(page.next.is_none(), "a short script has few records");
    page.items
}

fn count(tally: &mut Tally, id: EventId, story: &Story, state: Option<EventState>, deaths: usize) {
    tally.handled += usize::from(!story.starts.is_empty());
    tally.leases_lost += story.leases_lost();
    if story.is_early() {
        tally.early += 1;
        tally.wrong.push(format!("{id} started early: {story:?}"));
    }
    let is_refused = matches!(
        story.answer(Ask::Push),
        Some(Answer::Refused(_) | Answer::No(_))
    );
    if is_refused && state.is_none() {
        return;
    }
    if let Some(words) = story.wrong(state, deaths) {
        tally.unaccounted += 1;
        tally
            .wrong
            .push(format!("{id} {words}; it is {state:?}: {story:?}"));
    }
}
