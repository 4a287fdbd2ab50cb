//! Questions of the store: how long each may take, and one that goes on from page to page.

use std::time::Duration;

use duly::records::{MinuteStats, Records};
use duly::time::Timestamp;

/// How long a question may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// How many minutes are asked for at a time, at most, and how many statistics a page has.
///
/// A queue in which something ends in every minute fills no page.
const AT_ONCE: u64 = 9_999;
const PAGE: u32 = 10_000;
pub(crate) const MINUTE: u64 = 60_000;

/// Waits for a question for a bounded time.
pub(crate) async fn in_time<T>(question: impl Future<Output = duly::Result<T>>) -> duly::Result<T> {
    let late = |_elapsed| {
        let text = format!("the store did not respond within {PATIENCE:?}");
        duly::Error::new(duly::ErrorKind::TimedOut, text)
    };
    tokio::time::timeout(PATIENCE, question)
        .await
        .map_err(late)?
}

pub(crate) fn minute_of(at: Timestamp) -> u64 {
    at.as_millis() / MINUTE
}

pub(crate) fn at_minute(minute: u64) -> Timestamp {
    Timestamp::from_millis(minute * MINUTE)
}

/// Reads the statistics of the minutes of a span in parts, the newest first, until about `max` are read, so
/// that what is left out is the oldest. Returns the first minute that was read.
pub(crate) async fn read_minutes(
    records: &Records,
    (begin, end): (u64, u64),
    max: usize,
    mut take: impl FnMut(Vec<MinuteStats>),
) -> duly::Result<u64> {
    let (mut until, mut length, mut read) = (end, AT_ONCE, 0);
    while until > begin && read < max {
        let since = until.saturating_sub(length).max(begin);
        let part = records.clone().since(at_minute(since));
        let part = part.until(at_minute(until)).minutes().limit(PAGE);
        let mut page = in_time(part.clone().page()).await?;
        if page.next.is_some() && until - since > 1 {
            // The first page of a part has its oldest minutes.
            length = (until - since) / 2;
            continue;
        }
        if page.items.len() < PAGE as usize / 4 {
            length = (length * 2).min(AT_ONCE);
        }
        loop {
            read += page.items.len();
            let next = page.next;
            take(page.items);
            if next.is_none() {
                break;
            }
            page = in_time(part.clone().after(next).page()).await?;
        }
        until = since;
    }
    Ok(until)
}
