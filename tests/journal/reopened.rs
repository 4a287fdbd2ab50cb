//! What a journal that outlives its process has after a new start.

use duly::ErrorKind;
use duly::journal::Keep;
use duly::records::{MinuteQuery, Query};
use duly::time::{Clock, SystemClock, Timestamp};

use crate::journal::harness::JournalHarness;
use crate::journal::prune::{A_MONTH, DAY_US, at};
use crate::journal::sample::{
    START_US, batch, counted, everything, load, loaded, many, minutes, prune, record,
};

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
        at_once: true,
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
        at_once: true,
    };
    closed(
        journal
            .prune(keep, Timestamp::EPOCH)
            .await
            .expect_err("closed"),
    );
}

pub(crate) async fn a_reopened_journal_has_removed_its_share_of_the_hour(
    harness: &dyn JournalHarness,
) {
    let records: Vec<_> = (0..400).map(|day| record(day + 1, day * DAY_US)).collect();
    let mut subject = loaded(harness, &records).await;
    let now = at(399 * DAY_US);
    assert_eq!(prune(&subject.journal(), A_MONTH, now).await, 3);
    for _ in 0..2 {
        subject = subject.reopen().await;
        assert_eq!(prune(&subject.journal(), A_MONTH, now).await, 0);
    }
    assert_eq!(everything(&subject.journal()).await, records[3..]);
}

/// As when the clock of a node, or of Redis, has jumped: its own records agree with it.
pub(crate) async fn a_record_from_the_future_makes_nothing_older_than_the_own_clock_says(
    harness: &dyn JournalHarness,
) {
    let today = SystemClock::new().wall_us() - START_US;
    let mut records: Vec<_> = (0..20)
        .map(|day| record(day + 1, today - (20 - day) * DAY_US))
        .collect();
    let ahead = today + 365 * DAY_US;
    records.push(record(21, ahead));
    let subject = loaded(harness, &records).await;
    for at_once in [false, true] {
        let keep = Keep { at_once, ..A_MONTH };
        assert_eq!(prune(&subject.journal(), keep, at(ahead)).await, 0);
        let pruned = subject.journal().prune(keep, at(ahead)).await;
        assert!(!pruned.expect("a step").is_held_back);
    }
    assert_eq!(everything(&subject.journal()).await, records);
    assert_eq!(minutes(&subject.journal()).await, counted(&records));
}
