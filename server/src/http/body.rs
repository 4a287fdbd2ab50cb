//! Request bodies: read within a size and a time.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

/// How much of a body that is too large is read and thrown away, so that a client that sends first
/// and reads then learns why it is refused.
const DISCARDED_MAX: usize = 16 << 20;

/// A body up to this size, in bytes, needs no place among the large ones.
const SMALL_BYTES: usize = 64 << 10;

/// The slowest rate of a body that has a place, in bytes a second, from its first byte on.
const BYTES_PER_S_MIN: f64 = 32.0 * 1_024.0;
/// How long such a body may be slower.
const SLOW_MAX: Duration = Duration::from_secs(5);

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
    let read = within(time_max, collect(body, bytes_max, None)).await;
    read.map(|(bytes, _)| bytes)
}

/// Reads a body that may be large, as [`read`] does. What is more than [`SMALL_BYTES`] needs one of
/// few places, and arrives at no less than [`BYTES_PER_S_MIN`] once it has one, so that slow clients
/// do not keep the places from others. The place is taken until what is returned is dropped.
pub(crate) async fn read_large(
    body: Body,
    bytes_max: usize,
    time_max: Duration,
    places: &Semaphore,
) -> Result<(Bytes, Option<SemaphorePermit<'_>>), BodyError> {
    within(time_max, collect(body, bytes_max, Some(places))).await
}

async fn within<T>(
    time_max: Duration,
    read: impl Future<Output = Result<T, BodyError>>,
) -> Result<T, BodyError> {
    match timeout(time_max, read).await {
        Ok(read) => read,
        Err(_) => Err(BodyError::Unreadable),
    }
}

/// A place among the large bodies, since when.
struct Place<'a>(SemaphorePermit<'a>, Instant);

impl Place<'_> {
    /// When the next part of a body of so many bytes must be there.
    fn deadline(&self, seen: usize) -> Instant {
        self.1 + SLOW_MAX + Duration::from_secs_f64(seen as f64 / BYTES_PER_S_MIN)
    }
}

async fn collect(
    mut body: Body,
    bytes_max: usize,
    places: Option<&Semaphore>,
) -> Result<(Bytes, Option<SemaphorePermit<'_>>), BodyError> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > bytes_max.saturating_add(DISCARDED_MAX) {
        return Err(BodyError::TooLarge);
    }
    let mut bytes = BytesMut::new();
    let mut seen = 0_usize;
    let mut place: Option<Place<'_>> = None;
    loop {
        let frame = match &place {
            None => body.frame().await,
            Some(place) => timeout_at(place.deadline(seen), body.frame())
                .await
                .map_err(|_| BodyError::Unreadable)?,
        };
        let Some(frame) = frame else { break };
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
            false if bytes.is_empty() && body.is_end_stream() => return Ok((data, None)),
            false => bytes.extend_from_slice(&data),
        }
        if let Some(places) = places
            && place.is_none()
            && seen > SMALL_BYTES
        {
            let permit = places.acquire().await.map_err(|_| BodyError::Unreadable)?;
            place = Some(Place(permit, Instant::now()));
        }
    }
    match seen > bytes_max {
        true => Err(BodyError::TooLarge),
        false => Ok((bytes.freeze(), place.map(|place| place.0))),
    }
}
