//! Leases of one bucket: what a node holds, and until when it may rely on it.

use crate::core::holdings::{Holdings, Statement};
use crate::core::op::{Holding, RequestId};
use crate::core::options::NodeOptions;
use crate::time::Mono;

/// The leases of one bucket.
///
/// A lease stands for as long as the node's heartbeat number changes often enough. Others measure
/// the lease timeout from when they *saw* a number; this node measures it from when it *sent* the
/// number, less a safety margin. So it stops starting handlers before anyone can take its leases.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    pub(crate) holdings: Holdings,
    /// Until when handlers may start.
    fresh_until: Mono,
    /// The send time of the last request that got a reply, whatever the reply.
    replied: Mono,
    /// When the next heartbeat is due; meaningful only while leases are held.
    next: Mono,
    in_flight: bool,
    reconciliation: Reconciliation,
}

/// How this node's count of its leases compares with the store's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reconciliation {
    /// The counts agree, as far as is known.
    #[default]
    Agrees,
    /// The store counts more: what is held of the fetches from `from` on is sent to it, at `at`.
    Differs { from: RequestId, at: Mono },
    /// A statement is in flight.
    Stated,
}

impl Leases {
    /// Handles the reply to a fetch or heartbeat sent at `sent`; returns until when handlers may
    /// start.
    pub(crate) fn renew(&mut self, sent: Mono, options: &NodeOptions) -> Mono {
        self.fresh_until = self
            .fresh_until
            .max(sent + options.lease_timeout - options.safety_margin);
        self.fresh_until
    }

    /// Returns the last fetch whose leases have not been fresh all the time, if any.
    ///
    /// They may have been given to others since. A later reply does not bring them back, even if it
    /// confirms what was fetched meanwhile.
    pub(crate) fn lapsed(&self, now: Mono) -> Option<RequestId> {
        let lapsed = self.holdings.len() > 0 && now >= self.fresh_until;
        lapsed.then_some(self.holdings.last_fetch())
    }

    /// Handles the reply to a fetch sent at `sent` that returned events.
    pub(crate) fn fetched(&mut self, sent: Mono, options: &NodeOptions) {
        self.next = self.next.max(sent + options.heartbeat); // it counts as a heartbeat
        self.replied = self.replied.max(sent);
    }

    /// Returns when the next heartbeat has to be sent.
    pub(crate) fn wakes(&self) -> Mono {
        if self.holdings.len() == 0 || self.in_flight {
            Mono::MAX
        } else {
            self.next
        }
    }

    /// Starts a heartbeat; it covers the fetches that have been replied to so far.
    pub(crate) fn beat(&mut self, now: Mono, options: &NodeOptions) -> Holding {
        self.in_flight = true;
        self.next = now + options.heartbeat;
        self.holdings.total()
    }

    /// Handles the reply to a heartbeat sent at `sent`.
    pub(crate) fn beaten(&mut self, sent: Mono) {
        self.in_flight = false;
        self.replied = self.replied.max(sent);
    }

    /// Handles a failed heartbeat: retries soon, and more slowly after a while.
    pub(crate) fn handle_failure(&mut self, now: Mono, options: &NodeOptions) {
        self.in_flight = false;
        let pause = if now < self.replied + options.lease_timeout * 3 {
            options.heartbeat / 4
        } else {
            options.lease_timeout
        };
        self.next = now + pause;
    }

    /// Returns whether the store has replied recently, or there is nothing to keep. After a long
    /// failure the leases have been taken by others, or the store is unreachable for all.
    pub(crate) fn is_heard(&self, now: Mono, options: &NodeOptions) -> bool {
        let (lately, taken) = (
            options.lease_timeout - options.safety_margin,
            options.lease_timeout * 3,
        );
        let is_idle = self.holdings.len() == 0;
        is_idle || now < self.replied + lately || now >= self.replied + taken
    }

    /// Compares the store's count in the reply to a heartbeat with ours. A fetch that overtook the
    /// heartbeat is unknown to one of the two.
    pub(crate) fn compare(&mut self, now: Mono, ours: Holding, theirs: Holding) {
        self.holdings.forget_after(theirs.last, ours.last);
        if theirs.last <= ours.last && theirs.leases > ours.leases {
            self.differs(now);
        }
    }

    /// Does the same for a fetch that returned `brought` events; no other fetch is in flight.
    pub(crate) fn compare_fetched(
        &mut self,
        now: Mono,
        ours: Holding,
        theirs: Holding,
        brought: usize,
    ) {
        self.holdings.forget_after(theirs.last, ours.last);
        if theirs.leases > ours.leases + brought {
            self.differs(now);
        }
    }

    /// The store has leases of this node that the node does not know.
    pub(crate) fn differs(&mut self, now: Mono) {
        if self.reconciliation == Reconciliation::Agrees {
            self.reconciliation = Reconciliation::Differs { from: 0, at: now };
        }
    }

    /// Returns when the next statement has to be sent.
    pub(crate) fn states(&self) -> Mono {
        match self.reconciliation {
            Reconciliation::Differs { at, .. } => at,
            _ => Mono::MAX,
        }
    }

    /// Starts a statement.
    pub(crate) fn state(&mut self) -> Statement {
        let from = match self.reconciliation {
            Reconciliation::Differs { from, .. } => from,
            _ => 0,
        };
        self.reconciliation = Reconciliation::Stated;
        self.holdings.statement(from)
    }

    /// Handles the reply to a statement of the fetches `from` to `through`; the store may have
    /// `more` of them to take back.
    pub(crate) fn stated(
        &mut self,
        now: Mono,
        (from, through): (RequestId, RequestId),
        more: bool,
    ) {
        self.reconciliation = match (more, through >= self.holdings.last_fetch()) {
            (true, _) => Reconciliation::Differs { from, at: now },
            (false, false) => Reconciliation::Differs {
                from: through + 1,
                at: now,
            },
            (false, true) => Reconciliation::Agrees,
        };
    }

    /// Handles a failed statement: repeats it soon.
    pub(crate) fn unstated(&mut self, now: Mono, from: RequestId, options: &NodeOptions) {
        let at = now + options.heartbeat / 4;
        self.reconciliation = Reconciliation::Differs { from, at };
    }
}
