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
    /// Settles leases that last as long as the heartbeat, or ones with a deadline.
    Settle {
        hold: bool,
    },
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

pub(super) const ACTS: [Act; 27] = [
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
    Act::Settle { hold: false },
    Act::Settle { hold: true },
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

impl Act {
    /// Its name alone.
    pub(super) fn name(self) -> String {
        let all = format!("{self:?}");
        all.split([' ', '(']).next().unwrap_or(&all).to_owned()
    }
}

/// More writes than any script has.
pub(super) const WRITES_MAX: usize = 1_000;
/// From this one on, only each of so many is a case, unless all are asked for.
const FEW: usize = 24;
const EACH: usize = 41;

/// Whether each write of each shape is a case.
pub(super) fn all() -> bool {
    std::env::var("DULY_REDIS_ABORTS").is_ok_and(|cases| cases == "all")
}

/// The numbers of writes after which a script fails, until one has fewer.
pub(super) fn cases() -> impl Iterator<Item = usize> {
    let all = all();
    (0..WRITES_MAX).filter(move |writes| all || *writes < FEW || writes.is_multiple_of(EACH))
}
