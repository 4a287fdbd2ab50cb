//! What an event takes of a server's memory.

use std::time::Duration;

use duly::prelude::*;

use crate::redis_store::kit::{builder, fresh, stop};
use crate::servers::Redis;

const EVENTS: usize = 20_000;

/// Returns how many bytes an event takes of those that are pushed so.
async fn bytes_of_an_event(push: impl AsyncFn(&Queue<String>, Vec<String>)) -> u64 {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let payload = "x".repeat(62); // with its quotes 64
    let push = async |many: usize| {
        let bus = builder(&url).publish_only().start().await.unwrap();
        let queue = bus.queue_named::<String>("letters").unwrap();
        push(&queue, vec![payload.clone(); many]).await;
        stop(&bus).await;
    };
    push(1).await; // what a server takes once is not an event's
    let before = server.bytes_of_keys();
    push(EVENTS).await;
    (server.bytes_of_keys() - before) / EVENTS as u64
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn one_of_many_that_are_pushed_together_takes_at_most_100_bytes() {
    let push = async |queue: &Queue<String>, payloads| {
        queue.push_many(payloads, HOUR).await.unwrap();
    };
    let each = bytes_of_an_event(push).await;
    assert!((64..=100).contains(&each), "{each} bytes");
}

#[tokio::test]
async fn one_that_is_due_at_a_time_of_its_own_takes_at_most_310_bytes() {
    let push = async |queue: &Queue<String>, payloads: Vec<String>| {
        let events = (0..).zip(payloads).map(|(number, payload)| {
            let delay = HOUR + Duration::from_millis(10) * number;
            queue.event(payload).after(delay)
        });
        queue.push_many(events, When::Now).await.unwrap();
    };
    let each = bytes_of_an_event(push).await;
    assert!((200..=310).contains(&each), "{each} bytes");
}
