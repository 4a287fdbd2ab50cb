//! When a worker must be started, and when one may go: the pool's wake-up protocol.
//!
//! A pool has no worker while it has no work. Whoever publishes starts the first worker, a worker
//! that sees more work than it takes starts the next, and a worker that finds nothing leaves. The
//! danger in this is the *lost wake-up*: work is published just as the last worker goes, and
//! nobody comes for it. Every transition here is made so that this cannot happen:
//!
//! | who | writes | then, after a fence, reads |
//! |---|---|---|
//! | publisher ([`call`](Wake::call)) | the work | the state |
//! | leaver ([`leave`](Wake::leave)) | the state | the work, and then the limit |
//! | lingerer ([`linger`](Wake::linger), [`found`](Wake::found)) | the state | the work |
//! | operator ([`set_limit`](Wake::set_limit)) | the limit | the work and the state |
//!
//! Each pair of rows writes what the other reads, and between writing and reading each has a
//! sequentially consistent fence: at least one of the two sees the other.
//!
//! The type knows neither ring nor runtime. It is told how to look for work, and answers what is to
//! be done; so a model checker can run this very file (`tests/loom`), also with a step left out to
//! see the loss.

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, fence};

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// A worker was started and has not looked for work yet: starting another can wait for it.
const WAKING: usize = 1;

/// A worker without work is looking for some instead of leaving: nobody needs to be started.
const LINGERING: usize = 2;

/// One active worker; the count of them is the state divided by this.
const ONE: usize = 4;

/// The most workers that can be counted.
const LIMIT_MAX: usize = usize::MAX / ONE - 1;

/// Which workers there are, and who has to start one.
pub(crate) struct Wake {
    state: AtomicUsize,
    limit: AtomicUsize,
    #[cfg(loom)]
    fault: Fault,
}

/// What became of a worker that wanted to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Work came in meanwhile and the worker has its place again.
    Stayed,
    /// The worker is gone; it was the `last` one if nobody else is active.
    Left {
        /// No other worker is active.
        last: bool,
    },
}

impl Wake {
    /// Starts without workers, and lets `limit` of them be active at once.
    #[cfg(not(loom))]
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit.min(LIMIT_MAX)),
        }
    }

    /// Starts like the real one, with one step left out.
    #[cfg(loom)]
    pub(crate) fn faulty(limit: usize, fault: Fault) -> Self {
        Self {
            state: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit.min(LIMIT_MAX)),
            fault,
        }
    }

    /// Says that there is work, after it was published. When it answers `true`, the caller has to
    /// start a worker, whose place is already counted.
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

    /// The started worker is about to look for work for the first time.
    pub(crate) fn enter(&self) {
        self.state.fetch_and(!WAKING, SeqCst);
        fence(SeqCst);
    }

    /// A worker found nothing and would like to linger. On `true` it does, publishers call nobody,
    /// and the worker has to look again at once; on `false` somebody lingers already.
    #[must_use = "on `true` the worker lingers, which `found` or `leave` ends"]
    pub(crate) fn linger(&self) -> bool {
        let first = self.state.fetch_or(LINGERING, SeqCst) & LINGERING == 0;
        fence(SeqCst);
        first
    }

    /// The lingering worker has taken work. Answers whether there is more of it, published while
    /// lingering kept the publishers from calling; then the worker has to [`call`](Self::call).
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

    /// A worker without work, or one too many, gives its place back; `lingering` if it was. It
    /// stays when there is work after all and the place is still free.
    #[must_use = "a worker that stayed has to look for work"]
    pub(crate) fn leave(&self, lingering: bool, has_work: impl FnOnce() -> bool) -> Leave {
        let mut state = self.give_up(if lingering { ONE | LINGERING } else { ONE });
        fence(SeqCst);
        let last = state < ONE;
        #[cfg(loom)]
        if self.fault == Fault::NoExitRecheck {
            return Leave::Left { last };
        }
        if !has_work() {
            return Leave::Left { last };
        }
        // With as many active as allowed, each of them will look again before it leaves.
        while state / ONE < self.limit() {
            match self
                .state
                .compare_exchange_weak(state, state + ONE, SeqCst, Relaxed)
            {
                Ok(_) => return Leave::Stayed,
                Err(now) => state = now,
            }
        }
        Leave::Left { last }
    }

    /// A worker that will never look for work again gives its place back without looking, because
    /// its runtime went away. `waking` if it never entered, `lingering` if it was. Answers whether
    /// it was the last one.
    pub(crate) fn abandon(&self, waking: bool, lingering: bool) -> bool {
        let waking = if waking { WAKING } else { 0 };
        let lingering = if lingering { LINGERING } else { 0 };
        self.give_up(ONE | waking | lingering) < ONE
    }

    /// Allows `limit` active workers from now on; 0 pauses. On `true` the caller has to start a
    /// worker. Those that are too many notice by [`is_over`](Self::is_over).
    #[must_use = "on `true` a worker has to be started"]
    pub(crate) fn set_limit(&self, limit: usize, has_work: impl FnOnce() -> bool) -> bool {
        self.limit.store(limit.min(LIMIT_MAX), SeqCst);
        fence(SeqCst);
        has_work() && self.call()
    }

    /// Whether more workers are active than allowed, so that whoever asks should leave.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.state.load(Relaxed) / ONE > self.limit()
    }

    /// How many workers are active, those that were just started included.
    pub(crate) fn active(&self) -> usize {
        self.state.load(SeqCst) / ONE
    }

    /// How many workers may be active.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Orders what was published before the look at the state.
    #[inline]
    fn publishers_fence(&self) {
        #[cfg(loom)]
        if self.fault == Fault::NoPublisherFence {
            return;
        }
        fence(SeqCst);
    }

    /// Takes `place` out of the state and returns what is left of it.
    fn give_up(&self, place: usize) -> usize {
        self.state.fetch_sub(place, SeqCst) - place
    }
}

/// A step of the protocol that the model checker leaves out, to see that it finds the loss.
#[cfg(loom)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The protocol as it is.
    None,
    /// The publisher reads the state without a fence after publishing.
    NoPublisherFence,
    /// The leaver does not look for work again after giving its place back.
    NoExitRecheck,
    /// The lingerer does not look for more work after it stopped lingering.
    NoLingerRecheck,
}
