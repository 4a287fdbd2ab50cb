//! What is done while a script fails.

use std::time::Duration;

use duly::time::When;

/// What is done, with what must have been done before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Push,
    Replace,
    MoveDue,
    Fetch {
        limit: usize,
        ahead: bool,
        hold: bool,
    },
    Settle,
    Cancel,
    Reschedule(When),
    Update,
    Rewrite,
    Reap,
    Reconcile,
    Revive,
    EditAndRevive,
    Drop,
    /// Counts, for which what has expired before is ended.
    Count,
    /// Counts, for which leases past their deadline are ended before.
    CountOverdue,
    /// A fetch that ends what has expired before.
    Expire,
    Extend,
    Heartbeat,
}

pub(super) const ACTS: [Act; 26] = [
    Act::Push,
    Act::Replace,
    Act::MoveDue,
    Act::Fetch {
        limit: 1_000,
        ahead: false,
        hold: false,
    },
    Act::Fetch {
        limit: 20,
        ahead: false,
        hold: false,
    },
    Act::Fetch {
        limit: 20,
        ahead: false,
        hold: true,
    },
    Act::Fetch {
        limit: 1_000,
        ahead: true,
        hold: false,
    },
    Act::Fetch {
        limit: 20,
        ahead: true,
        hold: false,
    },
    Act::Fetch {
        limit: 66,
        ahead: false,
        hold: false,
    },
    Act::Fetch {
        limit: 66,
        ahead: true,
        hold: false,
    },
    Act::Settle,
    Act::Cancel,
    Act::Reschedule(When::Now),
    Act::Reschedule(When::After(Duration::from_secs(9))),
    Act::Update,
    Act::Rewrite,
    Act::Reap,
    Act::Reconcile,
    Act::Revive,
    Act::EditAndRevive,
    Act::Drop,
    Act::Count,
    Act::CountOverdue,
    Act::Expire,
    Act::Extend,
    Act::Heartbeat,
];
