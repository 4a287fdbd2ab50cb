//! Sweeps: dead letters that are revived or dropped in the background, at a rate, a few at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use duly::Bus;
use duly::dead_letters::{DeadLetterCursor, DeadLetters};

/// The most sweeps that run at the same time.
const RUNNING_MAX: usize = 4;
/// The most sweeps that are listed, those that ended included.
const LISTED_MAX: usize = 10;
/// The dead letters of a step; between two it can be stopped.
const STEP: usize = 50;

/// A sweep.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) id: u64,
    /// What it does, in words.
    pub(crate) what: String,
    pub(crate) user: String,
    /// The queue that it is confined to, if it is.
    pub(crate) queue: Option<String>,
    done: AtomicU64,
    stopped: AtomicBool,
    ended: Mutex<Option<String>>,
}

impl Sweep {
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// How it ended; `None` while it runs.
    pub(crate) fn ended(&self) -> Option<String> {
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// All sweeps of this dashboard.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    list: Mutex<Vec<Arc<Sweep>>>,
    next: AtomicU64,
}

/// What a sweep does with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepKind {
    Revive,
    Drop,
}

impl Sweeps {
    /// Returns the sweeps, the newest first.
    pub(crate) fn list(&self) -> Vec<Arc<Sweep>> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().rev().cloned().collect()
    }

    /// Starts one, unless too many run; `make` returns the query with filters, actor and rate.
    pub(crate) fn start(
        &self,
        kind: SweepKind,
        (what, user, queue): (String, String, Option<String>),
        bus: Bus,
        make: impl Fn(&Bus) -> DeadLetters + Send + Sync + 'static,
    ) -> Option<Arc<Sweep>> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.iter().filter(|sweep| sweep.ended().is_none()).count() >= RUNNING_MAX {
            return None;
        }
        if list.len() >= LISTED_MAX
            && let Some(at) = list.iter().position(|sweep| sweep.ended().is_some())
        {
            list.remove(at);
        }
        let sweep = Arc::new(Sweep {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            what,
            user,
            queue,
            done: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            ended: Mutex::new(None),
        });
        list.push(Arc::clone(&sweep));
        let running = Arc::clone(&sweep);
        tokio::spawn(async move {
            let end = match run(&running, kind, &bus, make).await {
                Ok(()) if running.stopped.load(Ordering::Relaxed) => "stopped".to_owned(),
                Ok(()) => "done".to_owned(),
                Err(error) => format!("failed: {error}"),
            };
            *running.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        });
        Some(sweep)
    }
}

/// Works through the pages of dead letters that were there when it began.
async fn run(
    sweep: &Sweep,
    kind: SweepKind,
    bus: &Bus,
    make: impl Fn(&Bus) -> DeadLetters,
) -> duly::Result<()> {
    let began = crate::text::now();
    let mut after: Option<DeadLetterCursor> = None;
    while !sweep.stopped.load(Ordering::Relaxed) {
        let page = make(bus).after(after).limit(STEP).page().await?;
        let old = page.items.iter();
        let old = old.filter(|letter| letter.died.is_none_or(|died| died <= began));
        // Ids are of one queue each, and named with it they cost one question each.
        let mut queues: std::collections::BTreeMap<_, Vec<_>> = Default::default();
        for letter in old {
            queues
                .entry(letter.queue.clone())
                .or_default()
                .push(letter.id);
        }
        for (queue, ids) in queues {
            let letters = make(bus).queue(&queue);
            let result = match kind {
                SweepKind::Revive => letters.revive(ids).await?,
                SweepKind::Drop => letters.drop(ids).await?,
            };
            let result = result.finished()?;
            sweep.done.fetch_add(result.done, Ordering::Relaxed);
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
    Ok(())
}
