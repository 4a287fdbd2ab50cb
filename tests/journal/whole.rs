//! What is loaded is there, all of it and once.

use duly::event::Payload;
use duly::records::{Cause, Cursor, ERROR_BYTES_MAX, NodeId, Outcome, Query, Stages};
use duly::time::Timestamp;

use crate::journal::harness::JournalHarness;
use crate::journal::sample::{
    START_US, batch_of, counted, everything, id, load, loaded, many, minutes, page, queue, record,
    sorted, trace, with,
};

pub(crate) async fn a_loaded_record_is_found_whole(harness: &dyn JournalHarness) {
    let full = with(record(1, 1_234_567), |it| {
        it.key = Some("order:7 ü \u{1F4E6}".to_owned());
        it.attempt = 3;
        it.outcome = Outcome::Buried;
        it.cause = Some(Cause::TimedOut);
        it.error = Some("näh: 'quoted' \"twice\"\n\tand on, 100% \\".to_owned());
        it.trace = Some(trace(1));
        it.payload = Some(Payload::from(&b"{\"order\":7}"[..]));
        it.by = Some("ops@example.com".to_owned());
    });
    let empty = with(record(2, 2_000_000), |it| {
        it.attempt = 0;
        it.outcome = Outcome::Cancelled;
        it.key = Some(String::new());
        it.error = Some(String::new());
        it.by = Some(String::new());
        it.payload = Some(Payload::default());
        it.node = NodeId(0);
        it.stages.moved_us = 0;
        it.stages.fetched_us = 0;
        it.stages.started_us = 0;
    });
    let mut records = vec![full, empty, record(3, 2_000_001)];
    let outcomes = Outcome::ALL.into_iter().zip(10..);
    records.extend(outcomes.map(|(outcome, number)| {
        with(record(number, number * 1_000_000), |it| {
            it.outcome = outcome;
        })
    }));
    let causes = Cause::ALL.into_iter().zip(30..);
    records.extend(causes.map(|(cause, number)| {
        with(record(number, number * 1_000_000), |it| {
            it.outcome = Outcome::Retried;
            it.cause = Some(cause);
        })
    }));
    let subject = loaded(harness, &records).await;
    assert_eq!(everything(&subject.journal()).await, sorted(&records));
}

pub(crate) async fn of_two_that_cannot_be_told_apart_the_first_is_kept(
    harness: &dyn JournalHarness,
) {
    // So many that a sort which is not stable would mix them up.
    let firsts: Vec<_> = (1..=200).map(|n| record(n, 1_000)).collect();
    let mut all = firsts.clone();
    all.extend(firsts.iter().cloned().map(|first| {
        with(first, |it| {
            it.outcome = Outcome::Buried;
            it.error = Some("the second one".to_owned());
        })
    }));
    let subject = loaded(harness, &all).await;
    assert_eq!(everything(&subject.journal()).await, sorted(&firsts));
    assert_eq!(minutes(&subject.journal()).await, counted(&firsts));
}

pub(crate) async fn the_largest_numbers_come_back_as_they_were(harness: &dyn JournalHarness) {
    // Times of finishing and numbers are put in order, by integers with a sign.
    let most = i64::MAX as u64;
    let extreme = with(record(most, 0), |it| {
        it.id = duly::EventId::from_bytes([0xFF; 16]);
        it.queue = queue(&"q".repeat(128));
        it.key = Some("k".repeat(1_024));
        it.attempt = u16::MAX;
        it.due = Timestamp::MAX;
        it.node = NodeId(u64::MAX);
        it.error = Some("e".repeat(ERROR_BYTES_MAX));
        it.payload = Some(Payload::from(vec![b'p'; duly::records::PAYLOAD_KEPT_MAX]));
        it.stages = Stages {
            moved_us: u64::MAX,
            fetched_us: u64::MAX - 1,
            started_us: u64::MAX - 2,
            finished_us: most,
        };
    });
    let least = with(record(0, 0), |it| {
        it.id = duly::EventId::from_bytes([0; 16]);
        it.due = Timestamp::EPOCH;
        it.attempt = 0;
        it.node = NodeId(0);
        it.stages = Stages::default();
    });
    let records = [least, record(5, 5), extreme];
    let subject = loaded(harness, &records).await;
    assert_eq!(everything(&subject.journal()).await, records);
    let of_node = Query {
        node: Some(NodeId(u64::MAX)),
        ..Query::default()
    };
    let found = page(&subject.journal(), of_node).await;
    assert_eq!(found.records, records[2..]);
}

pub(crate) async fn a_payload_that_is_no_text_comes_back_as_it_was(harness: &dyn JournalHarness) {
    let payloads: [&[u8]; 4] = [b"\xFF\xFE\x00\x80", b"\x00", b"a\x00b", "näh".as_bytes()];
    let records: Vec<_> = payloads
        .into_iter()
        .zip(1..)
        .map(|(bytes, number)| with(record(number, number), |it| it.payload = Some(bytes.into())))
        .collect();
    let subject = loaded(harness, &records).await;
    assert_eq!(everything(&subject.journal()).await, records);
}

/// A database may not be able to hold the character; one such text must not keep all later records
/// out for ever. Whoever cannot hold it keeps the rest of the text.
pub(crate) async fn a_text_with_a_zero_in_it_does_not_stop_the_load(harness: &dyn JournalHarness) {
    let odd = with(record(1, 1), |it| {
        it.outcome = Outcome::Retried;
        it.key = Some("a\0b".to_owned());
        it.error = Some("left\0right".to_owned());
        it.by = Some("o\0ps".to_owned());
    });
    let records = [odd, record(2, 2)];
    let subject = loaded(harness, &records).await;
    load(&subject.journal(), &records).await;
    let found = everything(&subject.journal()).await;
    assert_eq!(found.len(), 2);
    let error = found[0].1.error.as_deref().unwrap_or_default();
    assert!(error.starts_with("left") && error.ends_with("right"));
    let with_text = Query {
        error: Some("right".to_owned()),
        ..Query::default()
    };
    let found = page(&subject.journal(), with_text).await;
    assert_eq!(found.records.len(), 1);
}

pub(crate) async fn loading_again_changes_nothing(harness: &dyn JournalHarness) {
    let records = many(50);
    let subject = loaded(harness, &records).await;
    for _ in 0..3 {
        load(&subject.journal(), &records).await;
        // By somebody who names the outbox in another way, too.
        let again = batch_of("elsewhere", &records);
        subject.journal().load(vec![again]).await.expect("a load");
    }
    assert_eq!(everything(&subject.journal()).await, records);
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

pub(crate) async fn loading_some_of_it_again_adds_the_rest(harness: &dyn JournalHarness) {
    let records = many(60);
    let subject = loaded(harness, &records[..40]).await;
    load(&subject.journal(), &records[20..]).await;
    load(&subject.journal(), &records[10..30]).await;
    assert_eq!(everything(&subject.journal()).await, records);
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

pub(crate) async fn the_same_record_twice_in_one_load_is_kept_once(harness: &dyn JournalHarness) {
    let records = many(3);
    let twice = [records.clone(), records.clone()].concat();
    let subject = loaded(harness, &twice).await;
    let both = vec![batch_of("one", &records), batch_of("two", &records)];
    subject.journal().load(both).await.expect("a load");
    assert_eq!(everything(&subject.journal()).await, records);
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

/// A store that lost its last numbers gives them again, to other records.
pub(crate) async fn a_number_given_twice_keeps_both_records(harness: &dyn JournalHarness) {
    let first = many(20);
    let subject = loaded(harness, &first).await;
    let again: Vec<_> = (11..=25)
        .map(|number| {
            let other = record(number, number * 1_000 + 500);
            with(other, |it| it.id = id(1_000 + number))
        })
        .collect();
    load(&subject.journal(), &again).await;
    // Also where only the event, or only the time, tells them apart.
    let same_time = with(record(5, 5_000), |it| it.id = id(5_555));
    let same_event = record(5, 5_001);
    load(&subject.journal(), &[same_time.clone(), same_event.clone()]).await;
    let expected = sorted(&[first, again, vec![same_time, same_event]].concat());
    assert_eq!(everything(&subject.journal()).await, expected);
    assert_eq!(minutes(&subject.journal()).await, counted(&expected));
}

pub(crate) async fn a_number_below_those_loaded_is_kept(harness: &dyn JournalHarness) {
    let records = many(30);
    let subject = loaded(harness, &records[20..]).await;
    load(&subject.journal(), &records[..10]).await;
    load(&subject.journal(), &records[10..20]).await;
    assert_eq!(everything(&subject.journal()).await, records);
}

pub(crate) async fn records_of_many_outboxes_are_loaded_at_once(harness: &dyn JournalHarness) {
    let subject = harness.fresh().await;
    let of = |outbox: u64| -> Vec<_> {
        (1..=20)
            .map(|number| {
                with(record(number, number * 100), |it| {
                    it.id = id(outbox * 1_000 + number);
                    it.queue = queue(&format!("q{outbox}"));
                })
            })
            .collect()
    };
    let outboxes: Vec<_> = (0..8).map(of).collect();
    let batches = outboxes.iter().zip(0..);
    let batches = batches.map(|(records, at)| batch_of(&format!("q{at}:0"), records));
    subject
        .journal()
        .load(batches.collect())
        .await
        .expect("a load");
    let expected = sorted(&outboxes.concat());
    assert_eq!(everything(&subject.journal()).await, expected);
    assert_eq!(minutes(&subject.journal()).await, counted(&expected));
}

pub(crate) async fn a_load_of_nothing_is_fine(harness: &dyn JournalHarness) {
    let subject = harness.fresh().await;
    let journal = subject.journal();
    journal.load(Vec::new()).await.expect("a load");
    load(&journal, &[]).await;
    assert_eq!(everything(&journal).await, []);
    assert_eq!(minutes(&journal).await, []);
}

pub(crate) async fn a_large_load_is_kept_whole(harness: &dyn JournalHarness) {
    let records = many(12_000);
    let subject = loaded(harness, &records).await;
    let found = everything(&subject.journal()).await;
    assert_eq!(found.len(), records.len());
    assert!(found == records);
    let last = Cursor::of(&records[11_999]);
    assert_eq!(last.finished_us, START_US + 12_000_000);
}
