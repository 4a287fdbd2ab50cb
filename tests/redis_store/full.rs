//! A server whose memory is full.

use std::time::Duration;

use duly::store::operation::{HeartbeatReport, Holding, Reply, StartMark, StoreOp};
use duly::time::When;
use duly::{CancelOutcome, ErrorKind, EventId};

use crate::redis_store::kit::{Bare, NODE, fresh};
use crate::servers::Redis;

#[tokio::test]
async fn a_full_server_refuses_pushes_and_all_else_goes_on() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let mut ids = Vec::new();
    for _ in 0..30 {
        let id = bare.new_id();
        bare.push(id, When::Now).await.unwrap();
        ids.push(id);
    }
    let held = bare.fetch(1, 10).await.unwrap();
    assert_eq!(held, ids[..10]);
    server.cli(&["CONFIG", "SET", "maxmemory", "1mb"]);

    let refused = bare.new_id();
    let error = bare.push(refused, When::Now).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let beat = bare
        .apply(StoreOp::Heartbeat {
            node: NODE,
            holds: Holding::default(),
            started: StartMark::default(),
        })
        .await;
    assert!(matches!(
        beat.unwrap(),
        Reply::Heartbeat(HeartbeatReport { stands: true, .. })
    ));
    assert_eq!(bare.ack(1, &held).await.unwrap(), [true; 10]);
    assert_eq!(bare.fetch(2, 10).await.unwrap(), ids[10..20]);
    let cancel = bare.apply(StoreOp::Cancel { id: ids[25] }).await;
    assert_eq!(cancel.unwrap(), Reply::Cancelled(CancelOutcome::Cancelled));
    let get = bare.apply(StoreOp::Get { id: refused }).await;
    assert_eq!(
        get.unwrap(),
        Reply::Snapshot(None),
        "nothing of it happened"
    );

    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    bare.push(refused, When::Now).await.unwrap();
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}

/// The first change of an event in a page takes all of them out of it, which needs room.
#[tokio::test]
async fn a_full_server_does_not_grow_by_what_is_rescheduled() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let later = When::After(Duration::from_secs(3_600));
    let mut firsts = vec![bare.new_id()]; // alone
    bare.push(firsts[0], later).await.unwrap();
    for _ in 0..10 {
        let ids = bare.new_run(640);
        let events = ids.iter().map(|id| bare.plain(*id, later)).collect();
        bare.apply(StoreOp::Push(events)).await.unwrap();
        firsts.extend(ids.into_iter().step_by(64));
    }
    let used = || -> usize {
        let info = server.cli(&["INFO", "memory"]);
        let line = info.lines().find_map(|it| it.strip_prefix("used_memory:"));
        line.expect("it is told").trim().parse().expect("a number")
    };
    let reschedule = async |id| {
        let when = When::Now;
        bare.apply(StoreOp::Reschedule { id, when }).await
    };
    server.cli(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let before = used();
    for id in &firsts {
        let error = reschedule(*id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    }
    let grown = used().saturating_sub(before);
    assert!(grown < 300_000, "{grown} bytes by {} calls", firsts.len());
    // Cancellations free memory in the end, and need some first.
    let cancel = bare.apply(StoreOp::Cancel { id: firsts[1] }).await;
    assert_eq!(cancel.unwrap(), Reply::Cancelled(CancelOutcome::Cancelled));

    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    for id in &firsts[2..] {
        reschedule(*id).await.unwrap();
    }
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}

/// What is cancelled makes room, although one event of each page is left.
#[tokio::test]
async fn a_full_server_whose_timers_are_cancelled_takes_pushes_again() {
    const PAGES: usize = 40;
    let server = Redis::plain();
    let bare = Bare::open(&fresh(&server.url()).0).await;
    let used = || {
        let info = server.cli(&["INFO", "memory"]);
        let used = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        let used = used.expect("it says it").trim();
        used.parse::<u64>().expect("a number")
    };
    let later = When::After(Duration::from_secs(3_600));
    let ids = bare.new_run(PAGES * 64);
    let push = async |ids: &[EventId]| {
        let mut events: Vec<_> = ids.iter().map(|id| bare.plain(*id, later)).collect();
        for event in &mut events {
            let envelope = std::sync::Arc::make_mut(&mut event.envelope);
            envelope.payload = vec![b'x'; 1_000].into();
        }
        bare.apply(StoreOp::Push(events)).await
    };
    for page in ids.chunks(64 * 10) {
        push(page).await.expect("there is room");
    }
    let before = server.bytes_of_keys();
    server.cli(&["CONFIG", "SET", "maxmemory", &used().to_string()]);
    let more = bare.new_run(64);
    assert_eq!(push(&more).await.unwrap_err().kind(), ErrorKind::Full);
    for (at, id) in ids.iter().enumerate() {
        if at % 64 != 17 {
            let cancel = bare.apply(StoreOp::Cancel { id: *id }).await;
            assert_eq!(cancel.unwrap(), Reply::Cancelled(CancelOutcome::Cancelled));
        }
    }
    let after = server.bytes_of_keys();
    assert!(after < before / 4, "{before}, {after}");
    push(&more).await.expect("there is room again");
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}
