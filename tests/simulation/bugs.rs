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
    /// A push that is refused as too old after its answer was lost is pushed under a new id.
    RenewsAfterUnknown,
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
    /// A node starts what it has not announced: what it says of starts is never sent.
    StartsUnannounced,
    /// The store forgets on how many leases of a fetch handlers may start.
    FetchedStartsForgotten,
    /// A node says what it holds, and nothing is handed back by it.
    OrphansKept,
    /// A lease that was not renewed in time is said to be lost.
    LapseIsCalledLoss,
    /// A settle is answered before it is applied, and may get lost after.
    SettleAnsweredEarly,
    /// The store forgets its last second when it dies.
    StoreForgets,
    /// The word that a node has no room is not heard.
    CallsUnheard,
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
    /// A deadline of a lease is counted from the answer of the fetch.
    HoldCountsFromReceipt,
    /// Leases with a deadline of their own are never taken back.
    HoldsForgotten,
    /// They are taken back after half of their time.
    HoldsCut,
    /// A lease is said to be extended, and its deadline stays.
    ExtendIgnored,
    /// A lease that is over is said to be extended.
    ExtendWithoutToken,
    /// A store that has failed goes on to accept pushes.
    AcknowledgesAfterFailure,
    /// A store that has failed goes on to hand out events.
    ReadsAfterFailure,
    /// A node takes a store that has failed for one that cannot be reached.
    DoubtIgnored,
    /// A push that finds no room is refused after it was stored.
    FullIsLate,
    /// A push that finds no room is accepted and forgotten.
    FullIsAccepted,
    /// A full store refuses everything.
    FullStopsAll,
    /// A push whose id is too old is called accepted.
    TooOldIsAccepted,
    /// A unique key is overlooked now and then.
    UniqueOverlooked,
    /// A bucket remembers half as many finished ids as it should.
    RemembersLess,
    /// A bucket remembers finished ids for half as long as it should.
    RemembersShorter,
    /// A full ring holds up the others.
    OneRingBlocksAll,
    /// All queues of a node share the workers of the smallest.
    SharedWorkers,
    /// The calls of a node wait for each other, and one bucket is slow.
    OneLine,
    /// A handler that hangs is left alone.
    NeverTimedOut,
    /// A node that starts serves no bucket but those of now.
    UsedBucketsForgotten,
    /// The roll says that every node consumes every queue.
    AllServeAll,
    /// Versions of the orders are counted, and nobody registers again what a failover lost.
    VersionsRepeat,
    /// A record is lost on its way.
    RecordLost,
    /// A record is written twice.
    RecordTwice,
    /// A due time is cut to whole milliseconds.
    DueRoundedDown,
    /// Handlers start while the node stops.
    StartsWhileStopping,
    /// A node that is refused something never asks that bucket again.
    RefusalsAreForEver,
}

impl Bug {
    pub const ALL: [Self; 60] = [
        Self::DueByNodeClock,
        Self::SettleWithoutToken,
        Self::FetchNotRepeated,
        Self::FetchRenumbered,
        Self::NewIdAfterUnknown,
        Self::RenewsAfterUnknown,
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
        Self::StartsUnannounced,
        Self::FetchedStartsForgotten,
        Self::OrphansKept,
        Self::LapseIsCalledLoss,
        Self::SettleAnsweredEarly,
        Self::StoreForgets,
        Self::CallsUnheard,
        Self::WakesIgnored,
        Self::StopForgetsRing,
        Self::PublishedTwice,
        Self::FailureSwallowed,
        Self::SuspicionForgotten,
        Self::OwnerAloneReads,
        Self::RateIgnored,
        Self::NewBucketIgnored,
        Self::HoldCountsFromReceipt,
        Self::HoldsForgotten,
        Self::HoldsCut,
        Self::ExtendIgnored,
        Self::ExtendWithoutToken,
        Self::AcknowledgesAfterFailure,
        Self::ReadsAfterFailure,
        Self::DoubtIgnored,
        Self::FullIsLate,
        Self::FullIsAccepted,
        Self::FullStopsAll,
        Self::TooOldIsAccepted,
        Self::UniqueOverlooked,
        Self::RemembersLess,
        Self::RemembersShorter,
        Self::OneRingBlocksAll,
        Self::SharedWorkers,
        Self::OneLine,
        Self::NeverTimedOut,
        Self::UsedBucketsForgotten,
        Self::AllServeAll,
        Self::VersionsRepeat,
        Self::RecordLost,
        Self::RecordTwice,
        Self::DueRoundedDown,
        Self::StartsWhileStopping,
        Self::RefusalsAreForEver,
    ];

    /// What keeps a bug from breaking anything, where there is a second defence.
    pub fn masked_by(self) -> Option<&'static str> {
        match self {
            Self::StartsWhileStopping => {
                Some("a node's machines publish nothing once they were told to stop")
            }
            Self::CallsUnheard => {
                Some("the next in line looks a tenth of a second after the due time in any case")
            }
            _ => None,
        }
    }
}
