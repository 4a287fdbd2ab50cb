//! What an event takes of a server's memory.

use std::time::Duration;

use crate::redis_store::kit::{builder, fresh, stop};
use crate::servers::Redis;

const EVENTS: u64 = 20_000;

fn used(server: &Redis) -> u64 {
    let info = server.cli(&["INFO", "memory"]);
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn a_delayed_event_of_64_bytes_takes_at_most_290_bytes() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let payload = "x".repeat(62); // with its quotes 64
    let push = async |many: u64| {
        let bus = builder(&url).publish_only().start().await.unwrap();
        let queue = bus.queue_named::<String>("letters").unwrap();
        let payloads = (0..many).map(|_| payload.clone());
        let delay = Duration::from_secs(3_600);
        queue.push_many(payloads, delay).await.unwrap();
        stop(&bus).await; // its connections have buffers
    };
    push(1).await; // what a server takes once is not an event's
    let before = used(&server);
    push(EVENTS).await;
    let each = (used(&server) - before) / EVENTS;
    assert!((64..=290).contains(&each), "{each} bytes");
}
