//! Pages of dead letters, with the last record of each.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt;

use crate::bus::dead_letters::dead_letter::{DeadLetter, LastRecord};
use crate::bus::dead_letters::source::{DeadLetterPage, DeadLetterScan};
use crate::bus::dead_letters::{DeadLetterCursor, DeadLetters};
use crate::bus::fan_out::{in_order, operator_call};
use crate::bus::scan::PAGE_BYTES;
use crate::core::op::{BATCH_MAX, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId};
use crate::journal::{Journal, waiting};
use crate::record::{Cursor, FoundRecords, Numbered, Order, Outcome, Page, Query, Record};
use crate::store::Store;
use crate::time::Timestamp;

/// The default size of a page.
const PAGE: usize = 100;
/// The most dead letters that are scanned for a page; a bucket counts as one as well.
const LOOKED_MAX: usize = 10_000;
/// The same limit where the records of each have to be read.
const READ_MAX: usize = 1_000;
/// The most journal pages that are read for the last record of a dead letter.
const PAGES_MAX: usize = 4;

impl DeadLetters {
    /// Reads a page. It scans a bounded number of dead letters and ends after 16 MiB of payloads, so it
    /// may have fewer than the limit, or none, although there are more. While the registry of a shared store is
    /// unavailable, it covers the buckets that are known here and respond; the log has the number
    /// of the others.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for an invalid filter or limit; the store's error; and with a cause
    /// or an error as filter, the journal's error.
    pub async fn page(self) -> Result<Page<DeadLetter, DeadLetterCursor>> {
        self.check()?;
        let limit = self.limit.unwrap_or(PAGE).clamp(1, BATCH_MAX);
        let looked_max = if self.filter.reads_records() {
            READ_MAX
        } else {
            LOOKED_MAX
        };
        let mut scan = DeadLetterScan::new(&self).await?;
        let mut items: Vec<DeadLetter> = Vec::new();
        let (mut looked, mut bytes, mut place) = (0, 0, self.after.clone());
        while looked < looked_max && bytes < PAGE_BYTES {
            let Some(page) = scan.next(BATCH_MAX.min(looked_max - looked)).await? else {
                return Ok(Page::new(items, None));
            };
            looked += page.read + 1;
            place = Some(page.end.clone());
            for letter in self.with_last_records(page, limit - items.len()).await? {
                bytes += letter.payload.len();
                items.push(letter);
                if items.len() == limit {
                    let next = items.last().map(DeadLetter::cursor);
                    return Ok(Page::new(items, next));
                }
            }
        }
        Ok(Page::new(items, place))
    }

    /// Reads a page of when each died and its id alone, without payloads and records: of those that
    /// match as far as the store can tell.
    pub(crate) async fn page_of_ids(
        self,
    ) -> Result<Page<(Option<Timestamp>, EventId), DeadLetterCursor>> {
        self.check()?;
        let limit = self.limit.unwrap_or(PAGE).clamp(1, BATCH_MAX);
        let mut scan = DeadLetterScan::new(&self).await?;
        let (mut items, mut looked, mut place) = (Vec::new(), 0, self.after.clone());
        while items.len() < limit && looked < LOOKED_MAX {
            let Some(page) = scan.next(limit - items.len()).await? else {
                return Ok(Page::new(items, None));
            };
            looked += page.read + 1;
            place = Some(page.end);
            items.extend(page.letters.iter().map(|letter| (letter.since, letter.id)));
        }
        Ok(Page::new(items, place))
    }

    /// Returns the matches of a page with their last records, at most `limit`.
    pub(super) async fn with_last_records(
        &self,
        page: DeadLetterPage,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let mut letters = page.letters;
        let reads_records = self.filter.reads_records();
        if !reads_records {
            letters.truncate(limit);
        }
        if letters.is_empty() {
            return Ok(Vec::new());
        }
        let of = (&page.bucket, letters.as_slice());
        let last_records = last_of(&*self.inner.store, self.inner.journal(), of).await;
        let mut matching = Vec::new();
        for (letter, last) in letters.into_iter().zip(last_records) {
            if let (true, LastRecord::Unread(why)) = (reads_records, &last) {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("the records of dead letters cannot be read: {why}"),
                ));
            }
            if self.filter.matches_last(&last) {
                matching.push(DeadLetter::new(
                    page.bucket.clone(),
                    &letter,
                    last,
                    self.inner.keys.clone(),
                ));
            }
        }
        matching.truncate(limit);
        Ok(matching)
    }
}

/// Reads the last record of each dead letter: the outboxes first, or a record that moves to the
/// journal meanwhile would be seen in neither.
pub(super) async fn last_of(
    store: &dyn Store,
    journal: Option<&dyn Journal>,
    (bucket, letters): (&BucketKey, &[Snapshot]),
) -> Vec<LastRecord> {
    // Another queue may have an event under the same id.
    let query = Query {
        queue: Some(bucket.queue.clone()),
        outcomes: vec![Outcome::Buried, Outcome::LeaseLost],
        order: Order::Newest,
        ..Query::default()
    };
    let wanted: HashSet<EventId> = letters.iter().map(|letter| letter.id).collect();
    let of_them = |it: Numbered| wanted.contains(&it.1.id).then_some(it);
    let is_in = |other: &BucketKey| other == bucket;
    let waiting = waiting::newest(store, is_in, &query, of_them);
    let mut waiting = match waiting.await {
        Ok(waiting) => waiting,
        Err(error) => {
            let why = error.to_string();
            return letters
                .iter()
                .map(|_| LastRecord::Unread(why.clone()))
                .collect();
        }
    };
    waiting.sort_unstable_by_key(Cursor::of);
    // Of each event the last one remains.
    let waiting = waiting.into_iter().map(|(_, record)| (record.id, record));
    let mut newest: HashMap<EventId, Record> = waiting.collect();
    let last_records = letters.iter().map(|letter| {
        let (waits, query) = (newest.remove(&letter.id), query.clone());
        async move {
            if let Some(record) = waits {
                return LastRecord::Record(Box::new(record));
            }
            match (store.records(), journal) {
                (Some(table), _) => {
                    let page = |query| Arc::clone(&table).page(query);
                    last_in(page, query, letter.id).await
                }
                (None, Some(journal)) => {
                    let page = |query| journal.page(query);
                    last_in(page, query, letter.id).await
                }
                (None, None) => LastRecord::Pruned,
            }
        }
    });
    in_order(last_records).collect().await
}

/// The last record of an event, in pages that look at a bounded number of records.
async fn last_in<F>(page: impl Fn(Query) -> F, query: Query, id: EventId) -> LastRecord
where
    F: Future<Output = Result<FoundRecords>>,
{
    let mut query = Query {
        id: Some(id),
        limit: Some(1),
        ..query
    };
    for _ in 0..PAGES_MAX {
        match operator_call(page(query.clone())).await {
            Ok(mut found) => match (found.records.pop(), found.next) {
                (Some((_, record)), _) => return LastRecord::Record(Box::new(record)),
                (None, None) => break,
                (None, next) => query.after = next,
            },
            Err(error) => return LastRecord::Unread(error.to_string()),
        }
    }
    LastRecord::Pruned
}
