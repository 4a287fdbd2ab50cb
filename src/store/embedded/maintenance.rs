//! Maintenance of the file by its writer: what can wait until nothing else is to do, and what is
//! done in time.
//!
//! While the disk is full it is the other way round: free pages and the length of the log are given
//! back first, as nothing else makes room for a new reserve.

use std::time::Duration;

use crate::panics;
use crate::sqlite::files;
use crate::sqlite::shortage::{self, Shortage};
use crate::store::embedded::log;
use crate::store::embedded::schema::PAGE_BYTES;
use crate::store::embedded::sqlite::Failure;
use crate::store::embedded::stop::StopReason;
use crate::store::embedded::upkeep::{FULL_EVERY, IDLE, LOOK_EVERY, VACUUM_PAGES};
use crate::store::embedded::writer::Writer;

/// The log is copied into the file when it has so many pages (8 MiB) and nothing else is to do.
const LOG_PAGES_IDLE: i64 = 2_000;
/// On a full disk it is copied when it has so many, so that it finds room within itself.
const LOG_PAGES_FULL: i64 = 64;
/// How long the file of the log stays on a full disk, and how many free pages the file keeps.
const LOG_BYTES_FULL: u64 = 1 << 20;
const FREE_PAGES_FULL: u32 = 64;

impl Writer {
    /// Looks after the file in time although there is always something to write.
    pub(super) fn look_in_time(&mut self) {
        let passed = self.shared.time.mono().since(self.upkeep.looked);
        let full = self.shared.space.is_full();
        if passed >= if full { FULL_EVERY } else { LOOK_EVERY } {
            self.look();
            if full && self.shared.stop.get().is_none() {
                self.make_room();
            }
        }
    }

    /// Looks after the file, as nothing was to write for so long.
    pub(super) fn rested(&mut self, rest: Duration) {
        if rest > IDLE {
            self.look();
        } else {
            self.look_in_time();
        }
        self.tidy();
    }

    /// Looks whether the paths still lead to the files, how large those are, and may be.
    pub(super) fn look(&mut self) {
        self.upkeep.looked = self.shared.time.mono();
        if self.shared.stop.get().is_some() {
            return;
        }
        if !self.has_its_files() {
            return;
        }
        let put_back = self.shared.starts().put_back();
        // Without the lock: a subscriber may call the store.
        let path = self.shared.paths.starts.display();
        panics::reported(|| match put_back {
            Some(Ok(())) => {
                tracing::warn!(%path, "file of starts was removed or cut; written anew");
            }
            Some(Err(error)) => tracing::debug!(%error, "file of starts not written anew"),
            None => {}
        });
        let limit = shortage::file_limit();
        if limit != self.upkeep.limit {
            match self.committer.limit_file(limit) {
                Ok(()) => self.upkeep.limit = limit,
                Err(failure) => self.failed("the limit of the file could not be set", failure),
            }
        }
        if !self.shared.space.is_full()
            && let Err(error) = self.shared.space.grow()
        {
            self.reserve_failed(error);
        }
    }

    /// Stops where a path does not lead to its file any more, or the data file was cut.
    pub(super) fn has_its_files(&self) -> bool {
        let wrong = self.shared.moved();
        let is_well = wrong.is_none();
        if let Some(what) = wrong {
            self.shared
                .stop(StopReason::new("a file is no longer as it was", what));
        }
        is_well
    }

    /// What can wait until nothing else is to do; a bounded piece of it.
    pub(super) fn tidy(&mut self) {
        if self.shared.stop.get().is_some() {
            return;
        }
        if self.shared.space.is_full() {
            return self.make_room();
        }
        if self.committer.has_more_to_prune() {
            // As a batch of nothing: each commit removes some records.
            if let Err(failure) = self.commit(&[]) {
                self.failed("removing old records failed", failure);
            }
            return;
        }
        self.checkpoint_from(LOG_PAGES_IDLE.min(self.log_pages_max()));
        match self.committer.vacuum(VACUUM_PAGES, 0, true) {
            Ok(true) => self.upkeep.vacuumed = true,
            Ok(false) => {
                self.upkeep.is_untidy = false;
                if std::mem::take(&mut self.upkeep.vacuumed) {
                    // The file becomes shorter only when it hears of it.
                    self.checkpoint_from(1);
                }
            }
            // Pages can be given back another time.
            Err(failure) if failure.shortage.is_some() => self.upkeep.is_untidy = false,
            Err(failure) => self.stop("giving space back failed", failure.error),
        }
    }

    /// Copies the log into the file where it is long.
    pub(super) fn shorten_log(&mut self) {
        let full = self.shared.space.is_full();
        self.checkpoint_from(if full {
            LOG_PAGES_FULL
        } else {
            self.log_pages_max()
        });
    }

    /// What is in the log must find room in the file when the disk is full: half of the reserve is
    /// for that, the other half for what is still to be written. Both must fit below the limit on
    /// the size of a file.
    fn log_pages_max(&self) -> i64 {
        let limit = self.upkeep.limit.unwrap_or(u64::MAX);
        let pages = self.shared.space.held().min(limit) / 2 / PAGE_BYTES;
        pages.cast_signed().max(LOG_PAGES_FULL)
    }

    /// Copies the log into the file where it has at least `pages`.
    fn checkpoint_from(&mut self, pages: i64) {
        let copied = match self.committer.has_log_of(pages) {
            // A copy into a file that was cut would hide it.
            Ok(true) if !self.has_its_files() => return,
            Ok(true) => {
                let copied = self.committer.checkpoint();
                self.shared.copied();
                copied
            }
            Ok(false) => Ok(()),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = copied {
            self.failed("a checkpoint failed", failure);
        }
    }

    /// Gives back what the file and its log do not need, a piece at a time, and then makes the
    /// reserve anew.
    ///
    /// Somebody else may take what is given back, so a little of both is kept: what is stored is
    /// handled within it.
    pub(super) fn make_room(&mut self) {
        if let Err(failure) = self.committer.limit_log(Some(LOG_BYTES_FULL)) {
            return self.failed("the limit of the log could not be set", failure);
        }
        self.checkpoint_from(1);
        let pages = self.upkeep.gives.max(1);
        match self.committer.vacuum(pages, FREE_PAGES_FULL, false) {
            Ok(true) => {
                self.upkeep.gives = (2 * pages).min(VACUUM_PAGES);
                // The file becomes shorter only when it hears of it.
                return self.checkpoint_from(1);
            }
            Ok(false)
            | Err(Failure {
                shortage: Some(_), ..
            }) => self.upkeep.gives /= 2,
            Err(failure) => return self.stop("giving space back failed", failure.error),
        }
        if self.upkeep.gives > 0 {
            return; // fewer pages may be there, or need less of the log
        }
        let log = files::len(&log::path_of(&self.shared.paths.data));
        if log > 2 * LOG_BYTES_FULL
            // As a batch of nothing, which begins the log anew.
            && let Err(failure) = self.commit(&[])
        {
            return self.failed("a commit failed", failure);
        }
        if let Err(error) = self.shared.space.restore() {
            return self.reserve_failed(error);
        }
        if !self.shared.space.is_full() {
            (self.upkeep.gives, self.upkeep.is_untidy) = (VACUUM_PAGES, true);
            if let Err(failure) = self.committer.limit_log(None) {
                self.failed("the limit of the log could not be set", failure);
            }
        }
    }

    fn reserve_failed(&self, error: std::io::Error) {
        self.shared
            .stop(StopReason::new("the reserve could not be written", error));
    }

    /// A step failed that can be made again.
    fn failed(&self, what: &str, failure: Failure) {
        match failure.shortage {
            Some(Shortage::Space) => _ = self.shared.space.release(),
            Some(Shortage::Process) => self.note_shortage(&failure),
            None => self.stop(what, failure.error),
        }
    }
}
