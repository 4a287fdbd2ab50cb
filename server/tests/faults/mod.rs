//! Faults of the store under the server, of the jobs and of the shared state: while one lasts, every
//! request has a response with words, and none waits for ever; when it is over, everything works
//! again by itself, and no confirmed job is lost.

mod cuts;
mod files;
mod redis;
mod topology;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::kills::Program;
use crate::world::{Reply, client, reply};

/// How long a response may take on a busy machine while a store does not respond.
const PATIENCE: Duration = Duration::from_secs(90);
const TOKEN: &str = "a-token-beside-all-faults";

/// A server in a process of its own.
struct Target {
    program: Program,
    client: Client,
}

impl Target {
    async fn start(folder: &Path, store: &str, variables: &[(&str, &str)]) -> Self {
        let program = Program::start_with(folder, store, variables);
        let client = client();
        let path = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
        reply(client.post(path)).await.is(201);
        Self { program, client }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.program.api);
        self.client.request(method, url).header("X-Token", TOKEN)
    }

    async fn admin(&self, method: Method, path: &str, body: &str) -> Reply {
        let url = format!("{}{path}", self.program.admin);
        reply(self.client.request(method, url).body(body.to_owned())).await
    }

    /// Waits until everything works.
    async fn recovers(&self, why: &str) {
        let (number, words) = (Cell::new(1), RefCell::new(Vec::new()));
        let recovers = async {
            loop {
                number.set(number.get() + 1);
                words.replace(failed(self, number.get()).await);
                if words.borrow().is_empty() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let recovered = tokio::time::timeout(PATIENCE, recovers).await;
        assert!(recovered.is_ok(), "{why}: {:?}", words.borrow());
    }

    /// Asserts that each confirmed job is there, and stops.
    async fn keeps(mut self, confirmed: &BTreeSet<String>, why: &str) {
        let mut seen = BTreeSet::new();
        let path = "/api/ns/kept?count=100&ttr=600&timeout=1";
        while let Value::Array(jobs) = reply(self.request(Method::GET, path)).await.json() {
            let ids = jobs.iter().map(|job| job["job_id"].as_str().unwrap());
            seen.extend(ids.map(str::to_owned));
        }
        let lost: Vec<_> = confirmed.difference(&seen).collect();
        assert!(lost.is_empty(), "{why}: {lost:?}");
        self.program.signal("TERM");
        assert!(self.program.ended().await, "{why}");
    }
}

/// Requests of every kind, with their names: pushes, leases, looks, and writes of the state.
fn requests(server: &Target, number: usize) -> Vec<(String, RequestBuilder)> {
    let api = |method: Method, path: &str, body: Value| {
        let request = server.request(method.clone(), path);
        let request = request.header("Content-Type", "application/json");
        (format!("{method} {path}"), request.body(body.to_string()))
    };
    let admin = |method: Method, path: &str, body: Value| {
        let url = format!("{}{path}", server.program.admin);
        let request = server.client.request(method.clone(), url);
        (format!("{method} {path}"), request.body(body.to_string()))
    };
    let limit = json!({"read": 1_000_000, "write": 1_000_000, "interval": 1});
    let new = format!("/api/ns/new-{number}?ttl=0");
    let made = format!("/token/other?description=d&token=a-token-of-round-{number}");
    let before = number.saturating_sub(1);
    let ended = format!("/token/other/a-token-of-round-{before}");
    let id = "01KBKSY8Q3X4H1W9V0T5RZ7M2C";
    let events = json!({"events": [{"payload": 1, "attempts": 99}]});
    vec![
        api(Method::PUT, "/api/ns/other?ttl=0", json!("x")),
        api(Method::PUT, &new, json!("x")),
        api(Method::PUT, "/api/ns/other/bulk", json!([1, 2])),
        api(Method::GET, "/api/ns/other?ttr=1", json!(null)),
        api(Method::GET, "/api/ns/nothing?timeout=2", json!(null)),
        api(Method::GET, "/api/ns/other/peek", json!(null)),
        api(Method::GET, "/api/ns/other/size", json!(null)),
        api(Method::GET, &format!("/api/ns/other/job/{id}"), json!(null)),
        api(
            Method::DELETE,
            &format!("/api/ns/other/job/{id}"),
            json!(null),
        ),
        api(Method::PUT, "/api/ns/other/deadletter", json!(null)),
        api(Method::POST, "/v1/ns/queues/other/events", events),
        api(
            Method::POST,
            "/v1/ns/queues/other/leases",
            json!({"ttr_ms": 100, "wait_ms": 1_000}),
        ),
        api(Method::GET, "/v1/ns/queues/other", json!(null)),
        api(Method::GET, "/v1/ns/queues", json!(null)),
        api(Method::GET, "/v1/ns/overview", json!(null)),
        api(
            Method::PATCH,
            "/v1/ns/queues/other",
            json!({"rate": 1_000.0}),
        ),
        api(
            Method::GET,
            &format!("/v1/ns/queues/other/explanations/{id}"),
            json!(null),
        ),
        api(Method::GET, "/v1/ns/queues/other/records", json!(null)),
        api(
            Method::PUT,
            &format!("/v1/ns/queues/hooked-{number}/webhook"),
            json!({"url": "https://example.com/"}),
        ),
        api(Method::GET, "/v1/ns/webhooks", json!(null)),
        admin(Method::POST, "/token/other?description=d", json!(null)),
        admin(Method::GET, "/token/other", json!(null)),
        admin(Method::POST, &made, json!(null)),
        admin(Method::DELETE, &ended, json!(null)),
        admin(Method::PUT, &format!("/token/ns/{TOKEN}/limit"), limit),
        admin(Method::GET, "/limits", json!(null)),
        admin(Method::GET, "/audit", json!(null)),
        admin(Method::GET, "/info", json!(null)),
        admin(Method::GET, "/metrics", json!(null)),
        api(Method::GET, "/readyz", json!(null)),
        api(Method::GET, "/healthz", json!(null)),
    ]
}

/// Sends all of them at the same time; returns those that failed.
async fn failed(server: &Target, number: usize) -> Vec<(String, Reply)> {
    let mut sent = JoinSet::new();
    for (name, request) in requests(server, number) {
        sent.spawn(async move {
            let response = tokio::time::timeout(PATIENCE, reply(request)).await;
            let response = response.unwrap_or_else(|_| panic!("{name} has no response"));
            (name, response)
        });
    }
    let responses = sent.join_all().await;
    for (name, response) in &responses {
        let is_alive = name.contains("/healthz") || name.contains("/metrics");
        assert!(!is_alive || response.status == 200, "{name}: {response:?}");
        if response.status.is_server_error() {
            assert!(
                response.text.contains(' '),
                "{name} has no words: {response:?}"
            );
            let says_when = response.headers.contains_key("retry-after");
            let passes = matches!(response.status.as_u16(), 503 | 507);
            assert!(says_when || !passes, "{name}: {response:?}");
        }
        assert_ne!(response.status, 401, "{name}: {response:?}");
    }
    let failed = responses.into_iter();
    failed
        .filter(|(_, it)| it.status.is_server_error())
        .collect()
}

/// Publishes so many jobs, and adds the ids of those that are confirmed.
async fn publish(server: &Target, many: usize, confirmed: &mut BTreeSet<String>) {
    for _ in 0..many {
        let put = server.request(Method::PUT, "/api/ns/kept?ttl=0&tries=99");
        let published = tokio::time::timeout(PATIENCE, reply(put.body("x")));
        let published = published.await.expect("a response");
        if published.status == 201 {
            let id = published.json()["job_id"].as_str().unwrap().to_owned();
            confirmed.insert(id);
        }
    }
}
