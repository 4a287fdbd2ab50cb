//! The list of changes that are decided and not written yet, in the order of the decisions.
//!
//! Changes are appended while the bucket they belong to is locked, so their order here is the
//! order of the decisions. The writer takes them a batch at a time; what arrives while it writes
//! is the next batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::event::BucketKey;
use crate::store::embedded::change::Changes;
use crate::store::embedded::ticket::{CommitPart, CommitResult, CommitTicket};

/// How long the writer waits for callers that it has just answered to come back: else the first of
/// them would have a sync to itself, and all the others wait for it. Well below the time of a sync.
const LINGER: Duration = Duration::from_micros(100);
/// It does not wait when so much is there: then the sync is not what takes the time.
const LINGER_BYTES: usize = 64 << 10;

/// The changes of one operation.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Whose events it changes, if any.
    pub(super) bucket: Option<BucketKey>,
    pub(super) changes: Changes,
    /// [`CommitPart::Pushes`]: it may be refused when the disk is full.
    pub(super) part: CommitPart,
}

impl Chunk {
    /// What it weighs against the bounds: its bytes, and about as many as a change takes.
    fn weight(&self) -> usize {
        let window = self.changes.window.as_ref();
        let ended = window.map_or(0, |window| window.ended.len());
        let bytes = self.changes.bytes.len() + self.changes.updated_bytes;
        bytes + (self.changes.list.len() + ended) * 128
    }
}

/// Changes that are written in one transaction.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) ticket: Arc<CommitTicket>,
    pub(super) chunks: Vec<Chunk>,
    weight: usize,
}

/// What the writer found.
#[derive(Debug)]
pub(super) enum Next {
    Batch(Batch),
    /// Nothing, for as long as it wanted to wait.
    Nothing,
    /// Nothing, and nothing will come.
    Closed,
}

/// The list, shared by everyone who decides and the one who writes.
#[derive(Debug)]
pub(super) struct Pending {
    state: Mutex<State>,
    work: Condvar,
    /// As in the state; every operation asks.
    closed: AtomicBool,
    /// The weight of everything in the list and in the writer's hand.
    weight: AtomicUsize,
    weight_max: usize,
    batch_max: usize,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<Batch>,
    /// The ticket and the weight of the batch that is being written.
    writing: Option<(Arc<CommitTicket>, usize)>,
    closed: bool,
    /// How many changes the writer sleeps for, when it does.
    wakes_at: Option<usize>,
    /// How many may come back together, after the last batch answered its callers.
    siblings: usize,
}

impl State {
    /// Whether there is a batch that is worth a sync, when `wanted` operations may come.
    fn is_worth(&self, wanted: usize) -> bool {
        self.batches.front().is_some_and(|batch| {
            let many = batch.chunks.len();
            // All pushes of one that is empty were refused: others are behind it.
            many == 0 || many >= wanted || batch.weight >= LINGER_BYTES
        })
    }
}

impl Pending {
    /// A list in which payloads find room up to `weight_max` bytes, written in batches of about
    /// `batch_max` bytes.
    pub(super) fn new(weight_max: usize, batch_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            closed: AtomicBool::new(false),
            weight: AtomicUsize::new(0),
            weight_max,
            batch_max,
        }
    }

    /// Whether a payload may be added to the list.
    pub(super) fn has_room(&self) -> bool {
        self.weight.load(Ordering::Relaxed) < self.weight_max
    }

    /// Adds changes; call with their bucket locked. `None`: the list is closed.
    pub(super) fn submit(&self, chunk: Chunk) -> Option<Arc<CommitTicket>> {
        let weight = chunk.weight();
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let fits = |batch: &&mut Batch| batch.weight < self.batch_max;
        if state.batches.back_mut().filter(fits).is_none() {
            state.batches.push_back(Batch::default());
        }
        let batch = state.batches.back_mut()?; // it was just made sure of
        batch.weight += weight;
        batch.chunks.push(chunk);
        let ticket = Arc::clone(&batch.ticket);
        self.weight.fetch_add(weight, Ordering::Relaxed);
        if state.wakes_at.is_some_and(|wanted| state.is_worth(wanted)) {
            state.wakes_at = None;
            self.work.notify_one();
        }
        Some(ticket)
    }

    /// The ticket of the youngest changes that are not written yet.
    pub(super) fn newest(&self) -> Option<Arc<CommitTicket>> {
        let state = self.lock();
        let ticket = match state.batches.back() {
            Some(batch) => &batch.ticket,
            None => &state.writing.as_ref()?.0,
        };
        Some(Arc::clone(ticket))
    }

    /// Takes the next batch; waits for one at most so long, for ever when `None`.
    pub(super) fn take(&self, wait: Option<Duration>) -> Next {
        let mut state = self.lock();
        let mut lingers = state.siblings > 1 && wait != Some(Duration::ZERO);
        loop {
            lingers &= !state.closed;
            let wanted = if lingers { state.siblings } else { 1 };
            if state.is_worth(wanted)
                && let Some(batch) = state.batches.pop_front()
            {
                state.siblings = batch.chunks.len() * 3 / 4;
                state.writing = Some((Arc::clone(&batch.ticket), batch.weight));
                return Next::Batch(batch);
            }
            if state.closed {
                return Next::Closed;
            }
            state.wakes_at = Some(wanted);
            let wait = if lingers { Some(LINGER) } else { wait };
            if self.sleep(&mut state, wait) {
                state.wakes_at = None;
                if !lingers && state.batches.is_empty() && !state.closed {
                    return Next::Nothing;
                }
                lingers = false;
            }
        }
    }

    /// Waits for work; returns whether the time was over before there was any.
    fn sleep(&self, state: &mut MutexGuard<'_, State>, wait: Option<Duration>) -> bool {
        match wait {
            Some(wait) => self.work.wait_for(state, wait).timed_out(),
            None => {
                self.work.wait(state);
                false
            }
        }
    }

    /// How many batches wait to be written.
    pub(super) fn batches(&self) -> usize {
        self.lock().batches.len()
    }

    /// The batch that was taken is written.
    pub(super) fn written(&self) {
        if let Some((_, weight)) = self.lock().writing.take() {
            self.weight.fetch_sub(weight, Ordering::Relaxed);
        }
    }

    /// Takes out every push that may be refused, each with the ticket its caller waits at.
    pub(super) fn refuse_pushes(&self) -> Vec<(Arc<CommitTicket>, Vec<Chunk>)> {
        let mut state = self.lock();
        let mut refused = Vec::new();
        for batch in &mut state.batches {
            let pushes = batch.split_pushes();
            let weight: usize = pushes.iter().map(Chunk::weight).sum();
            batch.weight -= weight;
            self.weight.fetch_sub(weight, Ordering::Relaxed);
            refused.push((Arc::clone(&batch.ticket), pushes));
        }
        refused
    }

    /// Takes nothing more in; what is in the list is still written.
    pub(super) fn close(&self) {
        self.end(&mut self.lock());
        self.work.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn end(&self, state: &mut State) {
        state.closed = true;
        self.closed.store(true, Ordering::Release);
    }

    /// Takes nothing more in, and gives `result` to everyone who waits.
    pub(super) fn abandon(&self, result: &CommitResult) {
        let (batches, writing) = {
            let mut state = self.lock();
            self.end(&mut state);
            (std::mem::take(&mut state.batches), state.writing.take())
        };
        let tickets = batches.iter().map(|batch| &batch.ticket);
        for ticket in writing.iter().map(|(ticket, _)| ticket).chain(tickets) {
            ticket.resolve(result.clone());
        }
        self.work.notify_all();
    }

    /// Gives `result` to everyone who waits now, though what they wait for stays in the list.
    pub(super) fn resolve_waiting(&self, result: &CommitResult) {
        let state = self.lock();
        let tickets = state.batches.iter().map(|batch| Arc::clone(&batch.ticket));
        let tickets: Vec<_> = tickets.collect();
        drop(state);
        tickets
            .iter()
            .for_each(|ticket| ticket.resolve(result.clone()));
    }

    /// Waits so long, or until the list is closed.
    pub(super) fn pause(&self, wait: Duration) {
        let still = |state: &mut State| !state.closed;
        self.work.wait_while_for(&mut self.lock(), still, wait);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Batch {
    /// Takes out every push that may be refused.
    pub(super) fn split_pushes(&mut self) -> Vec<Chunk> {
        let (pushes, rest) = std::mem::take(&mut self.chunks)
            .into_iter()
            .partition(|chunk| chunk.part == CommitPart::Pushes);
        self.chunks = rest;
        pushes
    }
}
