//! Lines of the audit that the bus adds by itself: what its program does to queues, events, schedules
//! and dead letters that others see.
//!
//! A line is written behind its action, by a task, so that no action waits for it or fails with it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use crate::bus::completed::Completed;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::state::program_actions::{AuditedBy, LineStatus, ProgramAction};
use crate::core::membership::host_name;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::host;
use crate::panics;
use crate::record::BY_BYTES_MAX;

/// How long the store may take for a line.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// How long the end of a bus, and whoever reads the audit, waits for the lines of actions before.
const WRITTEN_MAX: Duration = Duration::from_secs(2);
/// The most characters of the name of a program: that of its machine is behind it.
const PROGRAM_MAX: usize = 40;

impl AuditedBy {
    /// Notes what was done, unless the same was lately.
    pub(super) fn note(self, inner: &Arc<Inner>, action: ProgramAction) {
        self.add(inner, action, false);
    }

    /// Notes what was done, each time.
    pub(super) fn note_each(self, inner: &Arc<Inner>, action: ProgramAction) {
        self.add(inner, action, true);
    }

    /// Returns whether the same was done lately.
    pub(super) fn has_noted(self, inner: &Inner, action: &ProgramAction) -> bool {
        self == Self::Bus && inner.program_actions.has(inner.clock.mono(), action)
    }

    fn add(self, inner: &Arc<Inner>, action: ProgramAction, always: bool) {
        if self == Self::Caller {
            return;
        }
        let (name, target) = (action.action, action.target.clone());
        match inner
            .program_actions
            .add(inner.clock.mono(), action, always)
        {
            LineStatus::Waits => {
                let of = Arc::clone(inner);
                inner.runtime.spawn(async move { write_first(&of).await });
            }
            LineStatus::Repeats => {}
            LineStatus::Lost => {
                panics::reported(|| {
                    tracing::error!(action = name, target, "audit failed: too many lines wait");
                });
            }
        }
    }
}

/// The line of an action that may have many steps: it is noted with the first one that changes anything,
/// as the caller may be gone before the last.
pub(super) struct ActionLine {
    inner: Arc<Inner>,
    audited_by: AuditedBy,
    action: ProgramAction,
    is_noted: AtomicBool,
}

impl ActionLine {
    pub(super) fn new(
        inner: &Arc<Inner>,
        audited_by: AuditedBy,
        action: ProgramAction,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            audited_by,
            action,
            is_noted: AtomicBool::new(false),
        })
    }

    /// Does a step, to its end though the caller may be gone meanwhile.
    pub(super) fn step<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T>> + Send + 'static,
        has_changed: fn(&T) -> bool,
    ) -> Completed<Result<T>> {
        let line = Arc::clone(self);
        let step = async move {
            let done = work.await;
            if is_done(&done, has_changed) && !line.is_noted.swap(true, Ordering::Relaxed) {
                line.audited_by.note(&line.inner, line.action.clone());
            }
            done
        };
        Completed::new(&self.inner.runtime, step)
    }
}

/// Waits until the lines of what was done before are written, or could not be, for a moment at most.
pub(super) async fn written(inner: &Arc<Inner>) {
    if inner.program_actions.first().is_some() {
        // A line that is on its way when nobody waits any more is not written again by another task.
        let next = || {
            let of = Arc::clone(inner);
            Completed::new(&inner.runtime, async move { write_first(&of).await })
        };
        let all = async { while next().await {} };
        // What is not written in time stays with its task.
        let _ = timeout(WRITTEN_MAX, all).await;
    }
}

/// Writes what lines are left, before the store is closed.
pub(super) async fn finish(inner: &Arc<Inner>) {
    written(inner).await;
    while let Some(ProgramAction { action, target, .. }) = inner.program_actions.first() {
        inner.program_actions.remove_first(false);
        panics::reported(|| tracing::error!(action, target, "audit failed: the bus has ended"));
    }
}

/// Writes the first line that waits; returns whether there was one.
async fn write_first(inner: &Arc<Inner>) -> bool {
    let _writer = inner.program_actions.writer.lock().await;
    let Some(action) = inner.program_actions.first() else {
        return false;
    };
    let bus = Bus::from_inside(Arc::clone(inner));
    let ProgramAction { action, target, by } = action;
    let actor = by.unwrap_or_else(program);
    let line = bus.add_own_line(&actor, (action, &target));
    let added = match timeout(WRITE_MAX, line).await {
        Ok(added) => added,
        Err(_) => Err(Error::new(
            ErrorKind::TimedOut,
            "the store has not responded in time",
        )),
    };
    inner.program_actions.remove_first(added.is_ok());
    if let Err(error) = added {
        panics::reported(|| tracing::error!(%error, actor, action, target, "audit failed"));
    }
    true
}

/// Returns whether an action has changed anything, or may have.
pub(super) fn is_done<T>(done: &Result<T>, has_changed: impl FnOnce(&T) -> bool) -> bool {
    match done {
        Ok(done) => has_changed(done),
        Err(error) => error.kind() == ErrorKind::Unknown,
    }
}

/// Returns the name of this program and of its machine, such as `orders@web-1`.
pub(super) fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_name().unwrap_or_default();
    let name: String = host_name(&name.to_string_lossy())
        .chars()
        .take(PROGRAM_MAX)
        .collect();
    let name = if name.is_empty() { "program" } else { &name };
    let mut both = match &*host() {
        "" => name.to_owned(),
        host => format!("{name}@{host}"),
    };
    both.truncate(both.floor_char_boundary(BY_BYTES_MAX));
    both
}

/// Returns the target of an action on what is in some queues; without any it is every queue.
pub(super) fn target_in<'a>(queues: impl IntoIterator<Item = &'a str>, what: &str) -> String {
    let queues = queues.into_iter().collect::<Vec<_>>().join(" ");
    match queues.as_str() {
        "" => format!("every queue, {what}"),
        _ => format!("{queues}, {what}"),
    }
}
