//! Scripts that fail midway, as keys of ours hold something else: what they end is on record, and what
//! they hand on is neither lost nor counted wrongly.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::event::State;
use duly::records::{Outcome, Record};
use duly::store::Store;
use duly::store::operation::{Fetch, Reply, StoreOp};
use duly::time::When;

use crate::redis_store::kit::{NODE, until};
use crate::redis_store::overwritten::{Overwritten, opened};

/// What a silent node held, with and without deadlines, with and without attempts left.
async fn loses_no_lease(part: &str) {
    let (server, prefix, bare) = opened().await;
    let run = bare.new_run(8);
    let events = run.iter().map(|id| bare.plain(*id, When::Now)).collect();
    bare.apply(StoreOp::Push(events)).await.unwrap();
    let mut ids = BTreeSet::from_iter(run);
    for number in 0..12 {
        let id = bare.push_with(|event| {
            event.attempts = 1 + number % 2;
            event.unique = (number % 3 == 0).then(|| format!("{part} {number}"));
        });
        ids.insert(id.await);
    }
    let fetch = |request, hold| Fetch {
        node: NODE,
        request,
        limit: 10, // of the first fetch two are alone
        ahead: Duration::ZERO,
        ahead_limit: 0,
        hold,
        starts: usize::MAX,
    };
    for (request, hold) in [(1, None), (2, Some(Duration::from_millis(1)))] {
        let fetched = bare.apply(StoreOp::Fetch(fetch(request, hold))).await;
        assert!(fetched.is_ok(), "{part}: {fetched:?}");
    }
    let reap = |silent, limit| StoreOp::Reap { silent, limit };
    let seen = bare.apply(reap(Vec::new(), 0)).await.unwrap();
    let Reply::Reaped(seen) = seen else {
        panic!("{part}: {seen:?}");
    };
    let past_us = bare.store.now_us() + 2_000;
    until("the deadlines are past", async || {
        bare.store.now_us() > past_us
    })
    .await;

    let overwritten = Overwritten::new(server, &prefix, part);
    let failed = bare.apply(reap(seen.holders.clone(), 100)).await;
    assert!(failed.is_err(), "{part}: nobody noticed");
    overwritten.put_right();

    for pass in 0.. {
        let silent = seen.holders.clone();
        match bare.apply(reap(silent, 5)).await.expect(part) {
            Reply::Reaped(reaped) if !reaped.more => break,
            other => assert!(pass < 20, "{part}: it comes to no end: {other:?}"),
        }
    }
    for id in &ids {
        let now = bare.state(*id).await;
        assert!(matches!(now, State::Ready | State::Dead), "{part}: {now:?}");
        let records = bare.records(*id).await;
        let lost = |it: &Record| it.outcome == Outcome::LeaseLost && it.attempt == 1;
        assert!(records.iter().any(lost), "{part}: {records:?}");
    }
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0], "{part}");
}

/// Events that are cancelled, replaced and past their expiry.
async fn ends_nothing_without_a_record(part: &str) {
    let (server, prefix, bare) = opened().await;
    let cancelled = bare.new_id();
    let delay = When::from(Duration::from_secs(60));
    bare.push(cancelled, delay).await.unwrap();
    let run = bare.new_run(9);
    let events = run.iter().map(|id| bare.plain(*id, delay)).collect();
    bare.apply(StoreOp::Push(events)).await.unwrap();
    let unique = format!("unique {part}");
    let (replaced, replacing) = (bare.new_id(), bare.new_id());
    bare.replace(replaced, &unique, delay).await.unwrap();
    let expired = bare.push_with(|event| event.expires = Some(event.pushed));
    let expired = expired.await;

    let act = async || {
        let pushed = bare.replace(replacing, &unique, delay).await.map(drop);
        let cancel = async |id| bare.apply(StoreOp::Cancel { id }).await.map(drop);
        let (alone, in_page) = (cancel(cancelled).await, cancel(run[4]).await);
        let request = bare.store.now_us();
        let fetched = bare.fetch(request, 1).await.map(drop);
        [pushed, alone, in_page, fetched]
    };
    let overwritten = Overwritten::new(server, &prefix, part);
    let failed = act().await;
    assert!(failed.iter().any(Result::is_err), "{part}: nobody noticed");
    overwritten.put_right();
    for done in act().await {
        done.expect(part);
    }

    for (id, outcome, end) in [
        (cancelled, Outcome::Cancelled, State::Cancelled),
        (run[4], Outcome::Cancelled, State::Cancelled),
        (replaced, Outcome::Cancelled, State::Cancelled),
        (expired, Outcome::Expired, State::Expired),
    ] {
        assert_eq!(bare.state(id).await, end, "{part}: {outcome:?}");
        let records = bare.records(id).await;
        let is_told = records.iter().any(|it| it.outcome == outcome);
        assert!(is_told, "{part}: {outcome:?} in {records:?}");
    }
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0], "{part}");
}

mod of_leases {
    use crate::redis_store::overwritten::of_each;

    of_each!(
        loses_no_lease: meta, body, delay, ready, state, lease, held, nodes, dead, unique, outbox,
    );
}

mod of_ends {
    use crate::redis_store::overwritten::of_each;

    of_each!(
        ends_nothing_without_a_record: meta, body, delay, ready, state, unique, past, outbox,
    );
}
