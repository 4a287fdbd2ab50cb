//! A connection whose other end has to take each answer within a time.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Instant, Sleep, sleep};

/// How long an answer may take to be taken in whole: as long as Prometheus waits for one.
pub(super) const MAX_ANSWER: Duration = Duration::from_secs(10);

pub(super) struct Guest<S> {
    stream: S,
    /// From when `served` counts.
    began: Instant,
    served: Arc<AtomicU64>,
    /// Rings when the answer under way has taken too long.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> Guest<S> {
    /// `served` is when an answer was last taken in whole, in microseconds since `began`.
    pub(super) fn new(stream: S, began: Instant, served: Arc<AtomicU64>) -> Self {
        Self {
            stream,
            began,
            served,
            alarm: None,
        }
    }

    /// An attempt to write, unless the answer has taken too long.
    fn attempt(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut S, &mut Context<'_>) -> Poll<Result<usize>>,
    ) -> Poll<Result<usize>> {
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(sleep(MAX_ANSWER)));
        let written = write(&mut self.stream, cx);
        if written.is_pending() {
            ready!(alarm.as_mut().poll(cx));
            let context = "the answer was not taken in time";
            return Poll::Ready(Err(Error::new(ErrorKind::TimedOut, context)));
        }
        written
    }
}

impl<S: Read + Unpin> Read for Guest<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: Write + Unpin> Write for Guest<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        self.attempt(cx, |stream, cx| Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.attempt(cx, |stream, cx| {
            Pin::new(stream).poll_write_vectored(cx, bufs)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Asked for when all has been written: the answer is with the other end, or on its way.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.alarm.take().is_some() {
            let now = self.began.elapsed().as_micros() as u64; // for 584,000 years
            self.served.store(now, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
