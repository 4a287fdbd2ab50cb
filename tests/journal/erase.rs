//! What a record holds of a person can be erased, and the rest of it stays.

use duly::records::{Cause, Cursor, Numbered, Outcome};

use crate::journal::harness::JournalHarness;
use crate::journal::sample::{everything, load, loaded, minutes, record, sorted, trace, with};

/// Records of which some hold a payload, an error or both, and all else that a record has.
fn holding() -> Vec<Numbered> {
    let of = |number: u64| {
        with(record(number, number * 1_000_000), |it| {
            it.key = Some("customer:8".to_owned());
            it.outcome = Outcome::Retried;
            it.cause = Some(Cause::Failed);
            it.trace = Some(trace(1));
            it.by = Some("ann".to_owned());
            if number.is_multiple_of(2) {
                it.payload = Some(format!("{{\"name\":\"Ann {number}\"}}").into_bytes().into());
            }
            if number.is_multiple_of(3) {
                it.error = Some(format!("no such address: Ann {number}"));
            }
        })
    };
    (1..=24).map(of).collect()
}

pub(crate) async fn what_is_erased_loses_payload_and_error_and_nothing_else(
    harness: &dyn JournalHarness,
) {
    let records = holding();
    let subject = loaded(harness, &records).await;
    let journal = subject.journal();
    let counted = minutes(&journal).await;
    let erased = |number: u64| number <= 12;
    let mut places: Vec<Cursor> = records.iter().map(Cursor::of).collect();
    places.retain(|place| erased(place.number));
    journal.erase(places.clone()).await.expect("erased");

    let mut expected = records.clone();
    for (number, record) in &mut expected {
        if erased(*number) {
            record.payload = None;
            record.error = None;
        }
    }
    assert_eq!(everything(&journal).await, sorted(&expected));
    assert_eq!(minutes(&journal).await, counted, "they count what was");

    journal.erase(places).await.expect("again");
    load(&journal, &records).await; // an outbox that was not trimmed in time
    assert_eq!(everything(&journal).await, sorted(&expected));
}

pub(crate) async fn a_place_where_nothing_is_erases_nothing(harness: &dyn JournalHarness) {
    let records = holding();
    let subject = loaded(harness, &records).await;
    let journal = subject.journal();
    let near = records.iter().map(|numbered| Cursor {
        number: numbered.0 + 100,
        ..Cursor::of(numbered)
    });
    journal.erase(near.collect()).await.expect("nothing to do");
    journal.erase(Vec::new()).await.expect("nothing to do");
    assert_eq!(everything(&journal).await, sorted(&records));
}
