//! Heads of requests: slow, large, many, malformed.

use tokio::io::AsyncWriteExt;

use super::{connect, ended, others_are_served, talk};
use crate::world::{Place, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_head_is_ended() {
    let world = World::start_with(Place::Embedded, "[limits]\nheader_timeout_s = 1").await;
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut stream = connect(&world).await;
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-")
            .await
            .unwrap();
        slow.push(stream);
    }
    others_are_served(&world).await;
    for stream in &mut slow {
        let text = ended(stream).await;
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 408"),
            "{text}"
        );
    }
    others_are_served(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_large_and_too_many_headers_are_refused() {
    let world = World::start(Place::Embedded).await;
    let large = format!("X-Large: {}\r\n", "x".repeat(400_000));
    let many: String = (0..200)
        .map(|number| format!("X-{number}: x\r\n"))
        .collect();
    for headers in [large, many] {
        let head = format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        let text = talk(&world, head.as_bytes()).await;
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 431"),
            "{text}"
        );
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(100_000));
    let text = talk(&world, long.as_bytes()).await;
    let is_refused = ["HTTP/1.1 414", "HTTP/1.1 431"]
        .iter()
        .any(|it| text.starts_with(it));
    assert!(text.is_empty() || is_refused, "{text}");
    others_are_served(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_refused_also_after_a_request() {
    let world = World::start(Place::Embedded).await;
    let good = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    for garbage in [
        "\x00\x01\x02\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX y: z\r\n\r\n",
    ] {
        let text = talk(&world, garbage.as_bytes()).await;
        // A client of HTTP/2 would not understand an answer.
        let is_http2 = garbage.starts_with("PRI");
        assert!(
            is_http2 || text.starts_with("HTTP/1.1 4"),
            "{garbage:?}: {text}"
        );
        let text = talk(&world, format!("{good}{good}{garbage}").as_bytes()).await;
        let answers: Vec<&str> = text.matches("HTTP/1.1 200").collect();
        assert_eq!(answers.len(), 2, "{garbage:?}: {text}");
        assert!(
            is_http2 || text.contains("HTTP/1.1 4"),
            "{garbage:?}: {text}"
        );
    }
    others_are_served(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_is_no_utf_8_is_refused() {
    let world = World::start(Place::Embedded).await;
    let token = format!(
        "X-Token: {}\r\nConnection: close\r\nHost: x\r\n",
        world.token
    );
    for (request, status) in [
        (
            format!("GET /v1/ns/queues/%FF HTTP/1.1\r\n{token}\r\n"),
            "400",
        ),
        (
            format!("GET /v1/ns/queues/q/records?key=%FF HTTP/1.1\r\n{token}\r\n"),
            "200",
        ),
        (
            format!("GET /api/ns/%FF/peek HTTP/1.1\r\n{token}\r\n"),
            "400",
        ),
        (
            format!("GET /api/ns/q/peek?x=%FF HTTP/1.1\r\n{token}\r\n"),
            "404",
        ),
    ] {
        let text = talk(&world, request.as_bytes()).await;
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status}")),
            "{request}: {text}"
        );
    }
    let mut body = b"{\"events\":[{\"payload\":\"".to_vec();
    body.extend_from_slice(b"\xFF\xFE\"}]}");
    let request = world.request(reqwest::Method::POST, "/v1/ns/queues/q/events");
    let request = request
        .header("Content-Type", "application/json")
        .body(body);
    let refused = crate::world::reply(request).await;
    assert_eq!(refused.is(400)["kind"], "invalid");
    let secret = "GET /v1/ns/queues/q HTTP/1.1\r\nAuthorization: Bearer \u{e9}\r\nConnection: close\r\nHost: x\r\n\r\n";
    let text = talk(&world, secret.as_bytes()).await;
    assert!(text.starts_with("HTTP/1.1 401"), "{text}");
    others_are_served(&world).await;
}
