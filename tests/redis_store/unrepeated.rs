//! What a script that failed midway has left, and another one than its repeat meets: it ends it as the
//! repeat would.

use std::time::Duration;

use duly::event::{Envelope, State, UNIQUE_HEADER};
use duly::records::NodeId;
use duly::store::Store;
use duly::store::operation::{Fetch, PushOutcome, Reply, StoreOp};
use duly::time::{Timestamp, When};

use crate::redis_store::faulty::{fail_after, has_failed, load};
use crate::redis_store::kit::{Bare, NODE, fresh, hex, until};
use crate::redis_store::overwritten::{Overwritten, opened};
use crate::servers::Redis;

/// What comes between a settle that failed and its repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// A drop that names the same event.
    Drop,
    /// Nothing but the push of the key.
    Nothing,
    /// The event was to expire, and would have by now.
    Expiry,
}

async fn stays_reserved(between: Between) {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    let mut ended = 0;
    for writes in 0..14 {
        let what = format!("a settle after {writes} writes, then {between:?}");
        let bare = Bare::open(&fresh(&server.url()).0).await;
        let expires_in = Duration::from_millis(500);
        let id = bare
            .push_with(|envelope| {
                envelope.unique = Some("one a day".to_owned());
                let day = (UNIQUE_HEADER.to_owned(), "86400000".to_owned());
                envelope.headers.push(day);
                let expires = envelope.pushed + expires_in;
                envelope.expires = (between == Between::Expiry).then_some(expires);
            })
            .await;
        assert_eq!(bare.fetch(1, 1).await.expect("a fetch"), [id]);
        fail_after(&server, writes);
        let _ = bare.ack(1, &[id]).await; // it may have failed
        has_failed(&server);
        if between == Between::Drop {
            let (ids, by) = (vec![id], None);
            let dropped = bare.apply(StoreOp::Drop { ids, by }).await;
            dropped.expect("a drop");
        }
        ended += usize::from(bare.state(id).await == State::Done);

        let another = || {
            let mut other = bare.plain(bare.new_id(), When::Now);
            std::sync::Arc::make_mut(&mut other.envelope).unique = Some("one a day".to_owned());
            StoreOp::Push(vec![other])
        };
        let end = Timestamp::from_micros_up(bare.store.now_us()) + expires_in;
        if between == Between::Expiry {
            until("it would have expired", async || {
                Timestamp::from_micros_up(bare.store.now_us()) > end
            })
            .await;
        }
        for _ in 0..2 {
            let pushed = bare.apply(another()).await;
            let Ok(Reply::Pushed(reports)) = pushed else {
                panic!("{what}: {pushed:?}");
            };
            assert_eq!(reports[0].verdict, PushOutcome::Duplicate(id), "{what}");
        }
        assert_eq!(bare.ack(1, &[id]).await.expect("a repeat"), [true]);
        let pushed = bare.apply(another()).await.expect("a push");
        let Reply::Pushed(reports) = pushed else {
            panic!("{what}: {pushed:?}");
        };
        assert_eq!(reports[0].verdict, PushOutcome::Duplicate(id), "{what}");
        let mut found = bare.store.audit_whole().await.unwrap();
        found.retain(|it| it.contains("unique")); // counts may be wrong until a reap
        assert_eq!(found, [""; 0], "{what}");
    }
    assert!(ended > 3, "only {ended} ended");
}

#[tokio::test]
async fn a_unique_key_stays_reserved_whatever_a_settle_that_failed_has_left() {
    stays_reserved(Between::Drop).await;
}

#[tokio::test]
async fn a_unique_key_stays_reserved_whoever_pushes_it_before_the_settle_is_repeated() {
    stays_reserved(Between::Nothing).await;
}

#[tokio::test]
async fn a_unique_key_stays_reserved_by_one_that_was_done_and_would_have_expired() {
    stays_reserved(Between::Expiry).await;
}

/// Nobody repeats the settle: its event was done when it was, and not when somebody pushes the key.
#[tokio::test]
async fn a_unique_key_that_a_settle_has_left_is_reserved_from_its_end_on() {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    let mut done = 0;
    for writes in 0..14 {
        let bare = Bare::open(&fresh(&server.url()).0).await;
        let one = |envelope: &mut Envelope| {
            envelope.unique = Some("one a millisecond".to_owned());
            let short = (UNIQUE_HEADER.to_owned(), "1".to_owned());
            envelope.headers.push(short);
        };
        let id = bare.push_with(one).await;
        assert_eq!(bare.fetch(1, 1).await.expect("a fetch"), [id]);
        fail_after(&server, writes);
        let _ = bare.ack(1, &[id]).await; // it may have failed
        has_failed(&server);
        let over_us = bare.store.now_us() + 3_000;
        until("the time is over", async || bare.store.now_us() > over_us).await;
        let is_done = bare.state(id).await == State::Done;
        let mut other = bare.plain(bare.new_id(), When::Now);
        one(std::sync::Arc::make_mut(&mut other.envelope));
        let pushed = bare.typed(StoreOp::push(vec![other])).await;
        let verdict = pushed.expect("a push").remove(0).verdict;
        let expected = if is_done {
            PushOutcome::Accepted
        } else {
            PushOutcome::Duplicate(id)
        };
        assert_eq!(verdict, expected, "a settle after {writes} writes");
        done += usize::from(is_done);
    }
    assert!(done > 3, "only {done} were done");
}

/// A call that failed has left it in the delay set as well.
#[tokio::test]
async fn an_event_that_is_ready_and_in_the_delay_set_is_leased_once_by_a_fetch() {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    for writes in 0..5 {
        let bare = Bare::open(&fresh(&server.url()).0).await;
        let id = bare.push_with(|_| {}).await;
        let when = When::After(Duration::from_secs(9));
        fail_after(&server, writes);
        let _ = bare.apply(StoreOp::Reschedule { id, when }).await; // it may have failed
        has_failed(&server);
        let fetch = StoreOp::fetch(Fetch {
            node: NODE,
            request: 1,
            limit: 5,
            ahead: Duration::from_secs(60),
            ahead_limit: 5,
            hold: None,
            starts: usize::MAX,
        });
        let fetched = bare.typed(fetch).await.expect("a fetch").deliveries;
        assert_eq!(fetched.len(), 1, "after {writes} writes");
        let stats = bare.typed(StoreOp::stats()).await.expect("counts");
        let counts = (stats.scheduled, stats.ready, stats.leased);
        assert_eq!(counts, (0, 0, 1), "after {writes} writes");
    }
}

/// A key of a wrong type fails a drop before it writes anything, whatever a settle has left.
#[tokio::test]
async fn a_drop_that_cannot_reserve_a_key_has_written_nothing() {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    let mut failed = 0;
    for writes in 0..14 {
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        let id = bare
            .push_with(|envelope| {
                envelope.unique = Some("one a day".to_owned());
                let day = (UNIQUE_HEADER.to_owned(), "86400000".to_owned());
                envelope.headers.push(day);
            })
            .await;
        assert_eq!(bare.fetch(1, 1).await.expect("a fetch"), [id]);
        fail_after(&server, writes);
        let _ = bare.ack(1, &[id]).await; // it may have failed
        has_failed(&server);
        let states = || server.cli(&["HGETALL", &format!("{prefix}:{{letters:0}}:state")]);
        let before = states();
        let overwritten = Overwritten::new(&server, &prefix, "holds");
        let (ids, by) = (vec![id], None);
        let drop = StoreOp::Drop { ids, by };
        failed += usize::from(bare.apply(drop.clone()).await.is_err());
        assert_eq!(states(), before, "after {writes} writes");
        server.cli(&["DEL", &overwritten.key]);
        bare.apply(drop).await.expect("a drop");
    }
    assert!(failed > 3, "only {failed} failed");
}

/// A key of a wrong type fails a settle before it writes anything.
#[tokio::test]
async fn a_settle_that_cannot_look_for_expiries_has_written_nothing() {
    let (server, prefix, bare) = opened().await;
    let expires =
        bare.push_with(|event| event.expires = Some(event.pushed + Duration::from_secs(60)));
    let id = expires.await;
    assert_eq!(bare.fetch(1, 1).await.expect("a fetch"), [id]);
    let overwritten = Overwritten::new(server, &prefix, "expiry");
    assert!(bare.ack(1, &[id]).await.is_err(), "nobody noticed");
    overwritten.put_right();
    assert_eq!(bare.state(id).await, State::Leased);
    assert!(bare.records(id).await.is_empty());
    assert_eq!(bare.ack(1, &[id]).await.expect("an ack"), [true]);
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}

/// A node is reaped bit by bit, and a call in between fails when it has dropped what it counts of the
/// request: the node is told once that it was taken for dead.
#[tokio::test]
async fn a_node_that_holds_nothing_any_more_is_not_reaped_for_ever() {
    let (server, prefix, bare) = opened().await;
    let run = bare.new_run(5);
    let events = run.iter().map(|id| bare.plain(*id, When::Now)).collect();
    bare.apply(StoreOp::Push(events)).await.expect("a push");
    assert_eq!(bare.fetch(1, 5).await.expect("a fetch"), run);
    let look = bare.typed(StoreOp::reap(Vec::new(), 0)).await;
    let holders = look.expect("a look").holders;
    let reaped = bare.typed(StoreOp::reap(holders, 2)).await.expect("a reap");
    assert!(reaped.more, "it holds three");
    let held = format!("{prefix}:{{letters:0}}:held");
    let drop_count = "local batch = (ARGV[1] .. ARGV[2]):gsub('%x%x', function(h) \
         return string.char(tonumber(h, 16)) end) return redis.call('HDEL', KEYS[1], '#' .. batch, batch)";
    let (node, request) = (format!("{:016x}", NODE.0), format!("{:016x}", 1));
    let gone = server.cli(&["EVAL", drop_count, "1", &held, &node, &request]);
    assert_eq!(gone.trim(), "2", "of {}", hex(run[0]));
    let look = bare.typed(StoreOp::reap(Vec::new(), 0)).await;
    assert!(!look.expect("a look").more, "nothing is left to reap");
    let fetch = |request| {
        StoreOp::fetch(Fetch {
            node: NODE,
            request,
            limit: 1,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: None,
            starts: usize::MAX,
        })
    };
    assert!(bare.typed(fetch(2)).await.is_err(), "it was reaped");
    let fetched = bare.typed(fetch(3)).await.expect("a fetch").deliveries;
    assert_eq!(fetched.len(), 1);
}

/// Leases of another node have deadlines while those of a settle that failed are still counted.
#[tokio::test]
async fn leases_that_a_settle_has_ended_count_no_more_after_a_reap() {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    for writes in 0..16 {
        let what = format!("a settle after {writes} writes");
        let bare = Bare::open(&fresh(&server.url()).0).await;
        let run = bare.new_run(6);
        let events = run.iter().map(|id| bare.plain(*id, When::Now)).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
        let fetch = |node, limit| Fetch {
            node,
            request: 1,
            limit,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: Some(Duration::from_secs(60)),
            starts: usize::MAX,
        };
        for (node, limit) in [(NODE, 4), (NodeId(8), 2)] {
            let fetched = bare.typed(StoreOp::fetch(fetch(node, limit))).await;
            assert_eq!(fetched.expect("a fetch").deliveries.len(), limit);
        }
        fail_after(&server, writes);
        let _ = bare.ack(1, &run[..4]).await; // it may have failed
        has_failed(&server);
        let again = bare.ack(1, &run[..4]).await.expect("a repeat");
        assert_eq!(again, [true; 4], "{what}");
        let reaped = bare.typed(StoreOp::reap(Vec::new(), 9)).await;
        assert!(!reaped.expect("a reap").more, "{what}");
        let stats = bare.typed(StoreOp::stats()).await.expect("counts");
        assert_eq!(stats.leased, 2, "{what}");
        let found = bare.store.audit_whole().await.unwrap();
        assert!(
            !found.iter().any(|it| it.contains("leases")),
            "{what}: {found:?}"
        );
    }
}
