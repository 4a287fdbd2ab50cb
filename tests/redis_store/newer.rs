//! What a newer duly has written in a form that this one does not read: it is left alone.

use std::time::Duration;

use duly::ErrorKind;
use duly::event::State;
use duly::prelude::*;
use duly::records::Cause;
use duly::store::operation::{
    AttemptOutcome, FailureReason, Fetch, Reply, Settlement, StartMark, StoreOp,
};
use duly::store::{MemberInfo, Outbox, OutboxPage, RedisStore, Store};
use duly::time::When;

use crate::redis_store::kit::{Bare, ID, NODE, fresh, hex, until};
use crate::servers::{Redis, shared};

/// Puts a body into a form that only a newer duly reads, or back.
pub(crate) fn change_form(server: &Redis, prefix: &str, id: EventId, first: u8, second: u8) {
    let script = format!(
        "{ID} local body = redis.call('HGET', KEYS[1], id) \
         local head = string.char(ARGV[2] * 16 + body:byte() % 16, tonumber(ARGV[3])) \
         return redis.call('HSET', KEYS[1], id, head .. body:sub(3))"
    );
    let key = format!("{prefix}:{{letters:0}}:body");
    let (first, second) = (first.to_string(), second.to_string());
    let words = ["EVAL", &script, "1", &key, &hex(id), &first, &second];
    assert_eq!(server.cli(&words), "0");
}

/// The second byte of a body.
pub(crate) fn second_byte(server: &Redis, prefix: &str, id: EventId) -> u8 {
    let script = format!("{ID} return redis.call('HGET', KEYS[1], id):byte(2)");
    let key = format!("{prefix}:{{letters:0}}:body");
    let said = server.cli(&["EVAL", &script, "1", &key, &hex(id)]);
    said.trim().parse().expect("a number")
}

/// An event that only a newer duly reads, with a unique key, and what puts it back.
async fn newer(bare: &Bare, server: &Redis, prefix: &str) -> (EventId, u8) {
    let id = bare.push_with(|event| {
        event.unique = Some(format!("unique {prefix}"));
        event.attempts = 2;
    });
    let id = id.await;
    let second = second_byte(server, prefix, id);
    change_form(server, prefix, id, 15, 2);
    (id, second)
}

async fn state(bare: &Bare, id: EventId) -> State {
    let stats = bare.apply(StoreOp::Stats).await.unwrap();
    let Reply::Stats(stats) = stats else {
        panic!("{stats:?}");
    };
    match (stats.ready, stats.dead, stats.leased) {
        (0, 1, 0) => State::Dead,
        (0, 0, 1) => State::Leased,
        (1, 0, 0) => State::Ready,
        _ => panic!("{id}: {stats:?}"),
    }
}

async fn fetched(bare: &Bare, request: u64) -> (Vec<EventId>, usize, bool) {
    let fetch = Fetch {
        node: NODE,
        request,
        limit: 10,
        ahead: Duration::from_secs(1),
        ahead_limit: 10,
        hold: None,
        starts: usize::MAX,
    };
    let fetched = bare.typed(StoreOp::fetch(fetch)).await.unwrap();
    let ids = fetched.deliveries.iter().map(|it| it.id).collect();
    (ids, fetched.ready, fetched.next_due.is_some())
}

#[tokio::test]
async fn a_body_of_a_newer_form_is_left_to_its_duly_and_costs_no_attempt() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let (id, second) = newer(&bare, server, &prefix).await;
    let later = bare.new_id();
    bare.push(later, Duration::from_millis(900)).await.unwrap();
    let second_later = second_byte(server, &prefix, later);
    change_form(server, &prefix, later, 15, 2);
    let known = bare.new_id();
    bare.push(known, When::Now).await.unwrap();

    assert_eq!(fetched(&bare, 1).await.0, [known], "what it reads goes on");
    assert_eq!(bare.ack(1, &[known]).await.unwrap(), [true]);
    for request in 2..5 {
        let (ids, ready, looks_again) = fetched(&bare, request).await;
        assert_eq!(ids, [], "it is left where it is");
        assert_eq!(
            (ready, looks_again),
            (0, true),
            "and not asked for without end"
        );
    }
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);

    change_form(server, &prefix, id, 1, second);
    change_form(server, &prefix, later, 1, second_later);
    let (ids, ..) = fetched(&bare, 9).await;
    assert_eq!(ids, [id, later], "its duly gets it as it was");
    let found = bare.apply(StoreOp::Get { id }).await.unwrap();
    let Reply::Snapshot(Some(found)) = found else {
        panic!("{found:?}");
    };
    assert_eq!((found.state, found.tries), (State::Leased, 0));
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn thousands_of_a_newer_form_hide_none_that_is_read() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    for _ in 0..30 {
        newer_without_key(&bare, server, &prefix).await;
    }
    let known = bare.new_id();
    bare.push(known, When::Now).await.unwrap();
    assert_eq!(fetched(&bare, 1).await.0, [known]);
}

async fn newer_without_key(bare: &Bare, server: &Redis, prefix: &str) {
    let id = bare.new_id();
    bare.push(id, When::Now).await.unwrap();
    change_form(server, prefix, id, 15, 2);
}

#[tokio::test]
async fn nobody_but_its_duly_ends_an_event_of_a_newer_form() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let (id, second) = newer(&bare, server, &prefix).await;

    let refused = bare.apply(StoreOp::Cancel { id }).await.unwrap_err();
    assert_eq!(
        refused.kind(),
        ErrorKind::Invalid,
        "it is no damage: {refused}"
    );
    let other = bare.new_id();
    let unique = format!("unique {prefix}");
    bare.replace(other, &unique, When::Now).await.unwrap();
    let beside = bare.apply(StoreOp::Cancel { id: other }).await;
    assert!(beside.is_ok(), "it was accepted beside it: {beside:?}");
    assert!(refused.to_string().contains("newer duly"), "{refused}");
    assert_eq!(state(&bare, id).await, State::Ready);

    // Its duly holds it and dies, twice: that is one time more than it may be tried.
    for request in [1, 3] {
        change_form(server, &prefix, id, 1, second);
        assert_eq!(bare.fetch(request, 1).await.unwrap(), [id]);
        change_form(server, &prefix, id, 15, 2);
        for _ in 0..2 {
            let holders = bare.apply(StoreOp::Reap {
                silent: Vec::new(),
                limit: 9,
            });
            let Reply::Reaped(seen) = holders.await.unwrap() else {
                panic!("a reap answers who holds something");
            };
            let silent = seen.holders;
            bare.apply(StoreOp::Reap { silent, limit: 9 })
                .await
                .unwrap();
        }
        assert_eq!(state(&bare, id).await, State::Ready, "request {request}");
        let told = bare.fetch(request + 1, 1).await.unwrap_err();
        assert_eq!(told.kind(), ErrorKind::LeaseLost);
    }

    change_form(server, &prefix, id, 1, second);
    assert_eq!(bare.fetch(9, 1).await.unwrap(), [id]);
    let settlements = vec![Settlement {
        id,
        request: 9,
        verdict: AttemptOutcome::Bury(FailureReason {
            cause: Cause::Failed,
            error: None,
        }),
        started_us: 1,
        fetched_us: 1,
    }];
    let node = NODE;
    bare.apply(StoreOp::Settle {
        node,
        settlements,
        started: StartMark::default(),
    })
    .await
    .unwrap();
    change_form(server, &prefix, id, 15, 2);
    for op in [
        StoreOp::Revive {
            ids: vec![id],
            by: None,
        },
        StoreOp::Drop {
            ids: vec![id],
            by: None,
        },
    ] {
        assert_eq!(bare.apply(op).await.unwrap(), Reply::Counted(0));
    }
    assert_eq!(state(&bare, id).await, State::Dead);
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}

async fn page(bare: &Bare, after: u64) -> OutboxPage {
    let outbox = Outbox::Bucket(bare.bucket.clone());
    let page = bare.store.read_outbox(&outbox, after, 100).await;
    page.expect("records can be read")
}

#[tokio::test]
async fn records_of_a_newer_form_are_neither_passed_over_nor_trimmed() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let ends = async |request| {
        let id = bare.new_id();
        bare.push(id, When::Now).await.unwrap();
        let held = bare.fetch(request, 1).await.unwrap();
        assert_eq!(bare.ack(request, &held).await.unwrap(), [true]);
    };
    ends(1).await;
    let key = |part: &str| format!("{prefix}:{{letters:0}}:{part}");
    server.cli(&[
        "XADD",
        &key("outbox"),
        "2-0",
        "r2",
        "what only a newer duly reads",
    ]);
    server.cli(&["HINCRBY", &key("meta"), "record", "1"]);
    ends(2).await;

    let read = page(&bare, 0).await;
    assert_eq!((read.records.len(), read.last, read.next), (1, 1, 4));
    assert_eq!(
        (read.newer, read.has_more(), read.damaged),
        (true, false, 0)
    );
    let outbox = Outbox::Bucket(bare.bucket.clone());
    bare.store.trim_outbox(&outbox, read.last).await.unwrap();
    let read = page(&bare, 1).await;
    assert_eq!((read.records.len(), read.last, read.first), (0, 1, 2));
    assert!(read.newer && !read.has_more());
    assert_eq!(server.cli(&["XLEN", &key("outbox")]), "2");
}

#[tokio::test]
async fn a_process_whose_keys_get_another_format_takes_part_no_more() {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let id = bare.new_id();
    bare.push(id, When::Now).await.unwrap();
    let me = || MemberInfo {
        node: NODE,
        queues: [bare.bucket.queue.clone()].into(),
        host: "".into(),
        leaves: false,
    };
    let roll_calls = async || {
        // One of so many looks at the format.
        for _ in 0..8 {
            bare.store.poll_members(me()).await?;
        }
        Ok::<_, duly::Error>(())
    };
    roll_calls().await.expect("all is well");
    let hub = format!("{prefix}:{{hub}}:hub");

    server.cli(&["DEL", &hub]);
    roll_calls().await.expect("the server forgot");
    assert_eq!(
        server.cli(&["HGET", &hub, "format"]),
        "6",
        "it is written again"
    );

    server.cli(&["HSET", &hub, "format", "7"]);
    let told = roll_calls().await.unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Closed, "{told}");
    for refused in [
        bare.fetch(1, 1).await.err(),
        bare.push(bare.new_id(), When::Now).await.err(),
    ] {
        let refused = refused.expect("nothing is done any more");
        assert_eq!(refused.kind(), ErrorKind::Closed);
        assert!(refused.to_string().contains("format 7"), "{refused}");
    }
    assert!(RedisStore::open(&url).await.is_err());

    server.cli(&["HSET", &hub, "format", "6"]);
    let again = Bare::open(&url).await;
    until("the event is where it was", async || {
        again.fetch(1, 1).await.unwrap() == [id]
    })
    .await;
}
