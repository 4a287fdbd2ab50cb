//! Pushes whose unique keys are taken by events that expire.

use std::sync::Arc;
use std::time::Duration;

use duly::store::Store;
use duly::store::operation::{NewEvent, PushOutcome, StoreOp};
use duly::time::{Timestamp, When};

use crate::redis_store::kit::{Bare, fresh};
use crate::servers::Redis;

const MANY: usize = 100;

/// Reads of fields of hashes: states, bodies and unique keys.
fn reads(server: &Redis) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_hget:calls="));
    let calls = calls.and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// A body may have a mebibyte, and a push of small events may meet hundreds.
#[tokio::test]
async fn a_push_reads_nothing_more_of_events_that_hold_its_unique_keys_and_expire_later() {
    let server = Redis::plain();
    let mut needed = Vec::new();
    for expires in [None, Some(Duration::from_hours(1))] {
        let bare = Bare::open(&fresh(&server.url()).0).await;
        let now = Timestamp::from_micros_up(bare.store.now_us());
        let events = || -> Vec<NewEvent> {
            let event = |number| {
                let mut event = bare.plain(bare.new_id(), When::Now);
                let envelope = Arc::make_mut(&mut event.envelope);
                envelope.unique = Some(format!("unique {number}"));
                envelope.expires = expires.map(|span| now + span);
                event
            };
            (0..MANY).map(event).collect()
        };
        bare.apply(StoreOp::Push(events())).await.expect("a push");
        let before = reads(&server);
        let pushed = bare.typed(StoreOp::push(events())).await.expect("a push");
        needed.push(reads(&server) - before);
        let is_kept = |verdict| matches!(verdict, PushOutcome::Duplicate(_));
        assert!(pushed.iter().all(|it| is_kept(it.verdict)));
    }
    assert_eq!(needed[0], needed[1]);
    assert!(needed[0] >= MANY as u64);
}
