//! Counts and lateness by queue and minute.

use std::time::Duration;

use duly::records::{Lateness, MinuteQuery, Numbered, Outcome};
use duly::time::Timestamp;

use crate::journal::harness::JournalHarness;
use crate::journal::sample::{
    START_US, batch_of, counted, load, loaded, many, minutes, queue, record, with,
};

const NONE: [u64; 0] = [];

const MINUTE_US: u64 = 60_000_000;

/// Records of three queues over some minutes.
fn mixed() -> Vec<Numbered> {
    let mixed = (0..600_u64).map(|n| {
        with(record(n + 1, n * 1_000_003), |it| {
            it.queue = queue(["orders", "sms", "a-late-one"][n as usize % 3]);
            it.outcome = Outcome::ALL[n as usize % 11];
            it.stages.started_us = match n % 4 {
                0 => 0,
                spread => it.due.as_micros() + spread * n * 37,
            };
        })
    });
    mixed.collect()
}

pub(crate) async fn minutes_count_each_outcome_and_the_lateness(harness: &dyn JournalHarness) {
    // The last microsecond of a minute, and the first of the next.
    let start_ms = START_US / 1_000;
    assert_eq!(start_ms % 60_000, 0);
    let records = [
        record(1, MINUTE_US - 1),
        with(record(2, MINUTE_US), |it| it.outcome = Outcome::Retried),
        record(3, MINUTE_US + 5),
        with(record(4, MINUTE_US + 6), |it| {
            it.outcome = Outcome::Cancelled;
            it.stages.started_us = 0;
        }),
    ];
    let subject = loaded(harness, &records).await;
    let found = minutes(&subject.journal()).await;
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].start, Timestamp::from_millis(start_ms));
    assert_eq!(found[1].start, Timestamp::from_millis(start_ms + 60_000));
    assert_eq!((found[0].total(), found[1].total()), (1, 3));
    assert_eq!(found[1].outcomes[&Outcome::Retried], 1);
    assert_eq!(found[1].outcomes[&Outcome::Cancelled], 1);
    // Due 2 ms before it finished, or a little less where that is no whole millisecond; started
    // 1 ms before.
    assert_eq!(found[1].lateness.count(), 2);
    let expected = Lateness::middle(Lateness::slot(Duration::from_millis(1)));
    assert_eq!(found[1].lateness.percentile(50.0), Some(expected));
    assert_eq!(found, counted(&records));
}

pub(crate) async fn minutes_add_up_whatever_the_batches_were(harness: &dyn JournalHarness) {
    let records = mixed();
    for size in [1, 7, 100, 600] {
        let subject = harness.fresh().await;
        let journal = subject.journal();
        // One by one would take a journal a while: the first few are enough.
        let (few, rest) = records.split_at(if size == 1 { 20 } else { 600 });
        for part in few.chunks(size).chain(rest.chunks(100)) {
            load(&journal, part).await;
        }
        assert_eq!(
            minutes(&journal).await,
            counted(&records),
            "batches of {size}"
        );
    }
    let subject = harness.fresh().await;
    let parts = records.chunks(50).map(|part| batch_of("store", part));
    subject
        .journal()
        .load(parts.collect())
        .await
        .expect("a load");
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

pub(crate) async fn what_is_loaded_again_is_not_counted_again(harness: &dyn JournalHarness) {
    let records = mixed();
    let subject = loaded(harness, &records[..400]).await;
    load(&subject.journal(), &records[300..]).await;
    load(&subject.journal(), &records[..500]).await;
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

pub(crate) async fn minutes_come_in_order_and_by_page(harness: &dyn JournalHarness) {
    // And a minute of many queues, whose names come in another order than they.
    let records = (0..90).map(|n| {
        with(record(1_000 + n, 60 * MINUTE_US + n * 1_000), |it| {
            it.queue = queue(&format!("one-of-{}", n * 37 % 50));
            it.outcome = Outcome::ALL[n as usize % 3];
        })
    });
    let records: Vec<_> = mixed().into_iter().chain(records).collect();
    let subject = loaded(harness, &records).await;
    let expected = counted(&records);
    assert!(expected.len() > 20);
    for limit in [1, 2, 7, 100] {
        let mut query = MinuteQuery {
            limit: Some(limit),
            ..MinuteQuery::default()
        };
        let mut found = Vec::new();
        loop {
            let page = subject.journal().minutes(query.clone()).await;
            let page = page.expect("minutes");
            assert!(page.len() <= limit as usize);
            let Some(last) = page.last() else {
                break;
            };
            query.after = Some((last.start, last.queue.clone()));
            found.extend(page);
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
}

pub(crate) async fn minutes_of_one_queue_are_read_alone(harness: &dyn JournalHarness) {
    let records = mixed();
    let subject = loaded(harness, &records).await;
    for name in ["orders", "sms", "a-late-one", "nobody"] {
        let mut expected = counted(&records);
        expected.retain(|minute| minute.queue.as_str() == name);
        let mut query = MinuteQuery {
            queue: Some(queue(name)),
            ..MinuteQuery::default()
        };
        let found = subject.journal().minutes(query.clone()).await;
        assert_eq!(found.expect("minutes"), expected);
        if let Some(first) = expected.first() {
            query.after = Some((first.start, first.queue.clone()));
            query.limit = Some(3);
            let found = subject.journal().minutes(query).await;
            assert_eq!(found.expect("minutes"), expected[1..4]);
        }
    }
}

pub(crate) async fn minutes_of_a_range_have_its_beginning_and_not_its_end(
    harness: &dyn JournalHarness,
) {
    let records: Vec<_> = (0..6).map(|at| record(at + 1, at * MINUTE_US)).collect();
    let subject = loaded(harness, &records).await;
    let start = START_US / 1_000;
    let starts = async |since: u64, until: u64| -> Vec<u64> {
        let query = MinuteQuery {
            since: Some(Timestamp::from_millis(since)),
            until: Some(Timestamp::from_millis(until)),
            ..MinuteQuery::default()
        };
        let found = subject.journal().minutes(query).await.expect("minutes");
        let starts = found.iter().map(|it| it.start.as_millis() - start);
        starts.map(|ms| ms / 60_000).collect()
    };
    assert_eq!(starts(start + 60_000, start + 180_000).await, [1, 2]);
    assert_eq!(starts(start + 60_001, start + 180_001).await, [2, 3]);
    assert_eq!(starts(0, u64::MAX).await.len(), 6);
    assert_eq!(starts(start + 60_000, start + 60_000).await, NONE);
    assert_eq!(starts(u64::MAX, u64::MAX).await, NONE);
    let few = many(3);
    load(&subject.journal(), &few).await;
    assert_eq!(minutes(&subject.journal()).await[0].total(), 4);
}
