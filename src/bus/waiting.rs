//! A scan of all stored events: bucket by bucket, page by page.

use crate::bus::Inner;
use crate::core::op::{PeekBy, PeekCursor, Snapshot, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, QueueName};

/// The events of a page: each comes with its payload.
pub(super) const PAGE: usize = 100;

/// A position in the scan, to continue from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCursor {
    pub(super) bucket: BucketKey,
    pub(super) from: Option<PeekCursor>,
}

/// A scan of the buckets of some queues.
pub(super) struct Waiting<'a> {
    inner: &'a Inner,
    /// The remaining buckets, in reverse order.
    buckets: Vec<BucketKey>,
    from: Option<PeekCursor>,
}

/// A page of the scan.
pub(super) struct Part {
    pub(super) bucket: BucketKey,
    pub(super) events: Vec<Snapshot>,
}

impl<'a> Waiting<'a> {
    /// Starts a scan of the queues that are `asked` for, from a position or the beginning.
    pub(super) async fn new(
        inner: &'a Inner,
        asked: impl Fn(&QueueName) -> bool,
        place: Option<WaitingCursor>,
    ) -> Result<Self> {
        let mut buckets = inner.open()?.buckets().await?;
        buckets.retain(|bucket| asked(&bucket.queue));
        buckets.sort_unstable_by(|a, b| b.cmp(a));
        let mut way = Self {
            inner,
            buckets,
            from: None,
        };
        if let Some(place) = place {
            way.buckets.retain(|bucket| *bucket >= place.bucket);
            way.from = place
                .from
                .filter(|_| way.buckets.last() == Some(&place.bucket));
        }
        Ok(way)
    }

    /// Returns the next page, of about `limit` events, maybe empty; `None` at the end.
    pub(super) async fn next(&mut self, limit: usize) -> Result<Option<Part>> {
        let Some(bucket) = self.buckets.last().cloned() else {
            return Ok(None);
        };
        let peek = StoreOp::peek(PeekBy::All, self.from.clone(), limit.clamp(1, PAGE));
        let (events, next) = self.inner.apply(&bucket, peek).await?;
        if next.is_none() {
            self.buckets.pop();
        }
        self.from = next;
        Ok(Some(Part { bucket, events }))
    }

    /// Skips the rest of a queue.
    pub(super) fn skip_queue(&mut self, queue: &QueueName) {
        if self.queue() == Some(queue) {
            self.from = None;
        }
        self.buckets.retain(|bucket| bucket.queue != *queue);
    }

    /// Returns where the next page begins; `None` at the end.
    pub(super) fn place(&self) -> Option<WaitingCursor> {
        self.buckets.last().map(|bucket| WaitingCursor {
            bucket: bucket.clone(),
            from: self.from.clone(),
        })
    }

    /// Returns the queue of the next page.
    pub(super) fn queue(&self) -> Option<&QueueName> {
        self.buckets.last().map(|bucket| &bucket.queue)
    }
}
