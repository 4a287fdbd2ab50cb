//! The writer: takes what was decided, writes it in one transaction, then wakes every caller at once.
//!
//! It never retries a failed sync. Whatever fails, but for want of something, stops the store: what
//! is on disk is then not known any more, and only a new start can tell.

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::error::{Error, ErrorKind};
use crate::event::BucketKey;
use crate::outage::Outage;
use crate::sqlite::shortage::Shortage;
use crate::store::embedded::commit::Committer;
use crate::store::embedded::pending::{Batch, Chunk, Next};
use crate::store::embedded::shared::Shared;
use crate::store::embedded::sqlite::Failure;
use crate::store::embedded::starts::Start;
use crate::store::embedded::stop::StopReason;
use crate::store::embedded::ticket::{CommitResult, CommitTicket};
use crate::store::embedded::upkeep::Upkeep;

/// The first and the longest wait before what must be written is tried again.
const RETRY_WAITS: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
/// How long callers wait meanwhile before they are told that it is not known.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is tried when nobody can wait: at close, or without a thread.
const LAST_TRIES: u32 = 3;

/// Writes what callers decide.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) committer: Committer,
    pub(super) upkeep: Upkeep,
    inline: bool,
    /// How many of the next batches may name rows of pushes that were refused, with the one in hand.
    may_miss: usize,
    /// The shortages of the process.
    pub(super) log: Outage,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, committer: Committer, inline: bool) -> Self {
        Self {
            upkeep: Upkeep::from(shared.time.mono()),
            shared,
            committer,
            inline,
            may_miss: 0,
            log: Outage::of("file of the embedded store"),
        }
    }

    /// Writes until the store is closed, and then everything that is left.
    pub(super) fn run(mut self) {
        let guard = PanicGuard(Arc::clone(&self.shared));
        loop {
            let rest = self.upkeep.rest(self.shared.space.is_full());
            match self.shared.pending.take(Some(rest)) {
                Next::Batch(batch) => {
                    self.write(batch);
                    self.look_in_time();
                }
                Next::Nothing => self.rested(rest),
                Next::Closed => break,
            }
        }
        self.end();
        drop(guard);
    }

    /// Writes what is there and returns: for stores without a thread.
    pub(super) fn drain(&mut self) {
        self.look_in_time();
        if self.shared.space.is_full() {
            self.make_room();
        }
        while let Next::Batch(batch) = self.shared.pending.take(Some(Duration::ZERO)) {
            self.write(batch);
        }
    }

    /// Lets go of everything: the connections, the file, the lock.
    pub(super) fn end(mut self) {
        // Closing would write to, and remove, what now has the file's name.
        self.look();
        let Self {
            shared, committer, ..
        } = self;
        shared.reading.close();
        shared.records.close();
        let result = match shared.stop.get() {
            // Not even a checkpoint: nothing is written once there is doubt.
            Some(stop) => {
                drop(committer);
                CommitResult::Stopped(Arc::clone(stop))
            }
            None => match committer.close(shared.now()) {
                Ok(()) => CommitResult::Written,
                Err(failure) => {
                    let stop = StopReason::new("the file could not be closed", failure.error);
                    CommitResult::Stopped(Arc::clone(shared.stop.get_or_init(|| Arc::new(stop))))
                }
            },
        };
        shared.starts().close();
        shared.let_go();
        shared.ended.resolve(result);
    }

    fn write(&mut self, batch: Batch) {
        self.upkeep.is_untidy = true;
        match self.commit(&batch.chunks) {
            Ok(ended) => self.done(&batch, &ended),
            Err(failure) if failure.shortage.is_some() => self.insist(batch, failure),
            Err(failure) => return self.stop("a commit failed", failure.error),
        }
        self.may_miss = self.may_miss.saturating_sub(1);
        self.shared.pending.written();
        if self.shared.stop.get().is_none() {
            self.shorten_log();
        }
    }

    /// Something is short. Where it is room, nothing of the pushes happened; everything else is
    /// tried until it works, though callers do not wait for as long.
    fn insist(&mut self, mut batch: Batch, mut failure: Failure) {
        let (mut waited, mut waits, mut tries) = (Duration::ZERO, 0, 0);
        let mut refused = Vec::new();
        loop {
            match failure.shortage {
                Some(Shortage::Space) => {
                    self.shared.space.refuse();
                    refused.extend(batch.split_pushes());
                    if failure.left_nothing() {
                        self.refuse(&batch.ticket, &std::mem::take(&mut refused));
                    }
                    for (ticket, pushes) in self.shared.pending.refuse_pushes() {
                        self.refuse(&ticket, &pushes);
                    }
                }
                Some(Shortage::Process) => self.note_shortage(&failure),
                None => return self.stop("a commit failed", failure.error),
            }
            // A copy into a file that was cut would hide it.
            if !self.has_its_files() {
                return;
            }
            // First of all: what is in the file need not stay in the log, which then has room.
            let mut gave = false;
            let copied = self.committer.checkpoint();
            self.shared.copied();
            if let Err(failure) = copied {
                match failure.shortage {
                    Some(Shortage::Space) => gave = self.shared.space.release(),
                    Some(Shortage::Process) => {}
                    None => return self.stop("a checkpoint failed", failure.error),
                }
            }
            failure = match self.commit(&batch.chunks) {
                Ok(ended) => {
                    if !refused.is_empty() {
                        self.refuse(&batch.ticket, &refused);
                    }
                    return self.done(&batch, &ended);
                }
                Err(failure) => failure,
            };
            gave |= failure.shortage == Some(Shortage::Space) && self.shared.space.release();
            if gave {
                continue;
            }
            if self.inline || self.shared.pending.is_closed() {
                tries += 1;
                if tries >= LAST_TRIES {
                    let what = match failure.shortage {
                        Some(Shortage::Process) => "the process has too little memory",
                        _ => "the disk is full to the last byte",
                    };
                    return self.stop(what, failure.error);
                }
            } else {
                waits += 1;
                let wait = RETRY_WAITS.after(waits);
                self.shared.pending.pause(wait);
                waited += wait;
                self.look_in_time();
                if self.shared.stop.get().is_some() {
                    return;
                }
            }
            if waited >= PATIENCE {
                batch.ticket.resolve(CommitResult::Delayed);
                self.shared.pending.resolve_waiting(&CommitResult::Delayed);
            }
        }
    }

    /// Returns the starts that have ended, as the records say that are written.
    pub(super) fn commit(&mut self, chunks: &[Chunk]) -> Result<Vec<Start>, Failure> {
        let now = self.shared.now();
        let ended = self.committer.write(
            chunks.iter().map(|chunk| &chunk.changes),
            now,
            self.may_miss > 0 || self.shared.space.is_full(),
        )?;
        // The next process goes by what is written: an id that it refuses is refused now as well,
        // and one that it accepts is accepted.
        if let Some((from, until)) = self.committer.lowered.take() {
            let is_its_own = |bucket: &BucketKey| self.committer.says(bucket, from);
            self.shared.shards.lower_watermark(from, until, is_its_own);
        }
        if let Some(until) = self.committer.raised.take() {
            self.shared.shards.raise_watermark(until);
        }
        self.log.succeeded(&());
        Ok(ended)
    }

    fn done(&self, batch: &Batch, ended: &[Start]) {
        self.shared.confirm(&batch.chunks, ended);
        batch.ticket.resolve(CommitResult::Written);
    }

    fn refuse(&mut self, ticket: &CommitTicket, pushes: &[Chunk]) {
        for chunk in pushes {
            self.shared.refuse(chunk);
        }
        // What was decided until now may have ended them.
        self.may_miss = 1 + self.shared.pending.batches();
        ticket.resolve_pushes(CommitResult::Full);
    }

    /// What failed is tried again later.
    pub(super) fn note_shortage(&self, failure: &Failure) {
        let what = format!(
            "this process has too few descriptors or too little memory: {}",
            failure.error
        );
        self.log
            .failed((), &Error::new(ErrorKind::Unavailable, what));
    }

    pub(super) fn stop(&self, what: &str, error: rusqlite::Error) {
        self.shared.stop(StopReason::new(what, error));
    }
}

/// If the writer panics, nobody waits for it for ever.
struct PanicGuard(Arc<Shared>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let shared = &self.0;
            shared.stop(StopReason::new(
                "its writer ended",
                "the writing thread panicked",
            ));
            let stop = shared.stop.get().map(Arc::clone);
            if let Some(stop) = stop {
                shared.ended.resolve(CommitResult::Stopped(stop));
            }
        }
    }
}
