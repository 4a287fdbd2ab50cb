//! The script: it pushes, changes, waits and revives, and writes down each question and answer.

use std::sync::Arc;
use std::time::Duration;

use duly::dead_letters::BulkResult;
use duly::event::{Envelope, Payload, State as EventState};
use duly::prelude::*;
use duly::store::operation::Delivery;
use duly::store::{EmbeddedStore, Store};
use duly::time::Timestamp;

use crate::syscalls::child::OTHER;
use crate::syscalls::diary::{Answer, Ask, Line, Task};
use crate::syscalls::work::{Load, PAUSE, Work};

/// The delay of what stays where it is unless it is moved.
pub(crate) const FAR: Duration = Duration::from_secs(3_600);
/// How many notes are written at once.
const NOTES: usize = 4_096;

/// The bus of a child, and what the child does with it.
pub(crate) struct Script {
    pub(crate) bus: Bus,
    pub(crate) store: Arc<EmbeddedStore>,
    pub(crate) queue: Queue<Load>,
    pub(crate) work: Arc<Work>,
    /// What is handled to its end.
    pub(crate) over: Vec<EventId>,
}

impl Script {
    /// So short that no line of it is idle: 40 changes, a log that is copied into the file once
    /// before the end, and notes of starts that are written anew while a handler runs.
    pub(crate) async fn run(&mut self) {
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
        self.work.goes_on();

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
            place: 0,
            moved_us: 0,
        };
        for _ in 0..=(1 << 18) / (32 * NOTES) {
            // Where the disk fails the store has said so, and the script goes on.
            self.store.starting(queue, &[&start; NOTES]).ok();
        }
    }

    fn add(&self, line: &Line) {
        self.work.diary().add(line);
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
        let answer = event.push().await;
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
            self.work.revives(id);
        }
        let answer = match ask {
            Ask::Cancel => answered(self.queue.cancel(id).await.map(|answer| match answer {
                CancelOutcome::Cancelled => Ok(None),
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
            Ask::Revive => answered(swept(self.bus.dead_letters().revive([id]).await)),
            Ask::Drop => answered(swept(self.bus.dead_letters().drop([id]).await)),
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

fn changed(answer: ChangeOutcome) -> Result<Option<u64>, String> {
    match answer {
        ChangeOutcome::Changed(due) => Ok(Some(due.as_millis())),
        other => Err(format!("{other:?}")),
    }
}

fn swept(sweep: duly::Result<BulkResult>) -> duly::Result<Result<Option<u64>, String>> {
    Ok(match sweep?.finished()?.done {
        1 => Ok(None),
        count => Err(format!("{count} events")),
    })
}
