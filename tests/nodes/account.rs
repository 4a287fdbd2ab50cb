//! The account: what the log, the store and the records say of each event must fit together.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duly::Record;
use duly::prelude::*;
use duly::store::RedisStore;

use super::child::{self, Role};
use super::log::{Line, Log};
use super::process::Site;
use super::story::{Story, tell};

/// How long working off what was left may take.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// What the store promised to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Everything that it answered: whatever is missing fails the account.
    Keeps,
    /// It may have forgotten its last moments: what is missing is counted.
    MayForget,
}

/// What was counted, to see that the cases were about something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    /// Pushes that were sent.
    pub(crate) pushed: usize,
    /// Pushes that were accepted by an answer, before the account began.
    pub(crate) answered: usize,
    /// Answers that said that nobody knows.
    pub(crate) unknown: usize,
    /// Pushes that were answered with *nothing happened*.
    pub(crate) refused: usize,
    pub(crate) cancelled: usize,
    /// Events whose handler started.
    pub(crate) handled: usize,
    /// Starts, with all repetitions.
    pub(crate) starts: usize,
    /// Events whose handler started more than once, after failures or lost leases.
    pub(crate) handled_again: usize,
    /// Attempts that ended because their node fell silent.
    pub(crate) leases_lost: usize,
    pub(crate) dead: usize,
    /// Events that started before they were due.
    pub(crate) early: usize,
    /// Accepted events of which neither the store nor a record nor the log knows anything.
    pub(crate) lost: usize,
    /// Events whose log, records and state do not tell one story.
    pub(crate) unaccounted: usize,
    pub(crate) kills: usize,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.pushed += other.pushed;
        self.answered += other.answered;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.cancelled += other.cancelled;
        self.handled += other.handled;
        self.starts += other.starts;
        self.handled_again += other.handled_again;
        self.leases_lost += other.leases_lost;
        self.dead += other.dead;
        self.early += other.early;
        self.lost += other.lost;
        self.unaccounted += other.unaccounted;
        self.kills += other.kills;
    }
}

/// Works off the store of a site and accounts for every event.
///
/// Nothing may be early, whatever the store forgets; nor may a push that was refused have happened.
pub(crate) fn account(site: &Site, memory: Memory) -> Sum {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let log = Arc::new(Log::open(site.folder()));
        let bus = child::bus(&site.url, &log, &Role::worker()).await;
        let bus = bus.expect("the store opens");
        let before = tell(&site.lines());
        push_again(&bus, &log, &before).await;
        drain(&bus).await;

        let mut sum = Sum {
            answered: before.values().filter(|one| one.due_ms.is_some()).count(),
            ..Sum::default()
        };
        let mut stories = tell(&site.lines());
        for record in records(&bus).await {
            let story = stories.get_mut(&record.id);
            let story = story.unwrap_or_else(|| panic!("nobody pushed {record:?}"));
            story.records.push(record);
        }
        for (id, story) in &stories {
            count(&mut sum, *id, story, &bus, memory).await;
        }
        bus.shutdown(Duration::from_secs(5)).await.expect("a stop");
        audit(&site.url).await;
        sum
    })
}

/// A Redis store looks at itself: each event in exactly one place, every counter right.
async fn audit(url: &str) {
    if url.starts_with("redis") {
        let store = RedisStore::open(url).await.expect("the store opens");
        let wrong = store.audit().await.expect("the store answers");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Counts one event, and fails at what no store may do.
async fn count(sum: &mut Sum, id: EventId, story: &Story, bus: &Bus, memory: Memory) {
    let queue: Queue<u64> = bus.queue_named("work").expect("a legal name");
    let state = queue.get(id).await.expect("the store answers");
    let state = state.map(|snapshot| snapshot.state);
    sum.pushed += 1;
    sum.unknown += story.unknown;
    sum.early += usize::from(story.early_us().is_some());
    assert_eq!(story.early_us(), None, "{id} starts early: {story:?}");
    if story.is_refused() {
        sum.refused += 1;
        let happened = state.is_some() || !story.starts.is_empty() || !story.records.is_empty();
        assert!(!happened, "{id} was refused and happened: {story:?}");
        return;
    }
    let outcomes = || story.records.iter().map(|record| record.outcome);
    sum.cancelled += usize::from(story.cancelled);
    sum.handled += usize::from(!story.starts.is_empty());
    sum.handled_again += usize::from(story.starts.len() > 1);
    sum.starts += story.starts.len();
    sum.leases_lost += outcomes().filter(|end| *end == Outcome::LeaseLost).count();
    sum.dead += usize::from(outcomes().next_back() == Some(Outcome::Buried));
    if let Some(wrong) = story.wrong(state) {
        let is_lost = state.is_none() && story.starts.is_empty() && story.records.is_empty();
        sum.lost += usize::from(is_lost);
        sum.unaccounted += usize::from(!is_lost);
        assert_eq!(
            memory,
            Memory::MayForget,
            "{id} {wrong}; it is {state:?}: {story:?}"
        );
    }
}

/// Repeats the pushes that were never answered, as their pushers would: that is safe.
async fn push_again(bus: &Bus, log: &Log, stories: &BTreeMap<EventId, Story>) {
    let queue: Queue<u64> = bus.queue_named("work").expect("a legal name");
    for (id, story) in stories.iter().filter(|(_, story)| story.is_open()) {
        let receipt = queue.event(story.payload).id(*id).send().await;
        let due_ms = receipt.expect("a repeat is accepted").due().as_millis();
        log.add(Line::Pushed { id: *id, due_ms });
    }
}

/// Waits until everything is over or dead.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
async fn drain(bus: &Bus) {
    let began = Instant::now();
    loop {
        let stats = bus.stats("work").await;
        if let Ok(stats) = &stats
            && stats.scheduled + stats.ready + stats.leased == 0
        {
            return;
        }
        assert!(began.elapsed() < DRAIN_MAX, "it hangs: {stats:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn records(bus: &Bus) -> Vec<Record> {
    let (mut records, mut after) = (Vec::new(), 0);
    loop {
        let page = bus.records().after(after).limit(1_000).page().await;
        let page = page.expect("the store answers");
        records.extend(page.items);
        match page.next {
            Some(next) => after = next,
            None => return records,
        }
    }
}
