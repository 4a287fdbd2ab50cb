//! Events of a mebibyte: a batch of them is as many bytes as keep a server busy for seconds.

use std::time::Duration;

use duly::config::QueueChoices;
use duly::event::Payload;
use duly::prelude::*;

use crate::redis_store::kit::{Bare, Read, builder, fresh, stop, until};
use crate::servers::Redis;

/// As many as one fetch asks for, and some.
const MANY: usize = 600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_large_events_are_handled_and_keep_nobody_from_pushing() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let text = format!("\"{}\"", "x".repeat((1 << 20) - 64));
    let payload = Payload::from(text.into_bytes());
    for _ in 0..MANY {
        bare.push_with(|event| event.payload = payload.clone())
            .await;
    }
    let choices = QueueChoices {
        buckets: Some(1),
        ..QueueChoices::default()
    };
    let other = builder(&url).publish_only().queue("others", choices);
    let other = other.start().await.expect("a start");
    let others: Queue<u64> = other.queue_named("others").expect("a legal name");

    let (read, bus) = Read::start(&url).await;
    let mut pushed = 0;
    until("all are handled", async || {
        let pushes = others.push(pushed, Duration::from_secs(60)).await;
        pushes.expect("a push to another queue goes on meanwhile");
        pushed += 1;
        read.seen().len() == MANY
    })
    .await;
    assert!(read.seen().values().all(|times| *times == 1), "once each");
    for bus in [bus, other] {
        stop(&bus).await;
    }
}
