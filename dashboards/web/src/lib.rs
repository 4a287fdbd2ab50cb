//! The dashboard of `duly`: pages for the operator of a bus, as a router of axum.
//!
//! ```text
//!  request -> guard: headers, origin -> visit: who it is -> page ----> picture <- sampler -> bus
//!                                                        `-> action -> bus, audit
//! ```
//!
//! `duly serve` serves it on its admin listener. A program mounts it beside its own routes:
//!
//! ```no_run
//! # async fn mount(bus: duly::Bus, app: axum::Router) -> axum::Router {
//! use duly_dashboard::{Dashboard, Role};
//!
//! // On a listener that only operators reach; else give it an `Access` of your own.
//! app.merge(Dashboard::new(bus).open(Role::Admin).router())
//! # }
//! ```
//!
//! Pages are rendered by the server and work without script; a small script of ours keeps them
//! current. They load nothing from elsewhere. Each asks a bounded number of questions of the store,
//! however many queues and events there are.

mod access;
mod action;
mod app;
mod assets;
mod chart;
mod cookies;
mod error;
mod event_rows;
mod file;
mod frame;
mod grant;
mod guard;
mod hour_sums;
mod live;
mod login;
mod minutes;
mod pages;
mod picture;
mod places;
mod problems;
mod questions;
mod record_query;
mod sample;
mod sessions;
mod streams;
mod sweeps;
mod text;
mod throttle;
mod turns;
mod whole;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use axum::{Router, middleware};
use duly::Bus;

use self::access::Open;
pub use self::access::{Access, AccessError, Credentials, Role, User};
use self::app::{App, Closing};
pub use self::throttle::{LoginAttempt, LoginThrottle};

/// The largest form, in bytes.
const FORM_BYTES_MAX: usize = 64 << 10;

/// A dashboard of a bus, before it becomes a router.
#[derive(Debug)]
#[must_use = "it serves nothing before `router`"]
pub struct Dashboard {
    app: App,
}

impl Dashboard {
    /// A dashboard at `/dashboard`, on which everybody who reaches it may read everything and
    /// change nothing.
    pub fn new(bus: Bus) -> Self {
        Self {
            app: App::new(bus, Arc::new(Open(Role::View))),
        }
    }

    /// Serves it at another path, such as `/jobs`; it begins with a `/`, and does not end with one.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.app.base = path.into();
        self
    }

    /// Lets everybody who reaches it act in this role.
    pub fn open(self, role: Role) -> Self {
        self.authorize(Open(role))
    }

    /// Asks `access` who a visitor is, and tells it what was changed.
    ///
    /// A layer in front of the router may instead put a [`User`] into the extensions of a request,
    /// for example from the session of the surrounding program. Such a layer is asked at the begin of
    /// a request alone: what lasts longer, as a sweep, goes on although its user has left meanwhile.
    pub fn authorize(mut self, access: impl Access) -> Self {
        self.app.access = Arc::new(access);
        self
    }

    /// Counts logins with this throttle, so that other checks of the same passwords count, too.
    ///
    /// Clients are told apart by the `ConnectInfo<SocketAddr>` of a request, which axum's
    /// `into_make_service_with_connect_info` adds; without it all are one.
    pub fn throttle(mut self, throttle: LoginThrottle) -> Self {
        self.app.throttle = throttle;
        self
    }

    /// Declares that browsers reach it over TLS only, on this listener or at a proxy in front of it:
    /// then they send its cookies over nothing else. Over plain HTTP nobody could log in any more.
    pub fn secure(mut self, is_secure: bool) -> Self {
        self.app.is_secure = is_secure;
        self
    }

    /// Names its store, and all stores that there are, each with the path of its dashboard: of two
    /// and more every page has a choice.
    pub fn stores(
        mut self,
        name: impl Into<String>,
        stores: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        self.app.name = name.into();
        self.app.stores = stores.into_iter().collect();
        self
    }

    /// Ends streams of live updates when `closing` is done, so that a server can stop in order.
    pub fn until(mut self, closing: impl Future<Output = ()> + Send + 'static) -> Self {
        self.app.closing = Closing::new(closing);
        self
    }

    /// Returns the routes, all below its path, to be merged into a router.
    pub fn router(self) -> Router {
        let app = Arc::new(self.app);
        let base = app.base.clone();
        let pages = Router::new()
            .route("/", get(pages::now::page))
            .route("/queues", get(pages::queues::page))
            .route("/queues/{queue}", get(pages::queue::page))
            .route("/queues/{queue}/events/{id}", get(pages::event::page))
            .route("/find", get(pages::find::find))
            .route("/audit", get(pages::audit::page))
            .route("/history", get(pages::history::page))
            .route("/dead", get(pages::dead::page))
            .route(
                "/dead/edit",
                get(pages::edit::page).post(pages::edit::submit),
            )
            .route("/records", get(pages::records::page))
            .route("/records/export", get(pages::records::export))
            .route("/schedules", get(pages::schedules::page))
            .route("/schedules/{schedule}", get(pages::schedule::page))
            .route("/nodes", get(pages::nodes::page))
            .route("/act/{action}", get(action::confirm).post(action::act))
            .route("/login", get(login::page).post(login::submit))
            .route("/logout", axum::routing::post(login::end))
            .route("/live", get(live::stream))
            .route("/assets/{name}", get(assets::get))
            .fallback(error::unknown)
            .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&app),
                guard::guard,
            ))
            .layer(middleware::from_fn(whole::run))
            .with_state(app);
        let slash = format!("{base}/");
        let to_slash = move || async move { axum::response::Redirect::permanent(&slash) };
        // A nested `/` is the path itself, without its slash.
        Router::new()
            .nest(&format!("{base}/"), pages)
            .route(&base, get(to_slash))
    }
}
