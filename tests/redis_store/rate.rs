//! A rate that three nodes share, judged by the store's own records.

#![allow(clippy::print_stdout)] // counts that are not printed show nothing
#![allow(clippy::disallowed_methods)] // real time, by which the machine is judged, too

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use duly::Annotation;
use duly::prelude::*;
use duly::testing::Probe;

use crate::redis_store::kit::{builder, fresh, stop};
use crate::servers;

const RATE: usize = 500;
/// For how many seconds it is watched, after two in which nodes hear of each other.
const SECONDS: usize = 10;
/// For how long nothing at all may start before it is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the machine keeps from everybody: the lateness of a thread and of a task that do nothing
/// but look, in microseconds.
#[derive(Default)]
struct Stalls {
    sum_us: AtomicU64,
    longest_us: AtomicU64,
}

impl Stalls {
    const LOOK: Duration = Duration::from_millis(2);
    /// Timers are so late on an idle machine, too.
    const LEAST: Duration = Duration::from_millis(5);

    /// Looks until its last other owner is gone.
    fn watch() -> Arc<Self> {
        let stalls = Arc::new(Self::default());
        let (of_threads, of_tasks) = (Arc::downgrade(&stalls), Arc::downgrade(&stalls));
        thread::spawn(move || {
            while let Some(stalls) = of_threads.upgrade() {
                let began = Instant::now();
                thread::sleep(Self::LOOK);
                stalls.note(began);
            }
        });
        tokio::spawn(async move {
            while let Some(stalls) = of_tasks.upgrade() {
                let began = Instant::now();
                tokio::time::sleep(Self::LOOK).await;
                stalls.note(began);
            }
        });
        stalls
    }

    fn note(&self, began: Instant) {
        let late = began.elapsed().saturating_sub(Self::LOOK);
        if late >= Self::LEAST {
            let late_us = late.as_micros() as u64;
            self.sum_us.fetch_add(late_us, Ordering::Relaxed);
            self.longest_us.fetch_max(late_us, Ordering::Relaxed);
        }
    }

    /// How many starts the longest stall can put off into one second, and all of them together
    /// prevent.
    fn starts(&self) -> (usize, usize) {
        let starts = |us: &AtomicU64| us.load(Ordering::Relaxed) as usize * RATE / 1_000_000;
        // What starts passes three threads: the mover's, the server's and a worker's.
        (3 * starts(&self.longest_us), 3 * starts(&self.sum_us))
    }
}

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
    let stalls = Stalls::watch();
    let queue = nodes[0].queue_named::<u64>("letters").unwrap();
    let many = u64::try_from(RATE * (SECONDS + 7)).unwrap();
    queue.push_many(0..many, Duration::ZERO).await.unwrap();

    let wanted = RATE * SECONDS;
    let enough = RATE * (SECONDS + 5);
    let (mut last, mut since) = (0, Instant::now());
    while last < enough {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let count = probe.count();
        if count > last {
            (last, since) = (count, Instant::now());
        }
        assert!(since.elapsed() < PATIENCE, "{count} of {enough} started");
    }
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
    let (put_off, prevented) = stalls.starts();
    let words = format!(
        "{} of {wanted} in {SECONDS} s, at most {most} in any one: {each:?}; by stalls of the \
         machine {put_off} may be put off, {prevented} prevented",
        seen.len()
    );
    println!("{words}");
    assert!(seen.len() <= wanted + wanted / 50 + put_off, "{words}");
    assert!(seen.len() + wanted / 50 + prevented >= wanted, "{words}");
    assert!(most <= RATE + RATE / 20 + put_off, "{words}");
    for node in &nodes {
        stop(node).await;
    }
}
