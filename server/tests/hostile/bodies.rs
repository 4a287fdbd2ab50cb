//! Bodies: slow, and larger than allowed.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{connect, ended, others_are_served};
use crate::world::{Place, World, reply};

const TARGETS: [(&str, &str); 3] = [
    ("PUT", "/api/ns/q"),
    ("PUT", "/api/ns/q/bulk"),
    ("POST", "/v1/ns/queues/q/events"),
];

async fn begin(world: &World, (method, path): (&str, &str), more: &str) -> TcpStream {
    let mut stream = connect(world).await;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{more}\r\n\r\n",
        world.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_byte_by_byte_is_ended() {
    let world = World::start_with(Place::Embedded, "[limits]\nbody_timeout_s = 1").await;
    for target in TARGETS {
        let mut stream = begin(&world, target, "Content-Length: 1000").await;
        let drip = async {
            loop {
                if stream.write_all(b"x").await.is_err() {
                    return;
                }
                let readable = stream.readable();
                if tokio::time::timeout(Duration::from_millis(50), readable)
                    .await
                    .is_ok()
                {
                    return;
                }
            }
        };
        let ended_in_time = tokio::time::timeout(Duration::from_secs(20), drip).await;
        assert!(
            ended_in_time.is_ok(),
            "{target:?}: the server answers while the body drips"
        );
        let text = ended(&mut stream).await;
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 4"),
            "{target:?}: {text}"
        );
        others_are_served(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_over_the_limit_is_refused_declared_or_chunked() {
    let world = World::start(Place::Embedded).await;
    for (target, size) in TARGETS.into_iter().zip([2 << 20, 70 << 20, 9 << 20]) {
        for is_chunked in [false, true] {
            let framing = if is_chunked {
                "Transfer-Encoding: chunked".to_owned()
            } else {
                format!("Content-Length: {size}")
            };
            let mut stream = begin(&world, target, &framing).await;
            let part = vec![b'1'; 1 << 16];
            for _ in 0..size / part.len() {
                let sent = if is_chunked {
                    let head = format!("{:x}\r\n", part.len());
                    let chunk = [head.as_bytes(), &part, b"\r\n"].concat();
                    stream.write_all(&chunk).await
                } else {
                    stream.write_all(&part).await
                };
                if sent.is_err() {
                    break; // refused before it was all there
                }
            }
            if is_chunked {
                stream.write_all(b"0\r\n\r\n").await.ok();
            }
            let text = ended(&mut stream).await;
            assert!(
                text.starts_with("HTTP/1.1 413"),
                "{target:?} {is_chunked}: {text}"
            );
        }
    }
    let mut stream = begin(&world, TARGETS[2], "Content-Length: 99999999999").await;
    let text = ended(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    others_are_served(&world).await;
}

/// Sends a part of a large body every now and then, until it is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_needs_no_body_reaches_a_client_that_sends_first() {
    let world = World::start(Place::Embedded).await;
    let size = 8 << 20; // more than sockets buffer
    for (target, status) in [
        (("PUT", "/api/ns/q?tries=0"), "400"),
        (("POST", "/v1/ns/nothing"), "404"),
    ] {
        let mut stream = begin(&world, target, &format!("Content-Length: {size}")).await;
        stream.write_all(&vec![b'x'; size]).await.unwrap();
        let text = ended(&mut stream).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(text.starts_with(&expected), "{target:?}: {text}");
    }
    let more = "Content-Length: 1000\r\nExpect: 100-continue";
    let mut stream = begin(&world, ("PUT", "/api/ns/q?tries=0"), more).await;
    let text = ended(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
}

async fn drip(mut stream: TcpStream) {
    while stream.write_all(b"11111111").await.is_ok() {
        let readable = stream.readable();
        if tokio::time::timeout(Duration::from_millis(50), readable)
            .await
            .is_ok()
        {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_that_drip_keep_no_place_from_others() {
    let world = World::start_with(Place::Embedded, "[limits]\nbody_timeout_s = 3600").await;
    let part = "1".repeat(100 << 10);
    for target in [TARGETS[1], TARGETS[2]] {
        let mut dripping = tokio::task::JoinSet::new();
        for _ in 0..24 {
            let mut stream = begin(&world, target, "Content-Length: 1000000").await;
            stream.write_all(part.as_bytes()).await.unwrap();
            dripping.spawn(drip(stream));
        }
        let small = world.put("/api/ns/q/bulk", "[1]").await;
        small.is(201);
        let large = format!("[\"{part}\"]");
        let served = world.put("/api/ns/q/bulk", &large);
        let served = tokio::time::timeout(Duration::from_secs(120), served).await;
        served.expect("a place is free in time").is(201);
        let ended = tokio::time::timeout(Duration::from_secs(120), dripping.join_all()).await;
        assert!(ended.is_ok(), "each of them is refused");
    }
}

/// Their bodies arrive fast enough, and none of them is ever idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_of_many_tokens_keep_no_other_namespace_from_sending_one() {
    let world = World::start_with(Place::Embedded, "[limits]\nbody_timeout_s = 3600").await;
    let mut dripping = tokio::task::JoinSet::new();
    let (part, patience) = (vec![b'1'; 100 << 10], Duration::from_secs(20));
    // As many as there is room for, but for less than half a MiB.
    for _ in 0..4 {
        let token = world.new_token("ns", "").await;
        let mut stream = connect(&world).await;
        let head = format!(
            "PUT /api/ns/q/bulk HTTP/1.1\r\nHost: x\r\nX-Token: {token}\r\n\
             Content-Length: 67000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&part).await.unwrap();
        dripping.spawn(async move {
            let mut pace = tokio::time::interval(Duration::from_millis(200));
            while stream.write_all(&[b'1'; 12 << 10]).await.is_ok() {
                pace.tick().await;
            }
        });
    }
    let other = world.new_token("other", "").await;
    let large = format!("[\"{}\"]", "1".repeat(600 << 10));
    for _ in 0..3 {
        let put = world.client.put(world.api_url("/api/other/q/bulk"));
        let put = put.header("X-Token", &other).body(large.clone());
        let served = tokio::time::timeout(patience, reply(put)).await;
        served.expect("there is room at once").is(201);
    }
    dripping.shutdown().await;
}
