//! The page over HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Prometheus;

/// Connections at a time; more wait until one of them ends.
const MAX_CONNECTIONS: usize = 32;

/// How long a connection may be without a request.
const MAX_SILENCE: Duration = Duration::from_secs(90);

/// How long to wait when a connection cannot be had, as when the process has no file left.
const PAUSE: Duration = Duration::from_millis(100);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Serves `/metrics`, and `/health` for whoever asks whether anybody is there, for as long as it
/// is polled.
pub(super) async fn serve(listener: TcpListener, prometheus: Prometheus) -> Infallible {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(talk(stream, prometheus.clone(), place.ok()))),
            Err(error) => {
                tracing::warn!(%error, "whoever asked for metrics could not be heard");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn talk(stream: TcpStream, prometheus: Prometheus, _place: Option<OwnedSemaphorePermit>) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &prometheus);
        async move { Ok::<_, Infallible>(answer) }
    });
    let talked = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_SILENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = talked {
        tracing::debug!(%error, "a connection that asked for metrics has ended");
    }
}

fn answer(request: &Request<Incoming>, prometheus: &Prometheus) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, prometheus.render()),
        (&Method::GET | &Method::HEAD, "/health") => (StatusCode::OK, "OK\n".to_owned()),
        (_, "/metrics" | "/health") => (
            StatusCode::METHOD_NOT_ALLOWED,
            "this can be read with GET\n".to_owned(),
        ),
        _ => (
            StatusCode::NOT_FOUND,
            "there is nothing here: the metrics are at /metrics\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}
