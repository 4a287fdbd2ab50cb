//! Reading events: one by its id, or a page of them.

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use crate::bus::events::{Events, StoredEvent};
use crate::bus::fan_out::in_order;
use crate::bus::inner::Inner;
use crate::bus::locate::Location;
use crate::bus::scan::{EventCursor, PAGE_BYTES, Scan};
use crate::core::op::{BATCH_MAX, PeekBy, PeekCursor, Snapshot, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, EventId};
use crate::record::Page;

/// The default size of a page.
const PAGE: usize = 100;
/// The most events that are scanned for a page with a state as filter; a page of the store counts
/// as one as well.
const LOOKED_MAX: usize = 10_000;

/// Finds an event by its id alone, in whatever queue.
pub(super) async fn event(inner: &Arc<Inner>, id: EventId) -> Result<Option<StoredEvent>> {
    inner.open()?;
    let Location { event, failed, .. } = inner.locate(id).await?;
    match (event, failed) {
        (None, Some(error)) => Err(error),
        (None, None) => Ok(None),
        (Some(found), _) => Ok(Some(StoredEvent::new(
            Arc::clone(inner),
            found.bucket,
            &found.snapshot,
        ))),
    }
}

type EventPage = Page<StoredEvent, EventCursor>;

impl Events {
    /// Reads a page of about [`limit`](Self::limit) events. It scans a bounded number, so it may
    /// have fewer, or none, although there are more: only [`next`](Page::next) shows it.
    ///
    /// An event that exists during the whole scan is on at least one page, however its state
    /// changes; an event that is added or ends meanwhile may be. A page costs what it holds,
    /// however many events there are; on Redis the first one of a bucket also looks through the
    /// states of its events for those that wait together, 10,000 at a time. With a key, one query
    /// for each bucket of the queues in question.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid filter or limit, or the
    /// store's error.
    pub async fn page(self) -> Result<Page<StoredEvent, EventCursor>> {
        Ok(self.page_and_last_read().await?.0)
    }

    /// Returns about how many events a page has.
    pub(super) fn page_limit(&self) -> usize {
        self.limit.unwrap_or(PAGE).clamp(1, BATCH_MAX)
    }

    /// Reads a page. Returns also where its last read began if that may have returned more events than
    /// the limit.
    pub(super) async fn page_and_last_read(&self) -> Result<(EventPage, Option<EventCursor>)> {
        self.check()?;
        let limit = self.page_limit();
        match self.by {
            PeekBy::All => self.page_of_all(limit).await,
            _ => Ok((self.page_by_key(limit).await?.0, None)),
        }
    }

    async fn page_of_all(&self, limit: usize) -> Result<(EventPage, Option<EventCursor>)> {
        let selected = |queue: &_| self.selects(queue);
        let mut scan = Scan::unfinished(&self.inner, selected, self.after.clone()).await?;
        let (mut items, mut looked, mut bytes) = (Vec::new(), 0, 0);
        // More are read at a time while none match: a short page of few among many takes few calls.
        let mut read = 0;
        let mut last_read = None;
        while items.len() < limit && looked < LOOKED_MAX && bytes < PAGE_BYTES {
            let left = limit - items.len();
            read = left.max(read);
            last_read = scan.cursor();
            let matching = (left, |event: &Snapshot| self.matches(event));
            let Some(page) = scan.next_with(read, matching).await? else {
                break;
            };
            looked += page.events.len() + 1;
            bytes += self.take(&page.bucket, &page.events, &mut items);
            if items.len() + left == limit {
                read = (read * 2).min(PAGE);
            }
        }
        let next = scan.cursor();
        Ok((Page::new(items, next), last_read))
    }

    /// Events of one key lie in few buckets, in unknown ones: all are queried at once. Returns also how
    /// many events were read, whether they match or not.
    pub(super) async fn page_by_key(&self, limit: usize) -> Result<(EventPage, usize)> {
        let mut buckets = self.inner.open()?.buckets().await?;
        buckets.retain(|key| self.selects(&key.queue));
        buckets.retain(|key| self.after.as_ref().is_none_or(|it| *key >= it.bucket));
        buckets.sort_unstable();
        let selected = buckets.iter().map(|bucket| {
            let from = self.after.as_ref().filter(|it| it.bucket == *bucket);
            self.of_bucket(bucket, from.and_then(|it| it.from.clone()), limit)
        });
        let mut parts = in_order(selected).zip(stream::iter(&buckets));
        let (mut items, mut looked, mut bytes) = (Vec::new(), 0, 0);
        while let Some((part, bucket)) = parts.next().await {
            let (events, from) = part?;
            let place = |from| {
                let bucket = bucket.clone();
                Some(EventCursor {
                    bucket,
                    from,
                    sweep: None,
                })
            };
            let is_full = looked + events.len() > limit || bytes >= PAGE_BYTES;
            if !events.is_empty() && looked > 0 && is_full {
                let next = place(None);
                return Ok((Page::new(items, next), looked));
            }
            looked += events.len();
            bytes += self.take(bucket, &events, &mut items);
            if from.is_some() {
                let next = place(from);
                return Ok((Page::new(items, next), looked));
            }
        }
        Ok((Page::new(items, None), looked))
    }

    async fn of_bucket(
        &self,
        bucket: &BucketKey,
        from: Option<PeekCursor>,
        limit: usize,
    ) -> Result<(Vec<Snapshot>, Option<PeekCursor>)> {
        let peek = StoreOp::peek(self.by.clone(), from, limit);
        let page = self.inner.apply(bucket, peek).await?;
        Ok((page.events, page.next))
    }

    /// Takes the events that match; returns how many bytes of payloads they keep in memory.
    fn take(&self, bucket: &BucketKey, events: &[Snapshot], items: &mut Vec<StoredEvent>) -> usize {
        let mut bytes = 0;
        for event in events.iter().filter(|event| self.matches(event)) {
            let mut event = StoredEvent::new(Arc::clone(&self.inner), bucket.clone(), event);
            if self.leaves_payloads_out {
                event.payload = None;
            }
            bytes += event.payload.as_ref().map_or(0, |payload| payload.len());
            items.push(event);
        }
        bytes
    }
}
