//! What a node holds of a bucket, and for how long it may rely on it.

use crate::core::holdings::{Holdings, Statement};
use crate::core::op::{Holding, RequestId};
use crate::core::options::NodeOptions;
use crate::time::Mono;

/// The leases of one bucket.
///
/// A lease stands for as long as the node's heartbeat number changes often enough. Others count
/// the silence from when they *saw* a number; we count from when we *sent* it, less a margin. So we
/// stop starting handlers before anyone can take them.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    pub(crate) holdings: Holdings,
    /// Until when handlers may start.
    fresh_until: Mono,
    /// When something was sent last that was answered, whatever the answer.
    heard: Mono,
    /// When the next heartbeat is due; meaningful while something is held.
    next: Mono,
    in_flight: bool,
    account: Account,
}

/// How far the store's account of the leases is from being the same as this node's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Account {
    /// As far as is known it is the same.
    #[default]
    Agrees,
    /// It has more: what is held of the fetches from `from` on has to be stated, at `at`.
    Differs { from: RequestId, at: Mono },
    /// That is on its way.
    Stated,
}

impl Leases {
    /// A fetch or heartbeat that was sent then was answered: until when handlers may start.
    pub(crate) fn renew(&mut self, sent: Mono, options: &NodeOptions) -> Mono {
        self.fresh_until = self
            .fresh_until
            .max(sent + options.silence - options.margin);
        self.fresh_until
    }

    /// Up to which fetch leases have not been fresh all the time, if so.
    ///
    /// They may have been given to others since. A later answer does not bring them back, even if
    /// it speaks well of what was fetched meanwhile.
    pub(crate) fn lapsed(&self, now: Mono) -> Option<RequestId> {
        let lapsed = self.holdings.len() > 0 && now >= self.fresh_until;
        lapsed.then_some(self.holdings.answered())
    }

    /// A fetch that was sent then gave something.
    pub(crate) fn fetched(&mut self, sent: Mono, options: &NodeOptions) {
        self.next = self.next.max(sent + options.heartbeat); // for the store it is a heartbeat
        self.heard = self.heard.max(sent);
    }

    /// When the next heartbeat has to be sent.
    pub(crate) fn wakes(&self) -> Mono {
        if self.holdings.len() == 0 || self.in_flight {
            Mono::MAX
        } else {
            self.next
        }
    }

    /// A heartbeat is sent now; what it can speak of are the fetches answered so far.
    pub(crate) fn beat(&mut self, now: Mono, options: &NodeOptions) -> Holding {
        self.in_flight = true;
        self.next = now + options.heartbeat;
        self.holdings.total()
    }

    /// A heartbeat that was sent then was answered.
    pub(crate) fn beaten(&mut self, sent: Mono) {
        self.in_flight = false;
        self.heard = self.heard.max(sent);
    }

    /// The answer to a heartbeat is lost: the next one follows soon, and later not so soon any more.
    pub(crate) fn unanswered(&mut self, now: Mono, options: &NodeOptions) {
        self.in_flight = false;
        let pause = match now < self.heard + options.silence * 3 {
            true => options.heartbeat / 4,
            false => options.silence,
        };
        self.next = now + pause;
    }

    /// Whether the store has answered lately, as far as there is something to keep. What could not be
    /// kept for long was taken by others meanwhile, or cannot be reached by anybody.
    pub(crate) fn is_heard(&self, now: Mono, options: &NodeOptions) -> bool {
        let (lately, taken) = (options.silence - options.margin, options.silence * 3);
        let is_idle = self.holdings.len() == 0;
        is_idle || now < self.heard + lately || now >= self.heard + taken
    }

    /// Compares the store's account, as a heartbeat was answered with, with what the heartbeat said.
    /// A fetch that overtook it is not known to both.
    pub(crate) fn compare(&mut self, now: Mono, ours: Holding, theirs: Holding) {
        self.holdings.forget_after(theirs.last, ours.last);
        if theirs.last <= ours.last && theirs.leases > ours.leases {
            self.differs(now);
        }
    }

    /// The same for a fetch, before which no other one is on its way, and which brought so many.
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

    /// The store has leased something to this node of which it does not know.
    pub(crate) fn differs(&mut self, now: Mono) {
        if self.account == Account::Agrees {
            self.account = Account::Differs { from: 0, at: now };
        }
    }

    /// When what is held has to be stated.
    pub(crate) fn states(&self) -> Mono {
        match self.account {
            Account::Differs { at, .. } => at,
            _ => Mono::MAX,
        }
    }

    /// It is stated now.
    pub(crate) fn state(&mut self) -> Statement {
        let from = match self.account {
            Account::Differs { from, .. } => from,
            _ => 0,
        };
        self.account = Account::Stated;
        self.holdings.statement(from)
    }

    /// What was stated of the fetches up to `through` has been looked at; of some of them the store
    /// may have `more` than that.
    pub(crate) fn stated(
        &mut self,
        now: Mono,
        (from, through): (RequestId, RequestId),
        more: bool,
    ) {
        self.account = match (more, through >= self.holdings.answered()) {
            (true, _) => Account::Differs { from, at: now },
            (false, false) => Account::Differs {
                from: through + 1,
                at: now,
            },
            (false, true) => Account::Agrees,
        };
    }

    /// The answer is lost: it is stated again soon.
    pub(crate) fn unstated(&mut self, now: Mono, from: RequestId, options: &NodeOptions) {
        let at = now + options.heartbeat / 4;
        self.account = Account::Differs { from, at };
    }
}
