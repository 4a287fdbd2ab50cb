//! A response body that gives its jobs back when nobody takes it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use duly::lease::{EncodedPayload, Leased};
use http_body::{Body, Frame, SizeHint};

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

    pub(crate) fn jobs(&self) -> &[Leased<EncodedPayload>] {
        &self.0
    }

    /// The jobs are the client's.
    pub(crate) fn deliver(&mut self) {
        self.0.clear();
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

/// The body of a response with jobs.
#[derive(Debug)]
pub(crate) struct JobsBody {
    bytes: Option<Bytes>,
    jobs: Undelivered,
}

impl JobsBody {
    pub(crate) fn new(bytes: Bytes, jobs: Undelivered) -> Self {
        Self {
            bytes: Some(bytes),
            jobs,
        }
    }
}

impl Body for JobsBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let bytes = self.bytes.take();
        self.jobs.deliver();
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
    }
}
