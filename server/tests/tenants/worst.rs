//! One tenant does its worst, in one way after the other; another one uses every endpoint meanwhile,
//! and is served as if it were alone.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::lasting::turns::{LONG, fill_buckets};
use crate::rights::Tenant;
use crate::webhooks::LOCAL;
use crate::webhooks::receiver::{Answer, Receiver};
use crate::world::{Place, Reply, World, reply, until};

/// What the first tenant does.
#[derive(Clone, Copy, Debug)]
enum Worst {
    PollsManyNames,
    ParksPolls,
    BeginsBodies,
    StopsInLargeBodies,
    DripsLargeBodiesOfManyTokens,
    PushesIdleLines,
    LeavesLargeResponsesUnread,
    AsksWithoutToken,
    StreamsAndNeverReads,
    NamesQueues,
    FillsItsDeadLetters,
    LeavesWebhooksUnanswered,
    ChangesSettings,
    CountsAndScans,
}

const ALL: [Worst; 14] = [
    Worst::PollsManyNames,
    Worst::ParksPolls,
    Worst::BeginsBodies,
    Worst::StopsInLargeBodies,
    Worst::DripsLargeBodiesOfManyTokens,
    Worst::PushesIdleLines,
    Worst::LeavesLargeResponsesUnread,
    Worst::AsksWithoutToken,
    Worst::StreamsAndNeverReads,
    Worst::NamesQueues,
    Worst::FillsItsDeadLetters,
    Worst::LeavesWebhooksUnanswered,
    Worst::ChangesSettings,
    Worst::CountsAndScans,
];

/// How long a response may take on a busy machine; what is refused or hangs takes for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// What goes on until it is dropped.
#[derive(Default)]
struct GoingOn {
    streams: Vec<TcpStream>,
    tasks: JoinSet<()>,
}

impl GoingOn {
    /// Opens connections, and sends the same on each.
    async fn send(&mut self, world: &World, token: &str, many: usize, head: &str, body: &[u8]) {
        for _ in 0..many {
            let mut stream = TcpStream::connect(world.server.api_address())
                .await
                .unwrap();
            let head = format!("{head}\r\nHost: x\r\nX-Token: {token}\r\n\r\n");
            // What is refused meanwhile is of no matter.
            stream.write_all(head.as_bytes()).await.ok();
            // Nor is what the server does not read.
            let (body, write) = (body.to_vec(), Duration::from_millis(20));
            tokio::time::timeout(write, stream.write_all(&body))
                .await
                .ok();
            self.streams.push(stream);
        }
    }
}

async fn begin(world: &World, token: &str, worst: Worst) -> GoingOn {
    let mut goes_on = GoingOn::default();
    // What it did before may count against it until the server has noticed that it is gone.
    let put = async |path: String, body: String| {
        until(&format!("{path} is taken"), async || {
            let put = world.client.put(world.api_url(&path)).body(body.clone());
            let put = reply(put.header("X-Token", token)).await;
            assert!([201, 429].contains(&put.status.as_u16()), "{path}: {put:?}");
            put.status == 201
        })
        .await;
    };
    match worst {
        Worst::PollsManyNames => {
            for poll in 0..60 {
                let names: Vec<String> = (0..1_000).map(|it| format!("q{poll}-{it}")).collect();
                let path = format!("/api/worst/{}?timeout=600", names.join(","));
                let get = world
                    .client
                    .get(world.api_url(&path))
                    .header("X-Token", token);
                goes_on.tasks.spawn(async move {
                    get.send().await.ok();
                });
            }
        }
        Worst::ParksPolls => {
            let head = "GET /api/worst/q?timeout=600 HTTP/1.1";
            goes_on.send(world, token, 2_000, head, b"").await;
        }
        Worst::BeginsBodies => {
            let head = "PUT /api/worst/q HTTP/1.1\r\nContent-Length: 1000";
            goes_on.send(world, token, 1_500, head, b"x").await;
        }
        Worst::StopsInLargeBodies => {
            for (path, size) in [("q", 1_000_000), ("q/bulk", 60_000_000)] {
                let head = format!("PUT /api/worst/{path} HTTP/1.1\r\nContent-Length: {size}");
                goes_on
                    .send(world, token, 100, &head, &[b'['; 200_000])
                    .await;
            }
        }
        Worst::DripsLargeBodiesOfManyTokens => {
            for _ in 0..5 {
                let token = world.new_token("worst", "").await;
                let head = "PUT /api/worst/q/bulk HTTP/1.1\r\nContent-Length: 67000000";
                goes_on.send(world, &token, 1, head, &[b'['; 100_000]).await;
            }
            for mut stream in goes_on.streams.split_off(0) {
                goes_on.tasks.spawn(async move {
                    let mut pace = tokio::time::interval(Duration::from_millis(200));
                    while stream.write_all(&[b'['; 8 << 10]).await.is_ok() {
                        pace.tick().await;
                    }
                });
            }
        }
        Worst::PushesIdleLines => {
            let head = "POST /v1/worst/queues/q/events HTTP/1.1\r\nContent-Type: \
                        application/x-ndjson\r\nTransfer-Encoding: chunked";
            goes_on.send(world, token, 1_200, head, b"").await;
        }
        Worst::LeavesLargeResponsesUnread => {
            let payload = "x".repeat(1_000_000);
            for _ in 0..40 {
                put("/api/worst/large?tries=99".to_owned(), payload.clone()).await;
            }
            let head = "GET /api/worst/large?count=100&ttr=0 HTTP/1.1";
            goes_on.send(world, token, 10, head, b"").await;
        }
        Worst::AsksWithoutToken => {
            for (head, body) in [
                (
                    "PUT /api/worst/q/bulk HTTP/1.1\r\nContent-Length: 60000000",
                    200_000,
                ),
                (
                    "GET /api/worst/large/size HTTP/1.1\r\nContent-Length: 1000",
                    1,
                ),
                ("GET /api/worst/large?timeout=600 HTTP/1.1", 0),
            ] {
                goes_on.send(world, "", 200, head, &vec![b'['; body]).await;
            }
            // Answers that nobody reads.
            let ask = "GET /api/worst/large/deadletter/size HTTP/1.1\r\nHost: x\r\n\r\n";
            let head = ask.repeat(100) + "GET /api/worst/large/size HTTP/1.1";
            goes_on.send(world, "", 100, &head, b"").await;
        }
        Worst::StreamsAndNeverReads => {
            let head = "GET /v1/worst/queues/large/leases/stream?max_in_flight=1000&ttr_ms=0 \
                        HTTP/1.1";
            goes_on.send(world, token, 20, head, b"").await;
        }
        Worst::NamesQueues => {
            for queue in 0..1_500 {
                put(format!("/api/worst/queue-{queue}"), "x".to_owned()).await;
            }
        }
        Worst::FillsItsDeadLetters => {
            let jobs = json!((0..64).collect::<Vec<u32>>()).to_string();
            for _ in 0..20 {
                put("/api/worst/dying/bulk?tries=1".to_owned(), jobs.clone()).await;
            }
            let get = world
                .client
                .get(world.api_url("/api/worst/dying?count=100&ttr=0"));
            let get = get.header("X-Token", token);
            for _ in 0..20 {
                reply(get.try_clone().unwrap()).await;
            }
        }
        Worst::LeavesWebhooksUnanswered => leave_webhooks_unanswered(world, token).await,
        Worst::ChangesSettings => {
            for (head, body) in [
                (
                    "PUT /v1/worst/queues/q/webhook",
                    r#"{"url":"https://example.com/"}"#,
                ),
                (
                    "PATCH /v1/worst/queues/q",
                    r#"{"rate":1,"workers":1,"paused":true}"#,
                ),
            ] {
                let (kind, len) = ("Content-Type: application/json", body.len());
                let head = format!("{head} HTTP/1.1\r\n{kind}\r\nContent-Length: {len}");
                goes_on
                    .send(world, token, 600, &head, body.as_bytes())
                    .await;
            }
        }
        Worst::CountsAndScans => {
            fill_buckets(&Tenant(world, token.to_owned()), "worst").await;
            for path in [LONG, "events?contains=nothing", "overview"] {
                let head = format!("GET /v1/worst/{path} HTTP/1.1");
                goes_on.send(world, token, 200, &head, b"").await;
            }
        }
    }
    goes_on
}

/// Has two webhooks call a receiver that never responds, each with as many requests as it may.
async fn leave_webhooks_unanswered(world: &World, token: &str) {
    let silent = Receiver::start().await;
    silent.always(Answer::Held(200));
    let tenant = Tenant(world, token.to_owned());
    let webhook = json!({"url": silent.url(), "concurrency": 256, "timeout_ms": 600_000});
    let events: Vec<Value> = (0..300).map(|it| json!({"payload": it})).collect();
    for queue in ["silent", "still"] {
        let path = |end: &str| format!("/v1/worst/queues/{queue}/{end}");
        let set = tenant.send(Method::PUT, &path("webhook"), &webhook).await;
        set.is(201);
        let events = json!({"events": events});
        let pushed = tenant.send(Method::POST, &path("events"), &events).await;
        pushed.is(201);
    }
    until("half of all requests hang", async || {
        silent.in_flight().0 >= 256
    })
    .await;
}

/// The second tenant.
struct Measuring<'a> {
    world: &'a World,
    token: &'a str,
    receiver: Receiver,
}

impl Measuring<'_> {
    async fn send(&self, method: Method, path: &str, kind: &str, body: String) -> Reply {
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
    async fn uses_everything(&self, queue: &str) {
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
        let path = format!("/v1/measured{queue}/events");
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
        for path in ["/queues", "/overview", "/webhooks", &*queue] {
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

    async fn streams(&self, queue: &str) {
        let path = format!("/v1/measured{queue}/leases/stream?ttr_ms=60000");
        let stream = self.world.client.get(self.world.api_url(&path));
        let first = async {
            let mut stream = stream.header("X-Token", self.token).send().await.unwrap();
            let events = json!({"events": [{"payload": 1, "attempts": 1}]});
            self.json(Method::POST, &format!("{queue}/events"), events, 201)
                .await;
            stream.chunk().await.unwrap().unwrap()
        };
        let first = tokio::time::timeout(PATIENCE, first)
            .await
            .expect("an event");
        assert!(first.starts_with(b"id: "), "{first:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worst_of_one_does_the_other_no_harm() {
    let settings = format!("{LOCAL}[limits]\nbody_timeout_s = 3600\nheader_timeout_s = 3600");
    let world = World::start_with(Place::Embedded, &settings).await;
    let token = world.new_token("worst", "").await;
    let measured = world.new_token("measured", "").await;
    let measuring = Measuring {
        world: &world,
        token: &measured,
        receiver: Receiver::start().await,
    };
    measuring.uses_everything("alone").await;
    let mut all = Vec::new();
    for (number, worst) in ALL.into_iter().enumerate() {
        let goes_on = begin(&world, &token, worst).await;
        let queue = format!("measured-{number}");
        measuring.uses_everything(&queue).await;
        let page = world.admin(Method::GET, "/metrics").await.text;
        let labels = format!("queue=\"{queue}\"");
        assert!(page.contains(&labels), "{worst:?}: it has its label");
        let labels = format!("queue=\"measured.{queue}\"");
        let is_own = page.contains(&labels);
        assert!(is_own, "{worst:?}: and among those of the library");
        all.push(goes_on);
    }
    // And all of it together.
    measuring.uses_everything("at-last").await;
    drop(all);
}
