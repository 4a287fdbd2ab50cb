//! Events as lines of JSON: a push without an end, in bounded memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body as HttpBody, BodyDataStream};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use duly::Queue;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::access::{CallGrant, counted, granted_call};
use super::event::{NewEvent, PushedEvent, not_pushed};
use super::input::{self, InPath, QueuePath, decode};
use super::problem::{Problem, Problems, Result};
use crate::auth::Action;
use crate::bus::{Body, Pool};
use crate::http::reply;
use crate::http::waits::WaitPlace;
use crate::shares::Share;
use crate::state::App;

/// The content type of lines of JSON.
pub(super) const MEDIA_TYPE: &str = "application/x-ndjson";
/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 3 << 19;
/// What a client that pushes lines takes of the room while none of them is there.
const IDLE_BYTES: usize = 64 << 10;
/// What too many of them are called.
const WHAT: &str = "pushes of lines";
/// How many lines of a request are pushed at the same time.
const PUSHES_AT_ONCE: usize = 16;

/// The lines of a body, each within a bound.
struct Lines {
    body: BodyDataStream,
    place: Arc<WaitPlace>,
    /// Room for what has arrived.
    room: Arc<Share>,
    bytes: BytesMut,
    /// Where the search for the end of the line goes on.
    seen: usize,
    /// The number of the line in the body, from 1; blank ones count, and have no result.
    number: usize,
    /// How long the next bytes may take.
    timeout: Duration,
    /// Whether the rest of a line that is too long is thrown away.
    is_skipping: bool,
    /// Completes when no more lines are taken, whatever has arrived; says why.
    end: BoxFuture<'static, Problem>,
    is_over: bool,
}

/// A line or what is wrong, with its number.
type Numbered = (usize, Result<Line>);

/// A line, with its room until it is pushed.
struct Line {
    bytes: Bytes,
    room: Arc<Share>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.room.shrink(self.bytes.len());
    }
}

impl Lines {
    async fn next(&mut self) -> Option<Numbered> {
        loop {
            if self.is_over {
                return self.in_memory().or_else(|| self.rest());
            }
            if let Some(problem) = (&mut self.end).now_or_never() {
                return self.ended(problem);
            }
            if let Some(line) = self.in_memory() {
                return Some(line);
            }
            let next = tokio::select! {
                biased;
                problem = &mut self.end => return self.ended(problem),
                why = self.room.evicted() => return self.ended(Problem::evicted(why, WHAT)),
                next = timeout(self.timeout, self.body.next()) => next,
            };
            match next {
                Ok(Some(Ok(bytes))) => {
                    self.place.used();
                    self.room.grow(bytes.len());
                    self.bytes.extend_from_slice(&bytes);
                }
                Ok(None) => self.is_over = true,
                Ok(Some(Err(_))) => return self.broken("the connection failed"),
                Err(_) => return self.broken("the next line did not arrive in time"),
            }
        }
    }

    /// Returns the next line of those that have arrived.
    fn in_memory(&mut self) -> Option<Numbered> {
        loop {
            let end = self.bytes[self.seen..]
                .iter()
                .position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| end + self.seen) else {
                self.seen = self.bytes.len();
                if self.seen > LINE_BYTES_MAX {
                    self.room.shrink(self.seen);
                    self.bytes.clear();
                    self.seen = 0;
                    if !std::mem::replace(&mut self.is_skipping, true) {
                        return Some((self.number, Err(too_long())));
                    }
                }
                return None;
            };
            let line = self.bytes.split_to(end + 1).freeze();
            self.seen = 0;
            let number = self.number;
            self.number += 1;
            let line = self.line(line);
            if std::mem::take(&mut self.is_skipping) || line.bytes.trim_ascii().is_empty() {
                continue;
            }
            let line = Some(line).filter(|line| line.bytes.len() <= LINE_BYTES_MAX);
            return Some((number, line.ok_or_else(too_long)));
        }
    }

    /// Returns what comes after the last end of a line.
    fn rest(&mut self) -> Option<Numbered> {
        self.seen = 0;
        let line = self.bytes.split().freeze();
        let line = self.line(line);
        let is_line = !self.is_skipping && !line.bytes.trim_ascii().is_empty();
        is_line.then_some((self.number, Ok(line)))
    }

    fn broken(&mut self, why: &str) -> Option<Numbered> {
        let status = StatusCode::REQUEST_TIMEOUT;
        let text = format!("{why}; the lines before are answered");
        self.ended(Problem::new(status, "timed_out", text))
    }

    /// Reads no more; the problem is the last line.
    fn ended(&mut self, problem: Problem) -> Option<Numbered> {
        self.is_over = true;
        self.bytes = BytesMut::new();
        self.seen = 0;
        Some((self.number, Err(problem)))
    }

    fn line(&self, bytes: Bytes) -> Line {
        let room = Arc::clone(&self.room);
        Line { bytes, room }
    }
}

fn too_long() -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        format!("the line has more than {LINE_BYTES_MAX} bytes"),
    )
}

fn lines(lines: Lines) -> impl Stream<Item = Numbered> {
    stream::unfold(lines, |mut lines| async move {
        lines.next().await.map(|line| (line, lines))
    })
}

/// Pushes events as lines
///
/// The body has an event on each line, and any number of lines: they are
/// pushed as they arrive, and each that is not blank has a line in the response, in their order.
/// That of a problem has the number of the line in the body as `line`, from 1; blank ones count. Read
/// the response while you send: a server that cannot write its response reads no more. Where the
/// server takes no more lines, as the token has ended or too many push, the last line is a problem
/// that says why, with the number of the first line that was not pushed.
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/events/lines", operation_id = "pushEventLines",
    tag = "events", params(QueuePath),
    request_body(description = "An event on each line", content = String,
        content_type = "application/x-ndjson"),
    responses(
        (status = 200, description = "A line for each line: a pushed event, or a problem",
            body = String, content_type = "application/x-ndjson"),
        Problems)
)]
pub(super) async fn push_lines(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let (pool, grant) = granted_call(&app, &headers, &namespace, &queue, Action::Produce).await?;
    if input::media_type(&headers) != MEDIA_TYPE {
        return Err(input::unsupported(MEDIA_TYPE));
    }
    begin(&app, pool, &grant, (&namespace, &queue), body).await
}

/// Begins a push of lines to a queue of a namespace.
pub(super) async fn begin(
    app: &Arc<App>,
    pool: &Pool,
    grant: &CallGrant,
    (namespace, queue): (&str, &str),
    body: HttpBody,
) -> Result<Response> {
    let handle = pool.queue(namespace, queue)?;
    app.note_queue(pool.name(), namespace, queue).await?;
    Ok(push(app, handle, grant, body).await)
}

/// Pushes the lines of a body, some at a time, and returns their results in order.
///
/// Where too many clients push lines, the one ends whose last line is the oldest. A push that ends
/// before its body has a problem as its last line, with the number of the first line that was not
/// pushed, of all lines of the body.
async fn push(app: &Arc<App>, queue: Queue<Body>, grant: &CallGrant, body: HttpBody) -> Response {
    let place = app.waits.take(grant.owner(), 0).await;
    place.hang_up();
    let place = Arc::new(place);
    let room = app.line_pushes.take(grant.owner(), IDLE_BYTES).await;
    let room = Arc::new(room);
    let body = Lines {
        body: body.into_data_stream(),
        place: Arc::clone(&place),
        room: Arc::clone(&room),
        bytes: BytesMut::new(),
        seen: 0,
        number: 1,
        timeout: app.settings.limits.body_timeout(),
        is_skipping: false,
        end: end(Arc::clone(app), grant.clone(), Arc::clone(&place)).boxed(),
        is_over: false,
    };
    let (app, grant) = (Arc::clone(app), grant.clone());
    let results = lines(body)
        .map(move |line| {
            let (app, grant, queue) = (Arc::clone(&app), grant.clone(), queue.clone());
            async move { push_one(&app, &grant, &queue, line).await }
        })
        .buffered(PUSHES_AT_ONCE);
    let results = results.map(move |line| {
        let _shares = (&place, &room); // for as long as the stream lives
        Ok::<_, std::convert::Infallible>(line)
    });
    let body = HttpBody::from_stream(results);
    reply::with_type(StatusCode::OK, HeaderValue::from_static(MEDIA_TYPE), body)
}

/// Waits until the server or the right to push ends, or others need the place; returns what the last
/// line says.
async fn end(app: Arc<App>, grant: CallGrant, place: Arc<WaitPlace>) -> Problem {
    tokio::select! {
        (why, what) = place.evicted() => Problem::evicted(why, what),
        problem = grant.ended(&app) => problem,
        () = app.closing.cancelled() => Problem::stopping(),
    }
}

async fn push_one(
    app: &App,
    grant: &CallGrant,
    queue: &Queue<Body>,
    (number, line): Numbered,
) -> Bytes {
    let pushed = match line {
        Ok(line) => send(app, grant, queue, &line.bytes).await,
        Err(problem) => Err(problem),
    };
    let line = match pushed {
        Ok(pushed) => serde_json::to_string(&pushed),
        Err(problem) => {
            serde_json::to_string(&serde_json::json!({"line": number, "problem": problem}))
        }
    };
    // Texts and numbers are always JSON.
    Bytes::from(line.unwrap_or_default() + "\n")
}

/// Pushes a line, which counts as one call of the token's limit.
async fn send(
    app: &App,
    grant: &CallGrant,
    queue: &Queue<Body>,
    line: &[u8],
) -> Result<PushedEvent> {
    // A value of JSON first, so that the position in an error is that in the line.
    let line: &RawValue = serde_json::from_slice(line.trim_ascii())
        .map_err(|error| Problem::invalid(format!("the line is no JSON: {error}")))?;
    let event: NewEvent = decode(line.get().as_bytes())?;
    let event = event.build(queue)?;
    let taken = grant.take(app).await?;
    let push = async move { event.push().await.map_err(not_pushed) };
    let receipt = counted(taken, push).await?;
    Ok(PushedEvent::from(&receipt))
}
