//! How many events the pages in the delay set have, where a call has failed that nobody repeats.

use std::sync::Arc;
use std::time::Duration;

use duly::store::RedisOptions;
use duly::store::operation::{Fetch, StoreOp};
use duly::testing::ManualClock;
use duly::time::When;

use crate::redis_store::faulty::{fail_after, has_failed};
use crate::redis_store::kit::{NODE, fresh};
use crate::redis_store::noted::{loaded, unrepeated};

const AFTER: Duration = Duration::from_secs(60);

/// What it has left is passed over when it is due, with all that counts it.
#[tokio::test]
async fn nothing_is_scheduled_any_more_when_all_was_due_whatever_a_call_that_failed_has_left() {
    let server = loaded().await;
    for is_fetch in [false, true] {
        for writes in 0..14 {
            let clock = Arc::new(ManualClock::new());
            let options = RedisOptions::new().clock(clock.clone());
            let (url, prefix) = fresh(&server.url());
            let bare = unrepeated(&url, options).await;
            let events = bare.new_run(10).into_iter();
            let events = events.map(|id| bare.plain(id, When::After(AFTER)));
            let push = bare.apply(StoreOp::Push(events.collect()));
            if is_fetch {
                push.await.expect("a push");
                fail_after(&server, writes);
                let part = Fetch {
                    node: NODE,
                    request: 1,
                    limit: 0,
                    ahead: 2 * AFTER,
                    ahead_limit: 3,
                    hold: None,
                    starts: usize::MAX,
                };
                let _ = bare.typed(StoreOp::fetch(part)).await; // it may have failed
            } else {
                fail_after(&server, writes);
                let _ = push.await; // it may have failed
            }
            has_failed(&server);
            clock.advance(2 * AFTER);
            let moved = bare.typed(StoreOp::move_due(1_000, false)).await;
            moved.expect("a move");
            let what = format!("a fetch: {is_fetch}, after {writes} writes");
            let stats = bare.typed(StoreOp::stats()).await.expect("counts");
            assert_eq!(stats.scheduled, 0, "{what}");
            let sizes = format!("{prefix}:{{letters:0}}:sizes");
            assert_eq!(server.cli(&["ZCARD", &sizes]), "0", "{what}");
        }
    }
}
