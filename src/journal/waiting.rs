//! Records that wait in outboxes for the journal.

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::error::Result;
use crate::event::{BucketKey, EventId};
use crate::journal::gap::{self, BATCH, OutboxSpan, Waiting};
use crate::record::{Cursor, Numbered, Query};
use crate::store::{Outbox, Store};

/// How many waiting records are looked at, in all outboxes together.
pub(crate) const WAITING_MAX: u64 = 100_000;

/// How many outboxes are read at once.
const AT_ONCE: usize = 32;

/// What a page needs of what waits: at most `least` records, those that come first. Of all outboxes
/// together about `most` are looked at; where more wait, it says up to where they are complete.
pub(super) async fn of_page(
    store: &dyn Store,
    query: &Query,
    least: usize,
    most: u64,
) -> Result<Waiting> {
    let read = async |outboxes: Vec<Outbox>| {
        let (spans, share) = spans(store, outboxes, most).await?;
        let read = spans.into_iter().map(|span| async move {
            if span.len() > share {
                return gap::part(store, query, span, (least, share)).await;
            }
            let first = |found: &mut Vec<Numbered>| gap::keep_first(query.order, found, least);
            let found = read_one(store, query, span, Some, first).await?;
            Ok(Waiting { found, edge: None })
        });
        let read = stream::iter(read).buffer_unordered(AT_ONCE);
        let none = Waiting::default();
        read.try_fold(none, async |all, it| Ok(all.and(it, query.order)))
            .await
    };
    let (named, others) = outboxes(store, |_| true, query).await?;
    let waiting = read(named).await?;
    if waiting.found.is_empty() {
        Ok(waiting.and(read(others).await?, query.order))
    } else {
        Ok(waiting)
    }
}

/// What `keep` makes of each record that waits in an outbox and is asked for, the newest ones where
/// more wait than are looked at.
pub(crate) async fn newest<T: Send>(
    store: &dyn Store,
    is_in: impl Fn(&BucketKey) -> bool,
    query: &Query,
    keep: impl Fn(Numbered) -> Option<T> + Copy + Send,
) -> Result<Vec<T>> {
    let read = async |outboxes: Vec<Outbox>| {
        let (spans, share) = spans(store, outboxes, WAITING_MAX).await?;
        let read = spans.into_iter().map(|mut span| {
            span.after = span
                .after
                .max(span.end.saturating_sub(share.saturating_add(1)));
            read_one(store, query, span, keep, |_| {})
        });
        let read = stream::iter(read).buffer_unordered(AT_ONCE);
        read.try_concat().await
    };
    let (named, others) = outboxes(store, is_in, query).await?;
    let found = read(named).await?;
    if found.is_empty() {
        read(others).await
    } else {
        Ok(found)
    }
}

/// The outboxes that may have what is asked for: first those to look into, and those to look into
/// if it is not there. An event usually lies where its id names; elsewhere a server may not answer.
async fn outboxes(
    store: &dyn Store,
    is_in: impl Fn(&BucketKey) -> bool,
    query: &Query,
) -> Result<(Vec<Outbox>, Vec<Outbox>)> {
    let mut outboxes = store.outboxes().await?;
    outboxes.retain(|outbox| match outbox {
        Outbox::Store => true,
        Outbox::Bucket(bucket) => {
            let is_of = |id: EventId| id.may_lie_in(bucket.bucket);
            let is_its = query.queue.as_ref().is_none_or(|it| *it == bucket.queue);
            is_its && query.id.is_none_or(is_of) && is_in(bucket)
        }
    });
    let is_named = |outbox: &Outbox| match outbox {
        Outbox::Bucket(bucket) => query.id.is_some_and(|id| id.bucket() == bucket.bucket),
        Outbox::Store => false,
    };
    Ok(outboxes.into_iter().partition(is_named))
}

/// The numbers of what waits in each of these outboxes, and how many are looked at in one of them.
async fn spans(
    store: &dyn Store,
    outboxes: Vec<Outbox>,
    most: u64,
) -> Result<(Vec<OutboxSpan>, u64)> {
    let spans = outboxes.into_iter();
    let spans = spans.map(|outbox| OutboxSpan::of(store, outbox));
    let spans = stream::iter(spans).buffer_unordered(AT_ONCE);
    let spans: Vec<OutboxSpan> = spans.try_collect().await?;
    let share = share(spans.iter().map(OutboxSpan::len).collect(), most);
    Ok((spans, share))
}

/// How many records are looked at in one outbox, so that they are `most` in all of them, or few of
/// each where there are many: what a small one leaves goes to the others.
fn share(mut lens: Vec<u64>, most: u64) -> u64 {
    lens.sort_unstable();
    let (mut left, outboxes) = (most, lens.len());
    for (at, len) in lens.into_iter().enumerate() {
        let share = left / (outboxes - at) as u64;
        if len > share {
            return share.max(most.clamp(1, BATCH as u64));
        }
        left -= len;
    }
    u64::MAX
}

/// What `keep` makes of each record of a span that is asked for; `less` may take away some.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_outbox_is_read_as_a_whole_and_large_ones_share_what_is_left() {
        let most = 100_000;
        assert!(share(vec![], most) > most);
        assert!(share(vec![100_000], most) >= 100_000);
        assert_eq!(share(vec![100_001], most), 100_000);
        assert!(share(vec![0, 99_999, 1], most) >= 99_999);
        assert_eq!(share(vec![500_000, 10_000, 500_000], most), 45_000);
        assert_eq!(share(vec![5_000; 500], most), 1_000);
    }
}
