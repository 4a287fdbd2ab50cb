//! Two failures in a row, of the same script or of any two: nothing is lost, and nothing is given twice.

use std::collections::{BTreeMap, BTreeSet};

use duly::EventId;
use duly::records::NodeId;
use duly::store::Store;
use duly::store::operation::{Reply, StoreOp};
use duly::time::{Timestamp, When};
use duly_conformance::store_contract::shapes::{Dues, Own, Shape};

use super::acts::{ACTS, Act, all};
use super::{AHEAD, Case, fetch, load, shape};
use crate::redis_store::faulty::{fail_after, has_failed};
use crate::redis_store::kit::{Bare, ID, fresh, hex, until};
use crate::servers::{Redis, shared};

/// Of so many writes each may fail, and of as many cases of an act and a shape.
const WRITES: usize = 14;
const CASES: usize = 3;

/// Whose fetch comes second.
const OTHER: NodeId = NodeId(8);

/// What is done while what has failed before it is not yet repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    /// The same once more.
    Same,
    MoveDue,
    Fetch,
    FetchFew,
    Push,
    Cancel,
    Reschedule,
    Update,
}

const SECONDS: [Second; 8] = [
    Second::Same,
    Second::MoveDue,
    Second::Fetch,
    Second::FetchFew,
    Second::Push,
    Second::Cancel,
    Second::Reschedule,
    Second::Update,
];

impl Second {
    async fn operation(self, case: &Case, first: &StoreOp) -> StoreOp {
        let ids = case.ids();
        let fetched = |limit| StoreOp::Fetch(fetch(OTHER, 1, limit, AHEAD));
        match self {
            Self::Same => first.clone(),
            Self::MoveDue => StoreOp::MoveDue {
                limit: 20,
                calls: false,
            },
            Self::Fetch => fetched(66),
            Self::FetchFew => fetched(5),
            Self::Push => StoreOp::Push(case.events.clone()),
            Self::Cancel => StoreOp::Cancel { id: ids[3] },
            Self::Reschedule => StoreOp::Reschedule {
                id: ids[5],
                when: When::Now,
            },
            Self::Update => case.operation(Act::Update, &ids).await,
        }
    }
}

/// Does something while the script fails after so many writes. Returns what was fetched.
async fn do_failing(
    (server, case): (&Redis, &Case),
    op: &StoreOp,
    writes: usize,
    what: &str,
) -> BTreeSet<EventId> {
    fail_after(server, writes);
    let reply = case.bare.apply(op.clone()).await;
    let has_failed = has_failed(server);
    match reply {
        Ok(reply) => fetched(&reply),
        Err(error) => {
            assert!(has_failed, "{what}: {error}");
            BTreeSet::new()
        }
    }
}

fn fetched(reply: &Reply) -> BTreeSet<EventId> {
    let Reply::Fetched(fetched) = reply else {
        return BTreeSet::new();
    };
    let ids: BTreeSet<_> = fetched.deliveries.iter().map(|it| it.id).collect();
    assert_eq!(ids.len(), fetched.deliveries.len(), "one is there twice");
    ids
}

/// Two scripts fail, and both are repeated, the second one first.
async fn is_right_after_two(
    server: &Redis,
    (shape, act): (Shape, Act),
    (first, second, then): (usize, Second, usize),
    wrong: &mut BTreeMap<String, String>,
) {
    let (case, op) = Case::prepared(&fresh(&server.url()).0, shape, act).await;
    let what =
        format!("{act:?} of {shape:?}, after {first} writes, {second:?} after {then} writes");
    let next = second.operation(&case, &op).await;
    let mut held = do_failing((server, &case), &op, first, &what).await;
    let mut of_second = do_failing((server, &case), &next, then, &what).await;
    for (op, its) in [(&next, &mut of_second), (&op, &mut held)] {
        let again = case.bare.apply(op.clone()).await;
        let again = again.unwrap_or_else(|error| panic!("{what}: the repeat: {error}"));
        its.extend(fetched(&again));
    }
    match act {
        Act::Reconcile => held.extend(&case.ids()[..10]),
        Act::Extend | Act::Heartbeat => held.extend(case.ids()),
        _ => {}
    }
    if second != Second::Same {
        let both: Vec<_> = held.intersection(&of_second).collect();
        let takes = matches!(act, Act::Fetch { .. } | Act::Expire);
        assert!(!takes || both.is_empty(), "{what}: given twice: {both:?}");
    }
    for its in case.wrong(act, &held).await {
        wrong.entry(its).or_insert_with(|| what.clone());
    }
    let leased: BTreeSet<_> = held.union(&of_second).copied().collect();
    case.is_whole(&leased, false, &what).await;
}

#[tokio::test]
async fn nothing_is_lost_by_two_failures_in_a_row() {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    let shapes: Vec<_> = Shape::all()
        .into_iter()
        .filter(|it| it.own != Own::EarlyExpiry)
        .collect();
    let plain = shape(Own::Nothing, Dues::Shared);
    let mut wrong = BTreeMap::new();
    for act in ACTS {
        let is_like = |shape: &Shape| match act {
            Act::Fetch { ahead, .. } => ahead != (shape.dues == Dues::Now),
            Act::Replace => shape.own == Own::UniqueKey,
            _ => true,
        };
        let like: Vec<_> = shapes.iter().copied().filter(is_like).collect();
        let one = like[fastrand::usize(..like.len())];
        let first = if is_like(&plain) { plain } else { one };
        let mut cases: Vec<_> = (0..WRITES)
            .flat_map(|first| SECONDS.map(|second| (first, second)))
            .flat_map(|(first, second)| (0..WRITES).map(move |then| (first, second, then)))
            .collect();
        fastrand::shuffle(&mut cases);
        if !all() {
            cases.truncate(CASES);
        }
        for shape in [first, one] {
            for case in &cases {
                is_right_after_two(&server, (shape, act), *case, &mut wrong).await;
            }
        }
    }
    assert!(wrong.is_empty(), "wrong until a check: {wrong:#?}");
}

/// A page in the delay set beside what calls that failed have left there: a member of a push that was
/// repeated in other groups, and, of a cancellation that fails after so many writes, events of the page.
async fn page_beside_leftovers(server: &Redis, cancel: usize) -> (Case, String) {
    let (url, prefix) = fresh(&server.url());
    let (mut case, _) = Case::prepared(&url, shape(Own::Nothing, Dues::Now), Act::Push).await;
    let run = case.bare.new_run(64);
    let due_us = case.bare.store.now_us() + 500_000; // what is due already waits elsewhere
    let due = When::At(Timestamp::from_micros_up(due_us));
    case.events = run.iter().map(|id| case.bare.plain(*id, due)).collect();
    let push = StoreOp::Push(case.events.clone());
    case.bare.apply(push).await.expect("a push");
    let delay = format!("{prefix}:{{letters:0}}:delay");
    let left = format!(
        "{ID} local due = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] \
         return redis.call('ZADD', KEYS[1], due, id .. string.char(30))"
    );
    let added = server.cli(&["EVAL", &left, "1", &delay, &hex(run[0])]);
    assert_eq!(added.trim(), "1");
    let cancellation = StoreOp::Cancel { id: run[3] };
    do_failing((server, &case), &cancellation, cancel, "a cancellation").await;
    until("they are due", async || {
        case.bare.store.now_us() > due_us + 1_000
    })
    .await;
    (case, prefix)
}

#[tokio::test]
async fn a_page_that_is_opened_loses_no_event_to_what_calls_that_failed_have_left() {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    for cancel in 0..7 {
        let what = format!("a cancellation after {cancel} writes");
        let (case, _) = page_beside_leftovers(&server, cancel).await;
        let moved = StoreOp::MoveDue {
            limit: 20, // there is no room for the page
            calls: false,
        };
        case.bare.apply(moved).await.expect("a move");
        let wrong = case.wrong(Act::MoveDue, &BTreeSet::new()).await;
        assert!(wrong.is_empty(), "{what}: {wrong:?}");
        case.is_whole(&BTreeSet::new(), true, &what).await;
    }
    // A fetch opens a page whose body is damaged: the last of its events has none.
    for cancel in 0..3 {
        let what = format!("a damaged page, a cancellation after {cancel} writes");
        let (case, prefix) = page_beside_leftovers(&server, cancel).await;
        let run = case.ids();
        let key = format!("{prefix}:{{letters:0}}:body");
        let damage = format!(
            "{ID} local body = redis.call('HGET', KEYS[1], id .. 'p') \
             return redis.call('HSET', KEYS[1], id .. 'p', body:sub(1, -2))"
        );
        server.cli(&["EVAL", &damage, "1", &key, &hex(run[0])]);
        let mut leased = BTreeSet::new();
        for request in 1..100 {
            let op = StoreOp::Fetch(fetch(OTHER, request, 1, AHEAD));
            let its = fetched(&case.bare.apply(op).await.expect("a fetch"));
            assert!(its.is_disjoint(&leased), "{what}: {its:?} twice");
            leased.extend(its);
        }
        let all: BTreeSet<_> = run[..63].iter().copied().collect();
        assert!(leased.is_superset(&all), "{what}: {leased:?}");
    }
}

/// Of a push that failed, and was repeated in other groups and for another time.
#[tokio::test]
async fn a_member_that_a_push_has_left_moves_no_part_within_it() {
    let (url, prefix) = fresh(&shared().url());
    let bare = Bare::open(&url).await;
    let run = bare.new_run(30);
    let event = |id| bare.plain(id, When::After(AHEAD));
    let events = run.iter().copied().map(event).collect();
    bare.apply(StoreOp::Push(events)).await.expect("a push");
    let delay = format!("{prefix}:{{letters:0}}:delay");
    let left = format!("{ID} return redis.call('ZADD', KEYS[1], 1, id .. string.char(64))");
    let added = shared().cli(&["EVAL", &left, "1", &delay, &hex(run[0])]);
    assert_eq!(added.trim(), "1");
    let moved = bare.typed(StoreOp::move_due(100, false)).await;
    assert_eq!(moved.expect("a move").moved, 0);
    let stats = bare.typed(StoreOp::stats()).await.expect("counts");
    assert_eq!((stats.scheduled, stats.ready), (30, 0));
}
