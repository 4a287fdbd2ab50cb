//! Reads and drops the records of a bucket's outbox.

use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, QueueName};
use crate::panics;
use crate::record::Numbered;
use crate::store::outbox::{OUTBOX_BATCH_MAX, OutboxPage};
use crate::store::redis::op::outboxes::LastEntry;
use crate::store::redis::op::record;
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::EXACT_MAX;
use crate::store::redis::script::names::RECORDS_END;
use crate::store::redis::script::reader::{ReplyReader, unreadable};
use crate::store::redis::script::table::script;

/// The byte limit of one read, exceeded by its last entry: it bounds the time on the server and on
/// the connection.
const BYTES_ENOUGH: usize = 1 << 20;
/// The length of the prefix that identifies an entry: the id of its first event, when that
/// finished, and the node.
const BEGINNING: usize = 68;

script! {
    /// Reads records. Changes nothing.
    OUTBOX = "outbox", READS, Bucket, ["bucket"];
    OutboxArguments {
        /// The number after which to begin.
        after: u64,
        /// The most records.
        limit: usize,
        /// The most bytes, checked after each read.
        enough: usize,
    }
    reply OutboxReply {
        now: u64,
        /// The number of the oldest record.
        first: u64,
        /// That of the next one.
        next: u64,
        /// That of the last one that was trimmed.
        trimmed: u64,
        /// The last number that was examined.
        last: u64,
        /// Whether records follow in a form that only a newer duly reads. Then two for each entry:
        /// number of its first record; its records. The first entry may begin before the requested
        /// number, and the last one end after the limit.
        newer: bool,
    }
}

script! {
    /// Drops records that are in the journal.
    TRIM = "trim", DRAINS, Bucket, ["bucket"];
    TrimArguments<'a> {
        /// The number of the last of them.
        through: u64,
        /// The number of an entry that was read after or around it, or 0, and how its records began:
        /// a server that has lost its tail may have reused the numbers.
        seen: u64,
        began: &'a [u8],
        /// How many records the outbox keeps, if this process has a limit of it.
        kept: Option<u64>,
    }
    reply TrimReply {
        now: u64,
        /// False if that entry has changed: then nothing is dropped.
        is_same: bool,
        /// Whether there are more than one call drops.
        more: bool,
    }
}

/// Reads records of a bucket's outbox, in the order of writing.
pub(in crate::store::redis) async fn page(
    shared: &Shared,
    bucket: &BucketKey,
    after: u64,
    limit: usize,
) -> Result<OutboxPage> {
    let link = shared.links.for_pushes(bucket);
    let from = after.min(RECORDS_END);
    let most = limit.min(OUTBOX_BATCH_MAX);
    let arguments = OutboxArguments {
        after: from.min(EXACT_MAX),
        limit: most,
        enough: BYTES_ENOUGH,
    };
    let call = shared.terms(bucket).call(arguments);
    let (page, seen) = read(&bucket.queue, from, shared.call(bucket, link, &call).await?)?;
    if page.newer && !shared.outboxes.met_newer.swap(true, Ordering::Relaxed) {
        panics::reported(|| {
            tracing::warn!(
                %bucket,
                "skipped records of a newer version of duly"
            );
        });
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
    let OutboxReply {
        first,
        next,
        trimmed,
        last,
        newer,
        ..
    } = OutboxReply::read(&mut parts)?;
    let mut page = OutboxPage {
        first,
        next,
        trimmed: trimmed.min(next), // nothing of what is to come was
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
    let numbers = after.max(first.saturating_sub(1)) + 1..=last;
    for (at, (begin, bytes)) in entries.iter().enumerate() {
        let end = entries.get(at + 1).map_or(last + 1, |next| next.0);
        let records = (*begin..end).zip(record::of_entry(queue, bytes));
        let readable =
            records.filter_map(|(number, record)| -> Option<Numbered> { Some((number, record?)) });
        page.records
            .extend(readable.filter(|(number, _)| numbers.contains(number)));
    }
    if !entries.is_empty() {
        // Numbers have gaps only where records were dropped, which is before the first.
        let looked_at = (numbers.end() + 1).saturating_sub(*numbers.start());
        page.damaged = looked_at.saturating_sub(page.records.len() as u64);
    }
    if page.damaged > 0 {
        panics::reported(
            || tracing::warn!(%queue, damaged = page.damaged, "records in an outbox are damaged"),
        );
    }
    let seen = entries.pop().map(|(number, mut bytes)| {
        bytes.truncate(BEGINNING);
        (number, bytes)
    });
    Ok((page, seen))
}

/// Drops the records up to a number.
pub(in crate::store::redis) async fn trim(
    shared: &Shared,
    bucket: &BucketKey,
    through: u64,
) -> Result<()> {
    let seen = shared.outboxes.seen_at(bucket, through);
    let (number, began) = seen.as_ref().map_or((0, &[][..]), |it| (it.0, &it.1[..]));
    let link = shared.links.for_pushes(bucket);
    let terms = shared.terms(bucket);
    let arguments = TrimArguments {
        through: through.min(EXACT_MAX),
        seen: number,
        began,
        kept: terms.has_limit.then_some(terms.records_max),
    };
    let call = terms.call(arguments);
    loop {
        let reply = TrimReply::read(&mut shared.call(bucket, link, &call).await?)?;
        if !reply.is_same {
            break;
        }
        if !reply.more {
            shared.outboxes.forget(bucket, through);
            return Ok(());
        }
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
