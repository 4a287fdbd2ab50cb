//! Outboxes in Redis: reading and trimming records, limits, notifications.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, QueueName};
use crate::record::Numbered;
use crate::store::outbox::{
    OUTBOX_BATCH_MAX, Outbox, OutboxLimit, OutboxPage, OutboxWatcher, WhenFull,
};
use crate::store::redis::decode::{ReplyReader, unreadable};
use crate::store::redis::record;
use crate::store::redis::shared::Shared;
use crate::store::watchers::Watchers;

/// An upper bound of record numbers.
const RECORDS_END: u64 = 1 << 40;
/// The byte limit of one read, exceeded by its last entry: it bounds the time on the server and on
/// the connection.
const BYTES_ENOUGH: usize = 1 << 20;
/// The length of the prefix that identifies an entry: the id of its first event, when that
/// finished, and the node.
const BEGINNING: usize = 68;

/// The state and the limits of all outboxes in this process.
pub(super) struct Outboxes {
    watchers: Watchers<dyn OutboxWatcher>,
    /// The limit of waiting records without an outbox limit.
    default_max: u64,
    /// How many records are kept before a writer drops the oldest.
    kept_max: AtomicU64,
    /// How many records may wait before pushes are refused.
    waiting_max: AtomicU64,
    /// Whether records of a newer duly have been logged.
    met_newer: AtomicBool,
    /// The last reads of each outbox, by the number up to which each went.
    seen: Mutex<HashMap<BucketKey, BTreeMap<u64, LastEntry>>>,
}

/// The last entry of a read: its number and its prefix.
///
/// A server that has lost its tail, as a replica that takes over may, reuses numbers. A trim for an
/// earlier read must not drop the records that have its numbers since.
type LastEntry = (u64, Vec<u8>);

/// The number of reads of an outbox that are remembered until it is trimmed.
const SEEN_MAX: usize = 4;

impl Outboxes {
    pub(super) fn new(default_max: u64) -> Self {
        Self {
            watchers: Watchers::default(),
            default_max,
            kept_max: AtomicU64::new(default_max),
            waiting_max: AtomicU64::new(RECORDS_END),
            met_newer: AtomicBool::new(false),
            seen: Mutex::default(),
        }
    }

    /// Limits the size of every outbox.
    pub(super) fn limit(&self, limit: OutboxLimit) -> Result<()> {
        let max = limit.max.unwrap_or(self.default_max);
        if max >= RECORDS_END {
            return Err(Error::invalid(format!(
                "the outbox limit is {max} records, it must be less than {RECORDS_END}"
            )));
        }
        let (kept, waiting) = match limit.when_full {
            WhenFull::DropOldest => (max, RECORDS_END),
            WhenFull::RefusePushes => (RECORDS_END, max),
        };
        self.kept_max.store(kept, Ordering::Relaxed);
        self.waiting_max.store(waiting, Ordering::Relaxed);
        Ok(())
    }

    /// Returns how many records an outbox with this share keeps before the oldest are dropped.
    pub(super) fn kept_max(&self, share: u64) -> u64 {
        match self.kept_max.load(Ordering::Relaxed) {
            // No record is dropped; pushes are refused.
            RECORDS_END => RECORDS_END,
            max => max.min(share),
        }
    }

    /// Returns how many records may wait before pushes are refused; `None`: unlimited.
    pub(super) fn waiting_max(&self, share: u64) -> Option<u64> {
        let max = self.waiting_max.load(Ordering::Relaxed);
        (max < RECORDS_END).then_some(max.min(share))
    }

    pub(super) fn watch(&self, watcher: Weak<dyn OutboxWatcher>) -> Result<()> {
        self.watchers.add(watcher)
    }

    /// Notifies the watchers of new records of a bucket in this process.
    pub(super) fn tell(&self, bucket: &BucketKey) {
        let outbox = Outbox::Bucket(bucket.clone());
        self.watchers.tell(|watcher| watcher.recorded(&outbox));
    }

    /// Remembers a read up to a number.
    fn remember(&self, bucket: &BucketKey, through: u64, last: LastEntry) {
        let mut seen = self.seen();
        let seen = seen.entry(bucket.clone()).or_default();
        // The first read stays: its reader may be the one that trims.
        seen.entry(through).or_insert(last);
        if seen.len() > SEEN_MAX {
            seen.pop_first();
        }
    }

    /// Returns the last entry of a read up to this number or a later one.
    fn seen_at(&self, bucket: &BucketKey, through: u64) -> Option<LastEntry> {
        let seen = self.seen();
        let (_, last) = seen.get(bucket)?.range(through..).next()?;
        Some(last.clone())
    }

    /// Removes the reads up to a number.
    fn forget(&self, bucket: &BucketKey, through: u64) {
        if let Some(seen) = self.seen().get_mut(bucket) {
            seen.retain(|number, _| *number > through);
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<BucketKey, BTreeMap<u64, LastEntry>>> {
        self.seen.lock()
    }
}

impl fmt::Debug for Outboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outboxes").finish_non_exhaustive()
    }
}

/// Reads records of a bucket's outbox, in the order of writing.
pub(super) async fn page(
    shared: &Shared,
    bucket: &BucketKey,
    after: u64,
    limit: usize,
) -> Result<OutboxPage> {
    let (keys, link) = (shared.keys(bucket), shared.links.for_pushes(bucket));
    let from = after.min(RECORDS_END);
    let most = limit.min(OUTBOX_BATCH_MAX);
    let call = shared.terms().outbox(&keys, from, most, BYTES_ENOUGH);
    let (page, seen) = read(&bucket.queue, from, shared.call(link, &call).await?)?;
    if page.newer && !shared.outboxes.met_newer.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            %bucket,
            "skipped records of a newer version of duly"
        );
    }
    if let Some(seen) = seen {
        shared.outboxes.remember(bucket, page.last, seen);
    }
    Ok(OutboxPage {
        last: if most == 0 {
            after
        } else {
            page.last.max(after)
        },
        ..page
    })
}

/// Decodes the reply to a read of records after a number; with the last entry.
pub fn read(
    queue: &QueueName,
    after: u64,
    mut parts: ReplyReader,
) -> Result<(OutboxPage, Option<LastEntry>)> {
    parts.number()?;
    let (first, next, last) = (parts.number()?, parts.number()?, parts.number()?);
    let newer = parts.is_so()?;
    let mut page = OutboxPage {
        first,
        next,
        last,
        newer,
        ..OutboxPage::default()
    };
    let is_possible = first <= next && next <= RECORDS_END && last <= next.max(after);
    let mut entries = Vec::new();
    while !parts.is_empty() {
        entries.push((parts.number()?, parts.bytes()?));
    }
    let is_rising = entries.windows(2).all(|pair| pair[0].0 < pair[1].0)
        && entries.last().is_none_or(|(number, _)| *number <= last);
    if !is_possible || !is_rising {
        return Err(unreadable("outbox"));
    }
    let asked = after.max(first.saturating_sub(1)) + 1..=last;
    for (at, (begin, bytes)) in entries.iter().enumerate() {
        let end = entries.get(at + 1).map_or(last + 1, |next| next.0);
        let records = (*begin..end).zip(record::of_entry(queue, bytes));
        let readable =
            records.filter_map(|(number, record)| -> Option<Numbered> { Some((number, record?)) });
        page.records
            .extend(readable.filter(|(number, _)| asked.contains(number)));
    }
    if !entries.is_empty() {
        // Numbers have gaps only where records were dropped, which is before the first.
        let looked_at = (asked.end() + 1).saturating_sub(*asked.start());
        page.damaged = looked_at.saturating_sub(page.records.len() as u64);
    }
    if page.damaged > 0 {
        tracing::warn!(%queue, damaged = page.damaged, "records in an outbox are damaged");
    }
    let seen = entries.pop().map(|(number, mut bytes)| {
        bytes.truncate(BEGINNING);
        (number, bytes)
    });
    Ok((page, seen))
}

/// Drops the records up to a number.
pub(super) async fn trim(shared: &Shared, bucket: &BucketKey, through: u64) -> Result<()> {
    let seen = shared.outboxes.seen_at(bucket, through);
    let (number, began) = seen.as_ref().map_or((0, &[][..]), |it| (it.0, &it.1[..]));
    let (keys, link) = (shared.keys(bucket), shared.links.for_pushes(bucket));
    let call = shared.terms().trim(&keys, through, (number, began));
    let mut parts = shared.call(link, &call).await?;
    parts.number()?;
    if parts.is_so()? {
        shared.outboxes.forget(bucket, through);
        return Ok(());
    }
    shared.outboxes.forget(bucket, RECORDS_END);
    Err(Error::new(
        ErrorKind::Conflict,
        format!(
            "the outbox of bucket {bucket} has other records than those that were read: the server \
             has lost its tail; read it again from its first record"
        ),
    ))
}
