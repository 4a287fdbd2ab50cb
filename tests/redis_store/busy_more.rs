//! The scripts of questions by key, of changes by hand, of reconciling, and of pushes that replace, or
//! meet what has expired.

use std::sync::Arc;
use std::time::Duration;

use duly::event::Payload;
use duly::store::operation::{BATCH_BYTES, BATCH_MAX, Fetch, PeekBy, PushOutcome, Reply, StoreOp};
use duly::store::{Durability, Store};
use duly::time::{Timestamp, When};
use duly::{ErrorKind, LatePolicy, Unique};

use crate::redis_store::busy::{MET_MAX, event, fetch_of};
use crate::redis_store::kit::{Bare, NODE, until};
use crate::redis_store::meter::Meter;

/// Numbers of events that nobody else has.
const FIRST: usize = 10_000_000;

/// Each with the most that it takes.
pub(crate) async fn more_scripts(meter: &mut Meter<'_>, bare: &Bare, events: usize, bytes: usize) {
    let many = events.min(BATCH_MAX);
    let at_once = (BATCH_BYTES / bytes.max(1)).clamp(1, MET_MAX);
    let mut ids = Vec::new();
    for from in (0..many).step_by(at_once) {
        let numbers = from..many.min(from + at_once);
        let batch = numbers.map(|number| {
            let mut event = event(bare, bytes, FIRST + number, When::Now);
            Arc::make_mut(&mut event.envelope).key = Some("one for all".to_owned());
            event
        });
        let batch: Vec<_> = batch.collect();
        ids.extend(batch.iter().map(|event| event.envelope.id));
        bare.apply(StoreOp::Push(batch)).await.unwrap();
    }

    for by in [
        PeekBy::Key("one for all".to_owned()),
        PeekBy::Unique(format!("unique {FIRST}")),
    ] {
        let (from, limit) = (None, BATCH_MAX);
        let find = StoreOp::Peek { by, from, limit };
        meter.step(bare.apply(find)).await.unwrap();
    }
    let update = StoreOp::Update {
        id: ids[0],
        payload: Payload::from(vec![b'z'; bytes]),
        by: Some("ann".to_owned()),
        dead_only: false,
    };
    meter.step(bare.apply(update)).await.unwrap();
    meter.step(bare.store.audit()).await.unwrap();

    // Each takes the place of one that waits, whose record keeps its payload.
    let replacing = || {
        let numbers = FIRST..FIRST + many;
        let events = numbers.map(|number| {
            let mut event = event(bare, 64, number, When::Now);
            event.on_taken = Unique::Replace;
            event
        });
        events.collect()
    };
    let replaces = StoreOp::Push(replacing());
    meter.step(bare.apply(replaces)).await.unwrap();
    // There is no replica, which is known only when it was waited for.
    let wanted = Durability::Replicated(1);
    let confirmed = bare.store.push_durably(&bare.bucket, replacing(), wanted);
    let error = meter.step(confirmed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");

    holders_expire(meter, bare, events.min(MET_MAX), bytes).await;
    leases_end(meter, bare, 2 * FIRST as u64).await;

    // A node has taken what it does not know of any more.
    let first = 3 * FIRST as u64;
    let requests = first..first + 20;
    for request in requests.clone() {
        bare.apply(fetch_of(NODE, request)).await.unwrap();
    }
    for _ in 0..1_000 {
        let reconcile = StoreOp::Reconcile {
            node: NODE,
            from: requests.start,
            through: requests.end,
            held: Vec::new(),
            limit: BATCH_MAX,
            started: duly::store::operation::StartMark::default(),
        };
        match meter.step(bare.apply(reconcile)).await.unwrap() {
            Reply::Reaped(reaped) if reaped.more => {}
            _ => break,
        }
    }
    expired_are_fetched(meter, bare, many, bytes).await;
}

/// Pushes events that are over by then: they have expired, or are too late.
async fn expiring(meter: &mut Meter<'_>, bare: &Bare, numbers: &[usize], bytes: usize) {
    let at_once = (BATCH_BYTES / bytes.max(1)).clamp(1, MET_MAX);
    for some in numbers.chunks(at_once) {
        let holder = |number: &usize| {
            let when = [When::Now, When::After(Duration::from_hours(1))][number % 2];
            let mut event = event(bare, bytes, *number, when);
            let envelope = Arc::make_mut(&mut event.envelope);
            envelope.keeps_payload = number % 4 < 2;
            match (number % 2, number % 3) {
                (0, 0) => envelope.late = LatePolicy::Expire(Duration::ZERO),
                (0, 1) => envelope.late = LatePolicy::Bury(Duration::ZERO),
                _ => envelope.expires = Some(Timestamp::from_millis(1)),
            }
            event
        };
        let holders = some.iter().map(holder).collect();
        meter
            .step(bare.apply(StoreOp::Push(holders)))
            .await
            .unwrap();
    }
    let pushed_us = bare.store.now_us();
    until("all are too late", async || {
        bare.store.now_us() > pushed_us + 2_000
    })
    .await;
}

/// Fetches one event where events have expired that nothing has ended, and then many.
async fn expired_are_fetched(meter: &mut Meter<'_>, bare: &Bare, many: usize, bytes: usize) {
    for (round, limit) in [1, BATCH_MAX].into_iter().enumerate() {
        let first = (3 + round) * FIRST;
        let numbers: Vec<_> = (first..first + many).collect();
        expiring(meter, bare, &numbers, bytes).await;
        for request in 0..4 {
            let request = (first + request) as u64;
            let fetch = Fetch {
                node: NODE,
                request,
                limit,
                ahead: Duration::from_hours(2),
                ahead_limit: limit,
                hold: None,
                starts: usize::MAX,
            };
            meter.step(bare.apply(StoreOp::Fetch(fetch))).await.unwrap();
        }
    }
}

/// Pushes small events whose unique keys others have that are over by now, and that nothing has ended.
async fn holders_expire(meter: &mut Meter<'_>, bare: &Bare, many: usize, bytes: usize) {
    let numbers: Vec<_> = (2 * FIRST..2 * FIRST + many).collect();
    expiring(meter, bare, &numbers, bytes).await;
    let taken = numbers.iter().map(|it| event(bare, 1, *it, When::Now));
    let push = StoreOp::push(taken.collect());
    let pushed = meter.step(bare.typed(push)).await.unwrap();
    assert!(pushed.iter().all(|it| it.verdict == PushOutcome::Accepted));
}

/// Counts, where leases of a puller that is gone are past their deadline.
async fn leases_end(meter: &mut Meter<'_>, bare: &Bare, first: u64) {
    for request in first..first + 20 {
        let StoreOp::Fetch(mut fetch) = fetch_of(NODE, request) else {
            return;
        };
        fetch.hold = Some(Duration::from_millis(1));
        bare.apply(StoreOp::Fetch(fetch)).await.unwrap();
    }
    let leased_us = bare.store.now_us();
    let are_over = async || bare.store.now_us() > leased_us + 2_000;
    until("all are over", are_over).await;
    let stats = meter.step(bare.typed(StoreOp::stats())).await.unwrap();
    assert_eq!(stats.leased, 0);
}
