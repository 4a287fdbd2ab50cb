//! Virtual time that stands still while a handler, or a relay, waits for the outside world.
//!
//! Paused time jumps to the next timer as soon as no task can run, which is also the case while a
//! handler waits for a socket: the timeout of its database would be over before the answer is
//! there. So while an attempt is suspended in a process that has connections or threads of
//! a database, a blocking task holds the time. As nothing tells a handler that waits for a socket from one that sleeps, the hold ends
//! after some seconds in which the attempt was not polled.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::time::{Clock, Mono, SystemClock};

/// How long a suspended attempt holds the time: longer than an answer takes on a busy machine, and
/// short enough for a test whose handler sleeps.
const PATIENCE: Duration = Duration::from_secs(5);
/// The sockets of every process with Tokio's signals: a pair that is connected to itself.
const OWN_SOCKETS: usize = 2;

/// How the names of the threads begin by which sqlx reads SQLite files, `sqlx-sqlite-worker-` and a
/// number, of which the system keeps 15 bytes.
const DATABASE_THREADS: &str = "sqlx-sqlite-wor";

/// The attempts for which virtual time stands still.
#[derive(Default)]
pub(crate) struct TimeHolds {
    clock: SystemClock,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Until when each attempt holds the time, on the machine's clock. Bounded by the workers.
    until: BTreeMap<u64, Mono>,
    last: u64,
    /// Whether a blocking task runs.
    is_held: bool,
}

impl TimeHolds {
    /// Returns whether time stands still.
    #[cfg(feature = "testing")]
    pub(crate) fn is_held(&self) -> bool {
        self.lock().is_held
    }

    fn hold(self: &Arc<Self>, attempt: &mut Option<u64>) {
        let mut state = self.lock();
        let attempt = *attempt.get_or_insert_with(|| {
            state.last += 1;
            state.last
        });
        state.until.insert(attempt, self.clock.mono() + PATIENCE);
        if !std::mem::replace(&mut state.is_held, true) {
            let holds = Arc::clone(self);
            drop(tokio::task::spawn_blocking(move || holds.watch()));
        }
    }

    fn release(&self, attempt: u64) {
        if self.lock().until.remove(&attempt).is_some() {
            self.changed.notify_all();
        }
    }

    /// Blocks while an attempt holds the time.
    fn watch(&self) {
        let mut state = self.lock();
        loop {
            let now = self.clock.mono();
            state.until.retain(|_, until| *until > now);
            let Some(first) = state.until.values().min().copied() else {
                state.is_held = false;
                return;
            };
            self.changed.wait_for(&mut state, first.since(now));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// An attempt that holds virtual time while it is suspended.
pub(crate) struct HoldsTime<F> {
    attempt: Pin<Box<F>>,
    holds: Arc<TimeHolds>,
    number: Option<u64>,
}

impl<F> HoldsTime<F> {
    pub(crate) fn new(attempt: F, holds: Arc<TimeHolds>) -> Self {
        Self {
            attempt: Box::pin(attempt),
            holds,
            number: None,
        }
    }

    fn release(&mut self) {
        if let Some(number) = self.number.take() {
            self.holds.release(number);
        }
    }
}

impl<F: Future> Future for HoldsTime<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let polled = this.attempt.as_mut().poll(cx);
        if polled.is_pending() && has_outside() {
            this.holds.hold(&mut this.number);
        } else {
            this.release();
        }
        polled
    }
}

impl<F> Drop for HoldsTime<F> {
    fn drop(&mut self) {
        self.release();
    }
}

/// Returns whether something outside of the runtime may answer: another process, or a thread that is
/// known to stand for a database. Where the system does not list sockets by file, it always may.
fn has_outside() -> bool {
    has_connections() || has_database_threads()
}

/// Returns whether a pool of sqlx has an SQLite file open: it reads it by a thread of its own.
fn has_database_threads() -> bool {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let mut names = threads.flatten().filter_map(|thread| {
        let name = fs::read_to_string(thread.path().join("comm"));
        name.ok() // none of one that ends
    });
    names.any(|name| name.starts_with(DATABASE_THREADS))
}

/// Returns whether this process may be connected to another one.
fn has_connections() -> bool {
    let Ok(files) = fs::read_dir("/proc/self/fd") else {
        return true;
    };
    let sockets = files.flatten().filter_map(|file| {
        let target = fs::read_link(file.path()).ok()?;
        let name = target.to_str()?.strip_prefix("socket:")?;
        Some((name.to_owned(), file.path()))
    });
    // By name, as two files may be of one socket.
    let sockets: BTreeMap<String, PathBuf> = sockets.collect();
    sockets.len() > OWN_SOCKETS || !sockets.values().all(|socket| is_of_this_machine(socket))
}

/// Returns whether a socket is known to be one of Unix. Tables of all sockets of the machine would
/// tell as well, and take milliseconds where it has thousands.
#[cfg(target_os = "linux")]
fn is_of_this_machine(socket: &Path) -> bool {
    let mut protocol = [0; 32];
    let read = rustix::fs::getxattr(socket, "system.sockprotoname", protocol.as_mut_slice());
    read.is_ok() && protocol.starts_with(b"UNIX")
}

#[cfg(not(target_os = "linux"))]
fn is_of_this_machine(_socket: &Path) -> bool {
    false
}
