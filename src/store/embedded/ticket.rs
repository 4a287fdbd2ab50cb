//! The ticket of a batch: its callers wait with it until the writer has written.
//!
//! All operations of a batch share one ticket, so that a commit wakes a thousand callers with one
//! lock and a list of wakers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::store::embedded::stop::StopReason;

/// What became of the changes of a batch.
#[derive(Clone, Debug)]
pub(super) enum CommitResult {
    /// They are on disk.
    Written,
    /// There was no room; nothing of them happened.
    Full,
    /// Something is short for so long that nobody is kept waiting: they are written when it is
    /// there again, unless the process ends before.
    Delayed,
    /// The store stopped itself while they were on their way: nobody knows.
    Stopped(Arc<StopReason>),
}

impl CommitResult {
    pub(super) fn result(&self) -> Result<()> {
        match self {
            Self::Written => Ok(()),
            Self::Full => Err(full()),
            Self::Delayed => Err(Error::new(
                ErrorKind::Unknown,
                "the disk is full to the last byte, or the process has too little memory: it is \
                 written when there is room again, and may be lost if the process ends before; \
                 repeating the call is safe",
            )),
            Self::Stopped(stop) => Err(stop.unknown()),
        }
    }
}

/// The error of a push that found no room on disk, and of whatever brings a payload meanwhile.
pub(super) fn full() -> Error {
    Error::new(
        ErrorKind::Full,
        "the disk is full, or a quota or the limit on the size of a file is reached, and the event \
         or its new payload was not stored; what is stored is still being handled, pushes work \
         again when there is space",
    )
}

/// Which result of a batch an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitPart {
    /// That of pushes, which are refused when the disk is full.
    Pushes,
    /// That of everything else, which is written all the same.
    Rest,
}

/// Resolved once for each part, by the writer.
#[derive(Debug, Default)]
pub(super) struct CommitTicket(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pushes: Option<CommitResult>,
    rest: Option<CommitResult>,
    /// Bounded by the operations of the batch and those that wait for it.
    wakers: Vec<Waker>,
}

impl State {
    fn result(&self, part: CommitPart) -> Option<&CommitResult> {
        match part {
            CommitPart::Pushes => self.pushes.as_ref(),
            CommitPart::Rest => self.rest.as_ref(),
        }
    }
}

impl CommitTicket {
    /// Resolves both parts, if they are not yet.
    pub(super) fn resolve(&self, result: CommitResult) {
        let mut state = self.lock();
        state.rest.get_or_insert_with(|| result.clone());
        state.pushes.get_or_insert(result);
        wake(state);
    }

    /// Resolves the part of pushes alone.
    pub(super) fn resolve_pushes(&self, result: CommitResult) {
        let mut state = self.lock();
        state.pushes.get_or_insert(result);
        wake(state);
    }

    /// Waits for the result and returns `Ok` when it is [`CommitResult::Written`].
    pub(super) fn wait(self: Arc<Self>, part: CommitPart) -> Wait {
        Wait {
            ticket: self,
            part,
            place: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// Wakes after the lock is let go, so that nobody who wakes has to wait for it.
fn wake(mut state: MutexGuard<'_, State>) {
    let wakers = std::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

/// A wait for a [`CommitTicket`].
#[derive(Debug)]
pub(super) struct Wait {
    ticket: Arc<CommitTicket>,
    part: CommitPart,
    /// Where its waker is in the list.
    place: Option<usize>,
}

impl Future for Wait {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let ticket = Arc::clone(&self.ticket);
        let mut state = ticket.lock();
        if let Some(result) = state.result(self.part) {
            return Poll::Ready(result.result());
        }
        // The list is emptied when one part is resolved before the other: then the place is gone.
        match self.place.and_then(|place| state.wakers.get_mut(place)) {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => {
                state.wakers.push(cx.waker().clone());
                self.place = Some(state.wakers.len() - 1);
            }
        }
        Poll::Pending
    }
}
