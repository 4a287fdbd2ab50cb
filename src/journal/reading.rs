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

/// How many waiting records are looked at, in all outboxes together: the newest ones of each.
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
    /// So many wait for the journal that not all are looked at: pages would pass over some, which
    /// are behind their place when they are in the journal.
    Behind(u64),
}

impl Unread {
    /// The answer itself.
    pub(crate) fn cause(self) -> Error {
        match self {
            Self::Store(error) | Self::Journal(error) => error,
            Self::Behind(waits) => {
                let text = format!("{waits} records wait for the journal");
                Error::new(ErrorKind::Unavailable, text)
            }
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
        let is_behind = matches!(unread, Unread::Behind(_));
        let error = match unread {
            Unread::Journal(error) if error.kind() != ErrorKind::Invalid => error,
            Unread::Behind(_) => unread.cause(),
            other => return other.cause(),
        };
        let (kind, how) = match error.kind() {
            kind if is_behind => (kind, "the journal is behind, so try again"),
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
    let Waiting { found, cut_of } = waiting_in(store, |_| true, &query, Some, first).await?;
    let waiting = found;
    if let (Some(waits), Some(_), None) = (cut_of, journal, query.id) {
        return Err(Unread::Behind(waits));
    }
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
    let waiting = waiting_in(store, |_| true, query, keep, less).await?;
    Ok(waiting.found)
}

/// What was found of what waits.
pub(crate) struct Waiting<T> {
    pub(crate) found: Vec<T>,
    /// How many wait, if they are more than are looked at.
    cut_of: Option<u64>,
}

/// The same of some buckets alone.
pub(crate) async fn waiting_in<T: Send>(
    store: &dyn Store,
    is_in: impl Fn(&BucketKey) -> bool,
    query: &Query,
    keep: impl Fn(Numbered) -> Option<T> + Copy + Send,
    less: impl Fn(&mut Vec<T>) + Copy + Send,
) -> Result<Waiting<T>> {
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
    let waiting = read_all(store, query, named, keep, less).await?;
    if waiting.found.is_empty() {
        read_all(store, query, others, keep, less).await
    } else {
        Ok(waiting)
    }
}

/// The same of these outboxes.
async fn read_all<T: Send>(
    store: &dyn Store,
    query: &Query,
    outboxes: Vec<Outbox>,
    keep: impl Fn(Numbered) -> Option<T> + Copy + Send,
    less: impl Fn(&mut Vec<T>) + Copy + Send,
) -> Result<Waiting<T>> {
    let spans = outboxes.into_iter();
    let spans = spans.map(|outbox| OutboxSpan::of(store, outbox));
    let spans = stream::iter(spans).buffer_unordered(AT_ONCE);
    let mut spans: Vec<OutboxSpan> = spans.try_collect().await?;
    let waits = spans.iter().map(OutboxSpan::len).sum();
    let is_cut = waits > WAITING_MAX;
    if is_cut {
        for span in &mut spans {
            span.keep_newest(WAITING_MAX, waits);
        }
    }
    let read = spans.into_iter();
    let read = read.map(|span| read_one(store, query, span, keep, less));
    let read = stream::iter(read).buffer_unordered(AT_ONCE);
    Ok(Waiting {
        found: read.try_concat().await?,
        cut_of: is_cut.then_some(waits),
    })
}

/// The same of one outbox.
async fn read_one<T>(
    store: &dyn Store,
    query: &Query,
    span: OutboxSpan,
    keep: impl Fn(Numbered) -> Option<T>,
    less: impl Fn(&mut Vec<T>),
) -> Result<Vec<T>> {
    let mut pages = WaitingPages { store, query, span };
    let mut found = Vec::new();
    while let Some(page) = pages.next().await? {
        found.extend(page.into_iter().filter_map(&keep));
        less(&mut found);
    }
    Ok(found)
}

/// The numbers of what waits in an outbox.
struct OutboxSpan {
    outbox: Outbox,
    /// That of the last record before it.
    after: u64,
    /// That of the next record when it was read.
    end: u64,
}

impl OutboxSpan {
    async fn of(store: &dyn Store, outbox: Outbox) -> Result<Self> {
        let span = store.read_outbox(&outbox, u64::MAX, 0).await?;
        Ok(Self {
            outbox,
            after: span.first.max(1) - 1,
            end: span.next,
        })
    }

    fn len(&self) -> u64 {
        self.end.saturating_sub(self.after + 1)
    }

    /// Keeps the newest of them, `part` of `whole`.
    fn keep_newest(&mut self, part: u64, whole: u64) {
        let kept = u128::from(self.len()) * u128::from(part) / u128::from(whole);
        let kept = u64::try_from(kept).unwrap_or(u64::MAX);
        self.after = self.end.saturating_sub(kept + 1);
    }
}

/// The records of one outbox that are asked for, page by page.
pub(crate) struct WaitingPages<'a> {
    store: &'a dyn Store,
    query: &'a Query,
    /// What is left.
    span: OutboxSpan,
}

impl<'a> WaitingPages<'a> {
    pub(crate) async fn open(
        store: &'a dyn Store,
        query: &'a Query,
        outbox: Outbox,
    ) -> Result<Self> {
        let span = OutboxSpan::of(store, outbox).await?;
        Ok(Self { store, query, span })
    }

    /// Reads the next page, at most 1,000 records; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Numbered>>> {
        if self.span.len() == 0 {
            return Ok(None);
        }
        let (outbox, after) = (&self.span.outbox, self.span.after);
        let page = self.store.read_outbox(outbox, after, BATCH).await?;
        if page.last <= after {
            return Ok(None); // what was there is gone
        }
        self.span.after = page.last;
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
