//! Several at once, over the same records: two recorders, or a recorder and a reader.

use std::time::Duration;

use duly::journal::Keep;
use duly::records::Outcome;
use duly::time::Timestamp;

use crate::journal::harness::JournalHarness;
use crate::journal::sample::{counted, everything, load, many, minutes, queue};

pub(crate) async fn two_loaders_at_once_keep_each_record_once(harness: &dyn JournalHarness) {
    let mut records = many(4_000);
    for (at, (_, record)) in records.iter_mut().enumerate() {
        record.queue = queue(&format!("q{}", at % 5));
        record.outcome = Outcome::ALL[at % 11];
    }
    let subject = harness.fresh().await;
    let mut loaders = Vec::new();
    for size in [37, 100, 64] {
        let (journal, records) = (subject.beside().await, records.clone());
        loaders.push(tokio::spawn(async move {
            for part in records.chunks(size) {
                load(&journal, part).await;
            }
        }));
    }
    for loader in loaders {
        loader.await.expect("a loader");
    }
    let journal = subject.journal();
    assert!(everything(&journal).await == records);
    assert_eq!(minutes(&journal).await, counted(&records));
    // What is counted of them for retention is right as well.
    let keep = Keep {
        age: None,
        count: Some(4_000),
        minutes: Some(Duration::MAX),
        at_once: true,
    };
    let pruned = journal.prune(keep, Timestamp::MAX).await.expect("a step");
    assert_eq!((pruned.records, pruned.more), (0, false));
}

pub(crate) async fn what_one_has_loaded_the_other_reads(harness: &dyn JournalHarness) {
    let records = many(30);
    let subject = harness.fresh().await;
    let (one, other) = (subject.journal(), subject.beside().await);
    for (at, part) in records.chunks(10).enumerate() {
        load(if at % 2 == 0 { &one } else { &other }, part).await;
        let so_far = &records[..(at + 1) * 10];
        assert_eq!(everything(&one).await, so_far);
        assert_eq!(everything(&other).await, so_far);
        assert_eq!(minutes(&other).await, counted(so_far));
    }
}
