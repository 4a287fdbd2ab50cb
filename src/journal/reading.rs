//! Queries of records: from a store that keeps them itself, or from the journal and the outboxes.

use std::cmp::Reverse;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId};
use crate::journal::contract::Journal;
use crate::journal::recorder::answered;
use crate::record::FoundRecords;
use crate::record::{Cursor, Numbered, Order, Page, Query, Record};
use crate::store::{Outbox, Store};

/// How many waiting records are looked at, in all outboxes together: the newest ones.
const WAITING_MAX: u64 = 100_000;

/// How many records are read at once of one outbox: they may have payloads.
const BATCH: usize = 1_000;

/// How many outboxes are read at once.
const AT_ONCE: usize = 32;

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
/// is in the journal, so whatever the outboxes have no more, the journal has by then.
pub(crate) async fn page(
    store: &dyn Store,
    journal: Option<&dyn Journal>,
    query: Query,
) -> Result<Page<Record>, Unread> {
    if let Some(table) = store.records() {
        let found = table.page(query.clone()).await?;
        return Ok(merge(&query, Vec::new(), found));
    }
    let least = query.page_len() + 1;
    let first = |found: &mut Vec<Numbered>| {
        sort(query.order, found);
        found.truncate(least); // what comes after them is on a later page
    };
    let waiting = waiting(store, &query, Some, first).await?;
    let found = match journal {
        Some(journal) => of_journal(async { journal.page(query.clone()).await }).await?,
        None => FoundRecords::default(),
    };
    Ok(merge(&query, waiting, found))
}

/// What `keep` makes of each record that waits in an outbox and is asked for; `less` may take away
/// some of what one outbox has.
pub(crate) async fn waiting<T: Send>(
    store: &dyn Store,
    query: &Query,
    keep: impl Fn(Numbered) -> Option<T> + Copy + Send,
    less: impl Fn(&mut Vec<T>) + Copy + Send,
) -> Result<Vec<T>> {
    waiting_in(store, |_| true, query, keep, less).await
}

/// The same of some buckets alone.
pub(crate) async fn waiting_in<T: Send>(
    store: &dyn Store,
    is_in: impl Fn(&BucketKey) -> bool,
    query: &Query,
    keep: impl Fn(Numbered) -> Option<T> + Copy + Send,
    less: impl Fn(&mut Vec<T>) + Copy + Send,
) -> Result<Vec<T>> {
    let mut outboxes = store.outboxes().await?;
    outboxes.retain(|outbox| match outbox {
        Outbox::Store => true,
        Outbox::Bucket(bucket) => {
            let is_of = |id: EventId| id.may_lie_in(bucket.bucket);
            let is_its = query.queue.as_ref().is_none_or(|it| *it == bucket.queue);
            is_its && query.id.is_none_or(is_of) && is_in(bucket)
        }
    });
    // An event usually lies where its id names. Only if there is no record of it there it is looked
    // for elsewhere, where a server may not respond.
    let is_named = |outbox: &Outbox| match outbox {
        Outbox::Bucket(bucket) => query.id.is_some_and(|id| id.bucket() == bucket.bucket),
        Outbox::Store => false,
    };
    let (named, others): (Vec<_>, Vec<_>) = outboxes.into_iter().partition(is_named);
    let found = read_all(store, query, named, keep, less).await?;
    if found.is_empty() {
        read_all(store, query, others, keep, less).await
    } else {
        Ok(found)
    }
}

/// The same of these outboxes.
async fn read_all<T: Send>(
    store: &dyn Store,
    query: &Query,
    outboxes: Vec<Outbox>,
    keep: impl Fn(Numbered) -> Option<T> + Copy + Send,
    less: impl Fn(&mut Vec<T>) + Copy + Send,
) -> Result<Vec<T>> {
    let share = (WAITING_MAX / outboxes.len().max(1) as u64).max(1_000);
    let read = outboxes
        .into_iter()
        .map(|outbox| read(store, query, outbox, share, keep, less));
    stream::iter(read)
        .buffer_unordered(AT_ONCE)
        .try_concat()
        .await
}

/// The same of the last `share` records of one outbox.
async fn read<T>(
    store: &dyn Store,
    query: &Query,
    outbox: Outbox,
    share: u64,
    keep: impl Fn(Numbered) -> Option<T>,
    less: impl Fn(&mut Vec<T>),
) -> Result<Vec<T>> {
    let mut pages = WaitingPages::open(store, query, outbox, share).await?;
    let mut found = Vec::new();
    while let Some(page) = pages.next().await? {
        found.extend(page.into_iter().filter_map(&keep));
        less(&mut found);
    }
    Ok(found)
}

/// The records of one outbox that are asked for, page by page.
pub(crate) struct WaitingPages<'a> {
    store: &'a dyn Store,
    query: &'a Query,
    outbox: Outbox,
    after: u64,
    /// The number of the next record when it began.
    end: u64,
}

impl<'a> WaitingPages<'a> {
    /// Begins with the last `share` records.
    pub(crate) async fn open(
        store: &'a dyn Store,
        query: &'a Query,
        outbox: Outbox,
        share: u64,
    ) -> Result<Self> {
        let span = store.read_outbox(&outbox, u64::MAX, 0).await?;
        let last = span.next.saturating_sub(1);
        Ok(Self {
            after: last.saturating_sub(share).max(span.first.max(1) - 1),
            end: span.next,
            store,
            query,
            outbox,
        })
    }

    /// Reads the next page, at most 1,000 records; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Numbered>>> {
        if self.after.saturating_add(1) >= self.end {
            return Ok(None);
        }
        let page = self.store.read_outbox(&self.outbox, self.after, BATCH);
        let page = page.await?;
        if page.last <= self.after {
            return Ok(None); // what was there is gone
        }
        self.after = page.last;
        let (query, mut records) = (self.query, page.records);
        records.retain(|it| query.matches(&it.1) && query.is_after(Cursor::of(it)));
        Ok(Some(records))
    }
}

fn sort(order: Order, records: &mut [Numbered]) {
    match order {
        Order::Oldest => records.sort_unstable_by_key(Cursor::of),
        Order::Newest => records.sort_unstable_by_key(|it| Reverse(Cursor::of(it))),
    }
}

/// One page of both, each record once.
fn merge(query: &Query, waiting: Vec<Numbered>, found: FoundRecords) -> Page<Record> {
    // Beyond what the journal has looked at there may be records that nobody has seen yet.
    let is_looked_at = |it: &Numbered| {
        found.next.is_none_or(|next| match query.order {
            Order::Oldest => Cursor::of(it) <= next,
            Order::Newest => Cursor::of(it) >= next,
        })
    };
    let mut all: Vec<Numbered> = waiting.into_iter().filter(is_looked_at).collect();
    all.extend(found.records);
    sort(query.order, &mut all);
    all.dedup_by_key(|it| Cursor::of(it));
    let is_cut = all.len() > query.page_len();
    all.truncate(query.page_len());
    let next = if is_cut {
        all.last().map(Cursor::of)
    } else {
        found.next
    };
    let end = next.or(all.last().map(Cursor::of)).or(query.after);
    let items = all.into_iter().map(|(_, record)| record).collect();
    Page { items, next, end }
}
