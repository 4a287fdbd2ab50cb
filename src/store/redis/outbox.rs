//! Reading records out of the outboxes.

use redis::Value;

use crate::error::Result;
use crate::event::BucketKey;
use crate::record::Record;
use crate::store::redis::answer::unreadable;
use crate::store::redis::keys;
use crate::store::redis::record::read_entry;
use crate::store::redis::shared::Shared;
use crate::store::{OUTBOX_BATCH_MAX, OutboxPage};

/// No outbox ever has so many.
const RECORDS_END: u64 = 1 << 40;
/// How many entries of an outbox are read at once; each may hold a thousand records.
const ENTRIES: usize = 50;

/// Reads records of a bucket's outbox, in the order in which they were written.
pub(super) async fn page(
    shared: &Shared,
    bucket: &BucketKey,
    after: u64,
    limit: usize,
) -> Result<OutboxPage> {
    let mut records = read(shared, bucket, after).await?;
    records.truncate(limit.min(OUTBOX_BATCH_MAX));
    Ok(OutboxPage {
        last: records.last().map_or(after, |(number, _)| *number),
        records,
        ..OutboxPage::default()
    })
}

/// Some records of a bucket with numbers greater than `after`; none when there are no more.
async fn read(shared: &Shared, bucket: &BucketKey, after: u64) -> Result<Vec<(u64, Record)>> {
    let key = keys::part(&shared.prefix, bucket, "outbox");
    let next = after + 1;
    // The entry that holds the next record may begin before it.
    let mut command = redis::cmd("XREVRANGE");
    command
        .arg(&key)
        .arg(format!("{next}-0"))
        .arg("-")
        .arg("COUNT")
        .arg(1);
    let before = entries(
        shared
            .send(shared.links.for_pushes(bucket), &command)
            .await?,
    )?;
    let mut from = before.first().map_or(next, |(first, _)| *first);
    let mut records = Vec::new();
    loop {
        let mut command = redis::cmd("XRANGE");
        command
            .arg(&key)
            .arg(format!("{from}-0"))
            .arg("+")
            .arg("COUNT")
            .arg(ENTRIES);
        let found = entries(
            shared
                .send(shared.links.for_pushes(bucket), &command)
                .await?,
        )?;
        let many = found.len();
        for (first, bytes) in found {
            if first < from {
                return Err(unreadable("XRANGE")); // and it would go on for ever
            }
            from = first + 1;
            let entry = read_entry(&bucket.queue, &bytes)?;
            records.extend((first..).zip(entry).filter(|(number, _)| *number > after));
        }
        if !records.is_empty() || many < ENTRIES {
            return Ok(records);
        }
    }
}

/// The entries of a part of a stream: the first part of the id, and the one value.
pub(super) fn entries(value: Value) -> Result<Vec<(u64, Vec<u8>)>> {
    let wrong = || unreadable("XRANGE");
    let Value::Array(entries) = value else {
        return Err(wrong());
    };
    let entry = |entry: Value| -> Option<(u64, Vec<u8>)> {
        let Value::Array(parts) = entry else {
            return None;
        };
        let [Value::BulkString(id), Value::Array(fields)] = <[Value; 2]>::try_from(parts).ok()?
        else {
            return None;
        };
        let [_, Value::BulkString(bytes)] = <[Value; 2]>::try_from(fields).ok()? else {
            return None;
        };
        let id = String::from_utf8(id).ok()?;
        let number: u64 = id.split_once('-')?.0.parse().ok()?;
        (number < RECORDS_END).then_some((number, bytes))
    };
    entries
        .into_iter()
        .map(|it| entry(it).ok_or_else(wrong))
        .collect()
}
