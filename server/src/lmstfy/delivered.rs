//! A response that gives its jobs back when nobody takes it, and takes room while it is large.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body as HttpBody;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use duly::lease::{EncodedPayload, Leased};
use http_body::{Body, Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};

use crate::auth::{LastingGrant, LimitedCall, Refusal, Tokens};
use crate::http::reply;
use crate::shares::{Owner, Share};
use crate::state::App;

/// The size of a part of a response, in bytes; what is larger takes room until it is read.
pub(crate) const PART_BYTES: usize = 64 << 10;

/// The jobs of a consume until their response is on its way.
///
/// A client that hangs up ends its request, and with it this: then the jobs are released at once
/// and have lost no attempt.
#[derive(Debug, Default)]
pub(crate) struct Undelivered(Vec<Leased<EncodedPayload>>);

impl Undelivered {
    pub(crate) fn new(jobs: Vec<Leased<EncodedPayload>>) -> Self {
        Self(jobs)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that they may be handed out; else they are released.
    pub(crate) async fn allowed(
        self,
        grant: &LastingGrant,
        tokens: &Tokens,
    ) -> Result<Deliverable, Refusal> {
        if !self.is_empty() {
            grant.check(tokens).await?;
        }
        Ok(Deliverable {
            jobs: self,
            call: None,
        })
    }
}

/// Leased jobs that the client may have.
#[derive(Debug, Default)]
pub(crate) struct Deliverable {
    jobs: Undelivered,
    /// The call of the token's limit that they are.
    call: Option<LimitedCall>,
}

impl Deliverable {
    pub(crate) fn jobs(&self) -> &[Leased<EncodedPayload>] {
        &self.jobs.0
    }

    /// They are a call of the token's limit, which is given back with them.
    pub(crate) fn count(&mut self, call: Option<LimitedCall>) {
        self.call = call;
    }

    /// The jobs are the client's.
    pub(crate) fn deliver(&mut self) {
        self.jobs.0.clear();
        self.call.take().into_iter().for_each(LimitedCall::keep);
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        let jobs = std::mem::take(&mut self.0);
        if jobs.is_empty() {
            return;
        }
        let release = async move {
            for job in jobs {
                if let Err(error) = job.release().await {
                    // It comes back when its time to run is over.
                    tracing::warn!(id = %job.id(), %error, "job not released");
                }
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(release)),
            Err(_) => tracing::warn!("jobs not released: the runtime has ended"),
        }
    }
}

/// Returns a response of JSON with these jobs, if it has any: they are the client's once it has taken
/// the last part. A large one takes room of its token.
pub(crate) async fn response(
    app: &App,
    owner: &Owner,
    text: String,
    jobs: Deliverable,
) -> Response {
    let body = HeldBody::new(app, owner, Bytes::from(text), jobs).await;
    reply::with_type(StatusCode::OK, reply::JSON, HttpBody::new(body))
}

/// The body of a response that may be large, or have jobs.
#[derive(Debug)]
struct HeldBody {
    unread: Arc<Mutex<Unread>>,
    /// Of a large one.
    room: Option<Share>,
}

/// What the client has not read; nothing of it if others needed the room.
#[derive(Debug, Default)]
struct Unread {
    bytes: Bytes,
    jobs: Deliverable,
    /// Whether it was dropped before it was read.
    is_cut: bool,
}

impl HeldBody {
    /// Takes room for a large one, until the client has read it or others need the room.
    async fn new(app: &App, owner: &Owner, bytes: Bytes, jobs: Deliverable) -> Self {
        let len = bytes.len();
        let is_cut = false;
        let unread = Arc::new(Mutex::new(Unread {
            bytes,
            jobs,
            is_cut,
        }));
        let room = if len > PART_BYTES {
            let room = app.responses.take(owner, len).await;
            let (ending, unread) = (room.ending(), Arc::downgrade(&unread));
            let done = room.done();
            tokio::spawn(async move {
                tokio::select! {
                    () = done.cancelled() => {}
                    () = ending.cancelled() => {
                        if let Some(unread) = unread.upgrade() {
                            let is_cut = true;
                            *lock(&unread) = Unread { is_cut, ..Unread::default() };
                        }
                    }
                }
            });
            Some(room)
        } else {
            None
        };
        Self { unread, room }
    }
}

fn lock(unread: &Mutex<Unread>) -> MutexGuard<'_, Unread> {
    unread.lock()
}

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(room) = &self.room {
            room.used();
        }
        let mut unread = lock(&self.unread);
        if unread.is_cut {
            return Poll::Ready(Some(Err(Cut)));
        }
        let len = unread.bytes.len().min(PART_BYTES);
        let mut part = unread.bytes.split_to(len);
        if self.room.is_some() {
            part = Bytes::copy_from_slice(&part); // a part does not keep the whole
        }
        if unread.bytes.is_empty() {
            unread.jobs.deliver();
        }
        Poll::Ready((len > 0).then_some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        let unread = lock(&self.unread);
        unread.bytes.is_empty() && !unread.is_cut
    }

    fn size_hint(&self) -> SizeHint {
        let left = lock(&self.unread).bytes.len();
        SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
    }
}

/// A response that was not read while others needed its room.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response was not read, and others needed its room")
    }
}

impl std::error::Error for Cut {}
