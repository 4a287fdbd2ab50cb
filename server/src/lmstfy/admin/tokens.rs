//! Tokens: create, list, revoke.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use duly::time::Timestamp;
use serde_json::json;

use super::OPERATOR;
use super::account::Actor;
use crate::auth::{NewToken, QueuePattern, Scope};
use crate::http::reply;
use crate::lmstfy::check::{NAME_BYTES_MAX, check_namespace, is_name, split};
use crate::lmstfy::params::Params;
use crate::lmstfy::{ApiError, Result};
use crate::settings::DEFAULT_POOL;
use crate::shares::Owner;
use crate::state::App;

/// The shortest token of a user's own choice.
const TOKEN_LEN_MIN: usize = 20;
/// The longest one.
const TOKEN_LEN_MAX: usize = 512;
/// The largest form.
const FORM_BYTES_MAX: usize = 64 * 1024;

/// The parameters of a new token.
const PARAMETERS: [&str; 6] = [
    "description",
    "token",
    "pool",
    "scopes",
    "queues",
    "expires_in",
];

/// Whether a request was about something that there is.
const FOUND: HeaderName = HeaderName::from_static("duly-found");

/// `POST /token/:ns`. The rights of a token are duly's own: `scopes` and `queues` are lists with
/// commas, `expires_in` is in seconds.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path(namespace): Path<String>,
    Extension(actor): Extension<Actor>,
    request: Request,
) -> Response {
    let (parts, content) = request.into_parts();
    match created(&app, &namespace, &actor, &parts, content).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn created(
    app: &App,
    namespace: &str,
    actor: &Actor,
    parts: &Parts,
    content: Body,
) -> Result<Response> {
    let query = Params::new(parts.uri.query());
    let operator = Owner::new("", "", OPERATOR);
    #[allow(clippy::disallowed_methods)] // an operator, without a token
    let read = app.bodies.read(&operator, content, FORM_BYTES_MAX).await;
    let (bytes, _) = read.map_err(|_| ApiError::bad("failed to read body"))?;
    // Rights in another form would go unread, which would make a token with all of them.
    if !bytes.is_empty() && !is_form(&parts.headers) {
        return Err(ApiError::bad(
            "invalid body: give parameters in the query or as application/x-www-form-urlencoded",
        ));
    }
    let form = Params::new(Some(&String::from_utf8_lossy(&bytes)));
    let param = |name: &str| {
        let value = query.get(name).filter(|value| !value.is_empty());
        value.or_else(|| form.get(name).filter(|value| !value.is_empty()))
    };
    let description = param("description").ok_or_else(|| ApiError::bad("invalid description"))?;
    // A token of a user may name its pool itself.
    let (prefix, text) = match param("token") {
        Some(text) if text.contains(':') => {
            let (pool, text) = split(text);
            (Some(pool), Some(text))
        }
        text => (None, text),
    };
    if text.is_some_and(|text| text.len() < TOKEN_LEN_MIN) {
        return Err(ApiError::bad("the user token was too short"));
    }
    if text.is_some_and(|text| text.len() > TOKEN_LEN_MAX) {
        return Err(ApiError::bad("the user token was too long"));
    }
    if namespace.len() > NAME_BYTES_MAX {
        return Err(ApiError::bad("the namespace name was too long"));
    }
    if !is_name(namespace) {
        return Err(ApiError::bad(
            "namespace name contains forbidden characters",
        ));
    }
    check_namespace(namespace).map_err(ApiError::bad)?;
    let pool = query.get("pool").filter(|pool| !pool.is_empty()).or(prefix);
    let pool = pool.unwrap_or(DEFAULT_POOL);
    check_pool(app, pool)?;
    let now = app.tokens.now().await?;
    let new = NewToken::new(text.map(str::to_owned), description.to_owned(), now);
    check_names(&query, &form)?;
    // A right that is given and empty is none; it does not mean all.
    let given = |name: &str| query.get(name).or_else(|| form.get(name));
    let new = with_rights(
        new.map_err(|error| ApiError::Internal(Box::new(error)))?,
        &given,
        now,
    )?;
    let Some(text) = app.tokens.create(pool, namespace, new).await? else {
        return Err(ApiError::bad("the token has already existed"));
    };
    let target = target(app, pool, namespace, &text);
    app.tokens.audit(&actor.0, "token created", &target).await;
    let text = match pool {
        DEFAULT_POOL => text,
        _ => format!("{pool}:{text}"),
    };
    Ok(reply::json_indented(
        StatusCode::CREATED,
        &json!({"token": text}),
    ))
}

/// Refuses a parameter that is not known, or stands twice: a right that is mistyped would be none,
/// and its token would have all.
fn check_names(query: &Params, form: &Params) -> Result<()> {
    let mut seen = BTreeSet::new();
    for name in query.names().chain(form.names()) {
        if !PARAMETERS.contains(&name) {
            let known = PARAMETERS.join(", ");
            return Err(ApiError::bad(format!(
                "unknown parameter {name:?}; known are {known}"
            )));
        }
        let is_right = ["scopes", "queues", "expires_in"].contains(&name);
        if is_right && !seen.insert(name) {
            return Err(ApiError::bad(format!("{name} is given twice")));
        }
    }
    Ok(())
}

fn check_pool(app: &App, pool: &str) -> Result<()> {
    match app.pools.get(pool) {
        Some(_) => Ok(()),
        None => Err(ApiError::bad("the pool was not exists")),
    }
}

/// Returns how the audit shows a token; nothing in it is secret.
pub(super) fn target(app: &App, pool: &str, namespace: &str, text: &str) -> String {
    format!(
        "{pool}/{namespace}/{}",
        app.tokens.handle(pool, namespace, text)
    )
}

fn with_rights<'a>(
    mut new: NewToken,
    param: &impl Fn(&str) -> Option<&'a str>,
    now: Timestamp,
) -> Result<NewToken> {
    if let Some(scopes) = param("scopes") {
        let scopes: Option<Vec<Scope>> = scopes.split(',').map(Scope::parse).collect();
        new = new.scopes(scopes.ok_or_else(|| {
            ApiError::bad("invalid scopes: a list of publish, consume and admin")
        })?);
    }
    if let Some(queues) = param("queues") {
        let is_pattern = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_*".contains(&b))
        };
        if !queues.split(',').all(is_pattern) {
            return Err(ApiError::bad(
                "invalid queues: a list of names, in which * is any text",
            ));
        }
        let patterns = queues.split(',').map(|text| QueuePattern(text.to_owned()));
        new = new.queues(patterns.collect());
    }
    if let Some(seconds) = param("expires_in") {
        let seconds: u32 = crate::lmstfy::params::number(seconds)
            .ok_or_else(|| ApiError::bad("invalid expires_in"))?;
        new = new.expires(now + Duration::from_secs(seconds.into()));
    }
    Ok(new)
}

fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    content_type.is_some_and(|it| it.starts_with("application/x-www-form-urlencoded"))
}

/// `GET /token/:ns`.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(namespace): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let params = Params::new(query.as_deref());
    let pool_name = params.get("pool").filter(|pool| !pool.is_empty());
    let pool = pool_name.unwrap_or(DEFAULT_POOL);
    if let Err(error) = check_pool(&app, pool) {
        return error.into_response();
    }
    let tokens = match app.tokens.list(pool, &namespace).await {
        Ok(tokens) => tokens,
        Err(error) => return ApiError::from(error).into_response(),
    };
    let named = tokens.into_iter().map(|(text, row)| {
        let text = match pool_name {
            Some(pool) => format!("{pool}:{text}"),
            None => text,
        };
        (text, row.description)
    });
    let named: BTreeMap<String, String> = named.collect();
    reply::json_indented(StatusCode::OK, &json!({"tokens": named}))
}

/// `DELETE /token/:ns/:token`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
    Extension(actor): Extension<Actor>,
) -> Response {
    let (pool, text) = split(&token);
    if let Err(error) = check_pool(&app, pool) {
        return error.into_response();
    }
    let revoked = app.tokens.revoke((pool, &namespace, text), &actor.0);
    let is_known = match revoked.await {
        Ok(is_known) => is_known,
        Err(error) => return ApiError::from(error).into_response(),
    };
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    if !is_known {
        // The contract answers both alike.
        let none = HeaderValue::from_static("false");
        response.headers_mut().insert(FOUND, none);
    }
    response
}
