//! How long a script keeps its server, whatever the shape of the load: alike and unlike events, each
//! with its own due time, cancelled, failing, handed back, and few of many left.
//!
//! `DULY_BUSY_EVENTS` takes more events of each shape than 2,000.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duly::ErrorKind;
use duly::event::Payload;
use duly::records::{Cause, NodeId};
use duly::store::operation::{
    AttemptOutcome, BATCH_MAX, Delivery, FailureReason, Fetch, NewEvent, PeekBy, Reply, Rewriting,
    Settlement, StartMark, StoreOp,
};
use duly::store::{CheckTask, Store};
use duly::time::{Timestamp, When};
use duly_conformance::store_contract::shapes::Shape;
use futures_util::future::join_all;

use crate::redis_store::busy::{assert_none_is_slow, slow_of};
use crate::redis_store::kit::{Bare, NODE, fresh, until};
use crate::redis_store::meter::Meter;
use crate::servers::Redis;

/// So many callers push at a time.
const CALLERS: usize = 64;
/// A node whose leases have deadlines.
const PULLER: NodeId = NodeId(8);
/// Further ahead than any due time.
const AHEAD: Duration = Duration::from_secs(600);

struct Load<'a, 's> {
    meter: &'a mut Meter<'s>,
    bare: Bare,
    shape: Shape,
    request: u64,
    /// What its leases have: a deadline of their own, or none.
    hold: Option<Duration>,
    /// Events that were made so far.
    made: u64,
}

impl Load<'_, '_> {
    async fn push(&mut self, count: usize) -> Vec<NewEvent> {
        self.push_expiring(count, |_| None).await
    }

    /// Pushes events of which some expire after a while, by their places.
    async fn push_expiring(
        &mut self,
        count: usize,
        expires_after: impl Fn(usize) -> Option<Duration>,
    ) -> Vec<NewEvent> {
        let bare = &self.bare;
        let created = Timestamp::from_micros_up(bare.store.now_us());
        let shape = self.shape;
        let mut events = shape.events(&bare.bucket, created, self.made, count as u64);
        for (at, event) in events.iter_mut().enumerate() {
            if let Some(after) = expires_after(at) {
                Arc::make_mut(&mut event.envelope).expires = Some(created + after);
            }
        }
        self.made += count.next_multiple_of(64) as u64;
        let pushes = async {
            let calls: Vec<_> = events.chunks(self.shape.at_once).collect();
            for some in calls.chunks(CALLERS) {
                let push = |events: &&[NewEvent]| bare.apply(StoreOp::Push(events.to_vec()));
                for pushed in join_all(some.iter().map(push)).await {
                    pushed.expect("a push");
                }
            }
        };
        self.meter.step(pushes).await;
        events
    }

    async fn does(&mut self, ops: impl IntoIterator<Item = StoreOp>) -> Vec<Reply> {
        let bare = &self.bare;
        let all = async {
            let mut replies = Vec::new();
            for op in ops {
                replies.push(bare.apply(op).await.expect("an operation"));
            }
            replies
        };
        self.meter.step(all).await
    }

    /// Fetches as many as are there.
    async fn fetch(&mut self, node: NodeId, count: usize, limit: usize) -> Vec<Delivery> {
        let mut held = Vec::new();
        while held.len() < count {
            self.request += 1;
            let fetch = Fetch {
                node,
                request: self.request,
                limit,
                ahead: AHEAD,
                ahead_limit: limit,
                hold: self.hold,
                starts: usize::MAX,
            };
            match &mut self.does([StoreOp::Fetch(fetch)]).await[..] {
                [Reply::Fetched(fetched)] if !fetched.deliveries.is_empty() => {
                    held.append(&mut fetched.deliveries);
                }
                [Reply::Fetched(_)] => break,
                other => panic!("a fetch is answered as one: {other:?}"),
            }
        }
        held
    }

    async fn settle(
        &mut self,
        held: &[Delivery],
        verdict: impl Fn(usize) -> Option<AttemptOutcome>,
    ) {
        let settlements = held.iter().enumerate().filter_map(|(at, delivery)| {
            Some(Settlement {
                id: delivery.id,
                request: delivery.request,
                verdict: verdict(at)?,
                started_us: 1,
                fetched_us: 1,
            })
        });
        let settlements: Vec<_> = settlements.collect();
        let node = if self.hold.is_some() { PULLER } else { NODE };
        let started = StartMark::default();
        let calls = settlements.chunks(BATCH_MAX).map(|some| StoreOp::Settle {
            node,
            settlements: some.to_vec(),
            started,
        });
        self.does(calls.collect::<Vec<_>>()).await;
    }

    /// Takes back everything of the node.
    async fn reap(&mut self) {
        let mut silent = Vec::new();
        loop {
            let limit = BATCH_MAX;
            let silent_now = std::mem::take(&mut silent);
            let reap = StoreOp::Reap {
                silent: silent_now,
                limit,
            };
            match self.does([reap]).await.remove(0) {
                Reply::Reaped(it) if it.more || !it.holders.is_empty() => silent = it.holders,
                _ => return,
            }
        }
    }
}

/// Every operation over events of a shape.
async fn every_script(load: &mut Load<'_, '_>, count: usize) {
    let events = load.push(count).await;
    // As a producer that has heard nothing does.
    let again = events.chunks(BATCH_MAX);
    load.does(again.map(|some| StoreOp::Push(some.to_vec())))
        .await;
    let within: Vec<_> = (0..1_000).map(|at| Duration::from_millis(at * 7)).collect();
    let looks = [
        StoreOp::Stats,
        StoreOp::Forecast { within },
        StoreOp::Peek {
            by: PeekBy::All,
            from: None,
            limit: BATCH_MAX,
        },
    ];
    load.does(looks).await;

    // One of each page is written anew, cancelled, and moved.
    let rewriting = |it: &NewEvent| Rewriting {
        id: it.envelope.id,
        was: it.envelope.fingerprint(),
        payload: Payload::from(&b"in another form"[..]),
    };
    let some = events.iter().step_by(64).map(rewriting).collect();
    load.does([StoreOp::Rewrite(some)]).await;
    let (changed, kept) = events.split_at(count / 2);
    let ids = changed.iter().map(|it| it.envelope.id);
    let changes = ids.enumerate().filter_map(|(at, id)| match at % 16 {
        1 | 3 | 5 | 7 => Some(StoreOp::Cancel { id }),
        2 => Some(StoreOp::Reschedule {
            id,
            when: When::Now,
        }),
        _ => None,
    });
    load.does(changes.collect::<Vec<_>>()).await;
    let (limit, calls) = (BATCH_MAX, false);
    load.does([StoreOp::MoveDue { limit, calls }]).await;

    // One in eight fails, and one of each page is never settled.
    let held = load.fetch(NODE, count / 2, BATCH_MAX).await;
    let failed = || FailureReason {
        cause: Cause::Failed,
        error: Some("e".repeat(200)),
    };
    let verdict = |at| match at % 64 {
        0 => None,
        it if it % 8 == 1 => Some(AttemptOutcome::Retry(Duration::ZERO, failed())),
        _ => Some(AttemptOutcome::Ack),
    };
    load.settle(&held, verdict).await;
    let bucket = load.bare.bucket.clone();
    let check = async |load: &mut Load<'_, '_>| {
        let check = load.bare.store.check_bucket(&bucket, CheckTask::new(true));
        load.meter.step(check).await.expect("a check");
    };
    check(load).await;
    let reconcile = StoreOp::Reconcile {
        node: NODE,
        from: 0,
        through: load.request / 2,
        held: Vec::new(),
        started: StartMark::default(),
        limit: BATCH_MAX,
    };
    load.does([reconcile]).await;
    load.reap().await;
    // The same again in small fetches, of which one lease each is left.
    load.request += 1;
    let told = load.bare.fetch(load.request, 1).await; // a node that was reaped is told of it once
    assert_eq!(told.unwrap_err().kind(), ErrorKind::LeaseLost);
    let held = load.fetch(NODE, count / 4, 100).await;
    load.settle(&held, |at| {
        (!at.is_multiple_of(100)).then_some(AttemptOutcome::Release)
    })
    .await;
    load.reap().await;
    check(load).await;
    assert!(!kept.is_empty());
    with_deadlines(load, count / 4).await;
    check(load).await;
}

/// Every operation over leases that have deadlines: some are settled, and others end, by a count and by a
/// reap.
async fn with_deadlines(load: &mut Load<'_, '_>, count: usize) {
    load.hold = Some(AHEAD);
    for is_counted in [true, false] {
        let held = load.fetch(PULLER, count, BATCH_MAX).await;
        assert!(!held.is_empty(), "{:?}", load.shape);
        load.settle(&held, |at| match at % 4 {
            0 => Some(AttemptOutcome::Ack),
            1 => Some(AttemptOutcome::Release),
            _ => None,
        })
        .await;
        let ends = Duration::from_millis(50);
        let leases: Vec<_> = held.iter().map(|it| (it.id, it.request)).collect();
        let extend = |leases: &[_]| StoreOp::Extend {
            node: PULLER,
            leases: leases.to_vec(),
            hold: ends,
        };
        load.does(leases.chunks(BATCH_MAX).map(extend)).await;
        let over_us = load.bare.store.now_us() + 100_000;
        until("they are over", async || load.bare.store.now_us() > over_us).await;
        if is_counted {
            load.does([StoreOp::Stats]).await;
        } else {
            load.reap().await;
        }
    }
    load.hold = None;
}

/// Fetches over events of a shape, nearly all of which have expired: `limit` at a time, until each of
/// the others was fetched once.
async fn fetches_of_expired(load: &mut Load<'_, '_>, count: usize, limit: usize) {
    const AFTER: Duration = Duration::from_millis(500);
    let expires = |at: usize| (!at.is_multiple_of(100)).then_some(AFTER);
    let events = load.push_expiring(count, expires).await;
    // Those of some shapes expire by themselves, later.
    let expires = |it: &NewEvent| it.envelope.expires.map_or(u64::MAX, |at| at.as_micros());
    let hour_us = load.bare.store.now_us() + 1_800_000_000;
    let of_soon = events.iter().map(expires).filter(|us| *us < hour_us);
    let last_us = of_soon.max().expect("some expire soon");
    until("they have expired", async || {
        load.bare.store.now_us() > last_us
    })
    .await;
    let (mut held, mut calls) = (BTreeSet::new(), 0);
    loop {
        load.request += 1;
        calls += 1;
        let fetch = Fetch {
            node: NODE,
            request: load.request,
            limit,
            ahead: AHEAD,
            ahead_limit: limit,
            hold: None,
            starts: usize::MAX,
        };
        let Reply::Fetched(fetched) = load.does([StoreOp::Fetch(fetch)]).await.remove(0) else {
            panic!("a fetch is answered as one");
        };
        let ids = fetched.deliveries.iter().map(|it| it.id);
        for id in ids {
            assert!(held.insert(id), "{:?}: {id} twice", load.shape);
        }
        // A fetch that passes many others says that it is not at the end.
        if fetched.deliveries.is_empty() && !fetched.full && fetched.ready == 0 {
            break;
        }
        assert!(calls <= 2 * count, "{:?}: no end", load.shape);
    }
    let kept: BTreeSet<_> = { events.iter() }
        .filter(|it| expires(it) > hour_us)
        .map(|it| it.envelope.id)
        .collect();
    let missing: Vec<_> = kept.difference(&held).collect();
    assert!(
        missing.is_empty(),
        "{:?}: of {count} before fetches of {limit}",
        load.shape
    );
    let late: Vec<_> = held.difference(&kept).collect();
    assert!(
        late.is_empty(),
        "{:?}: {} had expired",
        load.shape,
        late.len()
    );
}

/// Returns the scripts that took too long over any shape.
async fn slow_scripts(
    server: &Redis,
    run: impl AsyncFn(&mut Load<'_, '_>, usize),
) -> BTreeSet<String> {
    let count = std::env::var("DULY_BUSY_EVENTS").ok();
    let count: usize = count.and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let mut meter = Meter::new(server);
    let known_us = meter.known_us();
    for shape in Shape::all() {
        let bare = Bare::open(&fresh(&server.url()).0).await;
        let (meter, request, made) = (&mut meter, 0, 0);
        let mut load = Load {
            meter,
            bare,
            shape,
            request,
            hold: None,
            made,
        };
        run(&mut load, count).await;
        server.cli(&["FLUSHALL"]);
    }
    slow_of(&meter, known_us)
}

#[tokio::test]
async fn no_script_keeps_a_server_for_long_whatever_the_shape_of_the_load() {
    assert_none_is_slow(async |server| slow_scripts(server, &every_script).await).await;
}

#[tokio::test]
async fn no_script_keeps_a_server_for_long_whatever_has_expired() {
    for limit in [1, 500] {
        let run =
            async |load: &mut Load<'_, '_>, count| fetches_of_expired(load, count, limit).await;
        assert_none_is_slow(async |server| slow_scripts(server, &run).await).await;
    }
}
