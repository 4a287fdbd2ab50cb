//! A scan of dead letters, bucket by bucket.

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};

use crate::bus::Inner;
use crate::bus::dead_letters::filter::Filter;
use crate::bus::dead_letters::{DeadLetters, LetterCursor};
use crate::bus::names::Doubt;
use crate::core::op::{BATCH_MAX, Snapshot, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketId, BucketKey, EventId};
use crate::time::Timestamp;

/// The most concurrent lookups.
const AT_ONCE: usize = 32;

/// A scan of the dead letters of some buckets, in order.
pub(super) struct Walk<'a> {
    inner: &'a Inner,
    filter: &'a Filter,
    /// The remaining buckets, in reverse order.
    buckets: Vec<BucketKey>,
    /// The last dead letter of the next bucket that was scanned.
    after: Option<EventId>,
    /// Why buckets were left out, if any.
    pub(super) left_out: Option<Error>,
}

/// A step of the scan.
pub(super) struct Step {
    pub(super) bucket: BucketKey,
    /// The matches, as far as the store can tell.
    pub(super) letters: Vec<Snapshot>,
    /// The position behind all that was scanned, matching or not.
    pub(super) end: LetterCursor,
    /// How many dead letters were scanned.
    pub(super) looked: usize,
}

impl<'a> Walk<'a> {
    /// Starts a scan for a query.
    pub(super) async fn new(asked: &'a DeadLetters) -> Result<Self> {
        let DeadLetters {
            inner,
            filter,
            after,
            ..
        } = asked;
        let reach = inner.reach(|bucket| filter.may_be_in(bucket)).await?;
        if reach.left_out.is_none() {
            for queue in &filter.queues {
                inner.check_known_among(queue, Doubt::Spelling, &reach.queues)?;
            }
        }
        let mut buckets = reach.buckets;
        let mut from = None;
        if let Some(cursor) = after {
            let at = BucketKey::new(cursor.queue.clone(), cursor.id.bucket());
            buckets.retain(|bucket| *bucket >= at);
            from = buckets.contains(&at).then_some(cursor.id);
        }
        buckets.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Self {
            inner,
            filter,
            buckets,
            after: from,
            left_out: reach.left_out,
        })
    }

    /// Returns the next step, of at most `limit` dead letters; `None` at the end.
    pub(super) async fn next(&mut self, limit: usize) -> Result<Option<Step>> {
        let Some(bucket) = self.buckets.last().cloned() else {
            return Ok(None);
        };
        let limit = limit.clamp(1, BATCH_MAX);
        let (found, last, is_last) = match &self.filter.ids {
            None => {
                let read = StoreOp::read_dead(self.after, limit);
                let (found, next) = self.inner.apply(&bucket, read).await?;
                (found, next, next.is_none())
            }
            Some(ids) => {
                let here = ids.iter().filter(|id| id.bucket() == bucket.bucket);
                let here = here.filter(|id| self.after.is_none_or(|after| **id > after));
                let here: Vec<EventId> = here.copied().take(limit).collect();
                let found = self.look_up(&bucket, &here).await?;
                (found, here.last().copied(), here.len() < limit)
            }
        };
        let end = match last {
            Some(last) if !is_last => last,
            _ => last_id(bucket.bucket),
        };
        if is_last {
            self.buckets.pop();
        }
        self.after = Some(end).filter(|_| !is_last);
        let looked = found.len();
        let mut letters = found;
        letters.retain(|letter| self.filter.matches(letter));
        let queue = bucket.queue.clone();
        Ok(Some(Step {
            bucket,
            letters,
            end: LetterCursor { queue, id: end },
            looked,
        }))
    }

    async fn look_up(&self, bucket: &BucketKey, ids: &[EventId]) -> Result<Vec<Snapshot>> {
        let asked = ids
            .iter()
            .map(|id| self.inner.apply(bucket, StoreOp::get(*id)).boxed());
        let asked: Vec<_> = asked.collect();
        let found: Vec<_> = stream::iter(asked).buffered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// Returns the last possible id of a bucket.
fn last_id(bucket: BucketId) -> EventId {
    EventId::from_parts(Timestamp::MAX, bucket, u64::MAX)
}
