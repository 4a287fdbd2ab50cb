//! Retention: the oldest go, and only those, a bounded part at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duly::journal::Keep;
use duly::records::{MinuteStats, Numbered};
use duly::time::Timestamp;

use crate::journal::harness::JournalHarness;
use crate::journal::sample::{
    START_US, STEP_MAX, counted, everything, load, loaded, many, minutes, prune, queue, record,
    with,
};

const ALL: Keep = Keep {
    age: None,
    count: None,
    minutes: None,
    at_once: true,
};

pub(crate) const DAY_US: u64 = 86_400_000_000;

pub(crate) fn at(after_us: u64) -> Timestamp {
    Timestamp::from_micros_up(START_US + after_us)
}

pub(crate) async fn the_oldest_beyond_an_age_are_removed(harness: &dyn JournalHarness) {
    let records = many(100); // 1 ms to 100 ms after the start
    let subject = loaded(harness, &records).await;
    let keep = Keep {
        age: Some(Duration::from_millis(60)),
        ..ALL
    };
    assert_eq!(prune(&subject.journal(), keep, at(100_000)).await, 39);
    assert_eq!(everything(&subject.journal()).await, records[39..]);
    assert_eq!(prune(&subject.journal(), keep, at(100_000)).await, 0);
    load(&subject.journal(), &[record(101, 101_000)]).await;
    assert_eq!(prune(&subject.journal(), keep, at(101_000)).await, 1);
    // An age that reaches back beyond the epoch.
    let keep = Keep {
        age: Some(Duration::MAX),
        ..ALL
    };
    assert_eq!(prune(&subject.journal(), keep, at(0)).await, 0);
}

pub(crate) async fn a_clock_ahead_makes_nothing_older_than_the_newest_record_says(
    harness: &dyn JournalHarness,
) {
    let records = many(100);
    let subject = loaded(harness, &records).await;
    let keep = Keep {
        age: Some(Duration::from_millis(60)),
        minutes: Some(Duration::from_secs(600)),
        ..ALL
    };
    let ahead = at(365 * DAY_US);
    assert_eq!(prune(&subject.journal(), keep, ahead).await, 39);
    assert_eq!(everything(&subject.journal()).await, records[39..]);
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

/// One record a day.
fn days(count: u64) -> Vec<Numbered> {
    let days = 0..count;
    days.map(|day| record(day + 1, day * DAY_US)).collect()
}

/// A month is kept, and what is older goes by and by.
pub(crate) const A_MONTH: Keep = Keep {
    age: Some(Duration::from_hours(30 * 24)),
    count: None,
    minutes: Some(Duration::from_hours(30 * 24)),
    at_once: false,
};

pub(crate) async fn what_is_too_old_goes_by_a_tenth_of_its_age_in_an_hour(
    harness: &dyn JournalHarness,
) {
    let records = days(400);
    let subject = loaded(harness, &records).await;
    let journal = subject.journal();
    let now = at(399 * DAY_US);
    for goes in [3, 0] {
        assert_eq!(prune(&journal, A_MONTH, now).await, goes);
        let pruned = journal.prune(A_MONTH, now).await.expect("a step");
        assert!(pruned.is_held_back, "{pruned:?}");
        assert_eq!(everything(&journal).await.len(), 397);
        // A minute that began before the limit is over, though one of its records may not be.
        assert_eq!(minutes(&journal).await.len(), 397);
    }
    let at_once = Keep {
        at_once: true,
        ..A_MONTH
    };
    assert_eq!(prune(&journal, at_once, now).await, 366);
    let pruned = journal.prune(A_MONTH, now).await.expect("a step");
    assert!(!pruned.is_held_back, "{pruned:?}");
    assert_eq!(everything(&journal).await, records[369..]);
}

pub(crate) async fn beyond_a_count_all_goes_whatever_the_clocks_say(harness: &dyn JournalHarness) {
    let records = days(400);
    let subject = loaded(harness, &records).await;
    let keep = Keep {
        age: None,
        count: Some(10),
        ..A_MONTH
    };
    assert_eq!(prune(&subject.journal(), keep, at(0)).await, 390);
    assert_eq!(everything(&subject.journal()).await, records[390..]);
}

pub(crate) async fn the_oldest_beyond_a_count_are_removed(harness: &dyn JournalHarness) {
    // The oldest by time, not by number or by when it was loaded.
    let mut records: Vec<_> = (1..=100).map(|n| record(n, (101 - n) * 1_000)).collect();
    let subject = loaded(harness, &records).await;
    records.reverse();
    let keep = |count| Keep {
        count: Some(count),
        ..ALL
    };
    assert_eq!(prune(&subject.journal(), keep(100), at(0)).await, 0);
    assert_eq!(prune(&subject.journal(), keep(30), at(0)).await, 70);
    assert_eq!(everything(&subject.journal()).await, records[70..]);
    assert_eq!(prune(&subject.journal(), keep(u64::MAX), at(0)).await, 0);
    assert_eq!(prune(&subject.journal(), keep(0), at(0)).await, 30);
    assert_eq!(everything(&subject.journal()).await, []);
}

pub(crate) async fn both_bounds_hold_together(harness: &dyn JournalHarness) {
    let records = many(100);
    let subject = loaded(harness, &records).await;
    let keep = |age, count| Keep {
        age: Some(Duration::from_millis(age)),
        count: Some(count),
        minutes: None,
        at_once: true,
    };
    let journal = subject.journal();
    assert_eq!(prune(&journal, keep(90, 60), at(100_000)).await, 40);
    assert_eq!(everything(&journal).await, records[40..]);
    assert_eq!(prune(&journal, keep(20, 60), at(100_000)).await, 39);
    assert_eq!(everything(&journal).await, records[79..]);
}

pub(crate) async fn without_a_bound_nothing_is_removed(harness: &dyn JournalHarness) {
    let records = many(100);
    let subject = loaded(harness, &records).await;
    assert_eq!(prune(&subject.journal(), ALL, Timestamp::MAX).await, 0);
    assert_eq!(everything(&subject.journal()).await, records);
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

pub(crate) async fn a_step_removes_a_bounded_number(harness: &dyn JournalHarness) {
    let records = many(STEP_MAX + 2_000);
    let subject = loaded(harness, &records).await;
    let keep = Keep {
        count: Some(0),
        ..ALL
    };
    let first = subject.journal().prune(keep, at(0)).await.expect("a step");
    assert!(first.more && first.records > 0 && first.records <= STEP_MAX);
    let left = everything(&subject.journal()).await;
    assert!(left == records[first.records as usize..]);
    let rest = prune(&subject.journal(), keep, at(0)).await;
    assert_eq!(rest + first.records, STEP_MAX + 2_000);
}

pub(crate) async fn loads_go_on_while_it_is_pruned(harness: &dyn JournalHarness) {
    let records = many(6_000);
    let subject = loaded(harness, &records[..3_000]).await;
    let done = Arc::new(AtomicBool::new(false));
    let (loading, is_done) = (subject.beside().await, Arc::clone(&done));
    let rest = records[3_000..].to_vec();
    let loader = tokio::spawn(async move {
        for part in rest.chunks(50) {
            load(&loading, part).await;
        }
        is_done.store(true, Ordering::Release);
    });
    let keep = Keep {
        count: Some(500),
        ..ALL
    };
    let journal = subject.journal();
    while !done.load(Ordering::Acquire) {
        prune(&journal, keep, at(0)).await;
    }
    loader.await.expect("a loader");
    prune(&journal, keep, at(0)).await;
    assert_eq!(everything(&journal).await, records[5_500..]);
    assert_eq!(minutes(&journal).await, counted(&records));
}

/// One record a minute, in two queues.
fn an_hour() -> Vec<Numbered> {
    let hour = (0..60).map(|minute| {
        with(record(minute + 1, minute * 60_000_000), |it| {
            it.queue = queue(["orders", "sms"][minute as usize % 2]);
        })
    });
    hour.collect()
}

pub(crate) async fn minutes_outlive_records(harness: &dyn JournalHarness) {
    let records = an_hour();
    let subject = loaded(harness, &records).await;
    let keep = Keep {
        age: Some(Duration::ZERO),
        count: Some(0),
        minutes: None,
        at_once: true,
    };
    assert_eq!(
        prune(&subject.journal(), keep, at(u32::MAX.into())).await,
        60
    );
    assert_eq!(everything(&subject.journal()).await, []);
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

pub(crate) async fn minutes_beyond_their_age_are_removed(harness: &dyn JournalHarness) {
    let records = an_hour();
    let subject = loaded(harness, &records).await;
    let keep = Keep {
        minutes: Some(Duration::from_secs(600)),
        ..ALL
    };
    let now = at(59 * 60_000_000);
    assert_eq!(prune(&subject.journal(), keep, now).await, 0);
    assert_eq!(everything(&subject.journal()).await, records);
    let mut expected = counted(&records);
    expected.retain(|minute: &MinuteStats| minute.start >= at(49 * 60_000_000));
    assert_eq!(expected.len(), 11);
    assert_eq!(minutes(&subject.journal()).await, expected);
}

pub(crate) async fn a_pruned_journal_takes_new_records_and_counts_right(
    harness: &dyn JournalHarness,
) {
    let records = many(300);
    let subject = loaded(harness, &records[..100]).await;
    let journal = subject.journal();
    let keep = Keep {
        count: Some(50),
        ..ALL
    };
    assert_eq!(prune(&journal, keep, at(0)).await, 50);
    load(&journal, &records[100..200]).await;
    load(&journal, &records[150..200]).await; // again: not counted again
    assert_eq!(prune(&journal, keep, at(0)).await, 100);
    load(&journal, &records[200..]).await;
    assert_eq!(prune(&journal, keep, at(0)).await, 100);
    assert_eq!(everything(&journal).await, records[250..]);
}
