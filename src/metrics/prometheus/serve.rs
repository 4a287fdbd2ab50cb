//! The page over HTTP.
//!
//! Whoever connects and does nothing more costs nobody the page: an answer has to be taken within a
//! time, a silence ends, and beyond a number of connections the one that was served longest ago
//! makes room.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::Prometheus;
use super::guest::Guest;

/// Connections at a time: more than come at one instant, so that each has asked and is answered
/// before it may have to make room.
const MAX_CONNECTIONS: usize = 128;

/// How long a connection may be without a request: longer than the minute between two scrapes that
/// is usual at most.
const MAX_SILENCE: Duration = Duration::from_secs(90);

/// How long a connection may last; after the answer that is under way then it is closed.
const MAX_AGE: Duration = Duration::from_hours(1);

/// How long to wait when a connection cannot be had, as when the process has no file left.
const PAUSE: Duration = Duration::from_millis(100);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// A connection under way.
struct Open {
    /// When an answer was last taken in whole, in microseconds since serving began.
    served: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

/// Serves `/metrics`, and `/health` for whoever asks whether anybody is there, for as long as it
/// is polled.
pub(super) async fn serve(listener: TcpListener, prometheus: Prometheus) -> Infallible {
    let began = Instant::now();
    let mut open: Vec<Open> = Vec::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                make_room(&mut open);
                let now = began.elapsed().as_micros() as u64; // for 584,000 years
                let served = Arc::new(AtomicU64::new(now));
                let guest = Guest::new(TokioIo::new(stream), began, Arc::clone(&served));
                let task = tokio::spawn(talk(guest, prometheus.clone()));
                open.push(Open { served, task });
            }
            Err(error) => {
                tracing::warn!(%error, "whoever asked for metrics could not be heard");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Forgets connections that have ended, and ends the one that was served longest ago where there
/// are too many.
fn make_room(open: &mut Vec<Open>) {
    open.retain(|it| !it.task.is_finished());
    if open.len() < MAX_CONNECTIONS {
        return;
    }
    let served = |(_, it): &(usize, &Open)| it.served.load(Ordering::Relaxed);
    if let Some((stalest, _)) = open.iter().enumerate().min_by_key(served) {
        open.swap_remove(stalest).task.abort();
        tracing::debug!("a connection that asked for metrics made room for another one");
    }
}

async fn talk<S: AsyncRead + AsyncWrite + Unpin>(guest: Guest<TokioIo<S>>, prometheus: Prometheus) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &prometheus);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut talk = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(MAX_SILENCE)
            .serve_connection(guest, service)
    );
    let talked = tokio::select! {
        talked = talk.as_mut() => talked,
        () = sleep(MAX_AGE) => {
            talk.as_mut().graceful_shutdown();
            talk.await
        }
    };
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;

    const REQUEST: &[u8] = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

    /// A conversation over a pipe that holds less than an answer.
    fn connected() -> (DuplexStream, JoinHandle<()>) {
        let (ours, theirs) = duplex(64);
        let guest = Guest::new(TokioIo::new(theirs), Instant::now(), Arc::default());
        let prometheus = Prometheus::new().expect("a thread for it");
        (ours, tokio::spawn(talk(guest, prometheus)))
    }

    async fn took(talk: JoinHandle<()>) -> Duration {
        let began = Instant::now();
        let ended = timeout(MAX_AGE * 2, talk).await;
        ended.expect("it ends").expect("it does not panic");
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_ends_the_connection() {
        let (mut ours, talk) = connected();
        ours.write_all(REQUEST).await.expect("a request");
        let took = took(talk).await;
        assert!(
            took >= super::super::guest::MAX_ANSWER && took < MAX_SILENCE,
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_taken_byte_by_byte_ends_the_connection() {
        let (mut ours, talk) = connected();
        ours.write_all(REQUEST).await.expect("a request");
        let slowly = tokio::spawn(async move {
            while ours.read_u8().await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        assert!(took(talk).await < MAX_SILENCE);
        slowly.await.expect("it sees the end");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_and_half_a_request_end_the_connection() {
        for begun in [&b""[..], &REQUEST[..9]] {
            let (mut ours, talk) = connected();
            ours.write_all(begun).await.expect("a part of a request");
            let took = took(talk).await;
            assert!(took <= MAX_SILENCE * 2, "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_the_answers_is_served_again_and_again_and_then_let_go() {
        let (mut ours, talk) = connected();
        let began = Instant::now();
        let mut answers = 0;
        let mut answer = Vec::new();
        while ours.write_all(REQUEST).await.is_ok() {
            answer.clear();
            while !answer.ends_with(b"OK\n") && ours.read_buf(&mut answer).await.unwrap_or(0) > 0 {}
            if !answer.ends_with(b"OK\n") {
                break;
            }
            answers += 1;
            sleep(Duration::from_secs(60)).await;
        }
        assert!((60..=61).contains(&answers), "{answers}");
        assert!(began.elapsed() <= MAX_AGE + MAX_SILENCE);
        talk.await.expect("it does not panic");
    }
}
