//! A bus that has nothing to do.

use std::time::Duration;

use duly::metrics::MetricsChoices;
use duly::{Annotation, Bus, BusBuilder};

use crate::redis_store::kit::{Read, builder, fresh, stop, until};
use crate::servers::Redis;

const QUEUES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Of all commands, those inside of scripts too.
fn processed(server: &Redis) -> u64 {
    let info = server.cli(&["INFO", "stats"]);
    let name = "total_commands_processed:";
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn an_idle_bus_asks_for_next_to_nothing() {
    asks_for_next_to_nothing(MetricsChoices::default()).await;
}

#[tokio::test]
async fn a_bus_that_counts_its_idle_queues_asks_for_no_more() {
    let choices = MetricsChoices {
        depths_every: Some(Duration::from_secs(1)),
        ..MetricsChoices::default()
    };
    asks_for_next_to_nothing(choices).await;
}

async fn asks_for_next_to_nothing(metrics: MetricsChoices) {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bus = emptied(builder(&url).metrics(metrics)).await;
    // What is measured is time in which nothing happens.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = processed(&server);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let commands = processed(&server) - before - 1; // the question itself
    stop(&bus).await;
    assert!(commands <= 5 * 20, "{commands} commands in 5 s");
}

/// Starts a bus that consumes ten queues of eight buckets; each has had events, and none has any.
async fn emptied(mut builder: BusBuilder) -> Bus {
    for queue in QUEUES {
        builder = builder.register_as(Annotation::new(queue).buckets(8), Read::default());
    }
    let bus = builder.start().await.unwrap();
    // Every bucket has had an event, so that it is there to be asked for.
    for name in QUEUES {
        let queue = bus.queue_named::<String>(name).unwrap();
        let letters = vec!["a".to_owned(); 8 * 64];
        queue.push_many(letters, Duration::ZERO).await.unwrap();
    }
    for name in QUEUES {
        until("it has nothing to do", async || {
            bus.stats(name).await.unwrap() == Default::default()
        })
        .await;
        assert_eq!(bus.bucket_stats(name).await.unwrap().len(), 8);
    }
    bus
}

#[tokio::test]
async fn a_bus_that_consumes_nothing_asks_retired_queues_in_turns() {
    const SAMPLES: u64 = 10; // in a second
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let consumer = emptied(builder(&url)).await;
    stop(&consumer).await;
    let choices = MetricsChoices {
        depths_every: Some(Duration::from_millis(1_000 / SAMPLES)),
        ..MetricsChoices::default()
    };
    let bus = builder(&url).metrics(choices).publish_only();
    let bus = bus.start().await.unwrap();
    until("most buckets are left alone", async || {
        let before = processed(&server);
        tokio::time::sleep(Duration::from_secs(1)).await;
        // To count one takes several.
        processed(&server) - before < SAMPLES * 80
    })
    .await;
    stop(&bus).await;
}
