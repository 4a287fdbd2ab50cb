//! Queries of records: from a store that keeps them itself, or from the journal and the outboxes.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::journal::contract::Journal;
use crate::journal::gap::{Waiting, is_within, nearest, sort};
use crate::journal::recorder::answered;
use crate::journal::waiting;
use crate::record::FoundRecords;
use crate::record::{Cursor, Numbered, Page, Query, Record};
use crate::store::Store;

/// For how long an answer of the journal is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who could not be read, and why.
#[derive(Debug)]
pub(crate) enum Unread {
    Store(Error),
    Journal(Error),
}

impl Unread {
    /// The answer itself.
    pub(crate) fn cause(self) -> Error {
        match self {
            Self::Store(error) | Self::Journal(error) => error,
        }
    }
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<Unread> for Error {
    /// In words for somebody who asked for records, and may not know of a journal.
    fn from(unread: Unread) -> Self {
        let error = match unread {
            Unread::Journal(error) if error.kind() != ErrorKind::Invalid => error,
            other => return other.cause(),
        };
        let (kind, how) = match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::TimedOut => {
                (ErrorKind::Unavailable, "the journal is away, so try again")
            }
            kind => (kind, "the journal cannot be read"),
        };
        let message = format!(
            "{how}: {error}; records that still wait in the store can be read all the same, with \
             `records().only_waiting()`, and `explain` tells what the store knows of an event"
        );
        Self::new(kind, message).because(error)
    }
}

/// What the journal returns, which may be nothing.
pub(crate) async fn of_journal<T>(result: impl Future<Output = Result<T>>) -> Result<T, Unread> {
    answered(PATIENCE, result).await.map_err(Unread::Journal)
}

/// A page of records: those of a store that keeps them itself, or of its outboxes and the journal.
///
/// What waits in outboxes is read before the journal. A record is trimmed from its outbox once it
/// is in the journal, so whatever the outboxes have no more, the journal has by then. About `most`
/// of them are looked at: where more wait, the page ends before what was not.
pub(crate) async fn page(
    store: &dyn Store,
    journal: Option<&dyn Journal>,
    query: Query,
    most: u64,
) -> Result<Page<Record>, Unread> {
    if let Some(table) = store.records() {
        let found = table.page(query.clone()).await?;
        return Ok(merge(&query, Waiting::default(), found));
    }
    let least = query.page_len() + 1; // what comes after them is on a later page
    let waiting = waiting::of_page(store, &query, least, most).await?;
    let found = match journal {
        Some(journal) => of_journal(async { journal.page(query.clone()).await }).await?,
        None => FoundRecords::default(),
    };
    Ok(merge(&query, waiting, found))
}

/// One page of both, each record once.
fn merge(query: &Query, waiting: Waiting, found: FoundRecords) -> Page<Record> {
    // Beyond what was looked at there may be records that nobody has seen yet.
    let edge = nearest(query.order, waiting.edge, found.next);
    let mut all: Vec<Numbered> = waiting.found.into_iter().chain(found.records).collect();
    all.retain(|it| edge.is_none_or(|edge| is_within(query.order, Cursor::of(it), edge)));
    sort(query.order, &mut all);
    all.dedup_by_key(|it| Cursor::of(it));
    let is_cut = all.len() > query.page_len();
    all.truncate(query.page_len());
    let next = if is_cut {
        all.last().map(Cursor::of)
    } else {
        edge
    };
    let end = next.or(all.last().map(Cursor::of)).or(query.after);
    let items = all.into_iter().map(|(_, record)| record).collect();
    Page { items, next, end }
}
