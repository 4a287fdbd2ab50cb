//! A server of a test, its clients, and the stores that a case runs on.

use std::time::Duration;

use duly_server::{Server, Settings};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, ClientBuilder, Method, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

use crate::servers;

/// Where a server of a test keeps its jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Embedded,
    Redis,
    Cluster,
}

/// A server, with a token for the namespace `ns`.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) client: Client,
    /// The client of the admin listener.
    admin: Client,
    pub(crate) token: String,
    url: String,
    _folder: TempDir,
}

/// What a server has answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Asserts the status, and returns the body.
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        if self.text.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }

    /// Asserts that there is no such path.
    pub(crate) fn is_missing(&self) {
        assert_eq!(self.status, StatusCode::NOT_FOUND, "{self:?}");
    }

    /// Asserts an error of the contract.
    pub(crate) fn fails(&self, status: u16, text: &str) {
        let expected = serde_json::json!({ "error": text });
        assert_eq!(self.is(status), expected);
    }
}

pub(crate) fn client() -> Client {
    builder().build().expect("a client")
}

fn builder() -> ClientBuilder {
    // Another test of this process may have installed it.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    Client::builder().redirect(reqwest::redirect::Policy::none())
}

impl World {
    pub(crate) async fn start(place: Place) -> Self {
        Self::start_with(place, "").await
    }

    /// Starts a server with more settings.
    pub(crate) async fn start_with(place: Place, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = match place {
            Place::Embedded => format!("sqlite:{}", folder.path().join("jobs.db").display()),
            Place::Redis => with_prefix(&servers::shared().url()),
            Place::Cluster => with_prefix(&servers::shared_cluster()),
        };
        Self::start_at(folder, url, more).await
    }

    pub(crate) async fn start_at(folder: TempDir, url: String, more: &str) -> Self {
        let text = settings_text(&url, more);
        Self::of(&text, client(), (folder, url)).await
    }

    async fn of(settings: &str, admin: Client, (folder, url): (TempDir, String)) -> Self {
        let settings = Settings::from_toml(settings).expect("settings");
        let mut world = Self {
            server: Server::start(settings).await.expect("a server"),
            client: client(),
            admin,
            token: String::new(),
            url,
            _folder: folder,
        };
        world.token = world.new_token("ns", "").await;
        world
    }

    /// Starts a server in memory, on a clock that is moved by hand.
    pub(crate) async fn start_manual() -> Self {
        let text = manual_text();
        Self::of(&text, client(), in_memory()).await
    }

    /// The same with the account `ann`, whose password is `secret`: she is the
    /// client of the admin listener.
    pub(crate) async fn start_manual_with_account() -> Self {
        let text = manual_text().replace("[admin]", "[admin]\naccounts = { ann = 'secret' }");
        let mut headers = HeaderMap::new();
        let ann = HeaderValue::from_static("Basic YW5uOnNlY3JldA==");
        headers.insert("authorization", ann);
        let admin = builder().default_headers(headers).build();
        Self::of(&text, admin.expect("a client"), in_memory()).await
    }

    /// Starts a server on a file of its own, whose shared state is at another URL.
    pub(crate) async fn start_beside(state: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
        Self::start_at_beside(folder, url, state).await
    }

    /// Starts a server on a store, whose shared state is at another URL.
    pub(crate) async fn start_at_beside(folder: TempDir, url: String, state: &str) -> Self {
        let text = settings_text(&url, "").replace("[log]", &format!("state = '{state}'\n[log]"));
        Self::of(&text, client(), (folder, url)).await
    }

    /// Returns the URL of its store.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Starts another server on the same store.
    pub(crate) async fn another(&self) -> Self {
        self.another_with("").await
    }

    /// As [`another`](Self::another), with more settings.
    pub(crate) async fn another_with(&self, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings::from_toml(&settings_text(&self.url, more)).expect("settings");
        Self {
            server: Server::start(settings).await.expect("a server"),
            client: client(),
            admin: self.admin.clone(),
            token: self.token.clone(),
            url: self.url.clone(),
            _folder: folder,
        }
    }

    pub(crate) async fn new_token(&self, namespace: &str, more: &str) -> String {
        let path = format!("/token/{namespace}?description=test{more}");
        let created = self.admin(Method::POST, &path).await.is(201);
        created["token"].as_str().expect("a token").to_owned()
    }

    pub(crate) fn api_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.api_address())
    }

    pub(crate) async fn admin(&self, method: Method, path: &str) -> Reply {
        self.admin_with(method, path, "").await
    }

    pub(crate) async fn admin_with(&self, method: Method, path: &str, body: &str) -> Reply {
        let url = format!("http://{}{path}", self.server.admin_address());
        reply(self.admin.request(method, url).body(body.to_owned())).await
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, self.api_url(path));
        request.header("X-Token", &self.token)
    }

    pub(crate) async fn api(
        &self,
        method: Method,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> Reply {
        reply(self.request(method, path).body(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Reply {
        self.api(Method::PUT, path, body.to_owned()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.api(Method::GET, path, "").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.api(Method::DELETE, path, "").await
    }

    /// Publishes a job, and returns its id.
    pub(crate) async fn publish(&self, path: &str, body: &str) -> String {
        let reply = self.put(path, body).await.is(201);
        assert_eq!(reply["msg"], "published");
        reply["job_id"].as_str().expect("an id").to_owned()
    }

    /// Consumes one job.
    pub(crate) async fn consume(&self, path: &str) -> Value {
        self.get(path).await.is(200)
    }

    pub(crate) async fn size(&self, queue: &str) -> u64 {
        let size = self.get(&format!("/api/ns/{queue}/size")).await.is(200);
        size["size"].as_u64().expect("a size")
    }

    pub(crate) async fn dead_size(&self, queue: &str) -> u64 {
        let size = self.get(&format!("/api/ns/{queue}/deadletter/size")).await;
        size.is(200)["size"].as_u64().expect("a size")
    }

    /// Waits until a queue has this many dead letters.
    pub(crate) async fn wait_for_dead(&self, queue: &str, size: u64) {
        until("the jobs are dead", async || {
            self.dead_size(queue).await == size
        })
        .await;
    }

    /// Waits until a poll waits.
    pub(crate) async fn wait_for_poll(&self) {
        self.wait_for_polls(1).await;
    }

    /// Waits until so many polls wait.
    pub(crate) async fn wait_for_polls(&self, many: usize) {
        until("polls wait", async || {
            let page = self.admin(Method::GET, "/metrics").await.text;
            let mut counts = page
                .lines()
                .filter_map(|line| line.strip_prefix("duly_polls_waiting "));
            counts.any(|count| count.parse::<f64>().is_ok_and(|count| count >= many as f64))
        })
        .await;
    }

    /// Waits until a queue has this many ready jobs.
    pub(crate) async fn wait_for_size(&self, queue: &str, size: u64) {
        until("the queue has its size", async || {
            self.size(queue).await == size
        })
        .await;
    }
}

/// Waits until a condition holds; fails when it does not within half a minute.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    assert!(waited.is_ok(), "not within half a minute: {what}");
}

/// Sends a request.
pub(crate) async fn reply(request: reqwest::RequestBuilder) -> Reply {
    let response = request.send().await.expect("a response");
    Reply {
        status: response.status(),
        headers: response.headers().clone(),
        text: response.text().await.expect("a body"),
    }
}

/// A stream of leases, as server-sent events.
pub(crate) struct LeaseStream {
    response: reqwest::Response,
    unread: String,
}

impl LeaseStream {
    pub(crate) async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("a response");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        // A proxy that keeps parts of it until a buffer is full keeps leases until they are over.
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self {
            response,
            unread: String::new(),
        }
    }

    /// Returns the next lease; `None` if there is none within a time.
    ///
    /// # Panics
    ///
    /// When the stream ends.
    pub(crate) async fn next(&mut self, within: Duration) -> Option<Value> {
        let read = async {
            loop {
                if let Some((message, rest)) = self.unread.split_once("\n\n") {
                    let (message, rest) = (message.to_owned(), rest.to_owned());
                    self.unread = rest;
                    if let Some((_, data)) = message.split_once("data: ") {
                        return serde_json::from_str(data).expect("JSON");
                    }
                    continue;
                }
                let chunk = self.response.chunk().await.expect("no error");
                let chunk = chunk.expect("the stream goes on");
                self.unread += std::str::from_utf8(&chunk).expect("text");
            }
        };
        tokio::time::timeout(within, read).await.ok()
    }

    /// What is left of the stream once it has ended.
    pub(crate) async fn rest(mut self) -> String {
        while let Some(part) = self.response.chunk().await.expect("no error") {
            self.unread += std::str::from_utf8(&part).expect("text");
        }
        self.unread
    }
}

/// Adds a prefix of its own to the URL of a Redis.
pub(crate) fn with_prefix(url: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}prefix={}", servers::prefix())
}

fn manual_text() -> String {
    format!("clock = 'manual'\n{}", settings_text("memory:", ""))
}

fn in_memory() -> (TempDir, String) {
    (tempfile::tempdir().expect("a folder"), "memory:".to_owned())
}

fn settings_text(url: &str, more: &str) -> String {
    format!(
        "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n\
         [log]\naccess = false\n[pools.default]\nurl = '{url}'\n{more}"
    )
}

/// Makes a test of each case, on each store.
macro_rules! on_every_store {
    ($($case:ident)*) => {
        mod embedded { $crate::world::on_a_store!(Embedded: $($case)*); }
        mod redis { $crate::world::on_a_store!(Redis: $($case)*); }
        mod cluster { $crate::world::on_a_store!(Cluster: $($case)*); }
    };
}

macro_rules! on_a_store {
    ($place:ident: $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            use $crate::world::{Place, World};
            super::$case(World::start(Place::$place).await).await;
        }
    )*};
}

pub(crate) use {on_a_store, on_every_store};
