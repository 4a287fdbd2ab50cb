//! The end of a store: stopped by a failure, or closed; an open of the same file waits for a close.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::Error;
use crate::panics;
use crate::store::embedded::reader::closed;
use crate::store::embedded::shared::Shared;
use crate::store::embedded::stop::StopReason;
use crate::store::embedded::ticket::CommitResult;

/// How long an open waits for the close before it. A close takes milliseconds, unless the disk is
/// slow and much is to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The data files of stores that close. Bounded by the threads that write them.
static CLOSING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static CLOSED: Condvar = Condvar::new();

impl Shared {
    /// Acknowledges nothing any more, and says so to everyone who waits.
    pub(super) fn stop(&self, stop: StopReason) {
        let stop = Arc::new(stop);
        let first = self.stop.get_or_init(|| Arc::clone(&stop));
        self.pending
            .abandon(&CommitResult::Stopped(Arc::clone(first)));
        // Last: a subscriber may call the store, which fails by then.
        if Arc::ptr_eq(first, &stop) {
            panics::reported(|| {
                tracing::error!(error = %stop.closed(), "embedded store stopped after a failure");
            });
        }
    }

    pub(super) fn why_closed(&self) -> Error {
        self.stop.get().map_or_else(closed, |stop| stop.closed())
    }

    /// Notes that the store closes, which goes on in the background.
    pub(super) fn begin_to_let_go(&self) {
        let held = self.lock.lock();
        if held.is_some() {
            lock().insert(self.paths.data.clone());
        }
    }

    /// Lets go of the store's lock, the last of its files.
    pub(super) fn let_go(&self) {
        let mut held = self.lock.lock();
        drop(held.take());
        lock().remove(&self.paths.data);
        CLOSED.notify_all();
    }
}

/// Waits until the store in `data` is closed, if it is being closed.
pub(super) fn wait(data: &Path) {
    let mut closing = lock();
    let is_closing = |closing: &mut BTreeSet<PathBuf>| closing.contains(data);
    CLOSED.wait_while_for(&mut closing, is_closing, CLOSE_TIMEOUT);
}

fn lock() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    CLOSING.lock()
}
