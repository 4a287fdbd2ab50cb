//! Events that expire all the time, in a bucket where nobody fetches.

use std::sync::Arc;
use std::time::Duration;

use duly::store::Store;
use duly::store::operation::StoreOp;
use duly::time::When;
use tokio::time::Instant;

use crate::redis_store::kit::{Bare, fresh, until};
use crate::servers::{Fault, Proxy, Redis, RedisOptions};

/// An answer takes longer than it takes the next one to expire, as where thousands do in a second.
#[tokio::test]
async fn what_expires_while_a_read_is_under_way_is_no_reason_to_refuse_it() {
    let server = Redis::start(RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    });
    let proxy = Proxy::before(server.address());
    let bare = Bare::open(&fresh(&proxy.url()).0).await;
    let first_us = bare.store.now_us() / 1_000 * 1_000 + 1_000_000;
    let expiries_us: Vec<_> = (0..4_000).map(|at| first_us + at * 1_000).collect();
    for some in expiries_us.chunks(1_000) {
        let event = |us: &u64| {
            let mut event = bare.plain(bare.new_id(), When::Now);
            let expires = duly::time::Timestamp::from_micros_up(*us);
            Arc::make_mut(&mut event.envelope).expires = Some(expires);
            event
        };
        let events = some.iter().map(event).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
    }
    until("the first expires", async || {
        bare.store.now_us() > first_us + 50_000
    })
    .await;
    proxy.on_request(|_| Some(Fault::Delay(Duration::from_millis(5))));
    let (began, mut reads) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_millis(1_500) {
        let before_us = bare.store.now_us();
        let stats = bare.typed(StoreOp::stats()).await.expect("counts");
        let last = expiries_us.iter().filter(|us| **us > before_us).count();
        assert!(
            stats.ready <= last,
            "{} events, {last} at most",
            stats.ready
        );
        reads += 1;
    }
    assert!(reads > 10, "{reads} reads");
}
