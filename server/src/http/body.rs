//! Request bodies: read within a size and a time.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::timeout;

/// How much of a body that is too large is read and thrown away, so that a client that sends first
/// and reads then learns why it is refused.
const DISCARDED_MAX: usize = 16 << 20;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It has more bytes than allowed.
    TooLarge,
    /// The connection failed, or the client took too long.
    Unreadable,
}

/// Reads a body of at most `bytes_max` within `time_max`.
pub(crate) async fn read(
    body: Body,
    bytes_max: usize,
    time_max: Duration,
) -> Result<Bytes, BodyError> {
    match timeout(time_max, collect(body, bytes_max)).await {
        Ok(read) => read,
        Err(_) => Err(BodyError::Unreadable),
    }
}

async fn collect(mut body: Body, bytes_max: usize) -> Result<Bytes, BodyError> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > bytes_max.saturating_add(DISCARDED_MAX) {
        return Err(BodyError::TooLarge);
    }
    let mut bytes = BytesMut::new();
    let mut seen = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::Unreadable)?;
        let Ok(data) = frame.into_data() else {
            continue; // trailers
        };
        seen = seen.saturating_add(data.len());
        if seen > bytes_max.saturating_add(DISCARDED_MAX) {
            break;
        }
        match seen > bytes_max {
            true => bytes.clear(),
            false if bytes.is_empty() && body.is_end_stream() => return Ok(data),
            false => bytes.extend_from_slice(&data),
        }
    }
    match seen > bytes_max {
        true => Err(BodyError::TooLarge),
        false => Ok(bytes.freeze()),
    }
}
