//! A sweep through what waits changes a few at a time, and each once, whatever waits in pages.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::admin::EventAction;
use duly::prelude::*;
use duly::time::When;

use crate::redis_store::kit::{LETTERS, Read, builder, fresh, pusher_to, stop, until};
use crate::servers::shared;

/// How many events a page of the sweep is asked for.
const LIMIT: u64 = 7;
/// How many more it may change.
const MORE: u64 = 8;

/// What waits: how many equal events of one push; how many with delays of their own; how many buckets.
type Shape = (u64, u64, u16);

/// Changes everything that waits, page by page; returns how many events matched and were changed.
async fn sweep(queue: &Queue<String>, action: EventAction) -> (u64, u64) {
    let (mut sum, mut after) = ((0, 0), None);
    loop {
        let events = queue.events().limit(LIMIT as usize).after(after);
        let page = events.change_page(action).await.unwrap();
        assert!(page.changed <= LIMIT + MORE, "{} at once", page.changed);
        sum = (sum.0 + page.matched, sum.1 + page.changed);
        after = page.next;
        if after.is_none() {
            return sum;
        }
    }
}

async fn swept((equal, own, buckets): Shape) {
    let (url, _) = fresh(&shared().url());
    let (bus, queue) = pusher_to(&url, buckets).await;
    let letters = |count: u64| (0..count).map(|number| format!("letter {number}"));
    let hour = Duration::from_secs(3_600);
    queue.push_many(letters(equal), hour).await.unwrap();
    let delayed = letters(own).zip(1..).map(|(letter, number)| {
        let event = queue.event(letter);
        event.after(hour + Duration::from_secs(number))
    });
    queue.push_many(delayed, hour).await.unwrap();
    let all = (equal + own, equal + own);
    let later = EventAction::Reschedule(When::At(bus.store_time() + 2 * hour));
    assert_eq!(sweep(&queue, later).await, all);
    assert_eq!(sweep(&queue, later).await, (0, 0), "they are so already");
    let after = EventAction::Reschedule(When::After(3 * hour));
    assert_eq!(sweep(&queue, after).await, all);
    let dues = queue.events().limit(1_000).page().await.unwrap();
    let dues: BTreeSet<_> = dues.items.iter().map(|event| event.due).collect();
    assert_eq!(dues.len(), 1, "a sweep has one time: {dues:?}");
    let now = EventAction::Reschedule(When::Now);
    assert_eq!(sweep(&queue, now).await, all);
    assert_eq!(
        bus.stats("letters").await.unwrap().ready as u64,
        equal + own
    );
    assert_eq!(sweep(&queue, EventAction::Cancel).await, all);
    assert_eq!(bus.stats("letters").await.unwrap().ready, 0);
    stop(&bus).await;
}

#[tokio::test]
async fn a_sweep_of_one_push_changes_a_few_at_a_time_and_each_once() {
    swept((150, 0, 1)).await;
    swept((150, 0, 4)).await;
}

#[tokio::test]
async fn a_sweep_of_events_with_own_delays_changes_a_few_at_a_time_and_each_once() {
    swept((0, 40, 1)).await;
    swept((0, 700, 1)).await;
    swept((100, 50, 2)).await;
}

/// Notes each attempt and fails.
struct Fails(Read);

impl Handler for Fails {
    type Payload = String;

    async fn handle(&self, event: Event<String>, cx: &Context) -> Result<(), Failure> {
        self.0.handle(event, cx).await?;
        Err(Failure::retry("not today"))
    }
}

/// Runs events as a sweep with a pace does: those of a page have failed before the next one is read.
async fn run_and_fail((equal, own, buckets): Shape, limit: usize) {
    let (url, _) = fresh(&shared().url());
    let (bus, queue) = pusher_to(&url, buckets).await;
    let hour = Duration::from_secs(3_600);
    let letters = |count: u64| (0..count).map(|number| format!("letter {number}"));
    queue.push_many(letters(equal), hour).await.unwrap();
    for letter in letters(own) {
        queue.push(letter, hour).await.unwrap();
    }
    let read = Read::default();
    let options = LETTERS.attempts(50).backoff(RetryPolicy::fixed(24 * hour));
    let failing = builder(&url).register_as(options, Fails(read.clone()));
    let failing = failing.start().await.unwrap();
    let began = bus.store_time();
    let (mut changed, mut after) = (0, None);
    loop {
        let events = queue.events().pushed_until(began).limit(limit).after(after);
        let now = EventAction::Reschedule(When::Now);
        let page = events.change_page(now).await.unwrap();
        changed += page.changed;
        after = page.next;
        until("those that were changed have failed", async || {
            let runs: usize = read.seen().values().sum();
            runs as u64 == changed && bus.stats("letters").await.unwrap().leased == 0
        })
        .await;
        if after.is_none() {
            break;
        }
    }
    let runs = read.seen();
    assert_eq!(runs.len() as u64, equal + own, "each was run");
    let worst = runs.values().max();
    assert_eq!(worst, Some(&1), "run without its backoff");
    assert_eq!(changed, equal + own, "each was changed once");
    stop(&failing).await;
    stop(&bus).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sweep_runs_and_fails_waits_for_its_retry() {
    run_and_fail((0, 60, 1), 1).await;
    run_and_fail((0, 700, 1), 20).await;
    run_and_fail((150, 60, 1), 10).await;
    run_and_fail((150, 0, 1), 40).await;
    run_and_fail((130, 70, 3), 25).await;
}
