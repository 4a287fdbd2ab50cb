//! Reading events: one by its id, or a page of them.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream};

use crate::bus::events::{AT_ONCE, Events, StoredEvent};
use crate::bus::waiting::Waiting;
use crate::bus::{Inner, WaitingCursor};
use crate::core::op::{BATCH_MAX, PeekBy, PeekCursor, Snapshot, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, EventId};
use crate::record::Page;

/// The default size of a page.
const PAGE: usize = 100;
/// The most events that are scanned for a page with a state as filter; a page of the store counts
/// as one as well.
const LOOKED_MAX: usize = 10_000;

/// Queries the bucket of the id in every queue that the store knows.
pub(super) async fn event(inner: &Arc<Inner>, id: EventId) -> Result<Option<StoredEvent>> {
    let known = inner.open()?.known_buckets().await?;
    let mut buckets = known.buckets;
    buckets.retain(|key| key.bucket == id.bucket());
    let asked = buckets.into_iter().map(|key| get(inner, key, id).boxed());
    let asked: Vec<_> = asked.collect();
    let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
    let (mut best, mut failed): (Option<StoredEvent>, _) = (None, known.away);
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(None) => {}
            // An event that is not over takes precedence.
            Ok(Some(found)) if found.state.is_final() => best = best.or(Some(found)),
            Ok(found) => return Ok(found),
            Err(error) => failed = Some(error),
        }
    }
    match (best, failed) {
        (None, Some(error)) => Err(error),
        (best, _) => Ok(best),
    }
}

async fn get(inner: &Arc<Inner>, bucket: BucketKey, id: EventId) -> Result<Option<StoredEvent>> {
    let found = inner.apply(&bucket, StoreOp::get(id)).await?;
    Ok(found.map(|snapshot| StoredEvent::new(Arc::clone(inner), bucket.queue, &snapshot)))
}

impl Events {
    /// Reads a page of about [`limit`](Self::limit) events. It scans a bounded number, so it may
    /// have fewer, or none, although there are more: only [`next`](Page::next) shows it.
    ///
    /// An event that exists during the whole scan is on at least one page, however its state
    /// changes; an event that is added or ends meanwhile may be. A page costs what it holds,
    /// however many events there are; with a key, one query for each bucket of the queues in
    /// question.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid filter or limit, or the
    /// store's error.
    pub async fn page(self) -> Result<Page<StoredEvent, WaitingCursor>> {
        self.check()?;
        let limit = self.limit.unwrap_or(PAGE).clamp(1, BATCH_MAX);
        match self.by {
            PeekBy::All => self.page_of_all(limit).await,
            _ => self.page_by_key(limit).await,
        }
    }

    async fn page_of_all(&self, limit: usize) -> Result<Page<StoredEvent, WaitingCursor>> {
        let asked = |queue: &_| self.queues.is_empty() || self.queues.contains(queue);
        let mut way = Waiting::new(&self.inner, asked, self.after.clone()).await?;
        let (mut items, mut looked) = (Vec::new(), 0);
        while items.len() < limit && looked < LOOKED_MAX {
            let Some(part) = way.next(limit - items.len()).await? else {
                break;
            };
            looked += part.events.len() + 1;
            self.take(&part.bucket, part.events, &mut items);
        }
        let next = way.place();
        Ok(Page { items, next })
    }

    /// Events of one key lie in few buckets, in unknown ones: all are queried at once.
    async fn page_by_key(&self, limit: usize) -> Result<Page<StoredEvent, WaitingCursor>> {
        let mut buckets = self.inner.open()?.buckets().await?;
        buckets.retain(|key| self.queues.is_empty() || self.queues.contains(&key.queue));
        buckets.retain(|key| self.after.as_ref().is_none_or(|it| *key >= it.bucket));
        buckets.sort_unstable();
        let asked = buckets.iter().map(|bucket| {
            let from = self.after.as_ref().filter(|it| it.bucket == *bucket);
            self.of_bucket(bucket, from.and_then(|it| it.from.clone()), limit)
                .boxed()
        });
        let asked: Vec<_> = asked.collect();
        let mut parts = stream::iter(asked)
            .buffered(AT_ONCE)
            .zip(stream::iter(&buckets));
        let (mut items, mut looked) = (Vec::new(), 0);
        while let Some((part, bucket)) = parts.next().await {
            let (events, from) = part?;
            let place = |from| {
                let bucket = bucket.clone();
                Some(WaitingCursor { bucket, from })
            };
            if !events.is_empty() && looked > 0 && looked + events.len() > limit {
                let next = place(None);
                return Ok(Page { items, next });
            }
            looked += events.len();
            self.take(bucket, events, &mut items);
            if from.is_some() {
                let next = place(from);
                return Ok(Page { items, next });
            }
        }
        Ok(Page { items, next: None })
    }

    async fn of_bucket(
        &self,
        bucket: &BucketKey,
        from: Option<PeekCursor>,
        limit: usize,
    ) -> Result<(Vec<Snapshot>, Option<PeekCursor>)> {
        let peek = StoreOp::peek(self.by.clone(), from, limit);
        self.inner.apply(bucket, peek).await
    }

    fn take(&self, bucket: &BucketKey, events: Vec<Snapshot>, items: &mut Vec<StoredEvent>) {
        let is_it = |event: &Snapshot| self.state.is_none_or(|state| event.state == state);
        let events = events.into_iter().filter(is_it);
        items.extend(
            events.map(|event| {
                StoredEvent::new(Arc::clone(&self.inner), bucket.queue.clone(), &event)
            }),
        );
    }
}
