//! Webhooks: set, show and remove the URL that a queue is delivered to.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use duly::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::{self, granted_lasting, granted_namespace, granted_queue};
use super::input::{self, InPath, NamespacePath, QueuePath};
use super::problem::{Problem, Problems, Result};
use crate::auth::Scope;
use crate::clock;
use crate::state::App;
use crate::webhook::{CircuitState, RunnerStatus, Secret, SetResult, Target, TargetKey, TargetRow};

/// The URL that a queue is delivered to, and how it may be called. A `PUT` replaces all of it, but
/// keeps the secrets if it has none.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookBody {
    /// Where events are posted to: `https://`, or `http://` if the settings allow it; without login
    /// and fragment.
    #[schema(max_length = 2048, example = "https://shop.example/hooks/close")]
    url: String,
    /// The secrets that sign: `whsec_` and 24 to 64 bytes in base64. The first is the newest; while
    /// there are two, requests have two signatures. Default: those that are set, or for a new webhook
    /// one that is made and returned this once.
    #[schema(min_items = 1, max_items = 2)]
    secrets: Option<Vec<String>>,
    /// The most requests of a server at a time. Default: 8.
    #[serde(default = "default_concurrency", deserialize_with = "input::whole")]
    #[schema(minimum = 1, maximum = 256, default = 8)]
    concurrency: usize,
    /// The most requests in a second, of all servers. Default: no bound.
    #[schema(minimum = 0.001, maximum = 10000)]
    rate: Option<f64>,
    /// How long a request may take, from the connection to the head of the response, in
    /// milliseconds. Default: 15,000.
    #[serde(default = "default_timeout_ms", deserialize_with = "input::whole")]
    #[schema(minimum = 100, maximum = 600_000, default = 15_000)]
    timeout_ms: u64,
    /// More headers of each request: at most 16, with values of at most 1,024 characters. Values are
    /// not shown again.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Whether nothing is delivered until it is set again. Default: false.
    #[serde(default)]
    #[schema(default = false)]
    paused: bool,
}

fn default_concurrency() -> usize {
    8
}

fn default_timeout_ms() -> u64 {
    15_000
}

/// A webhook, and how it does on the server that responds.
#[derive(Serialize, ToSchema)]
pub(super) struct WebhookView {
    namespace: String,
    queue: String,
    /// The URL, with `...` for its query, and to a token without the scope `admin` for its path.
    url: String,
    /// How many secrets sign: two while they are rotated.
    secrets: usize,
    /// The secret that was made, this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_secret: Option<String>,
    concurrency: usize,
    rate: Option<f64>,
    timeout_ms: u64,
    /// The names of more headers.
    headers: Vec<String>,
    paused: bool,
    state: WebhookState,
    /// When the state began, in milliseconds since the epoch.
    since_ms: u64,
    /// When an open circuit makes its next probe, once an event is ready.
    next_probe_ms: Option<u64>,
    /// Failures of the target in a row.
    failures: u32,
    /// The last failed request since the webhook was set.
    last_error: Option<WebhookError>,
    /// The events that are being delivered.
    in_flight: usize,
    created_ms: u64,
    changed_ms: u64,
}

/// The state of a webhook.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WebhookState {
    /// Events are delivered.
    Closed,
    /// The target is dead; events stay in the queue, and no request is made but a probe.
    Open,
    /// One request is made, to learn whether the target is back.
    Probing,
    /// The target has said that it is gone (410). Setting the webhook again enables it.
    Disabled,
}

/// A failed request.
#[derive(Serialize, ToSchema)]
struct WebhookError {
    at_ms: u64,
    /// What went wrong; with the begin of the response, if there was one.
    text: String,
}

impl WebhookView {
    fn new(key: TargetKey, target: &Target, status: Option<RunnerStatus>, may_set: bool) -> Self {
        let row = &target.row;
        let mut view = Self {
            namespace: key.namespace,
            queue: key.queue,
            url: target.shown_url(may_set),
            secrets: row.secrets.len(),
            created_secret: None,
            concurrency: row.concurrency,
            rate: row.rate,
            timeout_ms: row.timeout_ms,
            headers: row.headers.keys().cloned().collect(),
            paused: row.paused,
            state: WebhookState::Closed,
            since_ms: row.changed_ms,
            next_probe_ms: None,
            failures: 0,
            last_error: None,
            in_flight: 0,
            created_ms: row.created_ms,
            changed_ms: row.changed_ms,
        };
        if let Some(status) = status {
            view.state = match status.state {
                CircuitState::Closed => WebhookState::Closed,
                CircuitState::Open(_) => WebhookState::Open,
                CircuitState::Probing => WebhookState::Probing,
            };
            view.since_ms = status.since.as_millis();
            view.next_probe_ms = status.next_probe.map(Timestamp::as_millis);
            view.failures = status.failures;
            view.in_flight = status.in_flight;
            view.last_error = status.last_error.map(|error| WebhookError {
                at_ms: error.at.as_millis(),
                text: error.text,
            });
        }
        if let Some(disabled) = &target.disabled {
            view.state = WebhookState::Disabled;
            view.since_ms = disabled.at_ms;
            view.next_probe_ms = None;
            view.last_error = Some(WebhookError {
                at_ms: disabled.at_ms,
                text: disabled.reason.clone(),
            });
        }
        view
    }
}

impl WebhookBody {
    /// Returns the row to store, with the secret that was made for it.
    fn row(self, before: Option<&Target>) -> Result<(TargetRow, Option<String>)> {
        let now_ms = clock::now().as_millis();
        let mut created = None;
        let secrets = match (self.secrets, before) {
            (Some(secrets), _) => secrets,
            (None, Some(before)) => before.row.secrets.clone(),
            (None, None) => {
                let secret = Secret::random().map_err(|error| {
                    tracing::error!(%error, "no random bytes for a secret");
                    let status = StatusCode::INTERNAL_SERVER_ERROR;
                    Problem::new(status, "internal", "the system gives no random bytes")
                })?;
                created = Some(secret.text());
                vec![secret.text()]
            }
        };
        let row = TargetRow {
            url: self.url,
            secrets,
            concurrency: self.concurrency,
            rate: self.rate,
            timeout_ms: self.timeout_ms,
            headers: self.headers,
            paused: self.paused,
            revision: fastrand::u64(..),
            created_ms: before.map_or(now_ms, |before| before.row.created_ms),
            changed_ms: now_ms,
        };
        Ok((row, created))
    }
}

/// Sets the webhook of a queue: from now on its events are posted to the URL, those that wait for
/// their turn as well. It needs the scopes `admin` and `consume`, as the URL gets the events.
#[utoipa::path(
    put, path = "/v1/{namespace}/queues/{queue}/webhook", operation_id = "setWebhook", tag = "webhooks",
    params(QueuePath),
    request_body = WebhookBody,
    responses(
        (status = 200, description = "it was changed", body = WebhookView),
        (status = 201, description = "it was created", body = WebhookView),
        Problems
    )
)]
pub(super) async fn set(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
    body: HttpBody,
) -> Result<Response> {
    let (pool, grant) = granted_lasting(&app, &headers, &namespace, &queue, Scope::Admin).await?;
    let body: WebhookBody = input::json(&app, &grant, &headers, body).await?;
    let (turn, grant) = access::turn(&app, &grant).await?;
    let gets = grant.allows(Scope::Consume, &queue); // its URL gets the events
    gets?;
    pool.queue(&namespace, &queue)?; // a name that the library refuses
    let key = TargetKey::new(pool.name(), &namespace, &queue);
    let stored = app.webhooks.get(&key).await?;
    let is_new = stored.is_none();
    let before = match stored {
        Some(Err(why)) if body.secrets.is_none() => return Err(unreadable(&queue, &why)),
        stored => stored.and_then(std::result::Result::ok),
    };
    let (row, created_secret) = body.row(before.as_ref())?;
    let target = Target::new(row, None).map_err(Problem::invalid)?;
    let refused = |why| Problem::new(StatusCode::FORBIDDEN, "forbidden", why);
    app.webhooks.check(&target).map_err(refused)?;
    let set = app.webhooks.set(&key, &target.row, is_new).await?;
    drop(turn);
    let status = match set {
        SetResult::Created => StatusCode::CREATED,
        SetResult::Changed => StatusCode::OK,
        SetResult::Conflict => {
            return Err(Problem::conflict(
                "another request has changed this webhook at the same time; look at it, and repeat",
            ));
        }
        SetResult::Full(text) => {
            return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, "full", text));
        }
    };
    access::audit(&app, &headers, "webhook set", (pool, &namespace, &queue)).await;
    let mut view = WebhookView::new(key.clone(), &target, app.webhooks.status(&key).await, true);
    view.created_secret = created_secret;
    Ok((status, Json(view)).into_response())
}

/// Returns the webhook of a queue, and how it does.
#[utoipa::path(
    get, path = "/v1/{namespace}/queues/{queue}/webhook", operation_id = "getWebhook", tag = "webhooks",
    params(QueuePath),
    responses((status = 200, description = "The webhook", body = WebhookView), Problems)
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
) -> Result<Response> {
    let (pool, grant) = granted_queue(&app, &headers, &namespace, &queue).await?;
    grant.allows(Scope::Consume, &queue)?;
    let may_set = grant.allows(Scope::Admin, &queue).is_ok();
    let key = TargetKey::new(pool.name(), &namespace, &queue);
    let target = app.webhooks.get(&key).await?;
    let target = target.ok_or_else(|| no_webhook(&queue))?;
    let target = target.map_err(|why| unreadable(&queue, &why))?;
    let status = app.webhooks.status(&key).await;
    Ok(Json(WebhookView::new(key, &target, status, may_set)).into_response())
}

/// Removes the webhook of a queue: no more requests begin, those that run end by themselves. Events
/// stay in the queue.
#[utoipa::path(
    delete, path = "/v1/{namespace}/queues/{queue}/webhook", operation_id = "removeWebhook", tag = "webhooks",
    params(QueuePath),
    responses((status = 204, description = "It is removed"), Problems)
)]
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    InPath(QueuePath { namespace, queue }): InPath<QueuePath>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let (pool, grant) = granted_lasting(&app, &headers, &namespace, &queue, Scope::Admin).await?;
    let (turn, _) = access::turn(&app, &grant).await?;
    let key = TargetKey::new(pool.name(), &namespace, &queue);
    if !app.webhooks.remove(&key).await? {
        return Err(no_webhook(&queue));
    }
    drop(turn);
    access::audit(
        &app,
        &headers,
        "webhook removed",
        (pool, &namespace, &queue),
    )
    .await;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the webhooks of a namespace: at most 1,000, of the queues that the token may consume.
#[utoipa::path(
    get, path = "/v1/{namespace}/webhooks", operation_id = "listWebhooks", tag = "webhooks",
    params(NamespacePath),
    responses((status = 200, description = "The webhooks, by queue", body = [WebhookView]), Problems)
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    InPath(NamespacePath { namespace }): InPath<NamespacePath>,
    headers: HeaderMap,
) -> Result<Response> {
    let (pool, grant) = granted_namespace(&app, &headers, &namespace).await?;
    let mut views = Vec::new();
    for (key, target) in app.webhooks.list(pool.name(), &namespace).await? {
        if grant.allows(Scope::Consume, &key.queue).is_ok() {
            let status = app.webhooks.status(&key).await;
            let may_set = grant.allows(Scope::Admin, &key.queue).is_ok();
            views.push(WebhookView::new(key, &target, status, may_set));
        }
    }
    Ok(Json(views).into_response())
}

fn unreadable(queue: &str, why: &str) -> Problem {
    Problem::conflict(format!(
        "the stored webhook of queue {queue} cannot be read: {why}; set it anew with all of its \
         fields, `secrets` among them, or remove it"
    ))
}

fn no_webhook(queue: &str) -> Problem {
    Problem::not_found(format!("the queue {queue} has no webhook; a PUT sets one"))
}
