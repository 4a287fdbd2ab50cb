//! What ended events leave behind in a bucket: nothing that grows, and nothing in the way of others.

use duly::store::Store;
use duly::store::operation::StoreOp;
use duly::time::When;

use crate::redis_store::kit::{Bare, fresh};
use crate::servers::Redis;

fn len(server: &Redis, command: &str, prefix: &str, part: &str) -> usize {
    let key = format!("{prefix}:{{letters:0}}:{part}");
    server.cli(&[command, &key]).parse().expect("a number")
}

fn now_ms(bare: &Bare) -> u64 {
    bare.store.now_us() / 1_000
}

#[tokio::test]
async fn cancelled_ready_events_leave_no_entries_for_the_next_fetch_to_pass() {
    let server = Redis::plain();
    for in_runs in [false, true] {
        for order in ["first to last", "last to first", "at random"] {
            let (url, prefix) = fresh(&server.url());
            let bare = Bare::open(&url).await;
            let ids: Vec<_> = match in_runs {
                false => (0..3_000).map(|_| bare.new_id()).collect(),
                true => bare.new_run(3_000),
            };
            for some in ids.chunks(500) {
                let events = some.iter().map(|id| bare.plain(*id, When::Now)).collect();
                bare.apply(StoreOp::Push(events)).await.expect("a push");
            }
            let mut cancelled = ids.clone();
            match order {
                "last to first" => cancelled.reverse(),
                "at random" => fastrand::shuffle(&mut cancelled),
                _ => {}
            }
            for id in &cancelled {
                let cancel = StoreOp::cancel(*id);
                let _ = bare.typed(cancel).await.expect("a cancellation");
            }
            let left = len(&server, "LLEN", &prefix, "ready");
            let most = if order == "at random" { 2_500 } else { 16 };
            assert!(left <= most, "{order}, in runs: {in_runs}: {left} entries");
            let id = bare.new_id();
            bare.push(id, When::Now).await.expect("a push");
            assert_eq!(bare.fetch(1, 10).await.expect("a fetch"), [id], "{order}");
        }
    }
}

#[tokio::test]
async fn live_events_among_cancelled_ones_stay_ready_and_in_order() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let mut ids: Vec<_> = (0..300).map(|_| bare.new_id()).collect();
    ids.extend(bare.new_run(300));
    for some in ids.chunks(100) {
        let events = some.iter().map(|id| bare.plain(*id, When::Now)).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
    }
    let live: Vec<_> = ids.iter().copied().skip(40).step_by(37).collect();
    let mut cancelled: Vec<_> = ids.iter().filter(|id| !live.contains(id)).collect();
    fastrand::shuffle(&mut cancelled);
    for id in cancelled {
        let _ = bare
            .typed(StoreOp::cancel(*id))
            .await
            .expect("a cancellation");
    }
    let stats = bare.typed(StoreOp::stats()).await.expect("counts");
    assert_eq!(stats.ready, live.len());
    assert_eq!(bare.fetch(1, 1_000).await.expect("a fetch"), live);
}

#[tokio::test]
async fn unique_keys_that_were_reserved_go_when_their_time_is_over() {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    for at in 0..50 {
        let id = bare
            .push_with(|envelope| {
                envelope.unique = Some(format!("one a day {at}"));
                envelope
                    .headers
                    .push(("duly-unique-for".to_owned(), "1".to_owned()));
            })
            .await;
        assert_eq!(bare.fetch(at + 1, 1).await.expect("a fetch"), [id]);
        assert_eq!(bare.ack(at + 1, &[id]).await.expect("an ack"), [true]);
    }
    let until = now_ms(&bare) + 2;
    while now_ms(&bare) < until {
        bare.typed(StoreOp::reap(Vec::new(), 10))
            .await
            .expect("a look");
    }
    bare.typed(StoreOp::reap(Vec::new(), 10))
        .await
        .expect("a look");
    assert_eq!(len(&server, "HLEN", &prefix, "unique"), 0);
    assert_eq!(len(&server, "ZCARD", &prefix, "holds"), 0);
}
