//! Bodies that take their time.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ENDS, End, is_refused, lease, push};
use crate::rights::Tenant;
use crate::world::World;

/// A request of which half the body is sent, after the server began to wait for it.
struct Begun {
    stream: TcpStream,
    rest: String,
}

impl Begun {
    async fn new(tenant: &Tenant<'_>, method: &str, path: &str, body: &str) -> Self {
        let mut stream = TcpStream::connect(tenant.0.server.api_address())
            .await
            .unwrap();
        let (token, len) = (&tenant.1, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Token: {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {len}\r\n\
             Expect: 100-continue\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 100"),
            "{method} {path}: {answer}"
        );
        let (first, rest) = body.split_at(len / 2);
        stream.write_all(first.as_bytes()).await.unwrap();
        let rest = rest.to_owned();
        Self { stream, rest }
    }

    /// Sends the rest; returns the status.
    async fn finish(mut self) -> (u16, String) {
        self.stream.write_all(self.rest.as_bytes()).await.unwrap();
        let mut text = String::new();
        self.stream.read_to_string(&mut text).await.unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        (status, text)
    }
}

/// Returns every request that has a body: method, path, body, and the operation of `/v1`.
pub(super) fn requests(
    waiting: &str,
    held: &str,
    dead: &str,
) -> [(&'static str, String, Value, &'static str); 17] {
    let in_queue = |queue: &str, rest: &str| format!("/v1/ns/queues/{queue}/{rest}");
    let lease = |rest: &str| format!("/v1/ns/leases/{held}/{rest}");
    let events = json!({"events": [{"payload": 1}]});
    let call = json!({"event": {"payload": 1}, "wait_ms": 1});
    let (ids, url) = (
        json!({"ids": [dead]}),
        json!({"url": "https://example.com/"}),
    );
    let event = in_queue("waits", &format!("events/{waiting}"));
    let queue = "/v1/ns/queues/waits".to_owned();
    let job = format!("/api/ns/waits/job/{waiting}");
    [
        ("PUT", "/api/ns/new".to_owned(), json!("body"), ""),
        ("PUT", "/api/ns/new/bulk".to_owned(), json!([1, 2]), ""),
        ("PUT", job, json!("new"), ""),
        ("POST", in_queue("new", "events"), events, "pushEvents"),
        ("POST", in_queue("new", "calls"), call, "call"),
        (
            "POST",
            in_queue("held", "leases"),
            json!({"ttr_ms": 1}),
            "leaseEvents",
        ),
        ("PATCH", event, json!({"delay_ms": 0}), "changeEvent"),
        (
            "POST",
            lease("settle"),
            json!({"outcome": "ack"}),
            "settleLease",
        ),
        ("POST", lease("extend"), json!({"ttr_ms": 0}), "extendLease"),
        ("PATCH", queue, json!({"paused": true}), "changeQueue"),
        (
            "POST",
            in_queue("dead", "dead-letters/revive"),
            ids.clone(),
            "reviveDeadLetters",
        ),
        (
            "POST",
            in_queue("dead", "dead-letters/drop"),
            ids,
            "dropDeadLetters",
        ),
        ("PUT", in_queue("waits", "webhook"), url, "setWebhook"),
        (
            "PUT",
            "/v1/ns/schedules/new".to_owned(),
            json!({"queue": "new", "when": "every 1s"}),
            "setSchedule",
        ),
        (
            "POST",
            "/v1/ns/events/change".to_owned(),
            json!({"action": "cancel", "queue": "waits"}),
            "changeEvents",
        ),
        (
            "POST",
            "/v1/ns/events/erase".to_owned(),
            json!({"key": "k", "queue": "dead", "cancel": true}),
            "eraseEvents",
        ),
        (
            "POST",
            in_queue("dead", "records/replay"),
            json!({"name": "one"}),
            "replayRecords",
        ),
    ]
}

pub(super) async fn a_body_that_takes_its_time_is_checked_at_its_end(
    server: &World,
    other: &World,
) {
    let owner = Tenant(server, server.token.clone());
    let waiting = server.publish("/api/ns/waits?delay=3600", "old").await;
    push(server, "held", 1).await;
    let held = lease(server, "held").await;
    let held = held["token"].as_str().unwrap();
    let dead = server.publish("/api/ns/dead?tries=1", "x").await;
    server.consume("/api/ns/dead?ttr=0&timeout=8").await;
    server.wait_for_dead("dead", 1).await;
    let requests = requests(&waiting, held, &dead);
    // What has expired is the same to the second check as what was revoked.
    for end in [End::Revoked, End::Narrowed] {
        let tenant = Tenant(server, end.token(other).await);
        let mut begun = Vec::new();
        for (method, path, body, _) in &requests {
            let request = Begun::new(&tenant, method, path, &body.to_string()).await;
            begun.push((format!("{method} {path}"), request));
        }
        end.of(&tenant.1, other, server).await;
        for (name, request) in begun {
            let (status, text) = request.finish().await;
            assert!(is_refused(status), "{end:?}: {name}: {text}");
        }
        // Nothing of it was done.
        assert_eq!(server.size("new").await, 0, "{end:?}");
        assert_eq!(server.dead_size("dead").await, 1, "{end:?}");
        let found = server
            .get(&format!("/api/ns/waits/job/{waiting}"))
            .await
            .is(200);
        assert_eq!(found["job_id"], json!(waiting), "{end:?}");
        let waits = owner
            .send(Method::GET, "/v1/ns/queues/waits", &Value::Null)
            .await
            .is(200);
        assert_eq!(
            (&waits["paused"], &waits["scheduled"]),
            (&json!(false), &json!(1)),
            "{end:?}"
        );
        owner
            .send(Method::GET, "/v1/ns/queues/waits/webhook", &Value::Null)
            .await
            .is(404);
        let schedules = owner.send(Method::GET, "/v1/ns/schedules", &Value::Null);
        assert_eq!(schedules.await.is(200)["items"], json!([]), "{end:?}");
        let path = format!("/v1/ns/leases/{held}/extend");
        let more = json!({"ttr_ms": 600_000});
        owner.send(Method::POST, &path, &more).await.is(204);
    }
}

pub(super) async fn a_body_that_is_thrown_away_is_checked_at_its_end(
    server: &World,
    other: &World,
) {
    let waiting = server.publish("/api/ns/waits?delay=3600", "x").await;
    server.publish("/api/ns/ready", "x").await;
    server.publish("/api/ns/dead?tries=1", "x").await;
    server.consume("/api/ns/dead?ttr=0&timeout=8").await;
    server.wait_for_dead("dead", 1).await;
    let requests = [
        ("DELETE", format!("/api/ns/waits/job/{waiting}")),
        ("DELETE", "/api/ns/ready".to_owned()),
        ("PUT", "/api/ns/dead/deadletter".to_owned()),
        ("DELETE", "/api/ns/dead/deadletter".to_owned()),
        ("GET", "/api/ns/ready".to_owned()),
    ];
    for end in ENDS {
        for (method, path) in &requests {
            let tenant = Tenant(server, end.token_of(other, 3).await);
            let request = Begun::new(&tenant, method, path, "a body").await;
            end.of(&tenant.1, other, server).await;
            let (status, text) = request.finish().await;
            assert!(is_refused(status), "{end:?}: {method} {path}: {text}");
        }
    }
    assert_eq!(
        (server.dead_size("dead").await, server.size("ready").await),
        (1, 1)
    );
    server
        .get(&format!("/api/ns/waits/job/{waiting}"))
        .await
        .is(200);
}
