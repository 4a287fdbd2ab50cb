//! Section 1: routes, names, tokens, ids of requests, the order of checks.

use std::time::Duration;

use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::{Place, World, on_every_store, reply};

on_every_store! {
    unknown_paths_and_methods_are_404
    every_response_has_a_request_id
    superfluous_slashes
    names_are_checked_first
    then_the_pool_and_then_the_token
    a_token_is_taken_from_the_header_before_the_query
    a_token_is_valid_for_its_namespace
    sizes_need_no_token
    paths_are_decoded_before_routing
    numbers_are_strict
    words_of_the_contract_are_names_of_queues
}

async fn unknown_paths_and_methods_are_404(world: World) {
    for path in [
        "/",
        "/api",
        "/api/ns",
        "/api/ns/q/",
        "/api/ns/q/job",
        "/api/ns/q/job/",
        "/api/ns/q/nothing",
        "/other",
    ] {
        world.get(path).await.fails(404, "api not found");
    }
    for method in [Method::POST, Method::OPTIONS, Method::PATCH] {
        world
            .api(method, "/api/ns/q", "")
            .await
            .fails(404, "api not found");
    }
    let head = world.api(Method::HEAD, "/api/ns/q", "").await;
    assert_eq!(head.status, 404);
    world
        .put("/api/ns/q/peek", "")
        .await
        .fails(404, "api not found");
    let unknown = world.admin(Method::GET, "/nothing").await;
    assert_eq!(
        (unknown.status.as_u16(), unknown.text.as_str()),
        (404, "404 page not found")
    );
    let unknown = world.admin(Method::PATCH, "/pools").await;
    assert_eq!(
        (unknown.status.as_u16(), unknown.text.as_str()),
        (404, "404 page not found")
    );
}

async fn every_response_has_a_request_id(world: World) {
    let replies = [
        world.get("/api/ns/q").await,
        world.get("/nothing").await,
        world.put("/api/ns/q", "x").await,
        world.admin(Method::GET, "/pools").await,
    ];
    for reply in &replies {
        let id = reply.headers["x-request-id"].to_str().unwrap();
        assert_eq!(id.len(), 26, "{id}");
        let content_type = reply.headers["content-type"].to_str().unwrap();
        assert_eq!(content_type, "application/json; charset=utf-8");
    }
    assert_ne!(
        replies[0].headers["x-request-id"],
        replies[1].headers["x-request-id"]
    );
}

async fn superfluous_slashes(world: World) {
    let peek = world.get("/api/ns/q/peek/?a=1").await;
    assert_eq!(peek.status, 301);
    assert_eq!(peek.headers["location"], "/api/ns/q/peek?a=1");
    let bulk = world.put("/api/ns/q/bulk/", "[]").await;
    assert_eq!(bulk.status, 307);
    assert_eq!(bulk.headers["location"], "/api/ns/q/bulk");
    let delete = world.delete("/api/ns/q/job/x/").await;
    assert_eq!(delete.status, 307);
}

async fn names_are_checked_first(world: World) {
    let long = "q".repeat(256);
    let bare = async |method: Method, path: &str| {
        reply(
            world
                .client
                .request(method, world.api_url(path))
                .header("X-Token", "nopool:x"),
        )
        .await
    };
    let path = format!("/api/ns/{long}");
    bare(Method::PUT, &path)
        .await
        .fails(400, "namespace or queue name too long");
    let path = format!("/api/{long}/q/size");
    bare(Method::GET, &path)
        .await
        .fails(400, "namespace or queue name too long");
    for queue in ["_q", "q.1", "q q", "q,1", "caf%C3%A9"] {
        let path = format!("/api/ns/{queue}");
        bare(Method::PUT, &path)
            .await
            .fails(400, "queue name contains forbidden characters");
    }
    for (method, path) in [
        (Method::PUT, "/api/n.s/q"),
        (Method::PUT, "/api//q"),
        (Method::GET, "/api//q"),
        (Method::GET, "/api//q/size"),
    ] {
        bare(method, path)
            .await
            .fails(400, "namespace name contains forbidden characters");
    }
    bare(Method::PUT, "/api/ns//bulk")
        .await
        .fails(400, "queue name contains forbidden characters");
    let longest = "q".repeat(255);
    world.publish(&format!("/api/ns/{longest}"), "x").await;
    let job = world.consume(&format!("/api/ns/{longest}")).await;
    assert_eq!(job["queue"], longest);
    // A consume has neither rule.
    world.get("/api/ns/_q").await.is(404);
    world.get(&format!("/api/ns/{long}")).await.is(404);
    let token = world.new_token("_ns", "").await;
    let put = world
        .client
        .put(world.api_url("/api/_ns/q"))
        .header("X-Token", token);
    reply(put).await.is(201);
}

async fn then_the_pool_and_then_the_token(world: World) {
    let get = async |path: &str, token: &str| {
        let get = world
            .client
            .get(world.api_url(path))
            .header("X-Token", token);
        reply(get).await
    };
    get("/api/ns/q?ttr=x", "nopool:x")
        .await
        .fails(404, "pool not found");
    get("/api/ns/q/size", "nopool:x")
        .await
        .fails(404, "pool not found");
    get("/api/ns/q?ttr=x", "")
        .await
        .fails(401, "token not found");
    get("/api/ns/q?ttr=x", "default:")
        .await
        .fails(401, "token not found");
    get("/api/ns/q?ttr=x", "wrong")
        .await
        .fails(401, "invalid token");
    get("/api/ns/q?ttr=x", &world.token)
        .await
        .fails(400, "invalid ttr");
    for prefix in ["", ":", "default:"] {
        get("/api/ns/q", &format!("{prefix}{}", world.token))
            .await
            .is(404);
    }
}

async fn a_token_is_taken_from_the_header_before_the_query(world: World) {
    let path = world.api_url(&format!("/api/ns/q?token={}", world.token));
    reply(world.client.put(&path).body("x")).await.is(201);
    reply(world.client.put(&path).header("X-Token", "").body("x"))
        .await
        .is(201);
    let wrong = reply(world.client.put(&path).header("X-Token", "wrong").body("x")).await;
    wrong.fails(401, "invalid token");
}

async fn a_token_is_valid_for_its_namespace(world: World) {
    world
        .put("/api/other/q", "x")
        .await
        .fails(401, "invalid token");
    world.put("/api/n/s", "x").await.fails(401, "invalid token");
}

async fn sizes_need_no_token(world: World) {
    world.publish("/api/ns/q", "x").await;
    for path in ["/api/ns/q/size", "/api/ns/q/deadletter/size"] {
        let size = reply(world.client.get(world.api_url(path))).await;
        let expected = u64::from(path == "/api/ns/q/size");
        assert_eq!(
            size.text,
            format!(r#"{{"namespace":"ns","queue":"q","size":{expected}}}"#)
        );
    }
}

async fn paths_are_decoded_before_routing(world: World) {
    world.publish("/api/ns/q2", "x").await;
    let job = world.consume("/api/ns/q1%2Cq2").await;
    assert_eq!(job["queue"], "q2");
}

async fn numbers_are_strict(world: World) {
    for wrong in [
        "",
        "-1",
        "%2B1",
        "1.0",
        "1e3",
        "0x1",
        "1_0",
        "%201",
        "4294967296",
    ] {
        let path = format!("/api/ns/q?delay={wrong}");
        world.put(&path, "x").await.fails(400, "invalid delay");
        let path = format!("/api/ns/q?timeout={wrong}");
        world.get(&path).await.fails(400, "invalid timeout");
    }
    world
        .put("/api/ns/q?tries=65536", "x")
        .await
        .fails(400, "invalid tries");
    world
        .publish("/api/ns/q?tries=65535&ttl=007&unknown=x", "x")
        .await;
    world.publish("/api/ns/q?delay=4294967295&ttl=0", "x").await;
    world.publish("/api/ns/q?delay=0&delay=x", "x").await;
}

async fn words_of_the_contract_are_names_of_queues(world: World) {
    for queue in ["bulk", "size", "peek", "job", "deadletter"] {
        world.publish(&format!("/api/ns/{queue}"), queue).await;
        let job = world.consume(&format!("/api/ns/{queue}")).await;
        assert_eq!(job["queue"], queue);
    }
}

/// PHP's client sends the body of its last publish with every later request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_where_none_is_taken_keeps_the_connection() {
    let world = World::start(Place::Embedded).await;
    let mut stream = TcpStream::connect(world.server.api_address())
        .await
        .unwrap();
    for (request, status) in [
        ("GET /api/ns/q?timeout=0", "404 "),
        ("GET /api/ns/q/size", "200 "),
        ("GET /api/ns/q/peek", "404 "),
        ("GET /api/ns/q/deadletter", "200 "),
        ("PUT /api/ns/q/deadletter?limit=1", "200 "),
        ("DELETE /api/ns/q/job/unknown", "204 "),
        ("DELETE /api/ns/q", "204 "),
    ] {
        let head = format!(
            "{request} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nContent-Length: 5\r\n\r\n",
            world.token
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut text = [0; 1_024];
        let early = timeout(Duration::from_millis(50), stream.read(&mut text)).await;
        assert!(early.is_err(), "{request} is answered before its body");
        stream.write_all(b"hello").await.unwrap();
        let len = stream.read(&mut text).await.unwrap();
        let text = String::from_utf8_lossy(&text[..len]);
        let expected = format!("HTTP/1.1 {status}");
        assert!(text.starts_with(&expected), "{request}: {text}");
        assert!(!text.contains("connection: close"), "{request}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_has_a_body() {
    let world = World::start(crate::world::Place::Embedded).await;
    for (method, path) in [
        (Method::POST, "/healthz"),
        (Method::POST, "/metrics"),
        (Method::DELETE, "/dashboard/queues"),
        (Method::PUT, "/dashboard/"),
        (Method::POST, "/none"),
    ] {
        let refused = world.admin(method.clone(), path).await;
        assert!(refused.status.is_client_error(), "{method} {path}");
        assert!(!refused.text.is_empty(), "{method} {path}: {refused:?}");
        if refused.status == 405 {
            assert!(refused.json()["error"].is_string(), "{refused:?}");
            assert!(refused.headers.contains_key("allow"), "{refused:?}");
        }
    }
}
