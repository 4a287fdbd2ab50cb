//! Request bodies: read within a size, a time, and a share of the memory for bodies under way.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::http::waits::{WaitPlace, Waits};
use crate::shares::{Bounds, Evicted, Owner, Share, Shares};

/// How much of a body that is too large is read and thrown away, so that a client that sends first
/// and reads then learns why it is refused.
const DISCARDED_MAX: usize = 16 << 20;

/// A body up to this size, in bytes, needs no room among the large ones.
const SMALL_BYTES: usize = 64 << 10;
/// Bodies of which a part has arrived, each counted as a small one: 4,096 in all, 2,048 of a
/// namespace, 1,024 of a token.
const BEGUN: Bounds = Bounds {
    of_all: 256 << 20,
    of_namespace: 128 << 20,
    of_each: 64 << 20,
    idle_min: Duration::ZERO,
};
/// Larger bodies, in bytes, until they are decoded: as much of a token as the largest bulk.
const LARGE: Bounds = Bounds {
    of_all: 256 << 20,
    of_namespace: 112 << 20,
    of_each: 80 << 20,
    // A client that sends goes on, and others wait for it.
    idle_min: Duration::from_secs(1),
};

/// The slowest rate of a large body, in bytes a second, once it has room.
const BYTES_PER_S_MIN: f64 = 32.0 * 1_024.0;
/// How long such a body may be slower.
const SLOW_MAX: Duration = Duration::from_secs(5);
/// How long the rest of a body is waited for once the server stops.
const STOPPING_MAX: Duration = Duration::from_secs(1);

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It has more bytes than allowed.
    TooLarge,
    /// The connection failed, or the client took too long.
    Unreadable,
    /// Others need the room.
    Evicted(Evicted),
    /// The server stops.
    Stopping,
}

/// What too many unfinished bodies are called.
pub(crate) const UNFINISHED: &str = "requests with unfinished bodies";

/// The bodies under way.
#[derive(Debug)]
pub(crate) struct Bodies {
    begun: Arc<Shares>,
    large: Arc<Shares>,
    waits: Arc<Waits>,
    time_max: Duration,
    closing: CancellationToken,
}

impl Bodies {
    /// Bodies are read within `time_max`, and not for long once `closing` is cancelled.
    pub(crate) fn new(waits: Arc<Waits>, time_max: Duration, closing: CancellationToken) -> Self {
        Self {
            begun: Shares::new(BEGUN),
            large: Shares::new(LARGE),
            waits,
            time_max,
            closing,
        }
    }

    /// Reads a body of at most `bytes_max` for a token. One with more than [`SMALL_BYTES`] takes room
    /// for all of itself until what is returned is dropped, and arrives at no less than
    /// [`BYTES_PER_S_MIN`] once it has it.
    pub(crate) async fn read(
        &self,
        owner: &Owner,
        body: Body,
        bytes_max: usize,
    ) -> Result<(Bytes, Option<Share>), BodyError> {
        let stopping = async {
            self.closing.cancelled().await;
            tokio::time::sleep(STOPPING_MAX).await;
        };
        tokio::select! {
            read = timeout(self.time_max, self.collect(owner, body, bytes_max)) => {
                read.unwrap_or(Err(BodyError::Unreadable))
            }
            () = stopping => Err(BodyError::Stopping),
        }
    }

    async fn collect(
        &self,
        owner: &Owner,
        mut body: Body,
        bytes_max: usize,
    ) -> Result<(Bytes, Option<Share>), BodyError> {
        let size = body.size_hint();
        let declared = usize::try_from(size.lower()).unwrap_or(usize::MAX);
        if declared > bytes_max.saturating_add(DISCARDED_MAX) {
            return Err(BodyError::TooLarge);
        }
        let whole = size.exact().and_then(|exact| usize::try_from(exact).ok());
        let whole = whole.map_or(bytes_max, |exact| exact.min(bytes_max));
        let mut bytes = BytesMut::new();
        let mut seen = 0_usize;
        let mut room = Room::default();
        loop {
            let next = match body.frame().now_or_never() {
                Some(next) => next,
                None => {
                    if room.wait.is_none() {
                        room.wait = Some(self.waits.take(owner, 0).await);
                    }
                    room.within(seen, body.frame()).await?
                }
            };
            let Some(frame) = next else {
                break;
            };
            let frame = frame.map_err(|_| BodyError::Unreadable)?;
            let Ok(data) = frame.into_data() else {
                continue; // trailers
            };
            seen = seen.saturating_add(data.len());
            if seen > bytes_max.saturating_add(DISCARDED_MAX) {
                break;
            }
            match seen > bytes_max {
                true => bytes = BytesMut::new(),
                false if bytes.is_empty() && body.is_end_stream() => return Ok((data, None)),
                false => bytes.extend_from_slice(&data),
            }
            room.used();
            if room.begun.is_none() {
                room.begun = Some(self.begun.take(owner, SMALL_BYTES).await);
            }
            if room.large.is_none() && seen > SMALL_BYTES {
                let large = room.within(seen, self.large.take(owner, whole)).await?;
                room.large = Some((large, Instant::now()));
            }
        }
        if seen > bytes_max {
            Err(BodyError::TooLarge)
        } else {
            Ok((bytes.freeze(), room.large.map(|(large, _)| large)))
        }
    }
}

/// The room that a body has.
#[derive(Default)]
struct Room {
    /// Its place once it waits for the client.
    wait: Option<WaitPlace>,
    begun: Option<Share>,
    /// That among the large ones, since when.
    large: Option<(Share, Instant)>,
}

impl Room {
    fn used(&self) {
        if let Some(wait) = &self.wait {
            wait.used();
        }
        for share in self.shares() {
            share.used();
        }
    }

    fn shares(&self) -> impl Iterator<Item = &Share> {
        let large = self.large.as_ref().map(|(large, _)| large);
        self.begun.iter().chain(large)
    }

    /// Waits for the next part of a body, of which `seen` bytes are there, while it has its room.
    async fn within<T>(&self, seen: usize, next: impl Future<Output = T>) -> Result<T, BodyError> {
        let evicted = async |share: Option<&Share>| match share {
            Some(share) => share.evicted().await,
            None => std::future::pending().await,
        };
        let has_to_go = async {
            match &self.wait {
                Some(wait) => wait.evicted().await.0,
                None => std::future::pending().await,
            }
        };
        let late = async {
            match &self.large {
                Some((_, since)) => {
                    let span = Duration::from_secs_f64(seen as f64 / BYTES_PER_S_MIN);
                    tokio::time::sleep_until(*since + SLOW_MAX + span).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            why = has_to_go => Err(BodyError::Evicted(why)),
            why = evicted(self.begun.as_ref()) => Err(BodyError::Evicted(why)),
            why = evicted(self.large.as_ref().map(|(large, _)| large)) => {
                Err(BodyError::Evicted(why))
            }
            next = next => Ok(next),
            () = late => Err(BodyError::Unreadable),
        }
    }
}
