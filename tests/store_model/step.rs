//! Random steps; what each one is in a world is decided when that world is reached.

use std::time::Duration;

use duly::LatePolicy;
use duly::records::{Cause, NodeId};
use duly::store::operation::{AttemptOutcome, FailureReason, RequestId, StartMark};
use duly::time::{Timestamp, When};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::store_model::machine::START_MS;
use crate::store_model::number;

#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) delay_ms: u64,
    pub(crate) attempts: u16,
    pub(crate) unique: Option<u8>,
    pub(crate) replace: bool,
    /// For how long its unique key stays taken when it is done.
    pub(crate) unique_for_ms: Option<u64>,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) late: LatePolicy,
    /// Whether its records keep its payload, and whether it belongs to a trace.
    pub(crate) tells: (bool, bool),
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Advance {
        us: u64,
    },
    SetBack {
        ms: u64,
    },
    /// The wall clock is wrong by that from now on; 0: it is right again.
    Glitch {
        us: i64,
    },
    Push(Vec<Draft>),
    /// So many with one delay that have nothing of their own.
    PushPlain {
        count: usize,
        delay_ms: u64,
    },
    /// So many of one of the shapes of load.
    PushShape(Index, usize),
    PushAgain(Index, bool),
    MoveDue(usize),
    Fetch {
        node: u64,
        back: u64,
        limit: usize,
        ahead_ms: u64,
        ahead_limit: usize,
        hold_ms: Option<u64>,
        starts: usize,
    },
    Settle(Vec<(Index, AttemptOutcome)>, bool, Mark),
    Heartbeat(u64, Mark),
    /// What a node says that it holds of its last fetches, and how many it may hand back.
    Reconcile(u64, Vec<Index>, u64, usize, Mark),
    Extend(Vec<Index>, u64),
    Reap(Option<Index>, usize),
    ReapAll,
    Cancel(Index),
    Reschedule(Index, When),
    Update(Index, u8),
    EditAndRevive(Index, u8),
    /// As its payload was when it was pushed.
    Rewrite(Index, u8),
    Get(Index),
    /// A whole pass, in pages of so many.
    Peek(usize),
    /// All of a key, or of a unique key, in pages of so many.
    Find(u8, bool, usize),
    ReadDead(Option<Index>, usize),
    Revive(Vec<Index>),
    Drop(Vec<Index>),
    Stats,
    Forecast(Vec<u64>),
    /// The process ends and comes back; only for stores that survive it.
    Reopen,
}

/// How far the handlers of a node may have started: in how old a fetch, and how many of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64, usize);

impl Mark {
    /// That, where these are the last requests of the nodes.
    pub(crate) fn of(self, requests: &[RequestId; 2], node: NodeId) -> StartMark {
        let last = requests[usize::try_from(node.0 - 1).expect("small")];
        StartMark {
            request: last.saturating_sub(self.0),
            leases: self.1,
        }
    }
}

fn marks() -> impl Strategy<Value = Mark> {
    (0..3_u64, 0..4_usize).prop_map(|(back, leases)| Mark(back, leases))
}

fn delays() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 3 => 1..40_u64, 1 => Just(9_000)]
}

fn drafts() -> impl Strategy<Value = Draft> {
    let late = prop_oneof![
        4 => Just(LatePolicy::Deliver),
        1 => (0..20_u64).prop_map(|ms| LatePolicy::Expire(Duration::from_millis(ms))),
        1 => (0..20_u64).prop_map(|ms| LatePolicy::Bury(Duration::from_millis(ms))),
    ];
    let unique = prop::option::weighted(0.4, 0..2_u8);
    let expires = prop::option::weighted(0.2, 0..60_u64);
    let tells = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let unique_for = prop::option::weighted(0.4, 0..60_u64);
    let plain = (delays(), 1..4_u16, unique, any::<bool>(), unique_for);
    (plain, expires, late, tells).prop_map(
        |((delay_ms, attempts, unique, replace, unique_for_ms), expires_ms, late, tells)| Draft {
            delay_ms,
            attempts,
            unique,
            replace,
            unique_for_ms,
            expires_ms,
            late,
            tells,
        },
    )
}

fn verdicts() -> impl Strategy<Value = AttemptOutcome> {
    let failing = || FailureReason {
        cause: Cause::Failed,
        error: Some("it failed".into()),
    };
    let too_late = || FailureReason {
        cause: Cause::TooLate,
        error: None,
    };
    prop_oneof![
        3 => Just(AttemptOutcome::Ack),
        3 => delays().prop_map(move |ms| AttemptOutcome::Retry(Duration::from_millis(ms), failing())),
        1 => delays().prop_map(|ms| AttemptOutcome::Snooze(Duration::from_millis(ms))),
        1 => Just(AttemptOutcome::Bury(failing())),
        1 => Just(AttemptOutcome::Bury(too_late())),
        1 => Just(AttemptOutcome::Discard(Some("of no use".into()))),
        1 => Just(AttemptOutcome::Expire),
        3 => Just(AttemptOutcome::Release),
        2 => (0..4_u8).prop_map(|free| AttemptOutcome::Interrupt { free }),
    ]
}

/// A wall clock that is wrong by up to a day, forward or back, or right again.
pub(crate) fn glitches() -> impl Strategy<Value = Step> {
    const DAY_US: i64 = 86_400_000_000;
    let sizes = prop_oneof![
        2 => Just(0),
        1 => -2_000_000..2_000_000_i64,
        1 => -DAY_US..DAY_US,
    ];
    sizes.prop_map(|us| Step::Glitch { us })
}

pub(crate) fn steps() -> impl Strategy<Value = Step> {
    let batch = number("DULY_MODEL_BATCH").unwrap_or(200_usize).max(61);
    let acks = if batch > 200 { batch } else { 12 };
    let fetched = if batch > 200 { batch } else { 30 };
    let index = any::<Index>;
    let some = || prop::collection::vec(any::<Index>(), 0..4);
    let whens = prop_oneof![
        Just(When::Now),
        (0..50_u64).prop_map(|ms| When::After(Duration::from_millis(ms))),
        (0..90_000_u64).prop_map(|ms| When::At(Timestamp::from_millis(START_MS + ms))),
    ];
    let holds = prop::option::weighted(0.25, 1..30_u64);
    prop_oneof![
        8 => (0..30_000_u64).prop_map(|us| Step::Advance { us }),
        1 => (0..3_000_000_u64).prop_map(|us| Step::Advance { us }),
        1 => (0..50_u64).prop_map(|ms| Step::SetBack { ms }),
        8 => prop::collection::vec(drafts(), 1..4).prop_map(Step::Push),
        6 => (prop_oneof![9 => 1..10_usize, 1 => 60..=batch], prop_oneof![1 => Just(0), 1 => 0..60_u64])
            .prop_map(|(count, delay_ms)| Step::PushPlain { count, delay_ms }),
        3 => (index(), prop_oneof![9 => 1..20_usize, 1 => 60..=batch])
            .prop_map(|(of, count)| Step::PushShape(of, count)),
        2 => (index(), any::<bool>()).prop_map(|(of, same)| Step::PushAgain(of, same)),
        4 => prop_oneof![2 => 0..5_usize, 1 => 5..=fetched].prop_map(Step::MoveDue),
        10 => (0..2_u64, prop_oneof![5 => Just(0), 1 => 1..4_u64], prop_oneof![3 => 0..5_usize, 1 => 5..=fetched], 0..40_u64, prop_oneof![2 => 0..3_usize, 1 => 3..30_usize], holds,
                prop_oneof![0..4_usize, Just(usize::MAX)])
            .prop_map(|(node, back, limit, ahead_ms, ahead_limit, hold_ms, starts)| Step::Fetch {
                node, back, limit, ahead_ms, ahead_limit, hold_ms, starts,
            }),
        10 => (prop::collection::vec((index(), verdicts()), 1..5), any::<bool>(), marks())
            .prop_map(|(ends, swap, mark)| Step::Settle(ends, swap, mark)),
        5 => (prop::collection::vec((index(), Just(AttemptOutcome::Ack)), 1..acks), any::<bool>(), marks())
            .prop_map(|(ends, swap, mark)| Step::Settle(ends, swap, mark)),
        2 => (0..2_u64, marks()).prop_map(|(node, mark)| Step::Heartbeat(node, mark)),
        2 => (0..2_u64, some(), 0..4_u64, 0..4_usize, marks())
            .prop_map(|(node, of, back, limit, mark)| Step::Reconcile(node, of, back, limit, mark)),
        1 => (some(), 1..40_u64).prop_map(|(of, ms)| Step::Extend(of, ms)),
        3 => (prop::option::of(index()), 0..3_usize).prop_map(|(of, limit)| Step::Reap(of, limit)),
        2 => Just(Step::ReapAll),
        2 => index().prop_map(Step::Cancel),
        2 => (index(), whens).prop_map(|(of, when)| Step::Reschedule(of, when)),
        2 => (index(), 0..3_u8).prop_map(|(of, payload)| Step::Update(of, payload)),
        2 => (index(), 0..3_u8).prop_map(|(of, payload)| Step::EditAndRevive(of, payload)),
        1 => (index(), 0..3_u8).prop_map(|(of, payload)| Step::Rewrite(of, payload)),
        1 => index().prop_map(Step::Get),
        1 => (1..4_usize).prop_map(Step::Peek),
        1 => (0..3_u8, any::<bool>(), 1..4_usize)
            .prop_map(|(key, unique, limit)| Step::Find(key, unique, limit)),
        1 => (prop::option::of(index()), 0..4_usize)
            .prop_map(|(after, limit)| Step::ReadDead(after, limit)),
        2 => some().prop_map(Step::Revive),
        1 => some().prop_map(Step::Drop),
        1 => Just(Step::Stats),
        1 => prop::collection::vec(0..10_000_u64, 1..8).prop_map(|mut spans| {
            spans.sort_unstable();
            Step::Forecast(spans)
        }),
    ]
}
