//! The server: opens its stores, starts its listeners, and stops in order.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::{any, get};
use axum::{Router, middleware};
use duly_outbox::Relay;
use futures_util::future::OptionFuture;
use tokio_rustls::TlsAcceptor;
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::NewToken;
use crate::clock::ManualClock;
use crate::http::access_log::{self, AccessLog};
use crate::http::listener::{Listener, Socket};
use crate::http::tls::Certificates;
use crate::http::{defaults, peer, unread, whole};
use crate::job_id::JobIds;
use crate::places::Places;
use crate::pools::Pools;
use crate::settings::{ClockKind, DEFAULT_POOL, LimitSettings, Settings};
use crate::shared::SharedState;
use crate::state::App;
use crate::test_clock::TestClock;
use crate::{dashboard, health, lmstfy, metrics, origin, outbox, test_clock, v1};

/// Why a server does not start.
#[derive(Debug)]
pub struct StartError {
    what: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

impl StartError {
    fn new(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            what: what.into(),
            source: Some(source.into()),
        }
    }
}

/// A running server. Dropping it ends its listeners, too; only [`stop`](Self::stop) waits for what is
/// under way.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    api: Listener,
    admin: Listener,
    certificates: Option<Arc<Certificates>>,
    relay: Option<Relay>,
}

/// What listeners begin with: the sockets of the API and of the admin interface, and TLS of the first.
struct Sockets {
    api: Socket,
    admin: Socket,
    certificates: Option<Arc<Certificates>>,
    tls: Option<TlsAcceptor>,
}

impl Sockets {
    fn bind(settings: &Settings) -> Result<Self, StartError> {
        let certificates = match (&settings.api.tls_certificate, &settings.api.tls_key) {
            (Some(certificate), Some(key)) => {
                let read = Certificates::open(certificate, key);
                Some(read.map_err(|error| StartError::new("TLS cannot be set up", error))?)
            }
            _ => None,
        };
        let tls = certificates
            .as_ref()
            .map(Certificates::acceptor)
            .transpose();
        let failed = |error| StartError::new("the server cannot listen", error);
        Ok(Self {
            api: Socket::bind("api", settings.api.listen).map_err(failed)?,
            admin: Socket::bind("admin", settings.admin.listen).map_err(failed)?,
            certificates,
            tls: tls.map_err(|error| StartError::new("TLS cannot be set up", error))?,
        })
    }
}

impl Server {
    /// Opens every store and starts both listeners.
    ///
    /// # Errors
    ///
    /// A store that cannot be opened, an address that is taken, a certificate that cannot be read.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let places = Places::of(&settings.limits, &settings.webhooks);
        metrics::install();
        let mut library = duly::config::Settings::load()
            .map_err(|error| StartError::new("the settings of duly cannot be read", error))?;
        if let Some(listen) = library.metrics.listen.take() {
            tracing::warn!(
                %listen,
                "metrics.listen ignored; the metrics of a server are `/metrics` of its admin listener"
            );
        }
        let mut urls = settings.pool_urls();
        let default_url = settings.default_store_url(&library);
        urls.insert(crate::settings::DEFAULT_POOL.to_owned(), default_url);
        let state_url = settings.state_url(&urls);
        if let Some(why) = settings.clock_refusal(&urls, &state_url, &library) {
            return Err(StartError {
                what: why,
                source: None,
            });
        }
        let clock = (settings.clock == ClockKind::Manual).then(|| Arc::new(ManualClock::new()));
        // First: a store in a file has a reserve for a full disk, which the state's file may lie on.
        let pools = Pools::open(urls, &library, clock.as_ref())
            .await
            .map_err(|error| StartError::new(error.to_string(), error))?;
        let started = Self::start_on(settings, places, &state_url, pools.clone(), clock).await;
        if started.is_err() {
            pools.close(Duration::ZERO).await;
        }
        started
    }

    /// Starts both listeners on a bus that runs, so that its handlers and clients over HTTP share a
    /// process, and a file if that is its store. `settings` name the shared state, and no store; the
    /// bus has [`dynamic_queues`](duly::BusBuilder::dynamic_queues). [`stop`](Self::stop) shuts it
    /// down, too.
    ///
    /// ```no_run
    /// # async fn run(bus: duly::Bus) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut settings = duly_server::Settings::default();
    /// settings.admin.state = Some("sqlite:tokens.db".to_owned());
    /// let server = duly_server::Server::start_with(settings, bus).await?;
    /// println!("http://{}/v1", server.api_address());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// An address that is taken, a shared state that cannot be opened. The bus goes on then.
    pub async fn start_with(settings: Settings, bus: duly::Bus) -> Result<Self, StartError> {
        let places = Places::of(&settings.limits, &settings.webhooks);
        metrics::install();
        let state_url = settings.state_url(&BTreeMap::new());
        let pools = Pools::of(bus).map_err(|error| StartError::new(error.to_string(), error))?;
        Self::start_on(settings, places, &state_url, pools, None).await
    }

    async fn start_on(
        mut settings: Settings,
        places: Places,
        state_url: &str,
        pools: Pools,
        clock: Option<Arc<ManualClock>>,
    ) -> Result<Self, StartError> {
        settings.limits.connections = places.api; // as many as there are
        let opened = SharedState::open(state_url).await;
        let shared =
            opened.map_err(|error| StartError::new("the shared state cannot be opened", error))?;
        let sockets = Sockets::bind(&settings)?; // both, before one of them serves
        let job_ids = JobIds::take(&shared).await;
        let relay = outbox::relay(&settings.outbox, &pools).await;
        let relay =
            relay.map_err(|error| StartError::new("the outbox cannot be relayed", error))?;
        let clock = clock.map(TestClock::new).map(Arc::new);
        let app = Arc::new(App::new(settings, pools, shared, job_ids));
        let certificates = sockets.certificates.clone();
        if let Some(certificates) = &certificates {
            let follow = Arc::clone(certificates).follow();
            tokio::spawn(app.closing.clone().run_until_cancelled_owned(follow));
        }
        let (api, admin) = Self::listen(&app, sockets, places, clock);
        Ok(Self {
            app,
            api,
            admin,
            certificates,
            relay,
        })
    }

    fn listen(
        app: &Arc<App>,
        sockets: Sockets,
        places: Places,
        clock: Option<Arc<TestClock>>,
    ) -> (Listener, Listener) {
        let settings = &app.settings;
        let limits_of = |connections| LimitSettings {
            connections,
            ..settings.limits
        };
        let api = api(app);
        let api = sockets.api.serve(api, sockets.tls, limits_of(places.api));
        let admin = lmstfy::admin::router(Arc::clone(app));
        let admin = if settings.admin.dashboard {
            admin.merge(dashboard::router(app))
        } else {
            admin
        };
        let admin = match clock {
            Some(clock) => admin.merge(test_clock::router(app, &clock)),
            None => admin,
        };
        // Probes name this host in ways of their own, and learn nothing of value.
        let known_host = middleware::from_fn_with_state(Arc::clone(app), origin::known_host);
        let proxies: Arc<[_]> = Arc::from(settings.admin.trusted_proxies.as_slice());
        let forwarded = middleware::from_fn_with_state(proxies, peer::forwarded);
        let metrics = get(lmstfy::admin::metrics).with_state((Arc::clone(app), Arc::default()));
        let admin = admin
            .route("/metrics", metrics)
            .layer(middleware::from_fn(whole::run))
            .layer(known_host)
            .layer(forwarded)
            .route("/healthz", get(health::live))
            .route("/readyz", get(health::ready).with_state(Arc::clone(app)));
        let admin = layered("admin", app, admin);
        let admin = sockets.admin.serve(admin, None, limits_of(places.admin));
        (api, admin)
    }

    /// The address of the API.
    #[must_use]
    pub fn api_address(&self) -> SocketAddr {
        self.api.address()
    }

    /// The address of the admin interface.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Makes a token of a namespace in the default pool, with every right.
    ///
    /// # Errors
    ///
    /// The shared state's.
    pub async fn create_token(
        &self,
        namespace: &str,
        description: &str,
    ) -> Result<String, StartError> {
        let failed = |error| StartError::new("no token was made", error);
        let tokens = &self.app.tokens;
        let now = tokens.now().await.map_err(failed)?;
        let new = NewToken::new(None, description.to_owned(), now);
        let new = new.map_err(|error| StartError::new("no token was made", error))?;
        let made = tokens.create(DEFAULT_POOL, namespace, new).await;
        made.map_err(failed)?.ok_or_else(|| StartError {
            what: "a token of chance was there already".to_owned(),
            source: None,
        })
    }

    /// Reads again what may have changed: the certificate of the API.
    pub async fn reload(&self) {
        match &self.certificates {
            Some(certificates) => certificates.reload().await,
            None => tracing::info!("there is no certificate to read again"),
        }
    }

    /// Stops: accepts no more connections, ends parked polls, waits for requests that run within
    /// the grace period, and closes the stores.
    pub async fn stop(self) {
        tracing::info!("stopping");
        self.app.closing.cancel();
        let grace = self.app.settings.limits.grace();
        tokio::join!(
            self.api.stop(),
            self.admin.stop(),
            self.app.webhooks.stop(grace),
            OptionFuture::from(self.relay.map(Relay::stop))
        );
        self.app.pools.close(grace).await;
        tracing::info!("stopped");
    }
}

fn api(app: &Arc<App>) -> Router {
    let router = Router::new()
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/v1/", any(v1::unknown)) // what is nested does not have it
        .fallback(lmstfy::handle)
        .method_not_allowed_fallback(lmstfy::handle)
        .layer(middleware::from_fn(whole::run))
        .with_state(Arc::clone(app))
        .nest("/v1", v1::router(Arc::clone(app)));
    layered("api", app, router)
}

fn layered(listener: &'static str, app: &App, router: Router) -> Router {
    let log = AccessLog::new(listener, Arc::clone(&app.access_log));
    router
        .layer(middleware::from_fn(origin::refuse_foreign))
        .layer(CatchPanicLayer::custom(lmstfy::panicked))
        .layer(middleware::from_fn(defaults::add))
        .layer(middleware::from_fn(unread::discard))
        .layer(middleware::from_fn_with_state(log, access_log::log))
}
