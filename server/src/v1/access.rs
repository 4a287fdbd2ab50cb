//! Access: the token of a request, its scope, and the limit of its calls.

use std::ops::Deref;
use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::input;
use super::problem::{Problem, Result};
use crate::admission::{Place, Turn, Work};
use crate::auth::{Action, Grant, LastingGrant, LimitedCall, Scope};
use crate::bus::Pool;
use crate::http::{reply, whole};
use crate::lmstfy::delivered::{self, Deliverable};
use crate::lmstfy::names::{NAME_BYTES_MAX, check_namespace, is_name, split};
use crate::shares::Owner;
use crate::state::App;

/// Checks names and token; returns the pool.
pub(super) async fn granted<'a>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
    queue: &str,
    scope: Scope,
) -> Result<&'a Pool> {
    granted_any(app, headers, namespace, queue, &[scope]).await
}

/// Checks names and token, which needs one of some scopes; returns the pool.
pub(super) async fn granted_any<'a>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
    queue: &str,
    scopes: &[Scope],
) -> Result<&'a Pool> {
    let (pool, grant) = granted_queue(app, headers, namespace, queue).await?;
    grant.allows_any(scopes, queue)?;
    Ok(pool)
}

/// Checks names and token, for as long as the request lasts; returns the pool, and the right.
pub(super) async fn granted_lasting<'a>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
    queue: &str,
    scope: Scope,
) -> Result<(&'a Pool, LastingGrant)> {
    let pool = granted(app, headers, namespace, queue, scope).await?;
    let (_, token) = split(token(headers).unwrap_or_default());
    let place = (pool.name(), namespace, token);
    Ok((pool, LastingGrant::new(place, scope.alone(), [queue])))
}

/// Checks names and token, and reads a body of JSON; returns the pool and the body.
pub(super) async fn granted_json<'a, T: DeserializeOwned>(
    app: &'a App,
    headers: &HeaderMap,
    (namespace, queue): (&str, &str),
    scope: Scope,
    body: HttpBody,
) -> Result<(&'a Pool, T)> {
    let (pool, grant) = granted_lasting(app, headers, namespace, queue, scope).await?;
    Ok((pool, input::json(app, &grant, headers, body).await?))
}

/// Checks namespace and token, for as long as the request lasts; returns the pool, and the right to its
/// queues, of which each is checked by itself.
pub(super) async fn granted_namespace_lasting<'a>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
    scope: Scope,
) -> Result<(&'a Pool, LastingGrant)> {
    let (pool, _) = granted_namespace(app, headers, namespace).await?;
    let (_, token) = split(token(headers).unwrap_or_default());
    let place = (pool.name(), namespace, token);
    let grant = LastingGrant::new(place, scope.alone(), None::<String>);
    Ok((pool, grant))
}

/// Checks namespace and token, and reads a body of JSON that says which queue it is about; returns the
/// pool, the right, what the token may do by then, and the body.
pub(super) async fn granted_namespace_json<'a, T: DeserializeOwned>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
    scope: Scope,
    body: HttpBody,
) -> Result<(&'a Pool, (LastingGrant, Arc<Grant>), T)> {
    let (pool, lasting) = granted_namespace_lasting(app, headers, namespace, scope).await?;
    let grant = lasting.check(&app.tokens).await?;
    grant.allows_anywhere(scope)?;
    let body = input::json(app, &lasting, headers, body).await?;
    let grant = lasting.check(&app.tokens).await?;
    Ok((pool, (lasting, grant), body))
}

/// Returns what kind of work a request is that may only try what it would do.
pub(super) fn work_of(dry_run: bool) -> Work {
    if dry_run { Work::Read } else { Work::Change }
}

/// Does what a request reads or changes, in one step.
pub(super) async fn step<T>(
    app: &App,
    work: Work,
    grant: &LastingGrant,
    step: impl Future<Output = Result<T>>,
) -> Result<(T, Arc<Grant>)> {
    let (done, grant) = app.admit(work, grant)?.step(step).await?;
    Ok((done?, grant))
}

/// Checks names and token for a push or a lease, which the token's limit counts; returns the pool,
/// and the right to do it.
pub(super) async fn granted_call<'a>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
    queue: &str,
    action: Action,
) -> Result<(&'a Pool, CallGrant)> {
    let scope = match action {
        Action::Produce => Scope::Publish,
        Action::Consume => Scope::Consume,
    };
    let (pool, lasting) = granted_lasting(app, headers, namespace, queue, scope).await?;
    Ok((pool, CallGrant { lasting, action }))
}

/// Waits for the turn of a namespace to change something of it, and then checks the token again;
/// returns the turn, and what the token may do by now.
pub(super) async fn turn(app: &App, grant: &LastingGrant) -> Result<((Place, Turn), Arc<Grant>)> {
    let place = grant.place();
    let place = app.admission.place(Work::Setting, &place, grant.owner())?;
    let turn = place.turn().await;
    let grant = grant.check(&app.tokens).await?;
    Ok(((place, turn), grant))
}

pub(super) async fn granted_queue<'a>(
    app: &'a App,
    headers: &HeaderMap,
    namespace: &str,
    queue: &str,
) -> Result<(&'a Pool, Arc<Grant>)> {
    if !is_ours(queue) {
        return Err(wrong_name());
    }
    granted_namespace(app, headers, namespace).await
}

/// The right to push to a queue or to lease from it, for as long as a request lasts.
#[derive(Clone, Debug)]
pub(super) struct CallGrant {
    lasting: LastingGrant,
    action: Action,
}

impl Deref for CallGrant {
    type Target = LastingGrant;

    fn deref(&self) -> &LastingGrant {
        &self.lasting
    }
}

impl CallGrant {
    /// Checks that the token may still do it.
    pub(super) async fn check(&self, app: &App) -> Result<()> {
        let checked = self.lasting.check(&app.tokens).await;
        Ok(checked.map(drop)?)
    }

    /// Checks that the token may still do it, and takes one call of its limit. Unless it is kept it
    /// is given back.
    pub(super) async fn take(&self, app: &App) -> Result<Option<LimitedCall>> {
        let grant = self.lasting.check(&app.tokens).await?;
        Ok(app.tokens.take(&grant, self.action).await?)
    }

    /// Waits until the token may not do it any more.
    pub(super) async fn ended(&self, app: &App) -> Problem {
        self.lasting.ended(&app.tokens).await.into()
    }
}

/// Pushes what a limit counts. A call that was taken of it is kept by a push that succeeds, also where
/// its client has hung up meanwhile.
pub(super) async fn counted<T: Send + 'static>(
    taken: Option<LimitedCall>,
    push: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let Some(taken) = taken else {
        return push.await;
    };
    let counted = async move {
        let pushed = push.await?;
        taken.keep();
        Ok(pushed)
    };
    let counted = whole::finish(counted).await;
    counted.unwrap_or_else(|| Err(Problem::stopping()))
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
    check_namespace(namespace)
        .map_err(|why| Problem::new(StatusCode::FORBIDDEN, "forbidden", why))?;
    let text = token(headers).ok_or_else(Problem::unauthorized)?;
    let (pool, token) = split(text);
    let pool = app.pools.get(pool).ok_or_else(Problem::unauthorized)?;
    let grant = app.tokens.check(pool.name(), namespace, token).await;
    Ok((pool, grant?))
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

/// Returns a response that may be large: it takes room of the token, until it is read.
pub(super) async fn large(
    app: &App,
    headers: &HeaderMap,
    (pool, namespace): (&Pool, &str),
    value: &impl Serialize,
) -> Result<Response> {
    let (_, token) = split(token(headers).unwrap_or_default());
    let (owner, none) = (
        Owner::new(pool.name(), namespace, token),
        Deliverable::default(),
    );
    let text = reply::json_text(value)?;
    Ok(delivered::response(app, &owner, text, none).await)
}

/// Returns who acts with a token, for the audit.
pub(super) fn actor(app: &App, headers: &HeaderMap, pool: &Pool, namespace: &str) -> String {
    let (_, token) = split(token(headers).unwrap_or_default());
    app.tokens.handle(pool.name(), namespace, token)
}

/// Adds what is done to many events to the audit, when it begins, and when a request goes on with
/// what has no line there. What begins may be in the store's audit already.
pub(super) async fn audit_bulk(
    app: &App,
    headers: &HeaderMap,
    action: &str,
    (pool, namespace, target): (&Pool, &str, &str),
    (goes_on, store_has_it): (bool, bool),
) {
    let by = actor(app, headers, pool, namespace);
    let of = format!("{}/{namespace}/{target}", pool.name());
    let is_new = app.audited_bulks.note(format!("{by} {action} {of}"));
    match (goes_on, store_has_it) {
        (true, _) if !is_new => {}
        (false, true) => app.tokens.audit(&by, action, &of).await,
        _ => audit(app, headers, action, (pool, namespace, target)).await,
    }
}

/// Adds what was done with a token to the audit.
pub(super) async fn audit(
    app: &App,
    headers: &HeaderMap,
    action: &str,
    (pool, namespace, queue): (&Pool, &str, &str),
) {
    let actor = actor(app, headers, pool, namespace);
    let target = format!("{}/{namespace}/{queue}", pool.name());
    app.tokens.audit(&actor, action, &target).await;
    let name = match queue.strip_prefix("schedules/") {
        Some(schedule) => format!("schedules/{namespace}.{schedule}"),
        None => format!("{namespace}.{queue}"),
    };
    pool.audit(&actor, action, &name).await;
}
