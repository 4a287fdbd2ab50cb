//! Bugs planted at the seams: each must be found, or its second defence named.
//!
//! None of them is in core. They sit where the real drivers and stores will be written, between a
//! node and the store, around the ring, in the clients: what a test that cannot find them there
//! says about core is worth nothing.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// What is due is decided by the node's own clock, which is fast.
    DueByNodeClock,
    /// A settle is applied to whatever lease the event is under.
    SettleWithoutToken,
    /// A fetch whose answer is lost is not repeated.
    FetchNotRepeated,
    /// A fetch whose answer is lost is repeated under another number.
    FetchRenumbered,
    /// A push whose answer is lost is repeated under another id.
    NewIdAfterUnknown,
    /// A full ring drops what does not fit.
    RingDrops,
    /// Handlers start on leases that are no longer fresh.
    GateIgnored,
    /// A node's trust in its lease counts from the answer and has no margin.
    FreshFromReceipt,
    /// A node takes its clock to be as fast as the store's.
    NoDriftAllowance,
    /// Ids are taken from the delay set in one step and published in another.
    SplitMove,
    /// A node is called silent as soon as it is seen.
    OneLookReaper,
    /// A cancel of a leased event answers that it is done.
    CancelOfLeasedIsDone,
    /// A cancel after a lost lease does not speak of it.
    CancelHidesLostLease,
    /// Handing back counts as an attempt.
    ReleaseCounts,
    /// A retry is due at once, whatever delay it asks for.
    RetryLosesDelay,
    /// One attempt more than allowed.
    AttemptTooMany,
    /// No heartbeats are sent.
    NoHeartbeat,
    /// A settle is answered before it is applied, and may get lost after.
    SettleAnsweredEarly,
    /// The store forgets its last second when it dies.
    StoreForgets,
    /// The word that there is earlier work is ignored.
    WakesIgnored,
    /// A stop forgets what is in the ring.
    StopForgetsRing,
    /// An event is published twice.
    PublishedTwice,
    /// A handler that fails is never heard of again.
    FailureSwallowed,
    /// That a member fell silent is never noticed.
    SuspicionForgotten,
    /// A bucket is read by its owner alone, and whoever died goes on owning.
    OwnerAloneReads,
    /// The rate of a queue is not heard of.
    RateIgnored,
    /// A bucket that comes while a node runs is not served.
    NewBucketIgnored,
}

impl Bug {
    pub const ALL: [Self; 27] = [
        Self::DueByNodeClock,
        Self::SettleWithoutToken,
        Self::FetchNotRepeated,
        Self::FetchRenumbered,
        Self::NewIdAfterUnknown,
        Self::RingDrops,
        Self::GateIgnored,
        Self::FreshFromReceipt,
        Self::NoDriftAllowance,
        Self::SplitMove,
        Self::OneLookReaper,
        Self::CancelOfLeasedIsDone,
        Self::CancelHidesLostLease,
        Self::ReleaseCounts,
        Self::RetryLosesDelay,
        Self::AttemptTooMany,
        Self::NoHeartbeat,
        Self::SettleAnsweredEarly,
        Self::StoreForgets,
        Self::WakesIgnored,
        Self::StopForgetsRing,
        Self::PublishedTwice,
        Self::FailureSwallowed,
        Self::SuspicionForgotten,
        Self::OwnerAloneReads,
        Self::RateIgnored,
        Self::NewBucketIgnored,
    ];
}
