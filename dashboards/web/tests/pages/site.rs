//! A dashboard on a port of its own, and its visitor.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use duly::Bus;
use duly::time::{Clock, Mono, SystemClock};
use duly_dashboard::{Access, AccessError, Credentials, Dashboard, Role, User};
use futures_util::future::BoxFuture;
use reqwest::{Client, Method, StatusCode};

/// A dashboard that is served.
pub(crate) struct Site {
    pub(crate) bus: Bus,
    address: SocketAddr,
    client: Client,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Page {
    /// Returns the token of its form.
    pub(crate) fn csrf(&self) -> &str {
        let (_, rest) = self.text.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split('"').next().unwrap()
    }
}

impl Site {
    pub(crate) async fn memory(role: Role) -> Self {
        let bus = Bus::builder()
            .settings(Default::default())
            .store_url("memory:");
        let bus = bus.only_registered().publish_only().start().await.unwrap();
        Self::of(bus, role).await
    }

    /// Of a store whose clock is so many hours ahead of the machine of its dashboard.
    pub(crate) async fn ahead(hours: i64, role: Role) -> Self {
        let clock = Ahead::by_ms(hours * 3_600_000);
        let bus = Bus::builder().settings(Default::default());
        let bus = bus.store_url("memory:").clock(clock);
        let bus = bus.only_registered().publish_only().start().await.unwrap();
        Self::of(bus, role).await
    }

    /// Where everybody is this user.
    pub(crate) async fn of_user(bus: Bus, user: User) -> Self {
        Self::with(bus, |dashboard| dashboard.authorize(One(user))).await
    }

    pub(crate) async fn of(bus: Bus, role: Role) -> Self {
        Self::with(bus, |dashboard| dashboard.open(role)).await
    }

    /// With more choices.
    pub(crate) async fn with(bus: Bus, choose: impl FnOnce(Dashboard) -> Dashboard) -> Self {
        Self::mounted(bus, |dashboard| choose(dashboard).router()).await
    }

    /// As a program mounts it.
    pub(crate) async fn mounted(bus: Bus, mount: impl FnOnce(Dashboard) -> Router) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = mount(Dashboard::new(bus.clone()).at("/jobs"));
        tokio::spawn(axum::serve(listener, router).into_future());
        // Where the whole workspace is built, the client is told to bring none.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().redirect(reqwest::redirect::Policy::none());
        let client = client.build().unwrap();
        Self {
            bus,
            address,
            client,
        }
    }

    /// Returns how many events are due within half an hour.
    pub(crate) async fn due_soon(&self) -> usize {
        let soon = self.bus.store_time() + Duration::from_secs(1_800);
        let page = self.bus.events().until(soon).page().await.unwrap();
        page.items.len()
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/jobs{path}", self.address)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = self.url(path);
        let visit = format!("duly_visit={}", "v".repeat(24));
        self.client.request(method, url).header("cookie", visit)
    }

    pub(crate) async fn send(request: reqwest::RequestBuilder) -> Page {
        let response = request.send().await.unwrap();
        Page {
            status: response.status(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Page {
        Self::send(self.request(Method::GET, path)).await
    }

    pub(crate) fn form(&self, path: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let request = self.request(Method::POST, path);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        request.body(form.finish())
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        Self::send(self.form(path, fields)).await
    }
}

/// Everybody is this user.
#[derive(Debug)]
struct One(User);

impl Access for One {
    fn user<'a>(
        &'a self,
        _: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        Box::pin(std::future::ready(Ok(Some(self.0.clone()))))
    }
}

/// A clock that is so many microseconds ahead.
#[derive(Debug)]
pub(crate) struct Ahead(SystemClock, i64);

impl Ahead {
    pub(crate) fn by_ms(ms: i64) -> Arc<Self> {
        Arc::new(Self(SystemClock::new(), ms * 1_000))
    }
}

impl Clock for Ahead {
    fn wall_us(&self) -> u64 {
        self.0.wall_us().saturating_add_signed(self.1)
    }

    fn mono(&self) -> Mono {
        self.0.mono()
    }
}

/// Waits for a condition of the store.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waited).await;
    waited.unwrap_or_else(|_| panic!("{what} is not so within a minute"));
}
