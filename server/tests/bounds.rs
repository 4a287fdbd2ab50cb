//! Bounds of each token: one that does its worst within its limits, and one that is served.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::world::{Place, Reply, World, on_every_store, reply, until};

on_every_store! {
    a_lease_has_no_more_bytes_than_a_response_may
    a_queue_for_each_call_is_no_matter
}

/// Another tenant of the server, with a token of its own.
fn as_tenant(world: &World, token: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
    let request = world.client.request(method, world.api_url(path));
    request
        .header("X-Token", token)
        .header("Content-Type", "application/json")
}

/// Begins a request on a connection of its own, and sends a part of its body.
async fn begin(world: &World, token: &str, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(world.server.api_address())
        .await
        .unwrap();
    let head = format!("{head}\r\nHost: x\r\nX-Token: {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server may have had enough before all is written.
    stream.write_all(body).await.ok();
    stream
}

async fn status_of(stream: &mut TcpStream) -> String {
    let mut line = [0; 12];
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_exact(&mut line));
    read.await.expect("an answer in time").ok();
    String::from_utf8_lossy(&line).into_owned()
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<usize>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_one_polls_keep_no_other_from_polling() {
    let world = World::start(Place::Embedded).await;
    let other = world.new_token("other", "").await;
    let mut parked = JoinSet::new();
    // Half as many again as one token may poll at once.
    for poll in 0..30 {
        let names: Vec<String> = (0..1_000).map(|name| format!("q{poll}-{name}")).collect();
        let path = format!("/api/ns/{}?timeout=60", names.join(","));
        parked.spawn(reply(world.request(Method::GET, &path)));
    }
    let mut refused = 0;
    while refused < 10 {
        let ended: Reply = parked.join_next().await.unwrap().unwrap();
        assert_eq!(ended.status, 429, "{ended:?}");
        assert!(ended.headers.contains_key("retry-after"), "{ended:?}");
        let text = "the token has too many names that polls wait for; retry later, with fewer";
        assert_eq!(ended.json(), json!({"msg": text}));
        refused += 1;
    }
    // Those of another token, and the newest of the same, are served.
    for (token, namespace) in [(&other, "other"), (&world.token, "ns")] {
        let path = format!("/api/{namespace}/new?timeout=1");
        let polled = reply(as_tenant(&world, token, Method::GET, &path)).await;
        assert_eq!(polled.status, 404, "{polled:?}");
        let path = format!("/v1/{namespace}/queues/new/leases");
        let body = json!({"ttr_ms": 1_000, "wait_ms": 10}).to_string();
        let leased = as_tenant(&world, token, Method::POST, &path).body(body);
        assert_eq!(reply(leased).await.is(200), json!([]));
    }
    parked.shutdown().await;
}

async fn a_queue_for_each_call_is_no_matter(world: World) {
    // The client makes a queue for each reply, which is lmstfy's way to be called synchronously.
    for number in 0..200 {
        let queue = format!("/api/ns/reply-{number}");
        let id = world.publish(&queue, "x").await;
        let job = world.consume(&format!("{queue}?timeout=5&ttr=3600")).await;
        assert_eq!(job["job_id"], id);
        world.delete(&format!("{queue}/job/{id}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_bodies_of_one_take_little_and_keep_no_other_from_publishing() {
    let world = World::start_with(Place::Embedded, "[limits]\nbody_timeout_s = 3600").await;
    let other = world.new_token("other", "").await;
    world.publish("/api/ns/q", "x").await;
    let before = resident_bytes();
    let size = (1 << 20) - 1;
    let part = vec![b'x'; size - 1];
    let mut unfinished = Vec::new();
    for chunked in [false, true] {
        for _ in 0..300 {
            let (head, part) = if !chunked {
                (format!("Content-Length: {size}"), part.clone())
            } else {
                let begin = format!("{size:x}\r\n").into_bytes();
                let head = "Transfer-Encoding: chunked".to_owned();
                (head, [begin, part.clone()].concat())
            };
            let head = format!("PUT /api/ns/q HTTP/1.1\r\n{head}");
            let token = world.token.clone();
            let address = world.server.api_address();
            unfinished.push(tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let head = format!("{head}\r\nHost: x\r\nX-Token: {token}\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(&part).await.ok();
                stream
            }));
        }
        // Others are served meanwhile, with small and with large bodies.
        let large = "y".repeat(900_000);
        for (token, namespace) in [(&other, "other"), (&world.token, "ns")] {
            for body in ["x", &large] {
                let path = format!("/api/{namespace}/q");
                let put = as_tenant(&world, token, Method::PUT, &path).body(body.to_owned());
                let put = tokio::time::timeout(Duration::from_secs(60), reply(put)).await;
                put.expect("in time").is(201);
            }
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    // The clients of this test are in the same process, with their parts.
    let clients = 600 * size;
    assert!(grown < clients + (400 << 20), "{grown} bytes more");
    for client in &unfinished {
        client.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_unfinished_bodies_the_idlest_goes_with_words() {
    let world = World::start_with(Place::Embedded, "[limits]\nbody_timeout_s = 3600").await;
    let head = "PUT /api/ns/q HTTP/1.1\r\nContent-Length: 1000";
    let mut first = begin(&world, &world.token, head, b"x").await;
    let mut others = Vec::new();
    for _ in 0..1_100 {
        others.push(begin(&world, &world.token, head, b"x").await);
    }
    assert_eq!(status_of(&mut first).await, "HTTP/1.1 429");
    let mut newest = others.pop().unwrap();
    newest.write_all(&[b'x'; 999]).await.unwrap();
    assert_eq!(status_of(&mut newest).await, "HTTP/1.1 201");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_pushes_of_lines_keep_no_other_from_pushing_lines() {
    let world = World::start_with(Place::Embedded, "[limits]\nbody_timeout_s = 3600").await;
    let other = world.new_token("other", "").await;
    let head = |namespace: &str| {
        format!(
            "POST /v1/{namespace}/queues/q/events HTTP/1.1\r\nContent-Type: application/x-ndjson\r\n\
             Transfer-Encoding: chunked"
        )
    };
    let mut idle = Vec::new();
    // More than one beyond the bound, as a busy server need not read the first one first.
    for _ in 0..1_100 {
        idle.push(begin(&world, &world.token, &head("ns"), b"").await);
    }
    let mut ended = String::new();
    let read = idle[0].read_to_string(&mut ended);
    let read = tokio::time::timeout(Duration::from_secs(60), read).await;
    read.expect("the idlest ends").unwrap();
    let text = "the token has too many pushes of lines; retry later, with fewer";
    assert!(
        ended.contains(text) && ended.contains(r#""status":429"#),
        "{ended}"
    );
    for (token, namespace) in [(&other, "other"), (&world.token, "ns")] {
        let path = format!("/v1/{namespace}/queues/q/events");
        let push = world
            .client
            .post(world.api_url(&path))
            .header("X-Token", token);
        let push = push.header("Content-Type", "application/x-ndjson");
        let pushed = reply(push.body("{\"payload\":1}\n{\"payload\":2}")).await;
        assert_eq!(pushed.status, 200);
        let lines: Vec<Value> = pushed
            .text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines.iter().all(|line| line["duplicate"] == false),
            "{lines:?}"
        );
    }
}

async fn a_lease_has_no_more_bytes_than_a_response_may(world: World) {
    const EVENTS: usize = 40;
    let payload = "x".repeat(1_000_000);
    for _ in 0..EVENTS {
        world.publish("/api/ns/q?tries=1", &payload).await;
    }
    let lease = async || {
        let body = json!({"max": 1_000, "ttr_ms": 600_000}).to_string();
        let post = as_tenant(&world, &world.token, Method::POST, "/v1/ns/queues/q/leases");
        let leased = reply(post.body(body)).await.is(200);
        leased.as_array().unwrap().len()
    };
    let mut seen = vec![lease().await];
    let many = world.get("/api/ns/q?count=100&ttr=600").await.is(200);
    seen.push(many.as_array().unwrap().len());
    // What was fetched beyond that came back, and has used no attempt.
    until("all is leased", async || {
        let left = world.size("q").await;
        left == 0 || usize::try_from(left).unwrap() == EVENTS - seen.iter().sum::<usize>()
    })
    .await;
    seen.push(lease().await);
    assert!(seen.iter().all(|many| (1..=18).contains(many)), "{seen:?}");
    assert_eq!(seen.iter().sum::<usize>(), EVENTS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_dead_letters_ends_after_16_mib_and_takes_room_until_it_is_read() {
    const LETTERS: usize = 24;
    // Nothing else ends them while the test runs.
    let world = World::start_with(Place::Embedded, "[limits]\nwrite_timeout_s = 3600").await;
    let payload = "x".repeat(1_000_000);
    for _ in 0..LETTERS {
        world.publish("/api/ns/q?tries=1&ttl=0", &payload).await;
    }
    until("all are dead", async || {
        world.get("/api/ns/q?count=100&ttr=0").await;
        world.dead_size("q").await == LETTERS as u64
    })
    .await;
    let path = "/v1/ns/queues/q/dead-letters?limit=1000";
    let first = world.get(path).await.is(200);
    let next = first["next"].as_str().expect("there are more");
    let rest = world.get(&format!("{path}&after={next}")).await.is(200);
    let many = |page: &Value| page["items"].as_array().unwrap().len();
    assert!(many(&first) <= 22, "{}", many(&first));
    assert_eq!(many(&first) + many(&rest), LETTERS);
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut stream = begin(&world, &world.token, &format!("GET {path} HTTP/1.1"), b"").await;
        assert_eq!(status_of(&mut stream).await, "HTTP/1.1 200");
        unread.push(stream);
    }
    let mut cut = Vec::new();
    let read = unread[0].read_to_end(&mut cut);
    let read = tokio::time::timeout(Duration::from_secs(60), read).await;
    read.expect("the idlest ends").ok();
    assert!(cut.len() < 12_000_000, "{} bytes", cut.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_responses_that_nobody_reads_go_the_idlest_first() {
    // Nothing else ends them while the test runs.
    let world = World::start_with(Place::Embedded, "[limits]\nwrite_timeout_s = 3600").await;
    let payload = "x".repeat(1_000_000);
    let mut unread = Vec::new();
    for _ in 0..12 {
        for _ in 0..16 {
            world.publish("/api/ns/q?tries=1", &payload).await;
        }
        let head = "GET /api/ns/q?count=16&ttr=600 HTTP/1.1";
        let mut stream = begin(&world, &world.token, head, b"").await;
        assert_eq!(status_of(&mut stream).await, "HTTP/1.1 200");
        unread.push(stream);
    }
    // Each of them has leased its jobs; those of the ones that had to go came back, with their one
    // attempt.
    until("jobs come back", async || world.size("q").await > 0).await;
    let job = world.consume("/api/ns/q").await;
    assert_eq!(job["remain_tries"], 0);
    // The idlest was cut, and the newest is whole.
    let rest_of = async |mut stream: TcpStream| {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(60), async {
            while !rest.ends_with(b"}]") && stream.read_buf(&mut rest).await.is_ok_and(|it| it > 0)
            {
            }
        });
        read.await.expect("it ends");
        rest.len()
    };
    let (newest, idlest) = (unread.pop().unwrap(), unread.remove(0));
    let whole = rest_of(newest).await;
    assert!(whole > 16_000_000, "{whole}");
    let cut = rest_of(idlest).await;
    assert!(cut < whole / 2, "{cut} of {whole}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_streams_that_nobody_reads_take_little() {
    const EVENTS: usize = 16;
    // Without a bound they take two thirds of a GiB; a token has an eighth.
    const STREAMS: usize = 32;
    // Nothing else ends them while the test runs.
    let world = World::start_with(Place::Embedded, "[limits]\nwrite_timeout_s = 3600").await;
    let payload = "x".repeat(1_000_000);
    for _ in 0..EVENTS {
        world.publish("/api/ns/q?tries=1000", &payload).await;
    }
    let before = resident_bytes();
    let mut unread = Vec::new();
    for _ in 0..STREAMS {
        // Each of them is sent the same events.
        let head =
            format!("GET /v1/ns/queues/q/leases/stream?max_in_flight={EVENTS}&ttr_ms=0 HTTP/1.1");
        let mut stream = begin(&world, &world.token, &head, b"").await;
        let mut begun = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(60), async {
            while !String::from_utf8_lossy(&begun).contains("event: lease") {
                stream.read_buf(&mut begun).await.unwrap();
            }
        });
        read.await.expect("the first of its message");
        unread.push(stream);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 400 << 20, "{grown} bytes more");
    let mut cut = Vec::new();
    let read = unread[0].read_to_end(&mut cut);
    let read = tokio::time::timeout(Duration::from_secs(60), read).await;
    read.expect("the idlest ends").ok();
    // And their events come back to another one, as those of a reply that is not read do.
    until("an event comes back", async || {
        world.get("/api/ns/q?timeout=1&ttr=60").await.status == 200
    })
    .await;
}
