//! A sweep through what waits changes a few at a time, and each once, whatever waits in pages.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::admin::EventAction;
use duly::prelude::*;
use duly::time::When;

use crate::redis_store::kit::{fresh, pusher_to, stop};
use crate::servers::shared;

/// The most events that a page of the sweep changes.
const LIMIT: u64 = 7;

/// What waits: how many equal events of one push; how many with delays of their own; how many buckets.
type Shape = (u64, u64, u16);

/// Changes everything that waits, page by page; returns how many events matched and were changed.
async fn sweep(queue: &Queue<String>, action: EventAction) -> (u64, u64) {
    let (mut sum, mut after) = ((0, 0), None);
    loop {
        let events = queue.events().limit(LIMIT as usize).after(after);
        let page = events.change_page(action).await.unwrap();
        assert!(page.changed <= LIMIT, "{} at once", page.changed);
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
