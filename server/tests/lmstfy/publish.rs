//! Section 2: publish, bulk, republish, attributes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{Place, Reply, World, on_every_store, reply};

on_every_store! {
    an_id_ends_with_the_delay
    a_body_is_any_bytes
    parameters_are_checked_in_order
    bodies_have_a_limit
    a_bulk_is_published_in_order
    a_bulk_is_checked
    a_bulk_may_be_large
    a_bulk_keeps_the_bytes_of_its_elements
    a_republished_job_has_a_new_id
    a_bad_republish_leaves_the_old_job_alone
    attributes_need_a_versioned_id
    attributes_are_cut_and_counted
    a_bulk_gives_each_job_the_attributes
    a_body_may_be_chunked_and_of_any_content_type
    a_body_is_sent_after_a_continue
}

/// Returns the body of a job.
pub(super) fn data(job: &Value) -> Vec<u8> {
    STANDARD
        .decode(job["data"].as_str().expect("a body"))
        .expect("base64")
}

async fn an_id_ends_with_the_delay(world: World) {
    let id = world.publish("/api/ns/q", "x").await;
    assert_eq!(id.len(), 26);
    assert!(id.ends_with("000000"), "{id}");
    let delayed = world.publish("/api/ns/q?delay=1", "x").await;
    assert!(delayed.ends_with("0G0000"), "{delayed}");
}

async fn a_body_is_any_bytes(world: World) {
    let bodies: [&[u8]; 7] = [
        b"",
        b"hello",
        b"{\"a\": 1}",
        b" {} \n",
        b"\x00\xFA\xFF\xFE",
        b"\xFA\x00\x00",
        b"17",
    ];
    for body in bodies {
        world
            .api(Method::PUT, "/api/ns/q", body.to_vec())
            .await
            .is(201);
        let job = world.consume("/api/ns/q").await;
        assert_eq!(data(&job), body);
        let id = job["job_id"].as_str().unwrap();
        let found = world.get(&format!("/api/ns/q/job/{id}")).await.is(200);
        assert_eq!(data(&found), body);
    }
}

async fn parameters_are_checked_in_order(world: World) {
    let put = async |query: &str| world.put(&format!("/api/ns/q?{query}"), "x").await;
    put("delay=x&ttl=x&tries=x")
        .await
        .fails(400, "invalid delay");
    put("delay=5&ttl=x&tries=x").await.fails(400, "invalid ttl");
    put("delay=5&ttl=4&tries=x")
        .await
        .fails(400, "ttl is shorter than delay");
    put("delay=86401&tries=x")
        .await
        .fails(400, "ttl is shorter than delay");
    put("delay=5&ttl=5&tries=x")
        .await
        .fails(400, "invalid tries");
    put("tries=0").await.fails(400, "tries shouldn't be zero");
    put("delay=5&ttl=5").await.is(201);
    put("delay=5&ttl=0").await.is(201);
}

async fn bodies_have_a_limit(world: World) {
    let largest = "x".repeat(1 << 20);
    world.put("/api/ns/q", &largest).await.is(201);
    let larger = largest + "x";
    world
        .put("/api/ns/q", &larger)
        .await
        .fails(413, "body too large");
    world
        .put("/api/ns/q?tries=0", &larger)
        .await
        .fails(400, "tries shouldn't be zero");
    assert_eq!(world.size("q").await, 1);
}

async fn bulk(world: &World, body: &str) -> Reply {
    world.put("/api/ns/q/bulk", body).await
}

async fn a_bulk_is_published_in_order(world: World) {
    let published = bulk(&world, r#"[1, "two", {"three": 3}, null, [5]]"#)
        .await
        .is(201);
    assert_eq!(published["msg"], "published");
    let ids = published["job_ids"].as_array().unwrap().clone();
    assert_eq!(ids.len(), 5);
    let jobs = world.consume("/api/ns/q?count=10").await;
    let jobs = jobs.as_array().unwrap();
    let consumed: Vec<_> = jobs.iter().map(|job| job["job_id"].clone()).collect();
    assert_eq!(consumed, ids);
    let bodies: Vec<_> = jobs.iter().map(data).collect();
    assert_eq!(
        bodies,
        [&b"1"[..], b"\"two\"", b"{\"three\": 3}", b"null", b"[5]"]
    );
}

async fn a_bulk_is_checked(world: World) {
    for wrong in ["", "{}", "17", "[1", "[1] 2", "x"] {
        bulk(&world, wrong)
            .await
            .fails(400, "request body should be an array of objects");
    }
    for empty in ["[]", "null"] {
        bulk(&world, empty).await.fails(400, "no jobs");
    }
    let many = json!(vec![1; 65]).to_string();
    bulk(&world, &many).await.fails(400, "too many jobs");
    let large = format!("[1, \"{}\"]", "x".repeat(1 << 20));
    bulk(&world, &large).await.fails(413, "job too large");
    world
        .put("/api/ns/q/bulk?delay=x", "[]")
        .await
        .fails(400, "invalid delay");
    assert_eq!(world.size("q").await, 0);
    bulk(&world, &json!(vec![1; 64]).to_string()).await.is(201);
    assert_eq!(world.size("q").await, 64);
}

async fn a_bulk_may_be_large(world: World) {
    let element = format!("\"{}\"", "x".repeat((1 << 20) - 2));
    let body = format!("[{}]", vec![element; 6].join(","));
    bulk(&world, &body).await.is(201);
    assert_eq!(world.size("q").await, 6);
}

async fn a_bulk_keeps_the_bytes_of_its_elements(world: World) {
    bulk(&world, "[ {\"b\" : 1.0,\n \"a\":1e2} ]").await.is(201);
    let job = world.consume("/api/ns/q").await;
    assert_eq!(data(&job), b"{\"b\" : 1.0,\n \"a\":1e2}");
}

async fn a_republished_job_has_a_new_id(world: World) {
    let old = world.publish("/api/ns/q?tries=5", "old").await;
    let new = world
        .publish(&format!("/api/ns/q/job/{old}?ttl=10"), "new")
        .await;
    assert_ne!(old, new);
    world
        .get(&format!("/api/ns/q/job/{old}"))
        .await
        .fails(404, "job not found");
    let found = world.get(&format!("/api/ns/q/job/{new}")).await.is(200);
    assert_eq!(found["ttl"], 10);
    assert_eq!(world.size("q").await, 1);
    world.publish("/api/ns/q/job/nonsense", "x").await;
    assert_eq!(world.size("q").await, 2);
}

async fn a_bad_republish_leaves_the_old_job_alone(world: World) {
    let id = world.publish("/api/ns/q", "old").await;
    world
        .put(&format!("/api/ns/q/job/{id}?tries=0"), "new")
        .await
        .fails(400, "tries shouldn't be zero");
    world.get(&format!("/api/ns/q/job/{id}")).await.is(200);
}

async fn attributes_need_a_versioned_id(world: World) {
    let put = |enabled: &'static str| {
        let put = world
            .request(Method::PUT, "/api/ns/q")
            .header("Job-Attr-Shop", "seven");
        put.header("Enable-Job-Version", enabled).body("x")
    };
    let plain = reply(put("no")).await.is(201);
    assert_eq!(plain["job_id"].as_str().unwrap().len(), 26);
    let job = world.consume("/api/ns/q").await;
    assert_eq!(job["attributes"], Value::Null);
    let versioned = reply(put("yEs")).await.is(201);
    let id = versioned["job_id"].as_str().unwrap();
    assert_eq!((id.len(), &id[..1]), (27, "1"));
    let job = world.consume("/api/ns/q").await;
    assert_eq!(job["job_id"], id);
    assert_eq!(job["attributes"], json!({"shop": "seven"}));
    let found = world.get(&format!("/api/ns/q/job/{id}")).await.is(200);
    assert_eq!(found["attributes"], json!({"shop": "seven"}));
    world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    world.get(&format!("/api/ns/q/job/{id}")).await.is(404);
}

async fn attributes_are_cut_and_counted(world: World) {
    let versioned = || {
        let put = world.request(Method::PUT, "/api/ns/q");
        put.header("Enable-Job-Version", "YES").body("x")
    };
    let put = versioned()
        .header(format!("Job-Attr-{}", "n".repeat(40)), "v".repeat(200))
        .header("Job-Attr-Empty", "")
        .header("Job-Attr-Duly-spread", "1h")
        .header("Job-Attr-Traceparent", "none");
    reply(put).await.is(201);
    let job = world.consume("/api/ns/q").await;
    let expected = json!({
        "n".repeat(32): "v".repeat(128), "duly-spread": "1h", "traceparent": "none",
    });
    assert_eq!(job["attributes"], expected);
    let many = (0..17).fold(versioned(), |put, n| {
        put.header(format!("Job-Attr-a{n}"), "x")
    });
    reply(many)
        .await
        .fails(400, "too many attributes, cannot exceed 16");
    let most = (0..16).fold(versioned(), |put, n| {
        put.header(format!("Job-Attr-a{n}"), "x")
    });
    reply(most).await.is(201);
}

async fn a_bulk_gives_each_job_the_attributes(world: World) {
    let put = world.request(Method::PUT, "/api/ns/q/bulk");
    let put = put.header("Enable-Job-Version", "YES").body("[1, 2]");
    let put = put
        .header("Job-Attr-Shop", "first")
        .header("Job-Attr-Shop", "second");
    let published = reply(put).await.is(201);
    let jobs = world.consume("/api/ns/q?count=2").await;
    for n in 0..2 {
        assert_eq!(jobs[n]["job_id"], published["job_ids"][n]);
        assert_eq!(jobs[n]["job_id"].as_str().map(str::len), Some(27));
        assert_eq!(jobs[n]["attributes"], json!({"shop": "first"}));
    }
}

async fn a_body_may_be_chunked_and_of_any_content_type(world: World) {
    for content_type in ["text/binary", "application/json", "nonsense"] {
        let parts = [b"o\xFA".to_vec(), b"ne".to_vec()];
        let frames = parts.map(|part| Ok::<_, std::io::Error>(Frame::data(Bytes::from(part))));
        let frames = StreamBody::new(futures_util::stream::iter(frames));
        let body = reqwest::Body::wrap(frames);
        let put = world.request(Method::PUT, "/api/ns/q").body(body);
        reply(put.header("Content-Type", content_type))
            .await
            .is(201);
        assert_eq!(data(&world.consume("/api/ns/q").await), b"o\xFAne");
    }
}

/// libcurl sends no large body before it is told to.
async fn a_body_is_sent_after_a_continue(world: World) {
    let mut stream = TcpStream::connect(world.server.api_address())
        .await
        .unwrap();
    let head = format!(
        "PUT /api/ns/q HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nContent-Length: 4\r\n\
         Expect: 100-continue\r\nConnection: close\r\n\r\n",
        world.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = vec![0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut text).await.unwrap();
    assert!(text.starts_with(b"HTTP/1.1 100"));
    stream.write_all(b"body").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 201"), "{text}");
    assert_eq!(data(&world.consume("/api/ns/q").await), b"body");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_arrive_is_not_read() {
    let world = World::start_with(Place::Embedded, "[limits]\nbody_timeout_s = 1").await;
    for path in ["/api/ns/q", "/api/ns/q/bulk", "/api/ns/q/job/x"] {
        let mut stream = TcpStream::connect(world.server.api_address())
            .await
            .unwrap();
        let begin = format!(
            "PUT {path} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nContent-Length: 4\r\n\
             Connection: close\r\n\r\nbo",
            world.token
        );
        stream.write_all(begin.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 400"), "{text}");
        assert!(
            text.ends_with(r#"{"error":"failed to read body"}"#),
            "{text}"
        );
    }
    assert_eq!(world.size("q").await, 0);
}
