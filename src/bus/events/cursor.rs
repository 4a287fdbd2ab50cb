//! A place among the events that are not over, as a text for parameters.

use std::fmt;
use std::str::FromStr;

use crate::bus::scan::{EventCursor, SweepTime};
use crate::core::op::PeekCursor;
use crate::error::{Error, Result, shown};
use crate::event::{BucketId, BucketKey};
use crate::time::Timestamp;

/// The most bytes of the position of a store in the text of a cursor.
const POSITION_BYTES_MAX: usize = 128;

/// Formats as `queue/bucket/position`, the position in hexadecimal digits. Behind it is the time of a
/// sweep in milliseconds: `/due`, or `/-began` of one that makes events due at once.
impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bucket,
            from,
            sweep,
        } = self;
        write!(f, "{}/{}/", bucket.queue, bucket.bucket)?;
        let bytes = from.as_ref().map_or(&[][..], PeekCursor::as_bytes);
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        match sweep {
            Some(SweepTime::Due(due)) => write!(f, "/{}", due.as_millis()),
            Some(SweepTime::Began(began)) => write!(f, "/-{}", began.as_millis()),
            None => Ok(()),
        }
    }
}

impl FromStr for EventCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        read(text).ok_or_else(|| {
            Error::invalid(format!(
                "`{}` is not a cursor of events; use `next` of the page before",
                shown(text)
            ))
        })
    }
}

/// Reads a cursor.
pub(super) fn read(text: &str) -> Option<EventCursor> {
    let (queue, place) = text.split_once('/')?;
    let (bucket, position) = place.split_once('/')?;
    let (position, sweep) = match position.split_once('/') {
        Some((position, time)) => (position, Some(sweep_time(time)?)),
        None => (position, None),
    };
    let bucket = BucketId(number(bucket)?);
    let bucket = BucketKey::new(queue.parse().ok()?, bucket);
    let is_fit = position.len() <= 2 * POSITION_BYTES_MAX && position.len().is_multiple_of(2);
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !is_fit || !position.bytes().all(is_hex) {
        return None;
    }
    let bytes = (0..position.len()).step_by(2);
    let bytes = bytes.map(|at| u8::from_str_radix(position.get(at..at + 2)?, 16).ok());
    let bytes = bytes.collect::<Option<Vec<u8>>>()?;
    let from = (!bytes.is_empty()).then(|| PeekCursor::new(bytes));
    Some(EventCursor {
        bucket,
        from,
        sweep,
    })
}

fn sweep_time(text: &str) -> Option<SweepTime> {
    Some(match text.strip_prefix('-') {
        Some(began) => SweepTime::Began(Timestamp::from_millis(number(began)?)),
        None => SweepTime::Due(Timestamp::from_millis(number(text)?)),
    })
}

/// Reads a number as it is written: digits, without a sign or zeros in front.
pub(super) fn number<T: FromStr>(text: &str) -> Option<T> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_plain.then(|| text.parse().ok()).flatten()
}
