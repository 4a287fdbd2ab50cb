//! The clock of a test server, which a request moves: half an hour in a millisecond.
//!
//! It is there with `--clock manual` alone, on stores in memory. Time stops at each instant at which
//! the server has something to do, so that all happens in its order: a lease ends, its event is due
//! again after its backoff, a schedule pushes what is next.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use duly::__server::moved_clock;
use duly::time::Clock;
use duly::{ErrorKind, QueueName};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::clock::ManualClock;
use crate::lmstfy::admin::account;
use crate::shares::Owner;
use crate::state::App;

/// The largest body of a request.
const BODY_BYTES_MAX: usize = 4 << 10;
/// The longest span of one request, in milliseconds: a hundred years.
const BY_MS_MAX: u64 = 100 * 366 * 86_400_000;
/// The longest wait for consumers, in milliseconds.
const SETTLE_MS_MAX: u64 = 600_000;
/// The most stops of one request.
const STOPS_MAX: usize = 100_000;
/// How often consumers, which are other programs, are polled for what they have not settled.
const POLL_EVERY: Duration = Duration::from_millis(1);
/// Whose room the bodies take.
const OPERATOR: &str = "operator";

/// The clock of a test server.
#[derive(Debug)]
pub(crate) struct TestClock {
    clock: Arc<ManualClock>,
    /// One request at a time moves it.
    moving: Mutex<()>,
}

impl TestClock {
    pub(crate) fn new(clock: Arc<ManualClock>) -> Self {
        Self {
            clock,
            moving: Mutex::new(()),
        }
    }
}

/// A request to move the clock.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    /// By how much, in milliseconds.
    by_ms: u64,
    /// How long the clock waits at each stop for consumers with a stream to settle what is due, in
    /// milliseconds of real time. Default: not at all.
    #[serde(default)]
    settle_ms: u64,
}

/// Why the clock was not moved, or not as far as wanted.
#[derive(Debug)]
struct Refusal(StatusCode, String);

impl Refusal {
    fn bad(text: String) -> Self {
        Self(StatusCode::BAD_REQUEST, text)
    }
}

impl From<duly::Error> for Refusal {
    fn from(error: duly::Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}

/// Returns the routes of the clock, for the admin listener.
pub(crate) fn router(app: &Arc<App>, clock: &Arc<TestClock>) -> Router {
    let state = (Arc::clone(app), Arc::clone(clock));
    Router::new()
        .route("/clock", get(show))
        .route("/clock/advance", post(advance))
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(app),
            account::check,
        ))
        .with_state(state)
}

type Parts = State<(Arc<App>, Arc<TestClock>)>;

fn shown(clock: &TestClock) -> Response {
    Json(json!({"now_ms": clock.clock.now().as_millis()})).into_response()
}

#[allow(clippy::unused_async)] // a handler of axum is async
async fn show(State((_, clock)): Parts) -> Response {
    shown(&clock)
}

/// Moves the clock, and returns when everything that became due can be leased.
async fn advance(State((app, clock)): Parts, request: Request) -> Result<Response, Refusal> {
    let order = read(&app, request).await?;
    let _moving = clock.moving.lock().await;
    let mut left = Duration::from_millis(order.by_ms);
    let patience = Duration::from_millis(order.settle_ms);
    for _ in 0..STOPS_MAX {
        let wakes = settled(&app, patience).await?;
        if left.is_zero() {
            return Ok(shown(&clock));
        }
        let step = wakes.map_or(left, |wakes| whole_us(wakes).min(left));
        clock.clock.advance(step);
        app.waiters.advance(step);
        left = left.saturating_sub(step);
    }
    Err(Refusal(
        StatusCode::CONFLICT,
        format!(
            "the clock stopped {STOPS_MAX} times, as schedules, leases and retries had to be carried \
             out, and {} ms are left; advance by these again",
            left.as_millis()
        ),
    ))
}

/// Rounds up, at least to one: with a part of a microsecond an instant would never be reached.
fn whole_us(span: Duration) -> Duration {
    let us = span.as_nanos().div_ceil(1_000).max(1);
    Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
}

async fn read(app: &App, request: Request) -> Result<Advance, Refusal> {
    let operator = Owner::new("", "", OPERATOR);
    #[allow(clippy::disallowed_methods)] // an operator, without a token
    let body = app
        .bodies
        .read(&operator, request.into_body(), BODY_BYTES_MAX);
    let (bytes, _room) = body
        .await
        .map_err(|_| Refusal::bad(format!("no body of at most {BODY_BYTES_MAX} bytes")))?;
    let order: Advance = serde_json::from_slice(&bytes).map_err(|error| {
        let example = r#"{"by_ms": 1800000}"#;
        Refusal::bad(format!("the body is not as {example}: {error}"))
    })?;
    for (name, number, most) in [
        ("by_ms", order.by_ms, BY_MS_MAX),
        ("settle_ms", order.settle_ms, SETTLE_MS_MAX),
    ] {
        if number > most {
            return Err(Refusal::bad(format!(
                "{name} is {number}; it must be at most {most}"
            )));
        }
    }
    Ok(order)
}

/// Waits until nothing is to be done at this time, by the server or, as far as they have patience
/// with them, by consumers; returns how long until there is, `None` is never.
async fn settled(app: &App, patience: Duration) -> Result<Option<Duration>, Refusal> {
    let until = Instant::now() + patience;
    let mut before = None;
    loop {
        let mut wakes: Option<Duration> = None;
        for pool in app.pools.iter() {
            let next = moved_clock::settled(pool.bus()).await?;
            wakes = wakes.into_iter().chain(next).min();
        }
        if Instant::now() >= until || app.closing.is_cancelled() {
            return Ok(wakes);
        }
        if is_consuming(app).await? {
            before = None;
            tokio::time::sleep(POLL_EVERY).await;
        } else if before == Some(wakes) {
            return Ok(wakes);
        } else {
            // What a consumer has settled since may be due again before that.
            before = Some(wakes);
        }
    }
}

/// Returns whether a queue with streams has events that are leased or could be.
async fn is_consuming(app: &App) -> Result<bool, Refusal> {
    for (pool, queue) in app.waiters.streamed() {
        let Some(pool) = app.pools.get(&pool) else {
            continue;
        };
        let queue = QueueName::new(&queue)?;
        let work = moved_clock::work(pool.bus(), &queue).await?;
        if work.leased > 0 || work.has_ready {
            return Ok(true);
        }
    }
    Ok(false)
}
