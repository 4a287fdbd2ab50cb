//! The dashboard of each pool on the admin listener, and who may do what in it.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Router, middleware};
use duly_dashboard::{Access, AccessError, Credentials, Dashboard, Role, User};
use futures_util::future::BoxFuture;

use crate::auth::{self, Action, Refusal, Scope};
use crate::http::peer;
use crate::lmstfy::admin::account;
use crate::lmstfy::names;
use crate::settings::DEFAULT_POOL;
use crate::state::App;

/// Returns the routes of every pool's dashboard: `/dashboard` of the default one, and
/// `/pools/{name}/dashboard` of the others.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let stores = || app.pools.names().map(|name| (name.to_owned(), path(name)));
    let routers = app.pools.iter().map(|pool| {
        let name = pool.name().to_owned();
        let access = PoolAccess {
            app: Arc::clone(app),
            pool: name.clone(),
        };
        Dashboard::new(pool.bus().clone())
            .at(path(&name))
            .stores(name, stores())
            .authorize(access)
            .throttle(app.logins.clone())
            .secure(app.settings.admin.behind_tls)
            .until(app.closing.clone().cancelled_owned())
            .router()
    });
    let router = routers.fold(Router::new(), Router::merge);
    router.layer(middleware::from_fn(add_peer))
}

/// Tells the dashboard who its client is.
async fn add_peer(mut request: Request, next: Next) -> Response {
    if let Some(peer) = peer::socket() {
        request.extensions_mut().insert(ConnectInfo(peer));
    }
    next.run(request).await
}

fn path(pool: &str) -> String {
    match pool {
        DEFAULT_POOL => "/dashboard".to_owned(),
        pool => format!("/pools/{pool}/dashboard"),
    }
}

/// The users of a pool's dashboard: the accounts of the admin listener, which may do everything, and
/// the tokens of the pool that may consume, each for the queues of its namespace. Without accounts the listener is
/// open, and so is its dashboard.
#[derive(Debug)]
struct PoolAccess {
    app: Arc<App>,
    pool: String,
}

impl PoolAccess {
    async fn token(&self, given: &Credentials) -> Result<Option<User>, AccessError> {
        let (pool, token) = names::split(given.secret.trim()); // a token has no blanks
        if pool != self.pool {
            return Ok(None);
        }
        let namespace = &given.name;
        if names::check_namespace(namespace).is_err() {
            return Ok(None);
        }
        let tokens = &self.app.tokens;
        let grant = match tokens.check(pool, namespace, token).await {
            Ok(grant) => grant,
            Err(Refusal::Failed(error)) => {
                tracing::error!(%error, "token of the dashboard not checked");
                // It was no password of an account of this name, if there is one: that is not told.
                let error = AccessError::new("the shared state does not respond");
                return Err(error.counts_as_wrong());
            }
            Err(_) => return Ok(None),
        };
        // Whoever reads here reads payloads, dead letters and records, for which `/v1` asks the same.
        if !grant.has(Scope::Consume) {
            return Ok(None);
        }
        let publishes = grant.has(Scope::Publish);
        let role = match (grant.has(Scope::Admin), publishes) {
            (true, _) => Role::Admin,
            (false, true) => Role::Operate,
            (false, false) => Role::View,
        };
        let has_limit = grant.limits(Action::Produce);
        let name = auth::user_name(namespace, &tokens.handle(pool, namespace, token));
        let prefix = format!("{namespace}.");
        let is_whole = grant.allows_all(Scope::Consume).is_ok();
        // A queue of duly itself, such as `ns.duly.schedules`, has a dot in its name.
        let is_for = move |queue: &str| {
            let queue = queue.strip_prefix(&prefix);
            queue.is_some_and(|queue| names::is_name(queue) && grant.is_for(queue))
        };
        // A schedule of another namespace may push to a queue of this one.
        let user = User::new(name, role).only(is_for);
        let mut user = user.only_schedules_of(namespace);
        if is_whole {
            user = user.whole_namespace();
        }
        if !publishes {
            user = user.without_operating();
        }
        if has_limit {
            user = user.without_runs();
        }
        Ok(Some(user))
    }
}

impl Access for PoolAccess {
    fn user<'a>(
        &'a self,
        given: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        Box::pin(async move {
            let accounts = &self.app.settings.admin.accounts;
            let Some(given) = given else {
                let is_open = accounts.is_empty();
                return Ok(is_open.then(|| User::new("anonymous", Role::Admin)));
            };
            if account::is_known(accounts, &given.name, &given.secret) {
                return Ok(Some(User::new(given.name.as_str(), Role::Admin)));
            }
            self.token(given).await
        })
    }

    fn audit<'a>(&'a self, user: &'a User, action: &'a str, target: &'a str) -> BoxFuture<'a, ()> {
        // The queue `ns.q` is the queue `q` of the namespace `ns`.
        let schedule = target.strip_prefix("schedules/");
        let target = match schedule.unwrap_or(target).split_once('.') {
            Some((namespace, name)) if schedule.is_some() => {
                format!("{namespace}/schedules/{name}")
            }
            Some((namespace, name)) if names::is_name(namespace) => format!("{namespace}/{name}"),
            _ => target.to_owned(),
        };
        let target = format!("{}/{target}", self.pool);
        Box::pin(async move {
            let tokens = &self.app.tokens;
            tokens.audit(user.name(), action, &target).await;
        })
    }
}
