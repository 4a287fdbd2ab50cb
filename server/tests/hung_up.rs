//! Clients that hang up, and the limits of their tokens: what was done is counted, and nothing else.

use reqwest::Method;
use serde_json::{Value, json};

use crate::rights::tenant;
use crate::servers;
use crate::world::{Place, World, reply, until, with_prefix};

/// What was taken of a limit stays taken for a push that goes on without its client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_in_a_push_has_used_its_limit() {
    let redis = servers::Redis::plain();
    let state = with_prefix(&servers::shared().url());
    let folder = tempfile::tempdir().unwrap();
    let world = World::start_at_beside(folder, redis.url(), &state).await;
    let post = |path: &str, kind: &str, body: Value| {
        let request = world.request(Method::POST, &format!("/v1/ns/queues/{path}"));
        let request = request.header("Content-Type", kind);
        request.body(body.to_string())
    };
    let (json, lines) = ("application/json", "application/x-ndjson");
    let one = json!({"payload": 1});
    let cases = [
        ("calls", json, json!({"event": one, "wait_ms": 0})),
        ("events/lines", lines, one.clone()),
        ("events", lines, one.clone()),
        ("events", json, json!({"events": [one]})),
    ];
    let limit = format!("/token/ns/{}/limit", world.token);
    for (case, (path, kind, body)) in cases.into_iter().enumerate() {
        let queue = format!("q{case}");
        let path = format!("{queue}/{path}");
        let size = async || world.size(&queue).await;
        world.admin(Method::DELETE, &limit).await.is(200);
        // The queue, and what the store keeps of it, are known.
        reply(post(&path, kind, body.clone())).await;
        until("it is there", async || size().await == 1).await;
        // Of another length, so that it begins anew.
        let of = format!(r#"{{"write":1,"interval":{}}}"#, 3_600 + case);
        world.admin_with(Method::PUT, &limit, &of).await.is(200);
        redis.cli(&["CLIENT", "PAUSE", "20000", "WRITE"]);
        let sent = tokio::spawn(reply(post(&path, kind, body.clone())));
        for _ in 0..20 {
            world.get("/v1/nothing").await.is(404);
        }
        assert!(!sent.is_finished(), "{path} does not wait for the store");
        sent.abort();
        assert!(sent.await.is_err());
        for _ in 0..20 {
            world.get("/v1/nothing").await.is(404);
        }
        redis.cli(&["CLIENT", "UNPAUSE"]);
        until("it is there, too", async || size().await == 2).await;
        let again = reply(post(&path, kind, body)).await;
        assert!(again.text.contains("throttled"), "{path}: {again:?}");
        assert_eq!(size().await, 2, "{path}");
    }
}

/// Sends requests, each of which is cut while the shared state decides on its limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_while_its_limit_is_asked_gives_back_what_it_took() {
    let redis = servers::Redis::plain();
    let world = World::start_beside(&redis.url()).await;
    let owner = tenant(&world, "ns", "").await;
    let limit = format!("/token/ns/{}/limit", world.token);
    let (get, post) = (Method::GET, Method::POST);
    let lines = "application/x-ndjson";
    let (lease, event) = (
        json!({"ttr_ms": 60_000, "wait_ms": 8_000}),
        json!({"payload": 1}),
    );
    let cases = [
        (get.clone(), "/api/ns/Q?timeout=60", lines, Value::Null),
        (
            post.clone(),
            "/v1/ns/queues/Q/leases",
            "application/json",
            lease,
        ),
        (
            get,
            "/v1/ns/queues/Q/leases/stream?ttr_ms=60000",
            lines,
            Value::Null,
        ),
        (post, "/v1/ns/queues/Q/events/lines", lines, event.clone()),
    ];
    for (case, (method, path, kind, body)) in cases.into_iter().enumerate() {
        let (queue, is_push) = (format!("q{case}"), path.ends_with("/lines"));
        let path = path.replace('Q', &queue);
        // Of another length, so that it begins anew.
        let of = format!(r#"{{"read":1,"write":1,"interval":{}}}"#, 3_600 + case);
        world.admin_with(Method::PUT, &limit, &of).await.is(200);
        // The queue, and the use of the token, are known.
        let events = json!({"events": [event]});
        let push = format!("/v1/ns/queues/{queue}/events");
        owner.send(Method::POST, &push, &events).await.is(201);
        world.get(&format!("/api/ns/{queue}/peek")).await.is(200);
        redis.cli(&["CLIENT", "PAUSE", "20000", "WRITE"]);
        let request = world.request(method, &path).header("Content-Type", kind);
        let sent = tokio::spawn(reply(request.body(body.to_string())));
        for _ in 0..20 {
            world.get("/v1/nothing").await.is(404);
        }
        assert!(!sent.is_finished(), "{path} does not ask for its limit");
        sent.abort();
        assert!(sent.await.is_err());
        for _ in 0..20 {
            world.get("/v1/nothing").await.is(404);
        }
        redis.cli(&["CLIENT", "UNPAUSE"]);
        if is_push {
            until("its call is given back", async || {
                let put = world.put(&format!("/api/ns/{queue}"), "x").await;
                assert!([201, 429].contains(&put.status.as_u16()), "{put:?}");
                put.status == 201
            })
            .await;
            assert_eq!(world.size(&queue).await, 2, "what was cut is not pushed");
        } else {
            until("its call is given back", async || {
                let got = world.get(&format!("/api/ns/{queue}?timeout=1")).await;
                assert!([200, 404, 429].contains(&got.status.as_u16()), "{got:?}");
                got.status == 200
            })
            .await;
        }
    }
}

/// Jobs that come back as nobody has read their response are no call of a limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_its_jobs_gives_its_call_back_with_them() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let world = World::start(Place::Embedded).await;
    let large = "x".repeat(1_000_000);
    for _ in 0..16 {
        world.publish("/api/ns/q?tries=1", &large).await;
    }
    let limit = format!("/token/ns/{}/limit", world.token);
    let lease = json!({"max": 16, "ttr_ms": 600_000}).to_string();
    let post = format!(
        "POST /v1/ns/queues/q/leases HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: \
         {}",
        lease.len()
    );
    let requests = [
        (
            "GET /api/ns/q?count=16&ttr=600 HTTP/1.1".to_owned(),
            String::new(),
        ),
        (post, lease),
    ];
    for (case, (head, body)) in requests.into_iter().enumerate() {
        let of = format!(r#"{{"read":1,"interval":{}}}"#, 3_600 + case);
        world.admin_with(Method::PUT, &limit, &of).await.is(200);
        let address = world.server.api_address();
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!(
            "{head}\r\nHost: x\r\nX-Token: {}\r\n\r\n{body}",
            world.token
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        drop(stream);
        until("its call is given back", async || {
            let got = world.get("/api/ns/q?count=1&ttr=1").await;
            assert!([200, 404, 429].contains(&got.status.as_u16()), "{got:?}");
            got.status == 200
        })
        .await;
    }
}
