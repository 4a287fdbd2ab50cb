//! A tenant that uses every endpoint, as it is used, while another one does its worst.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::webhooks::receiver::Receiver;
use crate::world::{Reply, World, reply};

/// How long a response may take on a busy machine; what is refused or hangs takes for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// The endpoints of the contract of lmstfy.
const CONTRACT: [(&str, &str); 13] = [
    ("PUT", "/api/{namespace}/{queue}"),
    ("PUT", "/api/{namespace}/{queue}/bulk"),
    ("PUT", "/api/{namespace}/{queue}/job/{id}"),
    ("GET", "/api/{namespace}/{queue}"),
    ("GET", "/api/{namespace}/{queue}/peek"),
    ("GET", "/api/{namespace}/{queue}/size"),
    ("GET", "/api/{namespace}/{queue}/job/{id}"),
    ("DELETE", "/api/{namespace}/{queue}/job/{id}"),
    ("DELETE", "/api/{namespace}/{queue}"),
    ("GET", "/api/{namespace}/{queue}/deadletter"),
    ("GET", "/api/{namespace}/{queue}/deadletter/size"),
    ("PUT", "/api/{namespace}/{queue}/deadletter"),
    ("DELETE", "/api/{namespace}/{queue}/deadletter"),
];

/// The second tenant.
pub(super) struct Measuring<'a> {
    world: &'a World,
    token: &'a str,
    receiver: Receiver,
    /// The methods and the paths that it has asked for.
    used: Mutex<BTreeSet<(Method, String)>>,
}

impl<'a> Measuring<'a> {
    pub(super) async fn new(world: &'a World, token: &'a str) -> Self {
        Self {
            world,
            token,
            receiver: Receiver::start().await,
            used: Mutex::default(),
        }
    }

    /// Asserts that each endpoint of the description, and each of the contract of lmstfy, was used.
    pub(super) async fn has_used_everything(&self) {
        let description = self.world.get("/v1/openapi.json").await.is(200);
        let paths = description["paths"].as_object().unwrap().iter();
        let of_v1 = paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| (method.to_uppercase(), path.clone()))
        });
        let of_contract = CONTRACT.map(|(method, path)| (method.to_owned(), path.to_owned()));
        let used = self.used.lock().unwrap();
        for (method, template) in of_v1.chain(of_contract) {
            let is_it = |path: &str| {
                let (path, template) = (path.split('/'), template.split('/'));
                let is_alike = |(one, of): (&str, &str)| one == of || of.starts_with('{');
                path.clone().count() == template.clone().count() && path.zip(template).all(is_alike)
            };
            let is_used = used.iter().any(|(of, path)| *of == *method && is_it(path));
            assert!(is_used, "{method} {template} is new: use it here as well");
        }
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: String) -> Reply {
        let place = path.split('?').next().unwrap().to_owned();
        self.used.lock().unwrap().insert((method.clone(), place));
        let request = self.world.client.request(method, self.world.api_url(path));
        let request = request.header("X-Token", self.token);
        let request = request.header("Content-Type", kind).body(body);
        let sent = tokio::time::timeout(PATIENCE, reply(request)).await;
        sent.unwrap_or_else(|_| panic!("{path} does not respond"))
    }

    async fn json(&self, method: Method, path: &str, body: Value, status: u16) -> Value {
        let path = format!("/v1/measured{path}");
        let sent = self.send(method, &path, "application/json", body.to_string());
        sent.await.is(status)
    }

    async fn api(&self, method: Method, path: &str, body: &str, status: u16) -> Value {
        let path = format!("/api/measured{path}");
        self.send(method, &path, "text/plain", body.to_owned())
            .await
            .is(status)
    }

    /// Uses every endpoint once, as it is used.
    pub(super) async fn uses_everything(&self, queue: &str) {
        let (get, put, post, delete) = (Method::GET, Method::PUT, Method::POST, Method::DELETE);
        let large = "y".repeat(900_000);
        // The contract of lmstfy.
        let of = |end: &str| format!("/{queue}{end}");
        self.api(put.clone(), &of("?tries=2"), "x", 201).await;
        self.api(get.clone(), &of("/size"), "", 200).await;
        self.api(get.clone(), &of("/peek"), "", 200).await;
        let job = self
            .api(get.clone(), &of("?timeout=20&ttr=60"), "", 200)
            .await;
        let id = job["job_id"].as_str().unwrap();
        self.api(get.clone(), &of(&format!("/job/{id}")), "", 200)
            .await;
        let put_again = of(&format!("/job/{id}?tries=1"));
        self.api(put.clone(), &put_again, "x", 201).await;
        self.api(put.clone(), &of("/bulk?tries=1"), "[1,2,3]", 201)
            .await;
        self.api(put.clone(), &of(""), &large, 201).await;
        let many = self
            .api(get.clone(), &of("?count=10&ttr=60"), "", 200)
            .await;
        assert_eq!(many.as_array().unwrap().len(), 5);
        for job in many.as_array().unwrap() {
            let id = job["job_id"].as_str().unwrap();
            self.api(delete.clone(), &of(&format!("/job/{id}")), "", 204)
                .await;
        }
        self.api(get.clone(), &of("/deadletter/size"), "", 200)
            .await;
        self.api(get.clone(), &of("/deadletter"), "", 200).await;
        self.api(put.clone(), &of("/deadletter"), "", 200).await;
        self.api(delete.clone(), &of("/deadletter"), "", 204).await;
        self.api(get.clone(), &of("?timeout=1"), "", 404).await;
        self.api(delete.clone(), &of("-gone"), "", 204).await;
        // `/v1`.
        let queue = format!("/queues/{queue}");
        let of = |end: &str| format!("{queue}{end}");
        let events = json!({"events": [{"payload": large}, {"payload": 1, "delay_ms": 3_600_000}]});
        let pushed = self.json(post.clone(), &of("/events"), events, 201).await;
        let waiting = pushed[1]["id"].as_str().unwrap();
        let event = of(&format!("/events/{waiting}"));
        self.json(get.clone(), &event, Value::Null, 200).await;
        self.json(Method::PATCH, &event, json!({"delay_ms": 7_200_000}), 200)
            .await;
        let explained = of(&format!("/explanations/{waiting}"));
        self.json(get.clone(), &explained, Value::Null, 200).await;
        let path = format!("/v1/measured{queue}/events/lines");
        let lines = "{\"payload\":1}\n".repeat(20);
        let lines = self
            .send(post.clone(), &path, "application/x-ndjson", lines)
            .await;
        assert_eq!(
            lines.text.matches("\"duplicate\":false").count(),
            20,
            "{lines:?}"
        );
        let leases = json!({"ttr_ms": 60_000, "max": 100, "wait_ms": 8_000});
        // What comes while a request waits ends it, and the rest comes with the next one.
        let mut leased = Vec::new();
        while leased.len() < 21 {
            let more = self
                .json(post.clone(), &of("/leases"), leases.clone(), 200)
                .await;
            let more = more.as_array().unwrap();
            assert!(!more.is_empty(), "{} of 21", leased.len());
            leased.extend_from_slice(more);
        }
        assert_eq!(leased.len(), 21);
        for lease in &leased {
            let lease = format!("/leases/{}", lease["token"].as_str().unwrap());
            let more = json!({"ttr_ms": 60_000});
            self.json(post.clone(), &format!("{lease}/extend"), more, 204)
                .await;
            let ack = json!({"outcome": "ack"});
            self.json(post.clone(), &format!("{lease}/settle"), ack, 204)
                .await;
        }
        let none = json!({"ttr_ms": 1_000, "wait_ms": 10});
        assert_eq!(
            self.json(post.clone(), &of("/leases"), none, 200).await,
            json!([])
        );
        let call = json!({"event": {"payload": 1, "delay_ms": 3_600_000}, "wait_ms": 10});
        let call = self.json(post.clone(), &of("/calls"), call, 202).await;
        let called = of(&format!(
            "/events/{}/reply?wait_ms=10",
            call["id"].as_str().unwrap()
        ));
        self.json(get.clone(), &called, Value::Null, 202).await;
        for path in [
            "/queues",
            "/overview",
            "/webhooks",
            "/audit",
            "/events",
            "/nodes",
            "/schedules",
            &*queue,
        ] {
            self.json(get.clone(), path, Value::Null, 200).await;
        }
        for end in [
            "/records",
            "/dead-letters",
            "/forecast?horizon_ms=9000&step_ms=1000",
        ] {
            self.json(get.clone(), &of(end), Value::Null, 200).await;
        }
        self.json(Method::PATCH, &queue, json!({"rate": null}), 204)
            .await;
        let ids = json!({"ids": [waiting]});
        self.json(post.clone(), &of("/dead-letters/revive"), ids.clone(), 200)
            .await;
        self.json(post.clone(), &of("/dead-letters/drop"), ids, 200)
            .await;
        let replay = json!({"name": "once", "dry_run": true});
        self.json(post.clone(), &of("/records/replay"), replay, 200)
            .await;
        let change = json!({"action": "count", "queue": queue.trim_start_matches("/queues/")});
        self.json(post.clone(), "/events/change", change, 200).await;
        self.json(post.clone(), "/events/erase", json!({"key": "nobody"}), 200)
            .await;
        self.sets_a_schedule().await;
        let webhook = json!({"url": self.receiver.url()});
        let hooked = "/queues/hooked/webhook";
        let delivered = self.receiver.received().len();
        let set = self.json(put, hooked, webhook, 201).await;
        assert!(set["created_secret"].is_string(), "{set}");
        self.json(get.clone(), hooked, Value::Null, 200).await;
        let events = json!({"events": [{"payload": 1}]});
        self.json(post.clone(), "/queues/hooked/events", events, 201)
            .await;
        self.receiver.wait_for(delivered + 1).await;
        self.json(delete.clone(), hooked, Value::Null, 204).await;
        self.json(delete, &event, Value::Null, 204).await;
        self.json(post, &of("/purge"), json!({}), 200).await;
        // A stream has its first event.
        self.streams(&queue).await;
    }

    async fn sets_a_schedule(&self) {
        let schedule = json!({"queue": "recurs", "when": "0 2 1 1 *", "payload": 1});
        let name = "/schedules/yearly";
        self.json(Method::PUT, name, schedule, 201).await;
        self.json(Method::GET, name, Value::Null, 200).await;
        for (action, status) in [("pause", 204), ("resume", 204), ("run", 201)] {
            let path = format!("{name}/{action}");
            self.json(Method::POST, &path, Value::Null, status).await;
        }
        self.json(Method::DELETE, name, Value::Null, 204).await;
    }

    async fn streams(&self, queue: &str) {
        let place = format!("/v1/measured{queue}/leases/stream");
        let path = format!("{place}?ttr_ms=60000&name=w");
        self.used.lock().unwrap().insert((Method::GET, place));
        let stream = self.world.client.get(self.world.api_url(&path));
        let first = async {
            let mut stream = stream.header("X-Token", self.token).send().await.unwrap();
            let events = json!({"events": [{"payload": 1, "attempts": 1}]});
            self.json(Method::POST, &format!("{queue}/events"), events, 201)
                .await;
            let first = stream.chunk().await.unwrap().unwrap();
            (first, stream)
        };
        let (first, _stream) = tokio::time::timeout(PATIENCE, first)
            .await
            .expect("an event");
        assert!(first.starts_with(b"id: "), "{first:?}");
        let drain = format!("{queue}/leases/stream/drain?name=w");
        self.json(Method::POST, &drain, Value::Null, 204).await;
    }
}
