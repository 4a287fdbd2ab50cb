//! The writer: takes what was decided, writes it in one transaction, then wakes every caller at once.
//!
//! It never retries a failed sync. Whatever fails, but for a full disk, stops the store: what is on
//! disk is then not known any more, and only a new start can tell.

use std::sync::Arc;
use std::time::Duration;

use crate::store::embedded::commit::Committer;
use crate::store::embedded::gate::{Fate, Gate};
use crate::store::embedded::pending::{Batch, Chunk, Taken};
use crate::store::embedded::schema::PAGE_BYTES;
use crate::store::embedded::shared::Shared;
use crate::store::embedded::sqlite;
use crate::store::embedded::starts::Start;
use crate::store::embedded::stop::Stop;

/// The log is copied into the file when it has so many pages (8 MiB) and nothing else is to do.
const LOG_PAGES_IDLE: i64 = 2_000;
/// On a full disk it is copied when it has so many, so that it finds room within itself.
const LOG_PAGES_FULL: i64 = 64;
/// How long nothing happens before the file is tidied.
const IDLE: Duration = Duration::from_millis(100);
/// How often a full disk is looked at again.
const FULL_WAIT: Duration = Duration::from_millis(250);
/// The first and the longest wait before what must be written is tried on a full disk again.
const RETRY_WAITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How often it is tried when nobody can wait: at close, or without a thread.
const LAST_TRIES: u32 = 3;
/// How many free pages are given back at a time: 1 MiB.
const VACUUM_PAGES: u32 = 256;

/// Writes what callers decide.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    committer: Committer,
    inline: bool,
    /// The log is copied at the latest when it has so many pages.
    log_pages_max: i64,
    /// There may be something to tidy.
    untidy: bool,
    /// Space was given back in the log, not yet in the file.
    vacuumed: bool,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, committer: Committer, inline: bool) -> Self {
        // What is in the log must find room in the file when the disk is full: half of the reserve
        // is for that, the other half for what is still to be written.
        let pages = shared.space.reserve_bytes() / 2 / PAGE_BYTES;
        Self {
            shared,
            committer,
            inline,
            log_pages_max: i64::try_from(pages).unwrap_or(i64::MAX).max(LOG_PAGES_FULL),
            untidy: true,
            vacuumed: false,
        }
    }

    /// Writes until the store is closed, and then everything that is left.
    pub(super) fn run(mut self) {
        let guard = PanicGuard(Arc::clone(&self.shared));
        loop {
            let wait = match (self.shared.space.is_full(), self.untidy) {
                (true, _) => Some(FULL_WAIT),
                (false, true) => Some(IDLE),
                (false, false) => None,
            };
            match self.shared.pending.take(wait) {
                Taken::Batch(batch) => self.write(batch),
                Taken::Nothing => self.tidy(),
                Taken::Closed => break,
            }
        }
        self.end();
        drop(guard);
    }

    /// Writes what is there and returns: for stores without a thread.
    pub(super) fn drain(&mut self) {
        if self.shared.space.is_full() {
            self.make_room();
        }
        while let Taken::Batch(batch) = self.shared.pending.take(Some(Duration::ZERO)) {
            self.write(batch);
        }
    }

    /// Lets go of everything: the connections, the file, the lock.
    pub(super) fn end(self) {
        let Self {
            shared, committer, ..
        } = self;
        shared.reading.close();
        shared.records.close();
        let fate = match shared.stop.get() {
            // Not even a checkpoint: nothing is written once there is doubt.
            Some(stop) => Fate::Stopped(Arc::clone(stop)),
            None => match committer.close(shared.now()) {
                Ok(()) => Fate::Written,
                Err(error) => {
                    let stop = Arc::new(Stop::new("the file could not be closed", error));
                    Fate::Stopped(Arc::clone(shared.stop.get_or_init(|| stop)))
                }
            },
        };
        let lock = shared.lock.lock();
        drop(
            lock.unwrap_or_else(std::sync::PoisonError::into_inner)
                .take(),
        );
        shared.ended.open(fate);
    }

    fn write(&mut self, batch: Batch) {
        self.untidy = true;
        match self.commit(&batch.chunks) {
            Ok(ended) => self.done(&batch, &ended),
            Err(error) if sqlite::is_full(&error) => self.write_without_pushes(batch),
            Err(error) => return self.stop("a commit failed", error),
        }
        self.shared.pending.written();
        if self.shared.stop.get().is_none() {
            let full = self.shared.space.is_full();
            self.checkpoint_from(if full {
                LOG_PAGES_FULL
            } else {
                self.log_pages_max
            });
        }
    }

    /// There is no room: nothing of the pushes happened; everything else is tried until it fits.
    fn write_without_pushes(&mut self, mut batch: Batch) {
        self.shared.space.release();
        let pushes = batch.split_pushes();
        self.refuse(&batch.gate, &pushes);
        for (gate, pushes) in self.shared.pending.refuse_pushes() {
            self.refuse(&gate, &pushes);
        }
        let (mut wait, longest) = RETRY_WAITS;
        let mut last_tries = 0;
        loop {
            // First of all: what is in the file need not stay in the log, which then has room.
            match self.committer.checkpoint() {
                Err(error) if !sqlite::is_full(&error) => {
                    return self.stop("a checkpoint failed", error);
                }
                _ => {}
            }
            let error = match self.commit(&batch.chunks) {
                Ok(ended) => return self.done(&batch, &ended),
                Err(error) if sqlite::is_full(&error) => error,
                Err(error) => return self.stop("a commit failed", error),
            };
            if self.inline || self.shared.pending.is_closed() {
                last_tries += 1;
                if last_tries >= LAST_TRIES {
                    return self.stop("the disk is full to the last byte", error);
                }
            } else {
                self.shared.pending.pause(wait);
                wait = (wait * 2).min(longest);
            }
        }
    }

    /// Returns the starts that have ended, as the records say that are written.
    fn commit(&mut self, chunks: &[Chunk]) -> rusqlite::Result<Vec<Start>> {
        let now = self.shared.now();
        self.committer.write(
            chunks.iter().map(|chunk| &chunk.changes),
            now,
            self.shared.space.is_full(),
        )
    }

    fn done(&self, batch: &Batch, ended: &[Start]) {
        self.shared.confirm(&batch.chunks, ended);
        batch.gate.open(Fate::Written);
    }

    fn refuse(&self, gate: &Gate, pushes: &[Chunk]) {
        for chunk in pushes {
            self.shared.refuse(chunk);
        }
        gate.open_pushes(Fate::Full);
    }

    fn stop(&self, what: &str, error: rusqlite::Error) {
        self.shared.stop(Stop::new(what, error));
    }

    /// What can wait until nothing else is to do; a bounded piece of it.
    fn tidy(&mut self) {
        if self.shared.space.is_full() {
            return self.make_room();
        }
        if self.committer.has_more_to_prune() {
            // As a batch of nothing: each commit removes some records.
            return match self.commit(&[]) {
                Ok(_) => {}
                Err(full) if sqlite::is_full(&full) => self.shared.space.release(),
                Err(error) => self.stop("removing old records failed", error),
            };
        }
        self.checkpoint_from(LOG_PAGES_IDLE.min(self.log_pages_max));
        match self.committer.vacuum(VACUUM_PAGES) {
            Ok(true) => self.vacuumed = true,
            Ok(false) => {
                self.untidy = false;
                if std::mem::take(&mut self.vacuumed) {
                    // The file becomes shorter only when it hears of it.
                    self.checkpoint_from(1);
                }
            }
            Err(error) if sqlite::is_full(&error) => self.untidy = false,
            Err(error) => self.stop("giving space back failed", error),
        }
    }

    /// Copies the log into the file where it has at least `pages`.
    fn checkpoint_from(&mut self, pages: i64) {
        let copied = match self.committer.has_log_of(pages) {
            Ok(true) => self.committer.checkpoint(),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        match copied {
            Ok(()) => {}
            Err(error) if sqlite::is_full(&error) => self.shared.space.release(),
            Err(error) => self.stop("a checkpoint failed", error),
        }
    }

    fn make_room(&self) {
        if let Err(error) = self.shared.space.restore() {
            self.shared
                .stop(Stop::new("the reserve could not be written", error));
        }
    }
}

/// If the writer panics, nobody waits for it for ever.
struct PanicGuard(Arc<Shared>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let shared = &self.0;
            shared.stop(Stop::new("its writer ended", "the writing thread panicked"));
            let stop = shared.stop.get().map(Arc::clone);
            if let Some(stop) = stop {
                shared.ended.open(Fate::Stopped(stop));
            }
        }
    }
}
