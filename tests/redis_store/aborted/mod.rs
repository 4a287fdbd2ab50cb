//! Scripts that fail after each of their writes: a repeat is right, no event is leased twice or lost,
//! and what is left is found and repaired by the check.
//!
//! `DULY_REDIS_ABORTS=all` takes each write of those that have many, and each shape.

mod acts;
mod covered;
mod dropped;
mod hub;
mod left;
mod shared;
mod twice;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duly::Unique;
use duly::event::Payload;
use duly::prelude::*;
use duly::records::{Cause, NodeId};
use duly::store::Store;
use duly::store::operation::{
    AttemptOutcome, DeadLetterEdit, FailureReason, Fetch, Holding, NewEvent, Reply, Rewriting,
    Settlement, StartMark, StoreOp,
};
use duly::time::When;
use duly_conformance::store_contract::shapes::{Dues, Own, Shape};

use crate::redis_store::aborted::acts::{ACTS, Act, WRITES_MAX, all, cases};
use crate::redis_store::aborted::covered::OF_BUCKETS;
use crate::redis_store::faulty::{aborted, fail_after, has_failed, load};
use crate::redis_store::kit::{Bare, NODE, fresh, until};
use crate::servers::Redis;

/// So many events are pushed for each case: more than one page.
const COUNT: u64 = 70;

struct Case {
    bare: Bare,
    events: Vec<NewEvent>,
    /// Those that the act itself pushes.
    others: Vec<EventId>,
}

fn fetch(node: NodeId, request: u64, limit: usize, ahead: Duration) -> Fetch {
    Fetch {
        node,
        request,
        limit,
        ahead,
        ahead_limit: if ahead.is_zero() { 0 } else { limit },
        hold: None,
        starts: usize::MAX,
    }
}

fn failed() -> FailureReason {
    FailureReason {
        cause: Cause::Failed,
        error: None,
    }
}

const AHEAD: Duration = Duration::from_secs(3_600);

impl Case {
    fn ids(&self) -> Vec<EventId> {
        self.events.iter().map(|it| it.envelope.id).collect()
    }

    /// Prepares what an act needs. Returns it as an operation.
    async fn prepared(url: &str, shape: Shape, act: Act) -> (Self, StoreOp) {
        let bare = Bare::open(url).await;
        let now = duly::time::Timestamp::from_micros_up(bare.store.now_us());
        let mut events = shape.events(&bare.bucket, now, fastrand::u64(..1 << 40) * 64, COUNT);
        if matches!(act, Act::MoveDue) {
            for event in &mut events {
                event.when = When::After(Duration::from_millis(1));
            }
        }
        if matches!(act, Act::Expire | Act::Count) {
            for event in events.iter_mut().step_by(3) {
                let envelope = std::sync::Arc::make_mut(&mut event.envelope);
                envelope.expires = Some(now + Duration::from_millis(300));
            }
        }
        let mut case = Self {
            bare,
            events,
            others: Vec::new(),
        };
        let (bare, ids) = (&case.bare, case.ids());
        if !matches!(act, Act::Push) {
            bare.apply(StoreOp::Push(case.events.clone()))
                .await
                .expect("a push");
        }
        let ahead = match act {
            Act::Fetch { ahead: false, .. } => Duration::ZERO,
            _ => AHEAD,
        };
        let hold = match act {
            Act::Extend | Act::Settle { hold: true } => Some(AHEAD),
            Act::CountOverdue => Some(Duration::from_millis(300)),
            _ => None,
        };
        if matches!(
            act,
            Act::Settle { .. }
                | Act::Reap
                | Act::Reconcile
                | Act::Revive
                | Act::EditAndRevive
                | Act::Drop
                | Act::Heartbeat
        ) || hold.is_some()
        {
            let mut fetch = fetch(NODE, 1, 1_000, ahead);
            fetch.hold = hold;
            let op = StoreOp::fetch(fetch);
            let all = bare.typed(op).await.expect("a fetch");
            assert_eq!(all.deliveries.len(), ids.len(), "{shape:?} {act:?}");
        }
        let op = case.operation(act, &ids).await;
        if let (Act::Replace, StoreOp::Push(events)) = (act, &op) {
            case.others = events.iter().map(|it| it.envelope.id).collect();
        }
        (case, op)
    }

    async fn operation(&self, act: Act, ids: &[EventId]) -> StoreOp {
        let bare = &self.bare;
        let settle = |verdict: &dyn Fn(usize) -> AttemptOutcome| {
            let settlements = ids.iter().enumerate().map(|(at, id)| Settlement {
                id: *id,
                request: 1,
                verdict: verdict(at),
                started_us: 1,
                fetched_us: 1,
            });
            StoreOp::Settle {
                node: NODE,
                settlements: settlements.collect(),
                started: StartMark::default(),
            }
        };
        match act {
            Act::Push => StoreOp::Push(self.events.clone()),
            Act::Replace => {
                let mut events = self.events[..9].to_vec();
                for event in &mut events {
                    let envelope = std::sync::Arc::make_mut(&mut event.envelope);
                    envelope.id = bare.new_id();
                    event.on_taken = Unique::Replace;
                }
                StoreOp::Push(events)
            }
            Act::MoveDue => {
                let due_us = bare.store.now_us() + 3_000;
                until("all are due", async || bare.store.now_us() > due_us).await;
                StoreOp::MoveDue {
                    limit: 40,
                    calls: false,
                }
            }
            Act::Fetch { limit, ahead, hold } => {
                let ahead = if ahead { AHEAD } else { Duration::ZERO };
                let mut fetch = fetch(NODE, 1, limit, ahead);
                fetch.hold = hold.then_some(AHEAD);
                StoreOp::Fetch(fetch)
            }
            Act::Settle { .. } => settle(&|at| match at % 8 {
                1 => AttemptOutcome::Retry(Duration::ZERO, failed()),
                2 => AttemptOutcome::Release,
                3 => AttemptOutcome::Bury(failed()),
                4 => AttemptOutcome::Snooze(Duration::from_secs(60)),
                5 => AttemptOutcome::Discard(None),
                _ => AttemptOutcome::Ack,
            }),
            Act::Cancel => StoreOp::Cancel { id: ids[3] },
            Act::Reschedule(when) => StoreOp::Reschedule { id: ids[3], when },
            Act::Update => StoreOp::Update {
                id: ids[3],
                payload: Payload::from(&b"another"[..]),
                by: None,
                dead_only: false,
            },
            Act::Rewrite => {
                let events = self.events.iter().step_by(7);
                let rewritings = events.map(|it| Rewriting {
                    id: it.envelope.id,
                    was: it.envelope.fingerprint(),
                    payload: Payload::from(&b"in another form"[..]),
                });
                StoreOp::Rewrite(rewritings.collect())
            }
            Act::Reap => {
                let look = StoreOp::Reap {
                    silent: Vec::new(),
                    limit: 0,
                };
                let Ok(Reply::Reaped(seen)) = bare.apply(look).await else {
                    panic!("a reap is answered as one");
                };
                StoreOp::Reap {
                    silent: seen.holders,
                    limit: 1_000,
                }
            }
            Act::Reconcile => StoreOp::Reconcile {
                node: NODE,
                from: 0,
                through: 9,
                held: vec![(1, ids[..10].to_vec())],
                started: StartMark::default(),
                limit: 1_000,
            },
            Act::Expire | Act::Count | Act::CountOverdue => {
                let over_us = bare.store.now_us() + 301_000; // expiries and leases as well
                until("some are over", async || bare.store.now_us() > over_us).await;
                match act {
                    Act::Expire => StoreOp::Fetch(fetch(NODE, 1, 1_000, AHEAD)),
                    _ => StoreOp::Stats,
                }
            }
            Act::Extend => StoreOp::Extend {
                node: NODE,
                leases: ids.iter().map(|id| (*id, 1)).collect(),
                hold: AHEAD * 2,
            },
            Act::Heartbeat => StoreOp::Heartbeat {
                node: NODE,
                holds: Holding {
                    leases: ids.len(),
                    last: 1,
                },
                started: StartMark {
                    request: 1,
                    leases: 30,
                },
            },
            Act::Revive | Act::EditAndRevive | Act::Drop => {
                let bury = settle(&|_| AttemptOutcome::Bury(failed()));
                bare.apply(bury).await.expect("a settle");
                let (ids, by) = (ids.to_vec(), None);
                match act {
                    Act::EditAndRevive => StoreOp::EditAndRevive(DeadLetterEdit {
                        id: ids[3],
                        was: self.events[3].envelope.fingerprint(),
                        payload: Payload::from(&b"as it was meant"[..]),
                        by,
                    }),
                    Act::Revive => StoreOp::Revive { ids, by },
                    _ => StoreOp::Drop { ids, by },
                }
            }
        }
    }
}

impl Case {
    /// Checks the reply to an act that was done, or repeated, and what is left of it.
    async fn is_right(
        &self,
        act: Act,
        reply: &Reply,
        (what, wrong): (&str, &mut BTreeMap<String, String>),
    ) {
        let mut held = BTreeSet::new();
        if let Reply::Fetched(fetched) = reply {
            let ids = fetched.deliveries.iter().map(|it| it.id);
            held.extend(ids);
            assert_eq!(
                held.len(),
                fetched.deliveries.len(),
                "{what}: one is there twice"
            );
        }
        if let (Act::Settle { .. }, Reply::Settled(stood)) = (act, reply) {
            // What was handed back is the next one's already, and only that is not said again.
            assert!(
                stood.iter().filter(|it| **it).count() >= stood.len() / 2,
                "{what}"
            );
        }
        match act {
            Act::Reconcile => held.extend(&self.ids()[..10]),
            Act::Extend | Act::Heartbeat => held.extend(self.ids()),
            _ => {}
        }
        if let Reply::Extended(stood) = reply {
            assert!(stood.iter().all(|it| *it), "{what}");
        }
        for its in self.wrong(act, &held).await {
            wrong.entry(its).or_insert_with(|| what.to_owned());
        }
        let moves = matches!(act, Act::MoveDue);
        self.is_whole(&held, moves, what).await;
    }
}

async fn is_right_after_each_write(
    server: &Redis,
    (shape, act): (Shape, Act),
    wrong: &mut BTreeMap<String, String>,
) -> usize {
    for writes in cases() {
        let (case, op) = Case::prepared(&fresh(&server.url()).0, shape, act).await;
        let what = format!("{act:?} of {shape:?}, after {writes} writes");
        fail_after(server, writes);
        let first = case.bare.apply(op.clone()).await;
        let has_failed = has_failed(server);
        let reply = match first {
            Ok(reply) => reply,
            Err(error) => {
                assert!(has_failed, "{what}: {error}");
                let again = case.bare.apply(op.clone()).await;
                again.unwrap_or_else(|error| panic!("{what}: the repeat: {error}"))
            }
        };
        case.is_right(act, &reply, (&what, wrong)).await;
        if !has_failed {
            return writes;
        }
    }
    panic!("{act:?} writes more than {WRITES_MAX} times");
}

#[tokio::test]
async fn a_script_that_fails_after_any_of_its_writes_is_repeated() {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    let plain = |dues| shape(Own::Nothing, dues);
    let shapes = [
        plain(Dues::Now),
        plain(Dues::Shared),
        plain(Dues::Each),
        shape(Own::UniqueKey, Dues::Now),
        shape(Own::Mixed, Dues::Shared),
    ];
    // What expires by itself may do so in the middle; [`Act::Expire`] gives each an expiry.
    let others = Shape::all()
        .into_iter()
        .filter(|it| it.own != Own::EarlyExpiry);
    let others: Vec<_> = others.collect();
    let (mut writes, mut wrong) = (0, BTreeMap::new());
    for act in ACTS {
        let is_like = |shape: &Shape| match act {
            Act::Fetch { ahead, .. } => ahead != (shape.dues == Dues::Now),
            Act::Replace => shape.own == Own::UniqueKey,
            _ => true,
        };
        let is_first = |shape: &Shape| match act {
            Act::Fetch { .. } | Act::Push | Act::Settle { .. } | Act::Replace => is_like(shape),
            Act::Extend | Act::Heartbeat => shape.dues == Dues::Now,
            _ => shape.own != Own::UniqueKey && shape.dues != Dues::Each,
        };
        let first: Vec<_> = shapes.into_iter().filter(is_first).collect();
        let others: Vec<_> = others.iter().copied().filter(is_like).collect();
        let one = |some: &[Shape]| vec![some[fastrand::usize(..some.len())]];
        let of = |some: &[Shape]| if all() { some.to_vec() } else { one(some) };
        for shape in of(&first).into_iter().chain(of(&others)) {
            writes += is_right_after_each_write(&server, (shape, act), &mut wrong).await;
        }
    }
    assert!(wrong.is_empty(), "wrong until a check: {wrong:#?}");
    assert!(writes > 200, "only {writes} writes were seen to fail");
    assert_eq!(aborted(&server), OF_BUCKETS);
}

fn shape(own: Own, dues: Dues) -> Shape {
    let all = Shape::all().into_iter();
    let mut like = all.filter(|shape| (shape.own, shape.dues) == (own, dues) && shape.in_runs);
    like.next().expect("it is there")
}
