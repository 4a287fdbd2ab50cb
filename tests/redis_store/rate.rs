//! A rate that three nodes share, judged by the store's own records.

#![allow(clippy::print_stdout)] // counts that are not printed show nothing

use std::time::Duration;

use duly::handler::Annotation;
use duly::prelude::*;
use duly::testing::Probe;

use crate::kit::{builder, fresh, stop};
use crate::servers;

const RATE: usize = 500;
/// For how many seconds it is watched, after two in which nodes hear of each other.
const SECONDS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// When each handler started, in microseconds, in order.
async fn starts(bus: &Bus) -> Vec<u64> {
    let (mut starts, mut after) = (Vec::new(), None);
    loop {
        let mut records = bus.records().queue("letters").limit(1_000);
        if let Some(after) = after {
            records = records.after(after);
        }
        let page = records.page().await.unwrap();
        starts.extend(page.items.iter().map(|record| record.stages.started_us));
        after = page.next;
        if after.is_none() {
            starts.sort_unstable();
            return starts;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_keep_a_rate_together_and_smoothly() {
    const LETTERS: Annotation = Annotation::new("letters");
    let (url, _prefix) = fresh(&servers::shared().url());
    let probe = Probe::<u64>::new();
    // Known to each node before it starts anything.
    let operator = builder(&url).publish_only().start().await.unwrap();
    operator
        .set_rate("letters", Some(RATE as f64))
        .await
        .unwrap();
    let mut nodes = vec![operator];
    for _ in 0..3 {
        let node = builder(&url).register_as(LETTERS, probe.clone());
        nodes.push(node.start().await.unwrap());
    }
    let queue = nodes[0].queue_named::<u64>("letters").unwrap();
    let many = u64::try_from(RATE * (SECONDS + 7)).unwrap();
    queue.push_many(0..many, Duration::ZERO).await.unwrap();

    let wanted = RATE * SECONDS;
    let enough = RATE * (SECONDS + 5);
    let handled = async {
        let mut looks = tokio::time::interval(Duration::from_millis(100));
        while probe.count() < enough {
            looks.tick().await;
        }
    };
    let handled = tokio::time::timeout(PATIENCE, handled).await;
    assert!(handled.is_ok(), "{} of {enough} started", probe.count());
    // What is not settled yet started later.
    let starts = starts(&nodes[0]).await;
    let from = starts[0] + 2_000_000;
    let until = from + (SECONDS * 1_000_000) as u64;
    let seen = starts
        .into_iter()
        .filter(|start| (from..until).contains(start));
    let seen: Vec<u64> = seen.collect();
    let most = seen.iter().enumerate().map(|(at, from)| {
        let until = from + 1_000_000;
        seen[at..].partition_point(|start| *start < until)
    });
    let most = most.max().unwrap_or_default();
    let each: Vec<usize> = (0..SECONDS as u64)
        .map(|second| {
            let from = seen[0] + second * 1_000_000;
            let within = |start: &&u64| (from..from + 1_000_000).contains(*start);
            seen.iter().filter(within).count()
        })
        .collect();
    println!(
        "{} of {wanted} in {SECONDS} s, at most {most} in any one: {each:?}",
        seen.len()
    );
    assert!(
        seen.len().abs_diff(wanted) * 50 <= wanted,
        "{} of {wanted}: {each:?}",
        seen.len()
    );
    assert!(most * 100 <= RATE * 105, "{most} in a second: {each:?}");
    for node in &nodes {
        stop(node).await;
    }
}
