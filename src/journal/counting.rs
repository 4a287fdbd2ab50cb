//! Counts by minute: those of the journal, and what waits in outboxes.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::event::QueueName;
use crate::journal::contract::Journal;
use crate::journal::reading::{Unread, of_journal};
use crate::journal::waiting;
use crate::record::{Cursor, MinuteQuery, MinuteStats, Numbered, Page, Query, Record};
use crate::store::Store;
use crate::time::Timestamp;

/// How many pages of the journal are looked at for records that also wait in an outbox.
const PAGES_MAX: usize = 100;
/// How often it is tried to see the journal while nothing is loaded.
const TRIES: usize = 3;

/// A record that waits.
type Waiting = (Cursor, Record);

/// A page of minutes.
///
/// A record that waits may be in the journal already, loaded and not trimmed yet, and then the
/// journal counts it.
pub(crate) async fn minutes(
    store: &dyn Store,
    journal: Option<&dyn Journal>,
    query: MinuteQuery,
) -> Result<Page<MinuteStats, (Timestamp, QueueName)>> {
    if let Some(table) = store.records() {
        let counted = table.minutes(query.clone()).await?;
        return Ok(merge(&query, counted, Vec::new()));
    }
    let page_query = Query {
        queue: query.queue.clone(),
        since: query.since,
        ..Query::default()
    };
    let keep = |numbered: Numbered| {
        let start = MinuteStats::of(&numbered.1);
        let is_asked_for = query.matches(start, &numbered.1.queue);
        // Only what is counted, which may be much less than all of it.
        is_asked_for.then(|| (Cursor::of(&numbered), bare(numbered.1)))
    };
    let waiting = waiting::newest(store, |_| true, &page_query, keep).await?;
    let (counted, waiting) = match journal {
        Some(journal) => apart(journal, &query, waiting).await?,
        None => (Vec::new(), waiting),
    };
    Ok(merge(&query, counted, waiting))
}

/// The same record without its texts.
fn bare(record: Record) -> Record {
    Record {
        key: None,
        error: None,
        payload: None,
        by: None,
        ..record
    }
}

/// What the journal has counted, and what it has not.
async fn apart(
    journal: &dyn Journal,
    query: &MinuteQuery,
    mut waiting: Vec<Waiting>,
) -> Result<(Vec<MinuteStats>, Vec<Waiting>), Unread> {
    for tried in 1.. {
        let before = there(journal, query, &waiting).await?;
        let counted = of_journal(async { journal.minutes(query.clone()).await }).await?;
        let after = there(journal, query, &waiting).await?;
        if before == after || tried == TRIES {
            waiting.retain(|(place, _)| !after.contains(place));
            return Ok((counted, waiting));
        }
    }
    Ok((Vec::new(), waiting)) // never, as the tries are over before
}

/// Which of the records are in the journal.
async fn there(
    journal: &dyn Journal,
    query: &MinuteQuery,
    waiting: &[Waiting],
) -> Result<BTreeSet<Cursor>, Unread> {
    let places: BTreeSet<Cursor> = waiting.iter().map(|(place, _)| *place).collect();
    let (Some(first), Some(last)) = (places.first(), places.last()) else {
        return Ok(BTreeSet::new());
    };
    let mut page_query = Query {
        queue: query.queue.clone(),
        since: Some(Timestamp::from_millis(first.finished_us / 1_000)),
        until: Some(Timestamp::from_micros_up(
            last.finished_us.saturating_add(1),
        )),
        limit: Some(Query::LIMIT_MAX),
        ..Query::default()
    };
    let mut there = BTreeSet::new();
    for _ in 0..PAGES_MAX {
        let found = of_journal(async { journal.page(page_query.clone()).await }).await?;
        let found_places = found.records.iter().map(Cursor::of);
        there.extend(found_places.filter(|place| places.contains(place)));
        match found.next {
            Some(next) => page_query.after = Some(next),
            None => break,
        }
    }
    Ok(there)
}

fn merge(
    query: &MinuteQuery,
    counted: Vec<MinuteStats>,
    waiting: Vec<Waiting>,
) -> Page<MinuteStats, (Timestamp, QueueName)> {
    let key = |minute: &MinuteStats| (minute.start, minute.queue.clone());
    // Beyond a full page of the journal there may be minutes that nobody has seen yet.
    let is_full = counted.len() >= query.page_len();
    let end = counted.last().filter(|_| is_full).map(key);
    let mut minutes: BTreeMap<_, MinuteStats> =
        counted.into_iter().map(|it| (key(&it), it)).collect();
    for (_, record) in waiting {
        let place = (MinuteStats::of(&record), record.queue.clone());
        if end.as_ref().is_some_and(|end| place > *end) {
            continue;
        }
        let minute = minutes
            .entry(place.clone())
            .or_insert_with(|| MinuteStats::new(place.0, place.1));
        minute.add(&record);
    }
    let is_cut = is_full || minutes.len() > query.page_len();
    let items: Vec<MinuteStats> = minutes.into_values().take(query.page_len()).collect();
    let next = items.last().filter(|_| is_cut).map(key);
    Page::new(items, next)
}
