//! Requests that change something: they are done whole, and recorded, although the client hangs up in
//! the middle.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// A request that goes on as a task when nobody waits for its response any more.
struct Whole(Option<BoxFuture<'static, Response>>);

impl Future for Whole {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        // One that panics does not go on.
        let Some(mut running) = self.0.take() else {
            return Poll::Pending;
        };
        let polled = running.poll_unpin(context);
        if polled.is_pending() {
            self.0 = Some(running);
        }
        polled
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let (Some(rest), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(rest);
        }
    }
}

/// Runs a request that may change something to its end.
pub(crate) async fn run(request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    Whole(Some(next.run(request).boxed())).await
}
