//! Records that wait for the journal: which they are, what they tell, and how long they stay.

use duly::ErrorKind;
use duly::records::Record;
use duly::store::operation::{AttemptOutcome, PushOutcome, StartMark, StoreOp};
use duly::store::{
    EmbeddedOptions, EmbeddedStore, OUTBOX_BATCH_MAX, Outbox, OutboxLimit, OutboxPage, Store,
    WhenFull,
};
use duly::time::When;
use futures_util::FutureExt;

use crate::embedded::damage::{damaged, handle, history, meddle};
use crate::embedded::harness::*;

fn page(store: &EmbeddedStore, after: u64, limit: usize) -> OutboxPage {
    let page = store
        .read_outbox(&Outbox::Store, after, limit)
        .now_or_never();
    page.expect("an inline store answers at once")
        .expect("a page")
}

fn numbers(store: &EmbeddedStore) -> Vec<u64> {
    let page = page(store, 0, 1_000);
    assert_eq!(page.damaged, 0);
    page.records.iter().map(|(number, _)| *number).collect()
}

fn trim(store: &EmbeddedStore, through: u64) {
    let trimmed = store.trim_outbox(&Outbox::Store, through).now_or_never();
    trimmed
        .expect("an inline store answers at once")
        .expect("a trim");
}

/// How many records lie in the file, while no store has it open.
fn rows(place: &Place) -> i64 {
    let file = rusqlite::Connection::open(place.path()).expect("the file");
    let count = file.query_row("SELECT count(*) FROM records", [], |row| row.get(0));
    count.expect("a count")
}

#[test]
fn a_page_of_damaged_records_alone_does_not_end_the_reading() {
    let place = Place::new();
    let store = place.open();
    handle(&store, 1, 4);
    drop(store);
    let file = rusqlite::Connection::open(place.path()).expect("the file");
    let damage = "UPDATE records SET attempt = 9 WHERE number <= 2";
    assert_eq!(file.execute(damage, []).expect("a change"), 2);
    drop(file);
    let store = place.open();
    let damaged = page(&store, 0, 2);
    assert_eq!(
        (damaged.records.len(), damaged.damaged, damaged.last),
        (0, 2, 2)
    );
    assert!(damaged.has_more());
    let rest = page(&store, damaged.last, 2);
    assert_eq!((rest.records.len(), rest.damaged, rest.last), (2, 0, 4));
    assert!(!rest.has_more());
    assert_eq!(history(&store), [3, 4]);
}

#[test]
fn a_page_of_damaged_records_alone_hides_none_of_the_others() {
    let place = Place::new();
    let store = place.open();
    let batches = OUTBOX_BATCH_MAX as u64 / 1_000;
    for batch in 0..batches {
        let events = (1..=1_000).map(|n| event(batch * 1_000 + n, When::Now, 1));
        ask(&store, StoreOp::Push(events.collect())).expect("a push");
        let deliveries = fetch(&store, batch + 1);
        let settlements = deliveries.iter();
        let settlements = settlements.map(|delivery| settlement(delivery, AttemptOutcome::Ack));
        let (node, settlements) = (NODE, settlements.collect());
        ask(
            &store,
            StoreOp::Settle {
                node,
                settlements,
                started: StartMark::default(),
            },
        )
        .expect("a settle");
    }
    push_now(&store, 99_999);
    let delivery = fetch(&store, 99).remove(0);
    assert!(settle(&store, &delivery, AttemptOutcome::Ack).expect("a settle"));
    drop(store);
    let file = rusqlite::Connection::open(place.path()).expect("the file");
    let damage = "UPDATE records SET attempt = 9 WHERE number <= 10000";
    assert_eq!(
        file.execute(damage, []).expect("a change"),
        OUTBOX_BATCH_MAX
    );
    drop(file);
    let store = place.open();
    let damaged = page(&store, 0, OUTBOX_BATCH_MAX);
    assert_eq!((damaged.records.len(), damaged.damaged), (0, 10_000));
    assert_eq!(history(&store), [99_999]);
}

/// Whatever number it has now: it is missed where it was.
#[test]
fn a_record_whose_number_is_damaged_is_counted_as_damaged() {
    for new in [9_i64, 1 << 50, -1] {
        let place = Place::new();
        let store = place.open();
        handle(&store, 1, 3);
        drop(store);
        meddle(
            &place,
            &format!("UPDATE records SET number = {new} WHERE number = 2"),
        );
        let page = page(&place.open(), 0, 10);
        assert_eq!((page.first, page.next, page.last), (1, 4, 3));
        assert_eq!((page.records.len(), page.damaged), (2, 1));
    }
}

#[test]
fn what_a_record_tells_is_covered_by_its_checksum() {
    for damage in [
        "payload = x'00'",
        "payload = NULL",
        "trace = x'0102030405060708090a0b0c0d0e0f10'",
        "trace = NULL",
        "\"by\" = 'nobody'",
    ] {
        let place = Place::new();
        let store = place.open();
        push(&store, telling(1, 3)).expect("a push");
        let delivery = fetch(&store, 1).remove(0);
        assert!(settle(&store, &delivery, AttemptOutcome::Ack).expect("a settle"));
        drop(store);
        let record: Record = page(&place.open(), 0, 1).records.remove(0).1;
        assert_eq!(record.payload, Some(payload(1)));
        meddle(&place, &format!("UPDATE records SET {damage}"));
        let page = page(&place.open(), 0, 1);
        assert_eq!((page.records.len(), page.damaged), (0, 1), "{damage}");
    }
}

#[test]
fn a_damaged_envelope_has_nothing_to_tell_and_stops_nobody() {
    let place = Place::new();
    let store = place.open();
    for n in 1..=2 {
        push(&store, telling(n, 3)).expect("a push");
    }
    let deliveries = fetch(&store, 1);
    meddle(
        &place,
        "UPDATE events SET body = zeroblob(100) WHERE row = 1",
    );
    for delivery in &deliveries {
        assert!(settle(&store, delivery, AttemptOutcome::Ack).expect("a settle"));
    }
    let told = page(&store, 0, 10).records;
    let told: Vec<_> = told
        .into_iter()
        .map(|(_, it)| (it.payload, it.trace))
        .collect();
    let trace = telling(2, 3).envelope.trace();
    assert_eq!(told, [(None, None), (Some(payload(2)), trace)]);
}

#[test]
fn a_page_of_long_payloads_is_short_and_says_where_to_go_on() {
    let place = Place::new();
    let store = place.open();
    for n in 1..=100 {
        let mut event = telling(n, 3);
        let envelope = std::sync::Arc::make_mut(&mut event.envelope);
        envelope.payload = duly::event::Payload::from(vec![7; 64 << 10]);
        push(&store, event).expect("a push");
    }
    // A fetch is bounded by bytes, too.
    for request in 1..=2 {
        for delivery in fetch(&store, request) {
            assert!(settle(&store, &delivery, AttemptOutcome::Ack).expect("a settle"));
        }
    }
    let (mut after, mut seen) = (0, 0);
    loop {
        let page = page(&store, after, 1_000);
        assert!(
            (1..=66).contains(&page.records.len()),
            "{}",
            page.records.len()
        );
        assert_eq!(page.damaged, 0);
        seen += page.records.len();
        after = page.last;
        if !page.has_more() {
            break;
        }
    }
    assert_eq!(seen, 100);
}

#[test]
fn records_that_wait_are_not_let_go_and_trimmed_ones_are_in_time() {
    let place = Place::new();
    let options = || -> EmbeddedOptions { place.options().records_max(10) };
    let limit = OutboxLimit {
        max: Some(1_000),
        when_full: WhenFull::RefusePushes,
    };
    let store = EmbeddedStore::open_with(place.path(), options()).expect("a store");
    store.limit_outboxes(limit).expect("a limit");
    handle(&store, 1, 25);
    assert_eq!(numbers(&store), (1..=25).collect::<Vec<_>>());
    drop(store);
    let store = EmbeddedStore::open_with(place.path(), options()).expect("a store");
    store.limit_outboxes(limit).expect("a limit");
    assert_eq!(numbers(&store), (1..=25).collect::<Vec<_>>());
    trim(&store, 24);
    assert_eq!(numbers(&store), [25]);
    handle(&store, 26, 15);
    assert_eq!(numbers(&store), (25..=40).collect::<Vec<_>>());
    drop(store);
    assert_eq!(
        rows(&place),
        16,
        "those that wait, more than are kept otherwise"
    );
}

#[test]
fn what_is_in_the_journal_is_still_known_to_be_over() {
    let place = Place::new();
    let store = place.open();
    handle(&store, 1, 3);
    trim(&store, 3);
    drop(store);
    let store = place.open();
    assert!(numbers(&store).is_empty());
    assert_eq!(rows(&place), 3);
    for n in 1..=3 {
        let again = push(&store, event(n, When::Now, 3)).expect("a push");
        assert_eq!(again.verdict, PushOutcome::Duplicate(id(n)));
    }
}

#[test]
fn a_number_of_the_journal_is_not_given_again_where_the_last_record_is_damaged() {
    for damage in [
        "UPDATE records SET attempt = 9 WHERE number = 3",
        "UPDATE records SET number = 0 WHERE number = 3",
        "DELETE FROM records WHERE number = 3",
    ] {
        its_number_is_not_given_again(damage);
    }
}

fn its_number_is_not_given_again(damage: &str) {
    let place = Place::new();
    let store = place.open();
    handle(&store, 1, 3);
    trim(&store, 3);
    drop(store);
    meddle(&place, damage);
    let store = place.open();
    handle(&store, 4, 1);
    assert_eq!(numbers(&store), [4], "{damage}");
}

/// The journal has them, and takes each only once.
#[test]
fn where_nobody_knows_what_is_in_the_journal_all_records_wait_again() {
    for damage in [
        "UPDATE outbox SET trimmed = 3",
        "UPDATE outbox SET sum = sum + 1",
        "DELETE FROM outbox",
    ] {
        let place = Place::new();
        let store = place.open();
        handle(&store, 1, 3);
        trim(&store, 2);
        drop(store);
        meddle(&place, damage);
        let store = place.open();
        assert_eq!(numbers(&store), [1, 2, 3], "{damage}");
        assert_eq!(damaged(&store).len(), 1, "{damage}");
        trim(&store, 1);
        drop(store);
        let store = place.open();
        assert_eq!(numbers(&store), [2, 3], "{damage}");
        assert_eq!(damaged(&store).len(), 1, "it is found once");
    }
}

#[test]
fn a_closed_store_is_not_trimmed() {
    let place = Place::new();
    let store = place.open();
    handle(&store, 1, 1);
    store
        .close()
        .now_or_never()
        .expect("ready")
        .expect("a close");
    let refused = store.trim_outbox(&Outbox::Store, 1).now_or_never();
    let refused = refused.expect("ready").expect_err("it is closed");
    assert_eq!(refused.kind(), ErrorKind::Closed);
    drop(store);
    assert_eq!(numbers(&place.open()), [1]);
}

/// An event of the batch that is written may be gone before its record is.
#[tokio::test]
async fn a_record_tells_the_payload_of_its_time() {
    let place = Place::new();
    let clock = std::sync::Arc::clone(&place.clock) as std::sync::Arc<dyn duly::time::Clock>;
    let options = EmbeddedOptions::new().clock(clock).reserve_bytes(4_096);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    let ask = |op| store.apply(&key(), op);
    ask(StoreOp::Push(vec![telling(1, 1)]))
        .await
        .expect("a push");
    let fetched = ask(fetch_op(1)).await.expect("a fetch").reply;
    let duly::store::operation::Reply::Fetched { deliveries, .. } = fetched else {
        panic!("a fetch was answered with {fetched:?}");
    };
    let failing = duly::store::operation::FailureReason {
        cause: duly::records::Cause::Failed,
        error: None,
    };
    let settlements = vec![settlement(&deliveries[0], AttemptOutcome::Bury(failing))];
    // All of it decided at once, so that one transaction may hold it.
    let mut answers = vec![ask(StoreOp::Settle {
        node: NODE,
        settlements,
        started: StartMark::default(),
    })];
    for n in 2..=3 {
        answers.push(ask(StoreOp::Update {
            id: id(1),
            payload: payload(n),
            by: None,
            dead_only: false,
        }));
    }
    let ids = vec![id(1)];
    answers.push(ask(StoreOp::Drop { ids, by: None }));
    for answer in answers {
        answer.await.expect("an answer");
    }
    let page = store
        .read_outbox(&Outbox::Store, 0, 10)
        .await
        .expect("a page");
    let told: Vec<_> = page.records.into_iter().map(|(_, it)| it.payload).collect();
    assert_eq!(told, [1, 2, 3, 3].map(|n| Some(payload(n))));
}
