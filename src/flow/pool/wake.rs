//! The wake-up protocol of a pool: when a worker must be started, and when one may leave.
//!
//! A pool without work has no worker. A publisher starts the first worker, a worker that sees more
//! work than it takes starts the next, and a worker that finds nothing leaves. The danger is the
//! *lost wake-up*: work is published just as the last worker leaves. Every transition here excludes
//! it:
//!
//! | role | writes | then, after a fence, reads |
//! |---|---|---|
//! | publisher ([`call`](Wake::call)) | the work | the state |
//! | leaver ([`leave`](Wake::leave)) | the state | the work, and then the limit |
//! | lingerer ([`linger`](Wake::linger), [`found`](Wake::found)) | the state | the work |
//! | operator ([`set_limit`](Wake::set_limit)) | the limit | the work and the state |
//!
//! Each pair of rows writes what the other reads, with a sequentially consistent fence between
//! writing and reading: at least one of the two sees the other.
//!
//! The type knows neither ring nor runtime: callers pass in how to check for work, and act on the
//! result. So a model checker can run this very file (`tests/loom`), also with a step left out to
//! see the loss.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, fence};

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// A worker was started and has not polled yet: starting another can wait for it.
const WAKING: usize = 1;

/// An idle worker polls instead of leaving: no start is needed.
const LINGERING: usize = 2;

/// One active worker; their count is the state divided by this.
const ONE: usize = 4;

/// The most workers that can be counted.
const LIMIT_MAX: usize = usize::MAX / ONE - 1;

/// The state of a pool's workers.
pub(crate) struct Wake {
    state: AtomicUsize,
    limit: AtomicUsize,
    #[cfg(loom)]
    fault: Fault,
}

/// The result of [`Wake::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaveResult {
    /// Work arrived meanwhile and the worker has its place again.
    Stayed,
    /// The worker has left.
    Left {
        /// No other worker is active.
        last: bool,
    },
}

impl Wake {
    /// Creates the state without workers; up to `limit` may be active at once.
    #[cfg(not(loom))]
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit.min(LIMIT_MAX)),
        }
    }

    /// Creates the state with one step of the protocol left out.
    #[cfg(loom)]
    pub(crate) fn faulty(limit: usize, fault: Fault) -> Self {
        Self {
            state: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit.min(LIMIT_MAX)),
            fault,
        }
    }

    /// Announces published work. On `true` the caller has to start a worker, whose place is already
    /// counted.
    #[inline]
    #[must_use = "on `true` a worker has to be started"]
    pub(crate) fn call(&self) -> bool {
        self.publishers_fence();
        let mut state = self.state.load(Relaxed);
        loop {
            if state & (WAKING | LINGERING) != 0 || state / ONE >= self.limit() {
                return false;
            }
            let started = (state + ONE) | WAKING;
            match self
                .state
                .compare_exchange_weak(state, started, SeqCst, Relaxed)
            {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    /// Marks that a started worker is about to poll for the first time.
    pub(crate) fn enter(&self) {
        self.state.fetch_and(!WAKING, SeqCst);
        fence(SeqCst);
    }

    /// Tries to linger. On `true` publishers start no worker, and this one has to poll again at
    /// once; on `false` another worker lingers already.
    #[must_use = "on `true` the worker lingers, which `found` or `leave` ends"]
    pub(crate) fn linger(&self) -> bool {
        let first = self.state.fetch_or(LINGERING, SeqCst) & LINGERING == 0;
        fence(SeqCst);
        first
    }

    /// Ends lingering, after work was taken. Returns whether there is more of it, published during
    /// the lingering; then the worker has to [`call`](Self::call).
    #[must_use = "on `true` another worker has to be called"]
    pub(crate) fn found(&self, has_work: impl FnOnce() -> bool) -> bool {
        self.state.fetch_and(!LINGERING, SeqCst);
        fence(SeqCst);
        #[cfg(loom)]
        if self.fault == Fault::NoLingerRecheck {
            return false;
        }
        has_work()
    }

    /// Gives the place of a worker back that has no work or is one too many; `lingering` if it was.
    /// It stays when there is work after all and the place is still free.
    #[must_use = "a worker that stayed has to look for work"]
    pub(crate) fn leave(&self, lingering: bool, has_work: impl FnOnce() -> bool) -> LeaveResult {
        let mut state = self.give_up(if lingering { ONE | LINGERING } else { ONE });
        fence(SeqCst);
        let last = state < ONE;
        #[cfg(loom)]
        if self.fault == Fault::NoExitRecheck {
            return LeaveResult::Left { last };
        }
        if !has_work() {
            return LeaveResult::Left { last };
        }
        // With as many active as allowed, each of them polls again before it leaves.
        while state / ONE < self.limit() {
            match self
                .state
                .compare_exchange_weak(state, state + ONE, SeqCst, Relaxed)
            {
                Ok(_) => return LeaveResult::Stayed,
                Err(now) => state = now,
            }
        }
        LeaveResult::Left { last }
    }

    /// Gives a place back without a poll, because the runtime was shut down. `waking` if the worker
    /// never entered, `lingering` if it was. Returns whether it was the last one.
    pub(crate) fn abandon(&self, waking: bool, lingering: bool) -> bool {
        let waking = if waking { WAKING } else { 0 };
        let lingering = if lingering { LINGERING } else { 0 };
        self.give_up(ONE | waking | lingering) < ONE
    }

    /// Sets how many workers may be active; 0 pauses. On `true` the caller has to start a worker.
    /// Workers in excess notice by [`is_over`](Self::is_over).
    #[must_use = "on `true` a worker has to be started"]
    pub(crate) fn set_limit(&self, limit: usize, has_work: impl FnOnce() -> bool) -> bool {
        self.limit.store(limit.min(LIMIT_MAX), SeqCst);
        fence(SeqCst);
        has_work() && self.call()
    }

    /// Returns whether more workers are active than allowed, so that the caller should leave.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.state.load(Relaxed) / ONE > self.limit()
    }

    /// Returns how many workers are active, including those just started.
    pub(crate) fn active(&self) -> usize {
        self.state.load(SeqCst) / ONE
    }

    /// Returns how many workers may be active.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Orders the published work before the read of the state.
    #[inline]
    fn publishers_fence(&self) {
        #[cfg(loom)]
        if self.fault == Fault::NoPublisherFence {
            return;
        }
        fence(SeqCst);
    }

    /// Takes `place` out of the state and returns the rest.
    fn give_up(&self, place: usize) -> usize {
        self.state.fetch_sub(place, SeqCst) - place
    }
}

/// A step of the protocol that the model checker leaves out, to prove that it finds the loss.
#[cfg(loom)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The whole protocol.
    None,
    /// The publisher reads the state without a fence.
    NoPublisherFence,
    /// The leaver does not check for work again after giving its place back.
    NoExitRecheck,
    /// The lingerer does not check for more work after it stopped lingering.
    NoLingerRecheck,
}
