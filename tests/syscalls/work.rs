//! The handler: it writes down that it started and how it will end, and ends so.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly::prelude::*;
use tokio_util::sync::CancellationToken;

use crate::syscalls::diary::{Ask, Diary, Line, Task};

/// How often an event is tried at most.
pub(crate) const ATTEMPTS: u16 = 3;
/// How long after a failure, or a snooze, an event is due again.
pub(crate) const PAUSE: Duration = Duration::from_millis(3);

/// A task, and bytes that make the event longer than a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) task: Task,
    ballast: String,
}

impl Load {
    pub(crate) fn new(task: Task) -> Self {
        let bytes = match task {
            Task::Discards => 9_000,
            _ => 10,
        };
        Self {
            task,
            ballast: "b".repeat(bytes),
        }
    }
}

/// Writes down that it started and how it will end, and then ends so.
#[derive(Debug)]
pub(crate) struct Work {
    diary: Arc<Diary>,
    /// How often each event has started.
    starts: Mutex<HashMap<EventId, usize>>,
    revived: Mutex<HashSet<EventId>>,
    /// Lets those go on that wait.
    go_on: CancellationToken,
}

impl Work {
    /// Knows what the processes before did.
    pub(crate) fn new(diary: &Arc<Diary>, lines: &[Line]) -> Self {
        let (mut starts, mut revived) = (HashMap::new(), HashSet::new());
        for line in lines {
            match line {
                Line::Started { id, .. } => *starts.entry(*id).or_default() += 1,
                Line::Asking {
                    id,
                    ask: Ask::Revive,
                } => drop(revived.insert(*id)),
                _ => {}
            }
        }
        Self {
            diary: Arc::clone(diary),
            starts: Mutex::new(starts),
            revived: Mutex::new(revived),
            go_on: CancellationToken::new(),
        }
    }

    /// Nobody waits for the script any more, as there is none.
    pub(crate) fn alone(self) -> Self {
        self.goes_on();
        self
    }

    /// Lets those go on that wait.
    pub(crate) fn goes_on(&self) {
        self.go_on.cancel();
    }

    /// From now on it succeeds with what is revived.
    pub(crate) fn revives(&self, id: EventId) {
        let mut revived = self.revived.lock().expect("nobody panics with it");
        revived.insert(id);
    }

    pub(crate) fn diary(&self) -> &Diary {
        &self.diary
    }

    pub(crate) fn has_started(&self, id: EventId) -> bool {
        let starts = self.starts.lock().expect("nobody panics with it");
        starts.contains_key(&id)
    }

    fn end(&self, id: EventId, attempt: u16, task: Task) -> Outcome {
        let mut starts = self.starts.lock().expect("nobody panics with it");
        let count = starts.entry(id).or_default();
        *count += 1;
        let failed = match attempt {
            ATTEMPTS.. => Outcome::Buried,
            _ => Outcome::Retried,
        };
        let is_first = *count == 1;
        let revived = self.revived.lock().expect("nobody panics with it");
        match task {
            Task::FailsOnce | Task::PanicsOnce if is_first => failed,
            Task::SnoozesOnce if is_first => Outcome::Snoozed,
            Task::FailsUntilRevived if !revived.contains(&id) => failed,
            Task::Buries => Outcome::Buried,
            Task::Discards => Outcome::Discarded,
            _ => Outcome::Acked,
        }
    }
}

/// The handler; what it knows is shared with the script.
pub(crate) struct Hand(pub(crate) Arc<Work>);

impl Handler for Hand {
    type Payload = Load;

    async fn handle(&self, event: Event<Load>, _cx: &Context) -> Result<(), Failure> {
        let (id, attempt, task) = (event.id(), event.attempt(), event.payload.task);
        let at_us = now_us();
        let ends = self.0.end(id, attempt, task);
        self.0.diary.add(&Line::Started {
            id,
            attempt,
            at_us,
            task,
            ends,
        });
        if task == Task::Waits {
            self.0.go_on.cancelled().await;
        }
        match (ends, task) {
            (Outcome::Acked, _) => Ok(()),
            (_, Task::PanicsOnce) => std::panic::resume_unwind(Box::new("on purpose")),
            (Outcome::Snoozed, _) => Err(Failure::snooze(PAUSE)),
            (Outcome::Discarded, _) => Err(Failure::discard("no use")),
            (_, Task::Buries) => Err(Failure::permanent("no")),
            _ => Err(Failure::retry("not yet")),
        }
    }
}

/// Wall time in microseconds since the epoch.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is after 1970").as_micros() as u64
}
