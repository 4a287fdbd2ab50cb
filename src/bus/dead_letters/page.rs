//! A page of dead letters, with what the last record of each says.

use std::collections::{HashMap, HashSet};

use futures_util::StreamExt;

use crate::bus::dead_letters::letter::{DeadLetter, Last};
use crate::bus::dead_letters::source::{LetterPage, LetterScan};
use crate::bus::dead_letters::{DeadLetters, LetterCursor};
use crate::bus::fan_out::{in_order, in_time};
use crate::core::op::{BATCH_MAX, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId};
use crate::journal::{Journal, reading};
use crate::record::{Cursor, Numbered, Order, Outcome, Page, Query, Record};
use crate::store::Store;

/// How many letters a page has unless it is told otherwise.
const PAGE: usize = 100;
/// How many letters are looked at for a page; a bucket counts as one as well.
const LOOKED_MAX: usize = 10_000;
/// The same where the records of each have to be read.
const READ_MAX: usize = 1_000;
/// In how many pages of the journal the last record of a letter is looked for.
const PAGES_MAX: usize = 4;

impl DeadLetters {
    /// Reads a page. It looks at a bounded number of letters, so it may have fewer than were asked
    /// for, or none, and there are more all the same. While the registry of a shared store is away
    /// it has what lies in the buckets that are known here and answer; the log says how many do not.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for something that was asked for and is not possible; what the store
    /// answers; and where a cause or an error is asked for, what the journal answers.
    pub async fn page(self) -> Result<Page<DeadLetter, LetterCursor>> {
        self.check()?;
        let limit = self.limit.unwrap_or(PAGE).clamp(1, BATCH_MAX);
        let looked_max = match self.filter.reads_records() {
            true => READ_MAX,
            false => LOOKED_MAX,
        };
        let mut scan = LetterScan::new(&self).await?;
        let mut items: Vec<DeadLetter> = Vec::new();
        let (mut looked, mut place) = (0, self.after.clone());
        while looked < looked_max {
            let Some(page) = scan.next(BATCH_MAX.min(looked_max - looked)).await? else {
                return Ok(Page { items, next: None });
            };
            looked += page.read + 1;
            place = Some(page.end.clone());
            for letter in self.told(page, limit - items.len()).await? {
                items.push(letter);
                if items.len() == limit {
                    let next = items.last().map(DeadLetter::cursor);
                    return Ok(Page { items, next });
                }
            }
        }
        Ok(Page { items, next: place })
    }

    /// The letters of a page that match, each with its last record; at most `limit`.
    pub(super) async fn told(&self, page: LetterPage, limit: usize) -> Result<Vec<DeadLetter>> {
        let mut letters = page.letters;
        let reads_records = self.filter.reads_records();
        if !reads_records {
            letters.truncate(limit);
        }
        if letters.is_empty() {
            return Ok(Vec::new());
        }
        let told = last_of(&*self.inner.store, self.inner.journal(), &letters).await;
        let mut matching = Vec::new();
        for (letter, last) in letters.into_iter().zip(told) {
            if let (true, Last::Unread(why)) = (reads_records, &last) {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("why letters died cannot be read: {why}"),
                ));
            }
            if self.filter.matches_last(&last) {
                matching.push(DeadLetter::new(
                    page.bucket.queue.clone(),
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

/// What the last record of each letter says: of those that wait for the journal first, or one that
/// is carried there meanwhile would be seen in neither.
pub(super) async fn last_of(
    store: &dyn Store,
    journal: Option<&dyn Journal>,
    letters: &[Snapshot],
) -> Vec<Last> {
    let query = Query {
        outcomes: vec![Outcome::Buried, Outcome::LeaseLost],
        order: Order::Newest,
        ..Query::default()
    };
    let wanted: HashSet<EventId> = letters.iter().map(|letter| letter.id).collect();
    let of_them = |it: Numbered| wanted.contains(&it.1.id).then_some(it);
    let is_in = |bucket: &BucketKey| wanted.iter().any(|id| id.bucket() == bucket.bucket);
    let waiting = reading::waiting_in(store, is_in, &query, of_them, |_| {});
    let mut waiting = match waiting.await {
        Ok(waiting) => waiting,
        Err(error) => {
            let why = error.to_string();
            return letters.iter().map(|_| Last::Unread(why.clone())).collect();
        }
    };
    waiting.sort_unstable_by_key(Cursor::of);
    // Of each the last one stays.
    let waiting = waiting.into_iter().map(|(_, record)| (record.id, record));
    let mut newest: HashMap<EventId, Record> = waiting.collect();
    let told = letters.iter().map(|letter| {
        let (waits, query) = (newest.remove(&letter.id), query.clone());
        let told = async move {
            match (waits, journal) {
                (Some(record), _) => Last::Record(Box::new(record)),
                (None, None) => Last::Pruned,
                (None, Some(journal)) => in_journal(journal, query, letter.id).await,
            }
        };
        told
    });
    in_order(told).collect().await
}

async fn in_journal(journal: &dyn Journal, query: Query, id: EventId) -> Last {
    let mut query = Query {
        id: Some(id),
        limit: Some(1),
        ..query
    };
    for _ in 0..PAGES_MAX {
        match in_time(journal.page(query.clone())).await {
            Ok(mut found) => match (found.records.pop(), found.next) {
                (Some((_, record)), _) => return Last::Record(Box::new(record)),
                (None, None) => break,
                (None, next) => query.after = next,
            },
            Err(error) => return Last::Unread(error.to_string()),
        }
    }
    Last::Pruned
}
