//! Refusals of requests whose body was not read: what the client sends is thrown away first, so
//! that a client that sends all before it reads learns why, instead of a broken connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::EXPECT;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::peer;

/// How much of a body is thrown away, and how long that may take.
const DISCARDED_MAX: u64 = 16 << 20;
const TIME_MAX: Duration = Duration::from_secs(5);

/// Throws the body of a refused request away if nobody has read any of it.
pub(crate) async fn discard(request: Request, next: Next) -> Response {
    let body = request.body();
    let is_too_large = body.size_hint().lower() > DISCARDED_MAX;
    // A client that expects to be asked for the body has not sent it.
    if body.is_end_stream() || is_too_large || request.headers().contains_key(EXPECT) {
        return next.run(request).await;
    }
    let (unread, mut left) = oneshot::channel();
    let request = request.map(|body| {
        Body::new(WatchedBody {
            body,
            unread: Some(unread),
        })
    });
    let response = next.run(request).await;
    if response.status().is_client_error()
        && let Ok(body) = left.try_recv()
    {
        // A client that sends more, or more slowly, does not learn why.
        read_out(body).await;
    }
    response
}

/// Throws away the body of a request whose endpoint takes none: some clients send that of the request
/// before again. Only then the connection can be kept, and a client that hangs up is noticed. Meanwhile
/// the connection ends for a new one like one that serves nothing.
pub(crate) async fn read_out(body: Body) {
    if !body.is_end_stream() {
        let _idle = peer::idle();
        timeout(TIME_MAX, read_all(body)).await.ok();
    }
}

async fn read_all(mut body: Body) {
    let mut seen = 0;
    while let Some(Ok(frame)) = body.frame().await {
        seen += frame.data_ref().map_or(0, |data| data.len() as u64);
        if seen > DISCARDED_MAX {
            break;
        }
    }
}

/// A body that is handed over when it is dropped unread.
struct WatchedBody {
    body: Body,
    /// `None` once something of it was read.
    unread: Option<oneshot::Sender<Body>>,
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.unread = None;
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        if let Some(unread) = self.unread.take() {
            // Fails only if the request was dropped as well.
            unread.send(std::mem::take(&mut self.body)).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::Router;
    use axum::http::StatusCode;
    use axum::middleware;
    use futures_util::stream;
    use tower::ServiceExt;

    use super::*;
    use crate::http::connections::Connections;

    fn endless() -> Body {
        Body::from_stream(stream::pending::<Result<Bytes, axum::Error>>())
    }

    /// Throws a body away on the only connection that there is, while another client connects.
    async fn is_ended_for_another(thrown: impl Future) -> bool {
        let connections = Connections::new(1);
        let connection = connections.open().await.expect("a place");
        let serving = connection.serves();
        let of = connection.in_use();
        let thrown = peer::serving(SocketAddr::from(([127, 0, 0, 1], 1)), of, thrown);
        let is_ended = async {
            tokio::select! {
                () = connection.ended() => true,
                _ = thrown => false,
            }
        };
        tokio::select! {
            is_ended = is_ended => is_ended,
            _ = connections.open() => unreachable!("there is one place"),
            _ = async { let _serving = serving; std::future::pending::<()>().await } => false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_body_is_thrown_away_ends_for_another() {
        assert!(is_ended_for_another(read_out(endless())).await);
        for status in [401, 404, 413] {
            let status = StatusCode::from_u16(status).unwrap();
            let refusing = Router::new().fallback(move || async move { status });
            let refusing = refusing.layer(middleware::from_fn(discard));
            let refused = refusing.oneshot(Request::new(endless()));
            assert!(is_ended_for_another(refused).await, "{status}");
        }
    }
}
