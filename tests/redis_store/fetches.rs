//! How often fetches and moves read of what waits: each read is a part of the time of every one of them.

use std::time::Duration;

use duly::store::Store;
use duly::store::operation::{CROWD, Fetch, StoreOp};
use duly::time::When;

use crate::redis_store::kit::{Bare, NODE, fresh, until};
use crate::servers::Redis;

const SOON: Duration = Duration::from_secs(60);
const LATER: Duration = Duration::from_secs(3_600);

/// How many ranges of sorted sets the server has read.
fn ranges(server: &Redis) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.split("cmdstat_zrange:calls=").nth(1);
    let calls = calls.and_then(|rest| rest.split(',').next()?.parse().ok());
    calls.unwrap_or_default()
}

#[tokio::test]
async fn a_fetch_and_a_move_look_once_where_they_find_less_than_they_want() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let many = (0..2 * CROWD).map(|at| {
        let when = if at < 5 { SOON } else { LATER };
        bare.plain(bare.new_id(), When::After(when))
    });
    let pushed = bare.apply(StoreOp::Push(many.collect())).await;
    pushed.expect("a push");
    let fetch = Fetch {
        node: NODE,
        request: 1,
        limit: 10,
        ahead: 2 * SOON,
        ahead_limit: 100,
        hold: None,
        starts: usize::MAX,
    };
    let before = ranges(&server);
    let fetched = bare.typed(StoreOp::fetch(fetch)).await.expect("a fetch");
    let reads = ranges(&server) - before;
    assert_eq!(fetched.deliveries.len(), 5);
    assert_eq!(fetched.crowd_due, fetched.next_due, "many are due at once");
    assert_eq!(
        reads, 3,
        "what is due, what is next, and the last of a crowd"
    );

    for _ in 0..5 {
        bare.push(bare.new_id(), Duration::from_micros(1))
            .await
            .expect("a push");
    }
    let at_hand = bare.store.now_us();
    until("they are due", async || {
        bare.apply(StoreOp::Stats).await.expect("counts");
        bare.store.now_us() > at_hand + 5_000
    })
    .await;
    let before = ranges(&server);
    let (limit, calls) = (100, false);
    let moved = bare.apply(StoreOp::MoveDue { limit, calls }).await;
    let reads = ranges(&server) - before;
    assert!(format!("{moved:?}").contains("moved: 5"), "{moved:?}");
    assert_eq!(
        reads, 3,
        "leases past their deadline, what is due, and what is next"
    );
}
