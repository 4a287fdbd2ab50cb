//! The checks before every endpoint: names, pool, token, limit, in this order.

use std::sync::Arc;

use axum::body::Body as HttpBody;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use duly::{EventId, Queue};
use serde::Serialize;

use super::delivered::{self, Deliverable};
use super::params::Params;
use super::path::{Endpoint, Route};
use super::{ApiError, Result};
use crate::admission::{Admitted, Place, Turn, Work};
use crate::auth::{Action, Grant, LastingGrant, LimitedCall, Refusal, Scope};
use crate::bus::{Body, Pool};
use crate::http::body::{BodyError, UNFINISHED};
use crate::http::reply;
use crate::metrics::{self, Labels};
use crate::settings::DEFAULT_POOL;
use crate::shares::Share;
use crate::state::{App, ReadError};

/// The longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// The namespace of the queues that duly keeps for itself.
const OWN_NAMESPACE: &str = "duly";

/// A request that has passed the checks.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) app: &'a App,
    pub(super) pool: &'a Pool,
    pub(super) route: Route,
    /// Its right, and what the token may do; `None` on an endpoint that needs none.
    grant: Option<(LastingGrant, Arc<Grant>)>,
    /// The call of the token's limit that it is.
    pub(super) taken: Option<LimitedCall>,
    /// Whether it has begun to change what the audit tells of; from then on it has a line there,
    /// however it ends.
    pub(super) has_begun: bool,
}

impl Endpoint {
    fn is_public(&self) -> bool {
        matches!(self, Self::Size | Self::DeadSize)
    }

    /// The scopes of which a token needs one. What ends a job also needs that of the job's state.
    fn scopes(&self) -> &'static [Scope] {
        match self {
            Self::Publish | Self::Bulk | Self::Republish(_) => &[Scope::Publish],
            Self::Delete(_) => &Scope::ALL,
            Self::Job(_) => &[Scope::Consume, Scope::Publish],
            Self::Consume | Self::Peek | Self::Size | Self::DeadSize | Self::DeadPeek => {
                &[Scope::Consume]
            }
            Self::Destroy | Self::Respawn | Self::DeadDelete => &[Scope::Admin],
        }
    }

    fn action(&self) -> Option<Action> {
        match self {
            Self::Publish | Self::Bulk => Some(Action::Produce),
            Self::Consume => Some(Action::Consume),
            _ => None,
        }
    }

    /// Its path, as the original has it in its metrics.
    pub(super) fn path(&self) -> &'static str {
        match self {
            Self::Publish | Self::Consume | Self::Destroy => "/api/:namespace/:queue",
            Self::Bulk => "/api/:namespace/:queue/bulk",
            Self::Republish(_) | Self::Job(_) | Self::Delete(_) => {
                "/api/:namespace/:queue/job/:job_id"
            }
            Self::Peek => "/api/:namespace/:queue/peek",
            Self::Size => "/api/:namespace/:queue/size",
            Self::DeadSize => "/api/:namespace/:queue/deadletter/size",
            Self::DeadPeek | Self::Respawn | Self::DeadDelete => {
                "/api/:namespace/:queue/deadletter"
            }
        }
    }
}

impl<'a> Call<'a> {
    pub(super) async fn check(app: &'a App, route: Route, request: &Parts) -> Result<Self> {
        check_names(&route)?;
        let text = token_text(request);
        let (pool, token) = split(&text);
        let pool = app
            .pools
            .get(pool)
            .ok_or_else(|| ApiError::not_found("pool not found"))?;
        let grant = if route.endpoint.is_public() {
            None
        } else {
            Some(granted(app, pool, &route, token).await?)
        };
        Ok(Self {
            app,
            pool,
            route,
            grant,
            taken: None,
            has_begun: false,
        })
    }

    /// Checks the token again, as the request has lasted.
    pub(super) async fn check_again(&mut self) -> Result<()> {
        if let Some((lasting, grant)) = &mut self.grant {
            *grant = lasting.check(&self.app.tokens).await.map_err(refused)?;
        }
        Ok(())
    }

    /// Admits what reads or changes many jobs, to which all of its steps belong: one of too many is
    /// refused before it has done anything.
    pub(super) fn admit(&self, work: Work) -> Result<Steps<'a>> {
        let Some((lasting, _)) = &self.grant else {
            return Err(refused(Refusal::Invalid)); // never: what is of many jobs needs a token
        };
        Ok(Steps(self.app.admit(work, lasting)?))
    }

    /// Reads the body of a request, which then must still be allowed.
    pub(super) async fn read(
        &mut self,
        body: HttpBody,
        bytes_max: usize,
    ) -> Result<(Bytes, Option<Share>)> {
        let Some((lasting, grant)) = &mut self.grant else {
            return Ok((Bytes::new(), None)); // an endpoint without a token takes none
        };
        match self.app.read(lasting, body, bytes_max).await {
            Ok((bytes, room, checked)) => {
                *grant = checked;
                Ok((bytes, room))
            }
            Err(ReadError::Body(error)) => Err(unread(error)),
            Err(ReadError::Refused(refusal)) => Err(refused(refusal)),
        }
    }

    /// Takes one call of the token's limit.
    pub(super) async fn take(&self) -> Result<Option<LimitedCall>> {
        match self.route.endpoint.action() {
            Some(action) => self.take_of(action).await,
            None => Ok(None),
        }
    }

    /// Takes one call of the token's limit of an action.
    pub(super) async fn take_of(&self, action: Action) -> Result<Option<LimitedCall>> {
        let Some((lasting, grant)) = &self.grant else {
            return Ok(None);
        };
        match self.app.tokens.take(grant, action).await {
            Ok(taken) => Ok(taken),
            Err(Refusal::Throttled(wait)) => {
                let name = action_text(action);
                metrics::throttled(&self.labels(), &self.token_handle(), name);
                let token = lasting.token();
                let text =
                    format!("token({token}) {name} reach the limit rate, please retry later");
                Err(ApiError::Throttled(text, wait))
            }
            Err(Refusal::Failed(error)) => Err(ApiError::Throttler(Box::new(error))),
            Err(other) => Err(refused(other)),
        }
    }

    /// Adds the call to the audit, if it is one that the audit tells of.
    pub(super) async fn audit(&self) {
        let action = match self.route.endpoint {
            Endpoint::Destroy => "queue destroyed",
            Endpoint::Respawn => "dead letters revived",
            Endpoint::DeadDelete => "dead letters dropped",
            _ => return,
        };
        let Route {
            namespace, queue, ..
        } = &self.route;
        let target = format!("{}/{namespace}/{queue}", self.pool.name());
        let actor = self.token_handle();
        self.app.tokens.audit(&actor, action, &target).await;
        let name = format!("{namespace}.{queue}");
        self.pool.audit(&actor, action, &name).await;
    }

    /// Returns how metrics and the audit show the token; nothing in it is secret.
    pub(super) fn token_handle(&self) -> String {
        let token = self.grant.as_ref().map(|(lasting, _)| lasting.token());
        let (pool, namespace) = (self.pool.name(), &self.route.namespace);
        let handle = |token| self.app.tokens.handle(pool, namespace, token);
        token.map(handle).unwrap_or_default()
    }

    /// Returns the queue of the request.
    pub(super) fn queue(&self) -> Result<Queue<Body>> {
        Ok(self.pool.queue(&self.route.namespace, &self.route.queue)?)
    }

    /// Returns the right of a poll to some queues, which lasts for as long as the poll is parked.
    pub(super) async fn lasting(&self, queues: &[&str]) -> Result<LastingGrant> {
        let Some((lasting, _)) = &self.grant else {
            return Err(refused(Refusal::Invalid)); // never: a consume needs a token
        };
        let grant = lasting.to_queues(queues.iter().copied());
        grant.check(&self.app.tokens).await.map_err(refused)?;
        Ok(grant)
    }

    /// Returns a response that may be large: it takes room of the token.
    pub(super) async fn large(&self, value: &impl Serialize) -> Result<Response> {
        let text = reply::json_text(value)?;
        let Some((lasting, _)) = &self.grant else {
            return Err(refused(Refusal::Invalid)); // never: what is large needs a token
        };
        let (owner, none) = (lasting.owner(), Deliverable::default());
        Ok(delivered::response(self.app, owner, text, none).await)
    }

    /// Checks a scope that the state of a job asks for.
    pub(super) fn may(&self, scope: Scope) -> Result<()> {
        match &self.grant {
            Some((_, grant)) => grant.allows(scope, &self.route.queue).map_err(refused),
            None => Ok(()),
        }
    }

    pub(super) fn labels(&self) -> Labels {
        let (pool, namespace) = (self.pool.name(), self.route.namespace.as_str());
        match &self.grant {
            Some(_) => Labels::new(pool, namespace),
            None => Labels::anonymous(pool, namespace),
        }
    }

    pub(super) fn endpoint_path(&self) -> &'static str {
        self.route.endpoint.path()
    }

    /// Whether the token's limit is one of an action.
    pub(super) fn limits(&self, action: Action) -> bool {
        let grant = self.grant.as_ref();
        grant.is_some_and(|(_, grant)| grant.limits(action))
    }

    /// Waits for the turn of a job, which is replaced once.
    pub(super) async fn turn_of(&self, id: EventId) -> Result<(Place, Turn)> {
        let Some((lasting, _)) = &self.grant else {
            return Err(refused(Refusal::Invalid)); // never: a republish needs a token
        };
        let name = format!("{}/{}/{id}", lasting.place(), self.route.queue);
        let admission = &self.app.admission;
        let place = admission.place(Work::Setting, &name, lasting.owner())?;
        let turn = place.turn().await;
        Ok((place, turn))
    }
}

/// The steps of a request that reads or changes many jobs.
#[derive(Debug)]
pub(super) struct Steps<'a>(Admitted<'a>);

impl Steps<'_> {
    pub(super) async fn step<T, E>(
        &self,
        step: impl Future<Output = std::result::Result<T, E>>,
    ) -> Result<T>
    where
        ApiError: From<E>,
    {
        let (done, _) = self.0.step(step).await.map_err(refused)?;
        Ok(done?)
    }
}

fn action_text(action: Action) -> &'static str {
    match action {
        Action::Consume => "consume",
        Action::Produce => "produce",
    }
}

pub(super) fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::Invalid => ApiError::Refused(StatusCode::UNAUTHORIZED, "invalid token".to_owned()),
        Refusal::Forbidden(why) => ApiError::Refused(StatusCode::FORBIDDEN, why),
        Refusal::Throttled(wait) => {
            ApiError::Throttled("the limit is reached, please retry later".to_owned(), wait)
        }
        Refusal::Failed(error) => ApiError::Internal(Box::new(error)),
    }
}

async fn granted(
    app: &App,
    pool: &Pool,
    route: &Route,
    token: &str,
) -> Result<(LastingGrant, Arc<Grant>)> {
    if token.is_empty() {
        let text = "token not found".to_owned();
        return Err(ApiError::Refused(StatusCode::UNAUTHORIZED, text));
    }
    // Of a consume each queue is checked by itself.
    let is_consume = route.endpoint == Endpoint::Consume;
    let queue = (!is_consume).then_some(route.queue.as_str());
    let place = (pool.name(), route.namespace.as_str(), token);
    let lasting = LastingGrant::new(place, route.endpoint.scopes(), queue);
    let grant = lasting.check(&app.tokens).await.map_err(refused)?;
    Ok((lasting, grant))
}

fn unread(error: BodyError) -> ApiError {
    match error {
        BodyError::TooLarge => ApiError::too_large("body too large"),
        BodyError::Unreadable => ApiError::bad("failed to read body"),
        BodyError::Evicted(why) => ApiError::evicted(why, UNFINISHED),
        BodyError::Stopping => ApiError::Refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server stops".to_owned(),
        ),
    }
}

/// Returns the token of a request: of its header, else of its query.
fn token_text(request: &Parts) -> String {
    let header = header_text(&request.headers, "x-token");
    match header.filter(|token| !token.is_empty()) {
        Some(token) => token,
        None => {
            let params = Params::new(request.uri.query());
            params.get("token").unwrap_or_default().to_owned()
        }
    }
}

/// Returns the first value of a header as text, whatever its bytes.
pub(super) fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Splits `pool:token`; a missing or empty pool is the default one.
pub(crate) fn split(text: &str) -> (&str, &str) {
    match text.split_once(':') {
        Some(("", token)) => (DEFAULT_POOL, token),
        Some((pool, token)) => (pool, token),
        None => (DEFAULT_POOL, text),
    }
}

fn check_names(route: &Route) -> Result<()> {
    let Route {
        namespace,
        queue,
        endpoint,
    } = route;
    check_namespace(namespace)
        .map_err(|why| ApiError::Refused(StatusCode::FORBIDDEN, why.to_owned()))?;
    let is_consume = *endpoint == Endpoint::Consume;
    if !is_consume && (namespace.len() > NAME_BYTES_MAX || queue.len() > NAME_BYTES_MAX) {
        return Err(ApiError::bad("namespace or queue name too long"));
    }
    if !is_name(namespace) {
        return Err(ApiError::bad(
            "namespace name contains forbidden characters",
        ));
    }
    let is_queue = if is_consume {
        queue.bytes().all(|byte| byte == b',' || is_letter(byte))
    } else {
        is_name(queue) && !queue.starts_with('_')
    };
    if is_queue {
        Ok(())
    } else {
        Err(ApiError::bad("queue name contains forbidden characters"))
    }
}

/// Refuses the namespace of the queues that duly keeps for itself: schedules of all namespaces, and
/// replies.
pub(crate) fn check_namespace(namespace: &str) -> std::result::Result<(), &'static str> {
    if namespace == OWN_NAMESPACE {
        return Err("the namespace `duly` is duly's own; choose another");
    }
    Ok(())
}

/// Whether a text is a name: letters, digits, `-` and `_`.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_letter)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}
