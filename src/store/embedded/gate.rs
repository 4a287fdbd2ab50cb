//! What a caller waits at until the writer has written its batch.
//!
//! All operations of a batch share one gate, so that a commit wakes a thousand callers with one
//! lock and a list of wakers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::store::embedded::stop::Stop;

/// What became of the changes of a batch.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// They are on disk.
    Written,
    /// There was no room; nothing of them happened.
    Full,
    /// Something is short for so long that nobody is kept waiting: they are written when it is
    /// there again, unless the process ends before.
    Delayed,
    /// The store stopped itself while they were on their way: nobody knows.
    Stopped(Arc<Stop>),
}

impl Fate {
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

/// The error of a push that found no room on disk.
pub(super) fn full() -> Error {
    Error::new(
        ErrorKind::Full,
        "the disk is full, or a quota or the limit on the size of a file is reached, and the event \
         was not stored; what is stored is still being handled, pushes work again when there is \
         space",
    )
}

/// Which fate of a batch an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// That of pushes, which are refused when the disk is full.
    Pushes,
    /// That of everything else, which is written all the same.
    Rest,
}

/// Opened once for each lane, by the writer.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pushes: Option<Fate>,
    rest: Option<Fate>,
    /// Bounded by the operations of the batch and those that wait for it.
    wakers: Vec<Waker>,
}

impl State {
    fn fate(&self, lane: Lane) -> Option<&Fate> {
        match lane {
            Lane::Pushes => self.pushes.as_ref(),
            Lane::Rest => self.rest.as_ref(),
        }
    }
}

impl Gate {
    /// Opens what is still shut of both lanes.
    pub(super) fn open(&self, fate: Fate) {
        let mut state = self.lock();
        state.rest.get_or_insert_with(|| fate.clone());
        state.pushes.get_or_insert(fate);
        wake(state);
    }

    /// Opens the lane of pushes alone.
    pub(super) fn open_pushes(&self, fate: Fate) {
        let mut state = self.lock();
        state.pushes.get_or_insert(fate);
        wake(state);
    }

    /// Waits for the fate and returns `Ok` when it is [`Fate::Written`].
    pub(super) fn wait(self: Arc<Self>, lane: Lane) -> Wait {
        Wait {
            gate: self,
            lane,
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

/// A wait at a [`Gate`].
#[derive(Debug)]
pub(super) struct Wait {
    gate: Arc<Gate>,
    lane: Lane,
    /// Where its waker is in the list.
    place: Option<usize>,
}

impl Future for Wait {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let gate = Arc::clone(&self.gate);
        let mut state = gate.lock();
        if let Some(fate) = state.fate(self.lane) {
            return Poll::Ready(fate.result());
        }
        // The list is emptied when one lane opens before the other: then the place is gone.
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
