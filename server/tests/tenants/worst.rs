//! One tenant does its worst, in one way after the other; another one uses every endpoint meanwhile,
//! and is served as if it were alone.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::measured::Measuring;
use crate::lasting::turns::{LONG, fill_buckets};
use crate::rights::Tenant;
use crate::webhooks::LOCAL;
use crate::webhooks::receiver::{Answer, Receiver};
use crate::world::{Place, World, reply, until};

/// What the first tenant does.
#[derive(Clone, Copy, Debug)]
enum Worst {
    PollsManyNames,
    ParksPolls,
    BeginsBodies,
    StopsInLargeBodies,
    DripsLargeBodiesOfManyTokens,
    WaitsWithManyTokens,
    PushesIdleLines,
    LeavesLargeResponsesUnread,
    AsksWithoutToken,
    BeginsHeadsWithoutToken,
    StreamsAndNeverReads,
    NamesQueues,
    FillsItsDeadLetters,
    LeavesWebhooksUnanswered,
    ChangesSettings,
    CountsAndScans,
}

const ALL: [Worst; 16] = [
    Worst::PollsManyNames,
    Worst::ParksPolls,
    Worst::BeginsBodies,
    Worst::StopsInLargeBodies,
    Worst::DripsLargeBodiesOfManyTokens,
    Worst::WaitsWithManyTokens,
    Worst::PushesIdleLines,
    Worst::LeavesLargeResponsesUnread,
    Worst::AsksWithoutToken,
    Worst::BeginsHeadsWithoutToken,
    Worst::StreamsAndNeverReads,
    Worst::NamesQueues,
    Worst::FillsItsDeadLetters,
    Worst::LeavesWebhooksUnanswered,
    Worst::ChangesSettings,
    Worst::CountsAndScans,
];

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
        Worst::WaitsWithManyTokens => {
            let lines = "POST /v1/worst/queues/q/events/lines HTTP/1.1\r\nContent-Type: \
                         application/x-ndjson\r\nTransfer-Encoding: chunked";
            for _ in 0..5 {
                let token = world.new_token("worst", "").await;
                for (head, body) in [
                    ("GET /api/worst/none?timeout=600 HTTP/1.1", ""),
                    (
                        "GET /v1/worst/queues/none/leases/stream?ttr_ms=9000 HTTP/1.1",
                        "",
                    ),
                    ("PUT /api/worst/q HTTP/1.1\r\nContent-Length: 1000", "x"),
                    (lines, ""),
                ] {
                    goes_on.send(world, &token, 20, head, body.as_bytes()).await;
                }
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
        Worst::BeginsHeadsWithoutToken => {
            for _ in 0..400 {
                let address = world.server.api_address();
                let mut stream = TcpStream::connect(address).await.unwrap();
                let head = "GET /api/worst/q HTTP/1.1\r\nHost: x\r\nX-Tok";
                stream.write_all(head.as_bytes()).await.ok();
                goes_on.streams.push(stream);
            }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worst_of_one_does_the_other_no_harm() {
    let settings = format!("{LOCAL}[limits]\nbody_timeout_s = 3600\nheader_timeout_s = 3600");
    let world = World::start_with(Place::Embedded, &settings).await;
    let token = world.new_token("worst", "").await;
    let measured = world.new_token("measured", "").await;
    let measuring = Measuring::new(&world, &measured).await;
    measuring.uses_everything("alone").await;
    measuring.has_used_everything().await;
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
