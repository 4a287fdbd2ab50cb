//! What a journal that outlives its process has after a new start.

use duly::ErrorKind;
use duly::Timestamp;
use duly::journal::Keep;
use duly::record::{MinuteQuery, Query};

use crate::harness::JournalHarness;
use crate::sample::{batch, counted, everything, load, loaded, many, minutes};

pub(crate) async fn a_reopened_journal_has_everything(harness: &dyn JournalHarness) {
    let records = many(500);
    let mut subject = loaded(harness, &records[..400]).await;
    for _ in 0..2 {
        subject = subject.reopen().await;
        assert_eq!(everything(&subject.journal()).await, records[..400]);
        assert_eq!(minutes(&subject.journal()).await, counted(&records[..400]));
    }
    load(&subject.journal(), &records[400..]).await;
    assert_eq!(everything(&subject.journal()).await, records);
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

pub(crate) async fn a_reopened_journal_knows_what_it_has(harness: &dyn JournalHarness) {
    let records = many(200);
    let subject = loaded(harness, &records).await.reopen().await;
    load(&subject.journal(), &records[100..]).await;
    assert_eq!(everything(&subject.journal()).await, records);
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}

pub(crate) async fn a_reopened_journal_goes_on_pruning(harness: &dyn JournalHarness) {
    let records = many(200);
    let keep = |count| Keep {
        age: None,
        count: Some(count),
        minutes: None,
    };
    let subject = loaded(harness, &records).await;
    let pruned = subject.journal().prune(keep(150), Timestamp::EPOCH).await;
    assert_eq!(pruned.expect("a step").records, 50);
    let subject = subject.reopen().await;
    let pruned = subject.journal().prune(keep(150), Timestamp::EPOCH).await;
    assert_eq!(pruned.expect("a step").records, 0);
    let pruned = subject.journal().prune(keep(20), Timestamp::EPOCH).await;
    assert_eq!(pruned.expect("a step").records, 130);
    assert_eq!(everything(&subject.journal()).await, records[180..]);
}

pub(crate) async fn a_closed_journal_says_so(harness: &dyn JournalHarness) {
    let subject = loaded(harness, &many(10)).await;
    let journal = subject.journal();
    journal.close().await.expect("a close");
    journal.close().await.expect("a second close");
    let closed = |error: duly::Error| assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    closed(
        journal
            .load(vec![batch(&many(1))])
            .await
            .expect_err("closed"),
    );
    closed(journal.page(Query::default()).await.expect_err("closed"));
    closed(
        journal
            .minutes(MinuteQuery::default())
            .await
            .expect_err("closed"),
    );
    let keep = Keep {
        age: None,
        count: None,
        minutes: None,
    };
    closed(
        journal
            .prune(keep, Timestamp::EPOCH)
            .await
            .expect_err("closed"),
    );
}
