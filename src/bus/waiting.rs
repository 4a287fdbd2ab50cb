//! A way through everything that waits: bucket by bucket, state by state, in the order of the ids.

use crate::bus::Inner;
use crate::bus::queue::unexpected;
use crate::core::op::{Reply, Snapshot, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, EventId, QueueName, State};

/// How many events are read at a time: each comes with its payload.
pub(super) const PAGE: usize = 100;
/// In this order: an event that is on its way from one to the next is met at its later place.
const STATES: [State; 4] = [State::Scheduled, State::Ready, State::Dead, State::Leased];

/// A place on the way through the events that wait, to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCursor {
    bucket: BucketKey,
    state: usize,
    after: Option<EventId>,
}

/// The way through the buckets of some queues.
pub(super) struct Waiting<'a> {
    inner: &'a Inner,
    /// Those that are left, the next one last.
    buckets: Vec<BucketKey>,
    state: usize,
    after: Option<EventId>,
}

/// A page of it.
pub(super) struct Part {
    pub(super) bucket: BucketKey,
    pub(super) state: State,
    pub(super) events: Vec<Snapshot>,
}

impl<'a> Waiting<'a> {
    /// The way through the queues that are `asked` for, from a place on it or from its beginning.
    pub(super) async fn new(
        inner: &'a Inner,
        asked: impl Fn(&QueueName) -> bool,
        from: Option<WaitingCursor>,
    ) -> Result<Self> {
        let mut buckets = inner.open()?.buckets().await?;
        buckets.retain(|bucket| asked(&bucket.queue));
        buckets.sort_unstable_by(|a, b| b.cmp(a));
        let mut way = Self {
            inner,
            buckets,
            state: 0,
            after: None,
        };
        if let Some(from) = from {
            way.buckets.retain(|bucket| *bucket >= from.bucket);
            if way.buckets.last() == Some(&from.bucket) {
                (way.state, way.after) = (from.state, from.after);
            }
        }
        Ok(way)
    }

    /// The next page, of at most `limit` events; `None` at the end. It may be empty.
    pub(super) async fn next(&mut self, limit: usize) -> Result<Option<Part>> {
        let Some(bucket) = self.buckets.last().cloned() else {
            return Ok(None);
        };
        let (state, limit) = (STATES[self.state], limit.clamp(1, PAGE));
        let peek = StoreOp::Peek {
            state,
            after: self.after,
            limit,
        };
        let events = match self.inner.apply(&bucket, peek).await?.reply {
            Reply::Peeked(events) => events,
            reply => return Err(unexpected(&reply)),
        };
        match events.last() {
            Some(last) if events.len() >= limit => self.after = Some(last.id),
            _ => self.skip_state(),
        }
        Ok(Some(Part {
            bucket,
            state,
            events,
        }))
    }

    /// Leaves out what is left of a queue.
    pub(super) fn skip_queue(&mut self, queue: &QueueName) {
        if self.queue() == Some(queue) {
            (self.state, self.after) = (0, None);
        }
        self.buckets.retain(|bucket| bucket.queue != *queue);
    }

    /// Where the next page begins; `None` at the end.
    pub(super) fn place(&self) -> Option<WaitingCursor> {
        self.buckets.last().map(|bucket| WaitingCursor {
            bucket: bucket.clone(),
            state: self.state,
            after: self.after,
        })
    }

    /// The queue of the next page.
    pub(super) fn queue(&self) -> Option<&QueueName> {
        self.buckets.last().map(|bucket| &bucket.queue)
    }

    fn skip_state(&mut self) {
        self.after = None;
        self.state = (self.state + 1) % STATES.len();
        if self.state == 0 {
            self.buckets.pop();
        }
    }
}
