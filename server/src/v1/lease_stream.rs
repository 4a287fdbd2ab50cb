//! Leases as server-sent events: a consumer that is pushed to.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use duly::__server::timing::Backoff;
use duly::QueueName;
use futures_util::stream;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::access::{CallGrant, granted, granted_call};
use super::cut_leases;
use super::input::{InPath, QueuePath};
use super::leases::{LeaseView, ttr};
use super::problem::{Problem, Problems, Result};
use crate::auth::{Action, Scope};
use crate::bus::Pool;
use crate::http::waits::{WaitPlace, hang_up};
use crate::http::{peer, reply};
use crate::lmstfy::delivered::{Deliverable, PART_BYTES, Undelivered};
use crate::shares::Share;
use crate::state::App;
use crate::waiters::InFlight;

/// The content type of server-sent events.
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Whether nginx, and who does as it, keeps parts of a response until a buffer is full.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The most events that a stream has in flight.
const IN_FLIGHT_MAX: usize = 1_000;
/// The most events of one message to the client.
const AT_ONCE_MAX: usize = 16;
/// How long a stream rests when a lease fails, the first time and then.
const RESTS: Backoff = Backoff::new(Duration::from_millis(200), COMMENT_EVERY);
/// How often a stream without events has a comment, so that both ends see whether the other lives.
const COMMENT_EVERY: Duration = Duration::from_secs(10);

/// The options of a stream of leases.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamOptions {
    /// The most events in flight: sent, and not settled. Default: 1.
    #[param(minimum = 1, maximum = 1000, example = 10)]
    max_in_flight: Option<usize>,
    /// The time to run, in milliseconds; an event that is not settled by then comes back.
    #[param(minimum = 0, maximum = 4294967295000u64, example = 30000)]
    ttr_ms: u64,
    /// A name of the stream, by which it is drained.
    #[param(
        min_length = 1,
        max_length = 64,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "worker-1"
    )]
    name: Option<String>,
}

/// Which stream to drain.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DrainOptions {
    /// The name of the stream.
    #[param(
        min_length = 1,
        max_length = 64,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "worker-1"
    )]
    name: String,
}

/// The longest name of a stream, in bytes.
const NAME_LEN_MAX: usize = 64;

fn checked_name(name: String) -> Result<String> {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    if (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_name) {
        Ok(name)
    } else {
        Err(Problem::invalid(format!(
            "the name of a stream has 1 to {NAME_LEN_MAX} letters, digits, `-` and `_`"
        )))
    }
}

/// The stream of a consumer.
struct LeaseStream {
    app: Arc<App>,
    pool: Pool,
    queues: [QueueName; 1],
    grant: CallGrant,
    max: usize,
    ttr: Duration,
    in_flight: Arc<InFlight>,
    /// For as long as it lives, whatever it waits for.
    wait_place: WaitPlace,
    /// Room for its last message, if that is large and not read.
    unread: Option<Share>,
    /// Its pool and its queue.
    place: (String, String),
    /// The same with its name, if it has one.
    name: Option<(String, String, String)>,
    /// How many leases have failed in a row.
    failures: u32,
    is_over: bool,
}

/// What a stream does next.
enum Step {
    Deliver(Deliverable),
    Comment,
    /// It is drained.
    End,
}

impl LeaseStream {
    /// Returns the next part of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        self.unread = None;
        if self.is_over {
            return None;
        }
        self.wait_place.used();
        let mut failures = self.failures;
        let step = tokio::select! {
            biased;
            problem = self.ended() => Err(problem),
            step = self.step(&mut failures) => step,
        };
        self.failures = failures;
        match step {
            Ok(Step::Deliver(leased)) => Some(self.deliver(leased).await),
            Ok(Step::Comment) => Some(Bytes::from_static(b": no event\n\n")),
            Ok(Step::End) => None,
            Err(problem) => Some(self.end(&problem)),
        }
    }

    /// Waits until the stream has to end; returns why.
    async fn ended(&self) -> Problem {
        tokio::select! {
            () = self.app.closing.cancelled() => Problem::stopping(),
            problem = self.grant.ended(&self.app) => problem,
            (why, what) = self.wait_place.evicted() => Problem::evicted(why, what),
        }
    }

    /// Waits for what the stream does next.
    async fn step(&self, failures: &mut u32) -> Result<Step> {
        let comment_at = Instant::now() + COMMENT_EVERY;
        loop {
            let wait = comment_at.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(Step::Comment);
            }
            let (count, next_end) = self.app.waiters.in_flight(&self.in_flight);
            let is_draining = self.in_flight.draining.is_cancelled();
            if is_draining && count == 0 {
                return Ok(Step::End);
            }
            let max = if is_draining { 0 } else { self.max };
            let room = max.saturating_sub(count).min(AT_ONCE_MAX);
            if room == 0 {
                tokio::select! {
                    () = self.in_flight.freed.notified() => {}
                    () = tokio::time::sleep_until(comment_at.min(next_end.unwrap_or(comment_at))) => {}
                }
                continue;
            }
            match self.lease(room, wait).await {
                Ok(leased) => {
                    *failures = 0;
                    if !leased.jobs().is_empty() {
                        return Ok(Step::Deliver(leased));
                    }
                }
                Err(problem) => match rest(&problem, failures) {
                    Some(rest) => tokio::select! {
                        () = tokio::time::sleep(rest.min(wait)) => {}
                        () = self.in_flight.draining.cancelled() => {}
                    },
                    None => return Err(problem),
                },
            }
        }
    }

    /// Leases the next events, which count as one call.
    async fn lease(&self, room: usize, wait: Duration) -> Result<Deliverable> {
        let taken = self.grant.take(&self.app).await?;
        let leased = tokio::select! {
            leased = self.pool.lease(&self.queues, room, self.ttr, wait) => {
                Undelivered::new(leased.map_err(|error| Problem::unlogged(&error))?)
            }
            () = self.in_flight.draining.cancelled() => Undelivered::default(),
        };
        let leased = leased.allowed(&self.grant, &self.app.tokens).await;
        let mut leased = leased?;
        match taken {
            // The next call must not be refused for this one.
            Some(unused) if leased.jobs().is_empty() => unused.give_back().await,
            taken => leased.count(taken),
        }
        Ok(leased)
    }

    /// Returns the message of leased events, which are the client's from now on. A large one takes room
    /// of its token until it is read; the connection ends when others need that.
    async fn deliver(&mut self, mut leased: Deliverable) -> Bytes {
        let mut text = String::new();
        let mut tokens = Vec::new();
        for leased in leased.jobs() {
            let view = LeaseView::from(leased);
            text += &message("lease", Some(&leased.id().to_string()), &view);
            tokens.push(view.token);
        }
        if text.len() > PART_BYTES {
            let unread = self.app.responses.take(self.grant.owner(), text.len());
            let unread = unread.await;
            if let Some(connection) = peer::connection() {
                hang_up(&unread, Duration::ZERO, &connection);
            }
            self.unread = Some(unread);
        }
        for token in tokens {
            self.app.waiters.add(&self.in_flight, token, self.ttr);
        }
        leased.deliver();
        Bytes::from(text)
    }

    /// Ends the stream; returns its last message. The client lives, and goes on with what it has,
    /// unless it has lost the right to.
    fn end(&mut self, problem: &Problem) -> Bytes {
        self.is_over = true;
        if !problem.is_refusal() {
            self.app.waiters.leave(&self.in_flight);
        }
        Bytes::from(message("problem", None, problem))
    }
}

/// Returns how long to rest before the next try: until the next window of the token's limit, or longer
/// with each time that the store or the shared state fails. What runs is not disturbed.
fn rest(problem: &Problem, failures: &mut u32) -> Option<Duration> {
    if let Some(throttled) = problem.retry_after() {
        return Some(throttled);
    }
    *failures += 1;
    problem.passes().then(|| RESTS.after(*failures))
}

/// Returns a server-sent event.
fn message(name: &str, id: Option<&str>, data: &impl serde::Serialize) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    // Texts and numbers are always JSON, and JSON has no line breaks. Some clients take these for
    // line breaks, too; they occur in strings only.
    let data = serde_json::to_string(data).unwrap_or_default();
    let data = data.replace('\u{85}', "\\u0085");
    let data = data
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    format!("{id}event: {name}\ndata: {data}\n\n")
}

impl Drop for LeaseStream {
    fn drop(&mut self) {
        self.app.waiters.stream_ended(&self.place);
        if let Some(name) = &self.name {
            self.app.waiters.forget_name(name, &self.in_flight);
        }
        // Where it is over, what is left is of a client that was refused.
        cut_leases::give_back(&self.app, &self.pool, &self.in_flight, self.is_over);
    }
}

/// Streams leased events to a consumer, as server-sent events
///
/// Each event `lease` has a leased event as its data and the id of the event as its id; settle it by
/// its token on the same server, and the next one follows. An event `problem` is
/// the last one. Where the connection ends otherwise, what the client neither settles nor extends
/// within two seconds comes back, and the attempt counts. A consumer that stops drains its stream
/// first.
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/leases/stream", operation_id = "streamLeases",
    tag = "leases", params(QueuePath, StreamOptions),
    responses(
        (status = 200, description = "Events `lease`, each with what `leaseEvents` returns of one, \
            and at the end an event `problem`", body = String, content_type = "text/event-stream"),
        Problems)
)]
pub(super) async fn stream_leases(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    options: std::result::Result<Query<StreamOptions>, QueryRejection>,
) -> Result<Response> {
    let (pool, grant) = granted_call(&app, &headers, &namespace, &queue, Action::Consume).await?;
    let Query(options) = options?;
    let max = options.max_in_flight.unwrap_or(1);
    if !(1..=IN_FLIGHT_MAX).contains(&max) {
        return Err(Problem::invalid(format!(
            "max_in_flight is {max}; it must be 1 to {IN_FLIGHT_MAX}"
        )));
    }
    let (queue, ttr) = (
        pool.queue(&namespace, &queue)?.name().clone(),
        ttr(options.ttr_ms)?,
    );
    let place = (pool.name().to_owned(), queue.to_string());
    let in_flight = Arc::default();
    let name = options.name.map(checked_name).transpose()?;
    let name = name.map(|name| (place.0.clone(), place.1.clone(), name));
    let wait_place = app.waits.take(grant.owner(), 1).await;
    wait_place.hang_up();
    app.waiters.stream_began(place.clone());
    if let Some(name) = &name {
        app.waiters.name_stream(name.clone(), &in_flight);
    }
    let leases = LeaseStream {
        pool: pool.clone(),
        queues: [queue],
        grant,
        max,
        ttr,
        in_flight,
        wait_place,
        unread: None,
        place,
        name,
        failures: 0,
        is_over: false,
        app: Arc::clone(&app),
    };
    let parts = stream::unfold(leases, |mut leases| async move {
        let part = leases.next().await?;
        Some((Ok::<_, std::convert::Infallible>(part), leases))
    });
    let mut response = reply::with_type(StatusCode::OK, EVENT_STREAM, HttpBody::from_stream(parts));
    response
        .headers_mut()
        .insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// Drains a stream of leases
///
/// A consumer that stops drains its stream: nothing more is sent, and the stream ends when all that was
/// sent is settled. What has not begun is released, and no attempt counts.
#[utoipa::path(
    post, path = "/v1/{namespace}/queues/{queue}/leases/stream/drain", operation_id = "drainStream",
    tag = "leases", params(QueuePath, DrainOptions),
    responses((status = 204, description = "Nothing more is sent"), Problems)
)]
pub(super) async fn drain_stream(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    options: std::result::Result<Query<DrainOptions>, QueryRejection>,
) -> Result<StatusCode> {
    let pool = granted(&app, &headers, &namespace, &queue, Scope::Consume).await?;
    let Query(DrainOptions { name }) = options?;
    let queue = pool.queue(&namespace, &queue)?.name().to_string();
    let name = (pool.name().to_owned(), queue, checked_name(name)?);
    if app.waiters.drain(&name) {
        Ok(StatusCode::NO_CONTENT)
    } else {
        let text = format!("this server has no stream `{}` of the queue", name.2);
        Err(Problem::not_found(text))
    }
}
