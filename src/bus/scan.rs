//! A bounded scan of the store: bucket by bucket, page by page, in an order that stays.

use crate::bus::inner::Inner;
use crate::core::op::{PeekBy, PeekCursor, Snapshot, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, QueueName};
use crate::time::Timestamp;

/// How many events are read at a time: each comes with its payload.
pub(super) const PAGE: usize = 100;
/// After how many bytes of payloads a page that is returned ends, whatever its limit: a thousand
/// payloads of a megabyte each would be a gigabyte.
pub(super) const PAGE_BYTES: usize = 16 << 20;

/// A place among the events that are not over, from which a scan goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCursor {
    pub(super) bucket: BucketKey,
    pub(super) from: Option<PeekCursor>,
    pub(super) sweep: Option<SweepTime>,
}

/// What a sweep keeps of its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SweepTime {
    /// When its events are due.
    Due(Timestamp),
    /// When it began to make events due at once.
    Began(Timestamp),
}

/// Reads the pages of one bucket.
pub(super) trait Source {
    /// A place between two events of a bucket.
    type Place: Clone;

    /// Returns a page of about `limit` events after a place, and where the next one begins; `None`
    /// if it was the last.
    fn read(
        &self,
        inner: &Inner,
        bucket: &BucketKey,
        after: Option<Self::Place>,
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<Snapshot>, Option<Self::Place>)>> + Send;
}

/// Reads every event that is not over.
pub(super) struct UnfinishedEvents;

impl Source for UnfinishedEvents {
    type Place = PeekCursor;

    async fn read(
        &self,
        inner: &Inner,
        bucket: &BucketKey,
        after: Option<PeekCursor>,
        limit: usize,
    ) -> Result<(Vec<Snapshot>, Option<PeekCursor>)> {
        let peek = StoreOp::peek(PeekBy::All, after, limit.clamp(1, PAGE));
        let page = inner.apply(bucket, peek).await?;
        Ok((page.events, page.next))
    }
}

/// A scan through some buckets.
pub(super) struct Scan<'a, S: Source> {
    inner: &'a Inner,
    source: S,
    /// The buckets that are left, the next one last.
    buckets: Vec<BucketKey>,
    after: Option<S::Place>,
}

/// One page of a scan.
pub(super) struct ScanPage {
    pub(super) bucket: BucketKey,
    pub(super) events: Vec<Snapshot>,
}

impl<'a> Scan<'a, UnfinishedEvents> {
    /// A scan through the events of the queues that are `wanted`, from a place or from the first.
    pub(super) async fn unfinished(
        inner: &'a Inner,
        wanted: impl Fn(&QueueName) -> bool,
        from: Option<EventCursor>,
    ) -> Result<Self> {
        let mut buckets = inner.open()?.buckets().await?;
        buckets.retain(|bucket| wanted(&bucket.queue));
        let from = from.map(|place| (place.bucket, place.from));
        Ok(Self::new(inner, UnfinishedEvents, buckets, from))
    }

    /// Where the next page begins; `None` at the end.
    pub(super) fn cursor(&self) -> Option<EventCursor> {
        let (bucket, from) = self.place()?;
        Some(EventCursor {
            bucket: bucket.clone(),
            from: from.cloned(),
            sweep: None,
        })
    }
}

impl<'a, S: Source> Scan<'a, S> {
    /// A scan through these buckets in their order, from a place or from the first.
    pub(super) fn new(
        inner: &'a Inner,
        source: S,
        mut buckets: Vec<BucketKey>,
        from: Option<(BucketKey, Option<S::Place>)>,
    ) -> Self {
        buckets.sort_unstable_by(|a, b| b.cmp(a));
        let mut after = None;
        if let Some((first, place)) = from {
            buckets.retain(|bucket| *bucket >= first);
            after = place.filter(|_| buckets.last() == Some(&first));
        }
        Self {
            inner,
            source,
            buckets,
            after,
        }
    }

    /// Reads the next page, of about `limit` events; `None` at the end. It may be empty.
    pub(super) async fn next(&mut self, limit: usize) -> Result<Option<ScanPage>> {
        self.next_with(limit, (usize::MAX, |_: &Snapshot| true))
            .await
    }

    /// Reads the next page, as [`next`](Self::next), up to where so many events match.
    pub(super) async fn next_with(
        &mut self,
        limit: usize,
        (most, matches): (usize, impl Fn(&Snapshot) -> bool),
    ) -> Result<Option<ScanPage>> {
        let Some(bucket) = self.buckets.last().cloned() else {
            return Ok(None);
        };
        let read = |limit| {
            let after = self.after.clone();
            self.source.read(self.inner, &bucket, after, limit)
        };
        let (mut events, mut next) = read(limit).await?;
        let matching = (1..).zip(&events).filter(|(_, event)| matches(event));
        let last = matching.map(|(at, _)| at).nth(most.saturating_sub(1));
        if let Some(last) = last.filter(|last| *last < events.len()) {
            // Only the store says where a page ends: it is read again, up to there.
            (events, next) = read(last).await?;
        }
        if next.is_none() {
            self.buckets.pop();
        }
        self.after = next;
        Ok(Some(ScanPage { bucket, events }))
    }

    /// Leaves out the rest of a queue.
    pub(super) fn skip_queue(&mut self, queue: &QueueName) {
        if self.queue() == Some(queue) {
            self.after = None;
        }
        self.buckets.retain(|bucket| bucket.queue != *queue);
    }

    /// The bucket of the next page, and the place in it; `None` at the end.
    pub(super) fn place(&self) -> Option<(&BucketKey, Option<&S::Place>)> {
        let bucket = self.buckets.last()?;
        Some((bucket, self.after.as_ref()))
    }

    /// The queue of the next page.
    pub(super) fn queue(&self) -> Option<&QueueName> {
        self.buckets.last().map(|bucket| &bucket.queue)
    }
}
