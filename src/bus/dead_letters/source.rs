//! The pages of a scan through dead letters.

use futures_util::TryStreamExt;

use crate::bus::dead_letters::filter::DeadLetterFilter;
use crate::bus::dead_letters::{DeadLetterCursor, DeadLetters};
use crate::bus::fan_out::in_order;
use crate::bus::inner::Inner;
use crate::bus::names::MatchLevel;
use crate::bus::scan::{Scan, ScanPage, Source};
use crate::core::op::{BATCH_BYTES, BATCH_MAX, Snapshot, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketKey, EventId};

/// Reads dead letters in the order of their ids: all of them, or those that are named.
pub(super) struct Letters<'a>(&'a DeadLetterFilter);

impl Source for Letters<'_> {
    type Place = EventId;

    async fn read(
        &self,
        inner: &Inner,
        bucket: &BucketKey,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<(Vec<Snapshot>, Option<EventId>)> {
        let limit = limit.clamp(1, BATCH_MAX);
        let Some(ids) = &self.0.ids else {
            let page = inner
                .apply(bucket, StoreOp::read_dead(after, limit))
                .await?;
            return Ok((page.letters, page.next));
        };
        let here = ids.iter().filter(|id| id.may_lie_in(bucket.bucket));
        let here = here.filter(|id| after.is_none_or(|after| **id > after));
        let here: Vec<EventId> = here.copied().take(limit).collect();
        let calls = here.iter().map(|id| inner.apply(bucket, StoreOp::get(*id)));
        let mut calls = in_order(calls);
        let (mut found, mut read, mut bytes) = (Vec::new(), 0, 0);
        // As many bytes of payloads as in any other call of the store.
        while bytes < BATCH_BYTES
            && let Some(letter) = calls.try_next().await?
        {
            read += 1;
            let body = letter.as_ref().and_then(|letter| letter.body.as_ref());
            bytes += body.map_or(0, |body| body.payload.len());
            found.extend(letter);
        }
        drop(calls);
        let has_more = read < here.len() || read == limit;
        let next = here.into_iter().take(read).next_back();
        Ok((found, next.filter(|_| has_more)))
    }
}

/// A scan through the dead letters that were asked for.
pub(super) struct DeadLetterScan<'a> {
    scan: Scan<'a, Letters<'a>>,
    filter: &'a DeadLetterFilter,
    /// Why buckets were left out, if any were.
    pub(super) left_out: Option<Error>,
}

/// One page of it.
pub(super) struct DeadLetterPage {
    pub(super) bucket: BucketKey,
    /// What matches, as far as the store can tell.
    pub(super) letters: Vec<Snapshot>,
    /// The place behind all that was read, whether it matches or not.
    pub(super) end: DeadLetterCursor,
    /// How many letters were read.
    pub(super) read: usize,
}

impl<'a> DeadLetterScan<'a> {
    pub(super) async fn new(query: &'a DeadLetters) -> Result<Self> {
        let (inner, filter) = (&*query.inner, &query.filter);
        let reach = inner.reach(|bucket| filter.may_match(bucket)).await?;
        if reach.left_out.is_none() {
            for queue in &filter.queues {
                inner.check_known_among(queue, MatchLevel::Spelling, &reach.queues)?;
            }
        }
        let from = query.after.as_ref().map(|cursor| {
            let bucket = BucketKey::new(cursor.queue.clone(), cursor.bucket);
            (bucket, Some(cursor.id))
        });
        Ok(Self {
            scan: Scan::new(inner, Letters(filter), reach.buckets, from),
            filter,
            left_out: reach.left_out,
        })
    }

    /// Reads the next page, of at most `limit` letters; `None` at the end.
    pub(super) async fn next(&mut self, limit: usize) -> Result<Option<DeadLetterPage>> {
        let Some(ScanPage { bucket, events }) = self.scan.next(limit).await? else {
            return Ok(None);
        };
        let id = match self.scan.place() {
            Some((next, Some(id))) if *next == bucket => *id,
            _ => LAST_ID,
        };
        let (read, mut letters) = (events.len(), events);
        letters.retain(|letter| self.filter.matches(letter));
        let end = DeadLetterCursor::new(&bucket, id);
        Ok(Some(DeadLetterPage {
            bucket,
            letters,
            end,
            read,
        }))
    }
}

/// The last id that there can be.
const LAST_ID: EventId = EventId::from_bytes([u8::MAX; 16]);
