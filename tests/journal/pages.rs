//! Pages: their order, their bound, and what a cursor is worth while records arrive.

use std::collections::BTreeSet;

use duly::records::{Cursor, Numbered, Order, Outcome, Query};

use crate::journal::harness::JournalHarness;
use crate::journal::sample::{
    START_US, all, everything, id, load, loaded, many, numbers, page, record, sorted, with,
};

const NONE: [u64; 0] = [];

fn asking(order: Order, limit: u32) -> Query {
    Query {
        order,
        limit: Some(limit),
        ..Query::default()
    }
}

pub(crate) async fn the_oldest_come_first_and_the_newest_when_asked(harness: &dyn JournalHarness) {
    // Loaded in another order than that of their times, and numbered in a third one.
    let records: Vec<_> = [(4, 100), (1, 900), (9, 500), (2, 700), (3, 300)]
        .map(|(number, us)| record(number, us))
        .into();
    let subject = loaded(harness, &records).await;
    let journal = subject.journal();
    assert_eq!(
        numbers(&journal, asking(Order::Oldest, 2)).await,
        [4, 3, 9, 2, 1]
    );
    assert_eq!(
        numbers(&journal, asking(Order::Newest, 2)).await,
        [1, 2, 9, 3, 4]
    );
    assert_eq!(numbers(&journal, Query::default()).await, [4, 3, 9, 2, 1]);
}

pub(crate) async fn records_of_one_instant_are_in_the_order_of_numbers_and_then_of_ids(
    harness: &dyn JournalHarness,
) {
    let of = |number, event| with(record(number, 7), |it| it.id = id(event));
    let records = [of(300, 1), of(20, 9), of(20, 3), of(1_000, 2), of(20, 300)];
    let subject = loaded(harness, &records).await;
    let expected = [of(20, 3), of(20, 9), of(20, 300), of(300, 1), of(1_000, 2)];
    assert_eq!(everything(&subject.journal()).await, expected);
    for order in [Order::Oldest, Order::Newest] {
        let mut found = all(&subject.journal(), asking(order, 1)).await;
        if order == Order::Newest {
            found.reverse();
        }
        assert_eq!(found, expected);
    }
}

pub(crate) async fn a_page_holds_no_more_than_its_limit(harness: &dyn JournalHarness) {
    let subject = loaded(harness, &many(1_200)).await;
    let len = async |limit| {
        let query = Query {
            limit,
            ..Query::default()
        };
        page(&subject.journal(), query).await.records.len()
    };
    assert_eq!(len(None).await, 100);
    assert_eq!(len(Some(0)).await, 1);
    assert_eq!(len(Some(1)).await, 1);
    assert_eq!(len(Some(u32::MAX)).await, 1_000);
}

pub(crate) async fn pages_joined_are_everything_once(harness: &dyn JournalHarness) {
    let records = many(240);
    let subject = loaded(harness, &records).await;
    for limit in [1, 7, 100, 239, 240, 241] {
        assert_eq!(
            all(&subject.journal(), asking(Order::Oldest, limit)).await,
            records
        );
        let mut newest = all(&subject.journal(), asking(Order::Newest, limit)).await;
        newest.reverse();
        assert_eq!(newest, records);
    }
}

/// A batch that is settled in one step finishes at one time.
pub(crate) async fn pages_of_one_instant_are_everything_once(harness: &dyn JournalHarness) {
    let at_once = (0..300_u64).map(|n| {
        with(record(n / 3, 7), |it| {
            it.id = id(n);
            it.outcome = Outcome::ALL[n as usize % 3];
        })
    });
    let records = sorted(&at_once.collect::<Vec<_>>());
    let subject = loaded(harness, &records).await;
    for limit in [1, 2, 50] {
        assert_eq!(
            all(&subject.journal(), asking(Order::Oldest, limit)).await,
            records
        );
        let mut newest = all(&subject.journal(), asking(Order::Newest, limit)).await;
        newest.reverse();
        assert_eq!(newest, records);
        let some = Query {
            outcomes: vec![Outcome::ALL[1], Outcome::ALL[2]],
            ..asking(Order::Oldest, limit)
        };
        assert_eq!(all(&subject.journal(), some).await.len(), 200);
    }
}

pub(crate) async fn records_that_arrive_between_pages_disturb_none(harness: &dyn JournalHarness) {
    for order in [Order::Oldest, Order::Newest] {
        let there = many(100);
        let subject = loaded(harness, &there).await;
        let journal = subject.journal();
        let mut query = asking(order, 7);
        let mut found: Vec<Numbered> = Vec::new();
        let mut arrived = 1_000;
        loop {
            let page = page(&journal, query.clone()).await;
            found.extend(page.records);
            // New ones at the end, and late ones before, at and after the place of the page.
            let place_us = found
                .last()
                .map_or(0, |it| it.1.stages.finished_us - START_US);
            let mut new = Vec::new();
            for us in [place_us.saturating_sub(1), place_us, place_us + 1, 200_000] {
                arrived += 1;
                new.push(record(arrived, us));
            }
            // As many at each end as are read at a time: for ever there would be no last page.
            if arrived < 1_060 {
                load(&journal, &new).await;
            }
            let Some(next) = page.next else {
                break;
            };
            query.after = Some(next);
        }
        let distinct: BTreeSet<_> = found.iter().map(Cursor::of).collect();
        assert_eq!(
            distinct.len(),
            found.len(),
            "one was given twice, {order:?}"
        );
        let missing: Vec<_> = there.iter().filter(|it| !found.contains(it)).collect();
        assert!(missing.is_empty(), "passed over, {order:?}: {missing:?}");
        let mut in_order = sorted(&found);
        if order == Order::Newest {
            in_order.reverse();
        }
        assert_eq!(found, in_order);
    }
}

/// A page looks at a bounded number of records, so it may find nothing and say where to go on.
pub(crate) async fn a_rare_record_is_found_by_going_on(harness: &dyn JournalHarness) {
    let mut records = many(25_000);
    for at in [3, 12_500, 24_990] {
        records[at].1.error = Some("a rare one".to_owned());
        records[at].1.attempt = 9;
    }
    for (_, record) in &mut records {
        let text = || "a common one".to_owned();
        record.error.get_or_insert_with(text);
    }
    let subject = loaded(harness, &records).await;
    for order in [Order::Oldest, Order::Newest] {
        let query = Query {
            error: Some("rare".to_owned()),
            ..asking(order, 10)
        };
        let mut found = numbers(&subject.journal(), query).await;
        found.sort_unstable();
        assert_eq!(found, [4, 12_501, 24_991]);
    }
}

pub(crate) async fn a_cursor_of_no_record_is_a_place_all_the_same(harness: &dyn JournalHarness) {
    let records = many(10);
    let subject = loaded(harness, &records).await;
    let after = async |order, finished_us, number, event: u128| {
        let place = Cursor {
            finished_us,
            number,
            id: duly::EventId::from_bytes(event.to_be_bytes()),
        };
        let query = Query {
            after: Some(place),
            ..asking(order, 100)
        };
        numbers(&subject.journal(), query).await
    };
    let fourth = START_US + 4_000;
    assert_eq!(after(Order::Oldest, fourth, 4, 0).await[0], 4);
    assert_eq!(after(Order::Oldest, fourth, 4, u128::MAX).await[0], 5);
    assert_eq!(after(Order::Newest, fourth, 4, 0).await[0], 3);
    assert_eq!(after(Order::Newest, fourth, 4, u128::MAX).await[0], 4);
    assert_eq!(after(Order::Oldest, 0, 0, 0).await.len(), 10);
    assert_eq!(after(Order::Newest, 0, 0, 0).await, NONE);
    assert_eq!(
        after(Order::Oldest, u64::MAX, u64::MAX, u128::MAX).await,
        NONE
    );
    assert_eq!(
        after(Order::Newest, u64::MAX, u64::MAX, u128::MAX)
            .await
            .len(),
        10
    );
    assert_eq!(after(Order::Oldest, fourth, u64::MAX, 0).await[0], 5);
    assert_eq!(after(Order::Newest, fourth, u64::MAX, 0).await[0], 4);
}
