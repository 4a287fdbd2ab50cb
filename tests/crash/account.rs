//! The account: what the log, the store and the records say of each event must fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duly::prelude::*;
use duly::{EventState, Record};

use crate::child::{self, ATTEMPTS};
use crate::log::{self, Line, Log};

/// How long working off what was left may take.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// What was counted, to see that the cases were about something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) pushed: usize,
    /// Pushes that a kill left without an answer.
    unanswered: usize,
    cancelled: usize,
    pub(crate) starts: usize,
    /// Attempts that a kill ended.
    lost: usize,
    dead: usize,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.pushed += other.pushed;
        self.unanswered += other.unanswered;
        self.cancelled += other.cancelled;
        self.starts += other.starts;
        self.lost += other.lost;
        self.dead += other.dead;
    }
}

/// What is known of one event.
#[derive(Debug, Default)]
struct Story {
    payload: u64,
    due_ms: Option<u64>,
    cancelled: bool,
    attempts: BTreeSet<u64>,
    records: Vec<Record>,
}

/// Opens the store of a killed process, works it off, and accounts for every event.
pub(crate) fn account(folder: &Path) -> Sum {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut before = BTreeMap::new();
        tell(folder, &mut before);
        let log = Arc::new(Log::open(folder));
        let bus = child::bus(folder, &log, false).await;
        let bus = bus.expect("the store opens");
        let mut sum = push_again(&bus, &log, &before).await;
        drain(&bus).await;

        let mut stories = BTreeMap::new();
        sum.starts = tell(folder, &mut stories);
        for record in records(&bus).await {
            let story = stories.get_mut(&record.id);
            let story = story.unwrap_or_else(|| panic!("nobody pushed {record:?}"));
            story.records.push(record);
        }
        for (id, story) in &stories {
            check(*id, story, &bus).await;
            sum.pushed += 1;
            sum.cancelled += usize::from(story.cancelled);
            let outcomes = || story.records.iter().map(|record| record.outcome);
            sum.lost += outcomes().filter(|end| *end == Outcome::LeaseLost).count();
            sum.dead += usize::from(outcomes().next_back() == Some(Outcome::Buried));
        }
        bus.shutdown(Duration::from_secs(5)).await.expect("a stop");
        sum
    })
}

/// Reads the log into stories; answers how many starts there were.
///
/// What can be seen from the order of lines is checked here: nothing starts early, no attempt
/// starts twice, and nothing starts after it was said to be cancelled.
fn tell(folder: &Path, stories: &mut BTreeMap<EventId, Story>) -> usize {
    let mut starts = 0;
    for line in log::read(folder) {
        match line {
            Line::Pushing { id, payload } => stories.entry(id).or_default().payload = payload,
            Line::Pushed { id, due_ms } => stories.entry(id).or_default().due_ms = Some(due_ms),
            Line::Cancelled { id } => stories.entry(id).or_default().cancelled = true,
            Line::Started { id, attempt, at_us } => {
                starts += 1;
                let story = stories.get_mut(&id);
                let story = story.unwrap_or_else(|| panic!("{id} was never pushed"));
                assert!(!story.cancelled, "{id} starts after it was cancelled");
                let due_us = story.due_ms.unwrap_or(0) * 1_000;
                assert!(at_us >= due_us, "{id} starts {} µs early", due_us - at_us);
                assert!(
                    story.attempts.insert(attempt),
                    "{id} starts attempt {attempt} twice"
                );
            }
        }
    }
    starts
}

/// Repeats the pushes that were never answered, as their pushers would: that is safe.
async fn push_again(bus: &Bus, log: &Log, stories: &BTreeMap<EventId, Story>) -> Sum {
    let queue: Queue<u64> = bus.queue_named("work").expect("a legal name");
    let mut sum = Sum::default();
    let unanswered = stories.iter().filter(|(_, story)| story.due_ms.is_none());
    for (id, story) in unanswered {
        let receipt = queue.event(story.payload).id(*id).send().await;
        let due_ms = receipt.expect("a repeat is accepted").due().as_millis();
        log.add(Line::Pushed { id: *id, due_ms });
        sum.unanswered += 1;
    }
    sum
}

/// Waits until everything is over or dead.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
async fn drain(bus: &Bus) {
    let began = Instant::now();
    loop {
        let stats = bus.stats("work").await.expect("the store answers");
        if stats.scheduled + stats.ready + stats.leased == 0 {
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

/// One event's whole story.
async fn check(id: EventId, story: &Story, bus: &Bus) {
    let queue: Queue<u64> = bus.queue_named("work").expect("a legal name");
    let Some(last) = story.records.last() else {
        panic!("{id} was accepted and nothing became of it: {story:?}");
    };
    let tries = story.records.iter().filter(|record| record.attempt > 0);
    let recorded: Vec<_> = tries.map(|record| u64::from(record.attempt)).collect();
    let started: Vec<_> = story.attempts.iter().copied().collect();
    assert!(recorded.is_sorted_by(|a, b| a < b), "{id}: {story:?}");
    assert!(started.len() <= usize::from(ATTEMPTS), "{id}: {story:?}");
    // A note may be written and the process killed before the handler's first line.
    let unstarted = recorded
        .iter()
        .filter(|number| !story.attempts.contains(number));
    let unstarted: Vec<_> = unstarted.collect();
    for number in &unstarted {
        let lost = story
            .records
            .iter()
            .find(|record| u64::from(record.attempt) == **number);
        let lost = lost.map(|record| record.outcome);
        assert_eq!(lost, Some(Outcome::LeaseLost), "{id}: {story:?}");
    }
    assert!(
        started.iter().all(|number| recorded.contains(number)),
        "{id}: {story:?}"
    );
    if story.cancelled {
        assert_eq!(last.outcome, Outcome::Cancelled, "{id}: {story:?}");
    }
    let state = queue.get(id).await.expect("the store answers");
    let state = state.map(|snapshot| snapshot.state);
    let expected = match last.outcome {
        Outcome::Acked | Outcome::Discarded => EventState::Done,
        Outcome::Cancelled => EventState::Cancelled,
        Outcome::Buried | Outcome::LeaseLost => EventState::Dead,
        other => panic!("{id} ends as {other}: {story:?}"),
    };
    assert_eq!(state, Some(expected), "{id}: {story:?}");
    if matches!(last.outcome, Outcome::Acked | Outcome::Discarded) {
        assert!(
            !started.is_empty(),
            "{id} is done and never started: {story:?}"
        );
    }
}
