//! Access: the token of a request, its scope, and the limit of its calls.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};

use super::problem::{Problem, Result};
use crate::auth::{Action, Grant, Refusal, Scope};
use crate::bus::Pool;
use crate::lmstfy::names::{NAME_BYTES_MAX, is_name, split};
use crate::state::App;

/// Checks names and token; returns the pool.
pub(super) async fn granted<'a>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
    queue: &str,
    scope: Scope,
) -> Result<&'a Pool> {
    if !is_ours(queue) {
        return Err(wrong_name());
    }
    let (pool, grant) = granted_namespace(app, headers, namespace).await?;
    let tokens = &app.tokens;
    grant.allows(scope, queue).map_err(refused)?;
    let action = match scope {
        Scope::Publish => Action::Produce,
        Scope::Consume => Action::Consume,
        Scope::Admin => return Ok(pool),
    };
    // A call counts whatever comes of it.
    drop(tokens.take(&grant, action).await.map_err(refused)?);
    Ok(pool)
}

/// Checks namespace and token; returns the pool, and what the token may do.
pub(super) async fn granted_namespace<'a>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
) -> Result<(&'a Pool, Arc<Grant>)> {
    if !is_ours(namespace) {
        return Err(wrong_name());
    }
    let text = token(headers).ok_or_else(unauthorized)?;
    let (pool, token) = split(text);
    let pool = app.pools.get(pool).ok_or_else(unauthorized)?;
    let grant = app.tokens.check(pool.name(), namespace, token).await;
    Ok((pool, grant.map_err(refused)?))
}

fn is_ours(name: &str) -> bool {
    is_name(name) && name.len() <= NAME_BYTES_MAX
}

fn wrong_name() -> Problem {
    Problem::invalid(format!(
        "a namespace and a queue have 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"
    ))
}

/// Returns the token: `Authorization: Bearer`, or the header of lmstfy.
fn token(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        return scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim());
    }
    headers.get("x-token")?.to_str().ok()
}

fn unauthorized() -> Problem {
    let text = "a valid token is needed: `Authorization: Bearer <token>`";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", text)
}

fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Invalid => unauthorized(),
        Refusal::Forbidden(why) => Problem::new(StatusCode::FORBIDDEN, "forbidden", why),
        Refusal::Throttled => Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "throttled",
            "the limit of the token is reached; retry later",
        ),
        Refusal::Failed(error) => error.into(),
    }
}

/// Adds what was done with a token to the audit.
pub(super) async fn audit(
    app: &App,
    headers: &HeaderMap,
    action: &str,
    (pool, namespace, queue): (&Pool, &str, &str),
) {
    let (_, token) = split(token(headers).unwrap_or_default());
    let pool = pool.name();
    let actor = app.tokens.handle(pool, namespace, token);
    let target = format!("{pool}/{namespace}/{queue}");
    app.tokens.audit(&actor, action, &target).await;
}
