//! What a child process runs: a short script on the embedded store, which uses all of it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly::core::op::Delivery;
use duly::event::{Envelope, Payload};
use duly::handler::Annotation;
use duly::prelude::*;
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::{EventState, QueueChoices, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::diary::{Answer, Ask, Diary, Line, Task};

/// The folder that a child works in: set in a child process, nowhere else.
pub(crate) const FOLDER: &str = "DULY_SYSCALLS_FOLDER";
/// Which part a child plays: [`SCRIPT`] or [`OPENING`].
pub(crate) const PART: &str = "DULY_SYSCALLS_PART";
/// Opens the store and uses all of it.
pub(crate) const SCRIPT: &str = "script";
/// The same, and gives up soon: a store that waits for room does not answer.
pub(crate) const IN_HASTE: &str = "in-haste";
/// Opens the store and closes it.
pub(crate) const OPENING: &str = "opening";
/// How often an event is tried at most.
pub(crate) const ATTEMPTS: u16 = 3;
/// The queue of the script, and one that only has a rate.
pub(crate) const WORK: &str = "work";
pub(crate) const OTHER: &str = "other";

pub(crate) const FAR: Duration = Duration::from_secs(3_600);
/// How many notes are written at once.
const NOTES: usize = 4_096;
const PAUSE: Duration = Duration::from_millis(3);
/// How long the script waits before it gives up and ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a handler may still run at the end.
const GRACE: Duration = Duration::from_millis(500);

/// What the store's files are named after, in a folder that the store makes by itself.
pub(crate) fn data(folder: &Path) -> PathBuf {
    folder.join("store").join("duly.db")
}

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
        self.go_on.cancel();
        self
    }

    fn has_started(&self, id: EventId) -> bool {
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
struct Hand(Arc<Work>);

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

/// Opens the store of a folder, with a reserve that is small: it is written before anything else.
pub(crate) fn open(folder: &Path) -> duly::Result<EmbeddedStore> {
    let options = EmbeddedOptions::new().reserve_bytes(4_096);
    EmbeddedStore::open_with(data(folder), options)
}

/// A bus on a store, with the handler.
pub(crate) async fn bus(store: &Arc<EmbeddedStore>, work: Arc<Work>) -> duly::Result<Bus> {
    let annotation = Annotation::new(WORK)
        .attempts(ATTEMPTS)
        .backoff(RetryPolicy::fixed(PAUSE))
        .ring(64);
    let choices = QueueChoices {
        buckets: Some(1),
        workers: Some(2),
        ..QueueChoices::default()
    };
    Bus::builder()
        .only_registered()
        .settings(Default::default())
        .shared_store(Arc::clone(store) as Arc<dyn duly::Store>)
        .queue(WORK, choices)
        .register_as(annotation, Hand(work))
        .start()
        .await
}

/// What the test `child` runs: in a child process the script, elsewhere nothing.
///
/// One thread opens the store, asks and handles; the store's writer is another one.
pub(crate) fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let diary = Arc::new(Diary::open(&folder));
    let store = match open(&folder) {
        Ok(store) => Arc::new(store),
        Err(error) => return diary.add(&Line::NotOpened(format!("{:?}", error.kind()))),
    };
    diary.add(&Line::Opened);
    let part = std::env::var(PART).expect("a part");
    let patience = match part.as_str() {
        OPENING => {
            let closed = runtime.block_on(store.close());
            return diary.add(&ended(closed));
        }
        IN_HASTE => Duration::from_secs(1),
        _ => PATIENCE,
    };
    runtime.block_on(async {
        let work = Arc::new(Work::new(&diary, &Diary::read(&folder)));
        let bus = bus(&store, Arc::clone(&work)).await;
        let bus = bus.expect("a bus that asks nothing of the disk");
        let mut script = Script {
            queue: bus.queue_named(WORK).expect("a legal name"),
            bus,
            store,
            work,
            over: Vec::new(),
        };
        // What was asked by then may stay without an answer.
        tokio::time::timeout(patience, script.run()).await.ok();
        diary.add(&ended(script.bus.shutdown(GRACE).await));
    });
}

fn ended(closed: duly::Result<()>) -> Line {
    Line::Ended(closed.err().map(|error| format!("{:?}", error.kind())))
}

struct Script {
    bus: Bus,
    store: Arc<EmbeddedStore>,
    queue: Queue<Load>,
    work: Arc<Work>,
    /// What is handled to its end.
    over: Vec<EventId>,
}

impl Script {
    /// So short that no line of it is idle: 40 changes, a log that is copied into the file once
    /// before the end, and notes of starts that are written anew while a handler runs.
    async fn run(&mut self) {
        self.rate(7.0).await;
        for task in [Task::Succeeds, Task::FailsOnce, Task::Discards] {
            let id = self.push(task, Duration::ZERO, None).await;
            self.over.push(id);
        }
        let never = self
            .push(Task::FailsUntilRevived, Duration::ZERO, None)
            .await;
        let dropped = self.push(Task::Buries, PAUSE, None).await;
        let late = tokio::join!(
            self.push(Task::PanicsOnce, PAUSE, None),
            self.push(Task::SnoozesOnce, Duration::ZERO, None),
            self.push(Task::Buries, Duration::ZERO, None),
            self.push(Task::Succeeds, FAR, None),
        );
        self.over.extend([late.0, late.1, late.2]);

        let cancelled = self.push(Task::Succeeds, FAR, None).await;
        let moved = self.push(Task::FailsOnce, FAR, None).await;
        let updated = self.push(Task::Buries, FAR, None).await;
        let replaced = self.push(Task::Succeeds, FAR, Some(None)).await;
        let replacing = self.push(Task::Succeeds, PAUSE, Some(Some(replaced))).await;
        self.ask(cancelled, Ask::Cancel).await;
        self.ask(updated, Ask::Update).await;
        self.ask(moved, Ask::Reschedule).await;
        self.ask(updated, Ask::Reschedule).await;

        let waits = self.push(Task::Waits, Duration::ZERO, None).await;
        self.begun(waits).await;
        self.fill_notes();
        let after = self.push(Task::Succeeds, Duration::ZERO, None).await;
        self.begun(after).await;
        self.work.go_on.cancel();

        self.wait(&[never, dropped]).await;
        self.ask(never, Ask::Revive).await;
        self.ask(dropped, Ask::Drop).await;
        self.rate(8.0).await;
        let mut over = std::mem::take(&mut self.over);
        over.extend([never, moved, updated, replacing, waits, after]);
        self.wait(&over).await;
    }

    /// Notes a start of nobody so often that the next note writes the file anew.
    fn fill_notes(&self) {
        let id = self.queue.new_id();
        let queue = self.queue.name();
        let body = Envelope::new(id, queue.clone(), Payload::from(Vec::new()));
        let start = Delivery {
            id,
            body: Arc::new(body),
            due: Timestamp::EPOCH,
            attempt: 1,
            request: 1,
            moved_us: 0,
        };
        for _ in 0..=(1 << 20) / (32 * NOTES) {
            // Where the disk fails the store has said so, and the script goes on.
            self.store.starting(queue, &[&start; NOTES]).ok();
        }
    }

    fn add(&self, line: &Line) {
        self.work.diary.add(line);
    }

    async fn rate(&self, rate: f64) {
        let answer = None;
        self.add(&Line::Rate { rate, answer });
        let set = self.bus.set_rate(OTHER, Some(rate)).await;
        let answer = Some(answered(set.map(|()| Ok(None))));
        self.add(&Line::Rate { rate, answer });
    }

    /// Pushes one event; a unique one takes the place of the one before.
    async fn push(&self, task: Task, delay: Duration, unique: Option<Option<EventId>>) -> EventId {
        let id = self.queue.new_id();
        self.add(&Line::Pushing {
            id,
            task,
            replaces: unique.flatten(),
            far: delay == FAR,
        });
        let mut event = self.queue.event(Load::new(task)).id(id).after(delay);
        if unique.is_some() {
            event = event.unique("only", Unique::Replace);
        }
        let answer = event.send().await;
        let answer = answered(answer.map(|receipt| Ok(Some(receipt.due().as_millis()))));
        self.add(&Line::Answered {
            id,
            ask: Ask::Push,
            answer,
        });
        id
    }

    async fn ask(&self, id: EventId, ask: Ask) {
        self.add(&Line::Asking { id, ask });
        if ask == Ask::Revive {
            let mut revived = self.work.revived.lock().expect("nobody panics with it");
            revived.insert(id);
        }
        let answer = match ask {
            Ask::Cancel => answered(self.queue.cancel(id).await.map(|answer| match answer {
                Cancelled::Cancelled => Ok(None),
                other => Err(format!("{other:?}")),
            })),
            Ask::Reschedule => {
                let now = Duration::ZERO;
                answered(self.queue.reschedule(id, now).await.map(changed))
            }
            Ask::Update => {
                let load = Load::new(Task::Succeeds);
                answered(self.queue.update(id, &load).await.map(changed))
            }
            Ask::Revive => answered(self.queue.revive(&[id]).await.map(one)),
            Ask::Drop => answered(self.queue.drop_dead(&[id]).await.map(one)),
            Ask::Push => unreachable!("a push is no question about an event"),
        };
        self.add(&Line::Answered { id, ask, answer });
    }

    /// Waits until these are over or dead, or the store does not answer.
    async fn wait(&self, ids: &[EventId]) {
        for id in ids {
            let is_over = async || match self.queue.get(*id).await {
                Ok(Some(found)) => found.state.is_final() || found.state == EventState::Dead,
                _ => true,
            };
            until(is_over).await;
        }
    }

    /// Waits until the handler of an event has started, or the store does not know the event.
    async fn begun(&self, id: EventId) {
        let is_gone = async || !matches!(self.queue.get(id).await, Ok(Some(_)));
        until(async || self.work.has_started(id) || is_gone().await).await;
    }
}

/// Waits until something is so.
async fn until(holds: impl AsyncFn() -> bool) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What was said, if it was said, and whether that was yes.
fn answered(answer: duly::Result<Result<Option<u64>, String>>) -> Answer {
    match answer {
        Ok(Ok(due_ms)) => Answer::Yes { due_ms },
        Ok(Err(words)) => Answer::No(words),
        Err(error) if error.kind() == ErrorKind::Unknown => Answer::Unknown,
        Err(error) => Answer::Refused(format!("{:?}", error.kind())),
    }
}

fn changed(answer: Changed) -> Result<Option<u64>, String> {
    match answer {
        Changed::Changed(due) => Ok(Some(due.as_millis())),
        other => Err(format!("{other:?}")),
    }
}

fn one(count: usize) -> Result<Option<u64>, String> {
    match count {
        1 => Ok(None),
        _ => Err(format!("{count} events")),
    }
}

/// Wall time in microseconds since the epoch.
#[allow(clippy::disallowed_methods)] // real time: this is about real processes
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is after 1970").as_micros() as u64
}
