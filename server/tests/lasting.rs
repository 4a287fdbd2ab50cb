//! Rights over time: a token that ends on one server has ended for every request that lasts on
//! another one, whatever that waits for: an event, a reply, room, or the rest of its own body.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::rights::{Lines, Tenant};
use crate::servers;
use crate::world::{Place, World, reply, until, with_prefix};

/// How a token ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Revoked,
    Expired,
    /// It is made again, for another queue.
    Narrowed,
}

const ENDS: [End; 3] = [End::Revoked, End::Expired, End::Narrowed];

impl End {
    async fn token(self, at: &World) -> String {
        let more = match self {
            Self::Expired => "&expires_in=6",
            Self::Revoked | Self::Narrowed => "",
        };
        at.new_token("ns", more).await
    }

    /// Ends a token at a server, which has ended it on all when this returns.
    async fn of(self, token: &str, at: &World) {
        let revoke = async || {
            let path = format!("/token/ns/{token}");
            at.admin(Method::DELETE, &path).await.is(204);
        };
        match self {
            Self::Revoked => revoke().await,
            Self::Narrowed => {
                revoke().await;
                let path = format!("/token/ns?description=d&token={token}&queues=another");
                at.admin(Method::POST, &path).await.is(201);
            }
            Self::Expired => {
                let tenant = Tenant(at, token.to_owned());
                until("the token has expired", async || {
                    let look = tenant.request(Method::GET, "/api/ns/none/peek");
                    reply(look).await.status == 401
                })
                .await;
            }
        }
    }
}

fn is_refused(status: u16) -> bool {
    matches!(status, 401 | 403)
}

/// Makes a test of each case, with two servers that share their tokens: on stores that they share as
/// well, and each on a file of its own.
macro_rules! on_two_servers {
    ($($case:ident)*) => {
        mod redis { $crate::lasting::of_one_store!(Redis: $($case)*); }
        mod cluster { $crate::lasting::of_one_store!(Cluster: $($case)*); }
        mod files {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                use super::*;
                let state = with_prefix(&servers::shared().url());
                let server = World::start_beside(&state).await;
                super::$case(server, World::start_beside(&state).await).await;
            }
        )*}
    };
}

macro_rules! of_one_store {
    ($place:ident: $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            use super::*;
            let server = World::start(Place::$place).await;
            let other = server.another().await;
            super::$case(server, other).await;
        }
    )*};
}

pub(crate) use of_one_store;

on_two_servers! {
    what_waits_for_an_event_ends_with_its_token_everywhere
    what_waits_for_a_reply_ends_with_its_token_everywhere
    a_body_that_takes_its_time_is_checked_at_its_end
}

async fn push(world: &World, queue: &str, payload: u64) -> String {
    let tenant = Tenant(world, world.token.clone());
    let body = json!({"events": [{"payload": payload, "attempts": 9}]});
    let path = format!("/v1/ns/queues/{queue}/events");
    let pushed = tenant.send(Method::POST, &path, &body).await.is(201);
    pushed[0]["id"].as_str().unwrap().to_owned()
}

async fn lease(world: &World, queue: &str) -> Value {
    let tenant = Tenant(world, world.token.clone());
    let path = format!("/v1/ns/queues/{queue}/leases");
    let body = json!({"ttr_ms": 600_000, "wait_ms": 8_000});
    let leased = tenant.send(Method::POST, &path, &body).await.is(200);
    leased[0].clone()
}

async fn what_waits_for_an_event_ends_with_its_token_everywhere(server: World, other: World) {
    for end in ENDS {
        let tenant = Tenant(&server, end.token(&other).await);
        let text = tenant.1.clone();
        let stream = |queue: &str, max: usize| {
            let path = format!("/v1/ns/queues/{queue}/leases/stream");
            let path = format!("{path}?max_in_flight={max}&ttr_ms=60000");
            tenant.request(Method::GET, &path).send()
        };
        // One waits for an event, one until its client settles what it has.
        let (idle, busy) = (stream("q", 9), stream("busy", 1));
        let poll = tenant.request(Method::GET, "/api/ns/q?timeout=60&ttr=60");
        let many = tenant.request(Method::GET, "/api/ns/x,q,y?timeout=60&ttr=60&count=9");
        let body = json!({"ttr_ms": 60_000, "wait_ms": 8_000});
        let lease_one = tenant.send(Method::POST, "/v1/ns/queues/q/leases", &body);
        let (sender, lines) = mpsc::channel(1);
        let pushing = tenant
            .request(Method::POST, "/v1/ns/queues/lines/events")
            .header("Content-Type", "application/x-ndjson")
            .body(reqwest::Body::wrap(Lines(lines)))
            .send();
        let before = push(&server, "busy", 1).await;
        let after = async {
            sender.send("{\"payload\":1}\n").await.ok();
            let is_over = async || {
                let look = tenant.request(Method::GET, "/api/ns/none/peek");
                is_refused(reply(look).await.status.as_u16())
            };
            until("the line is pushed, or its token is over", async || {
                server.size("lines").await == 1 || is_over().await
            })
            .await;
            until("the busy stream has its event", async || {
                server.size("busy").await == 0 || is_over().await
            })
            .await;
            end.of(&text, &other).await;
            sender.send("{\"payload\":2}\n").await.ok(); // the connection may be closed by now
            drop(sender);
            (push(&server, "q", 7).await, push(&server, "busy", 2).await)
        };
        let (idle, busy, poll, many, leased, pushing, (id, next)) = tokio::join!(
            idle,
            busy,
            poll.send(),
            many.send(),
            lease_one,
            pushing,
            after
        );
        for (stream, id) in [(idle, &id), (busy, &next)] {
            let stream = stream.unwrap().text().await.unwrap();
            assert!(!stream.contains(id.as_str()), "{end:?}: {stream}");
            assert!(stream.contains("event: problem"), "{end:?}: {stream}");
        }
        for (name, status) in [
            ("poll", poll.unwrap().status()),
            ("poll of several", many.unwrap().status()),
            ("lease", leased.status),
        ] {
            assert!(is_refused(status.as_u16()), "{end:?}: {name}: {status}");
        }
        let pushed = pushing.unwrap().text().await.unwrap();
        // On a busy machine a token expires before its first line is there.
        let lines = server.size("lines").await;
        let is_pushed = lines == 1 || (lines == 0 && matches!(end, End::Expired));
        assert!(is_pushed, "{end:?}: {lines}: {pushed}");
        let responses = pushed.matches("duplicate").count();
        assert_eq!(
            u64::try_from(responses).unwrap(),
            lines,
            "{end:?}: {pushed}"
        );
        // It was given back, without an attempt.
        let job = lease(&server, "q").await;
        assert_eq!(
            (&job["id"], &job["attempt"]),
            (&json!(id), &json!(1)),
            "{end:?}"
        );
        for (queue, id) in [("q", &id), ("busy", &before), ("busy", &next)] {
            let path = format!("/api/ns/{queue}/job/{id}");
            server.delete(&path).await.is(204);
        }
        if lines == 1 {
            let line = server.consume("/api/ns/lines?ttr=60").await;
            let line = line["job_id"].as_str().unwrap();
            let path = format!("/api/ns/lines/job/{line}");
            server.delete(&path).await.is(204);
        }
    }
}

async fn what_waits_for_a_reply_ends_with_its_token_everywhere(server: World, other: World) {
    for end in ENDS {
        let tenant = Tenant(&server, end.token(&other).await);
        let text = tenant.1.clone();
        let asked = push(&server, "asked", 1).await;
        let asked_lease = lease(&server, "asked").await;
        let body = json!({"event": {"payload": 2}, "wait_ms": 8_000});
        let call = tenant.send(Method::POST, "/v1/ns/queues/q/calls", &body);
        let path = format!("/v1/ns/queues/asked/events/{asked}/reply?wait_ms=8000");
        let look = tenant.send(Method::GET, &path, &Value::Null);
        let reply = async {
            let called = lease(&server, "q").await;
            end.of(&text, &other).await;
            let owner = Tenant(&server, server.token.clone());
            let ack = json!({"outcome": "ack", "reply": "for its caller alone"});
            for leased in [&called, &asked_lease] {
                let token = leased["token"].as_str().unwrap();
                let path = format!("/v1/ns/leases/{token}/settle");
                owner.send(Method::POST, &path, &ack).await.is(204);
            }
        };
        let (call, look, ()) = tokio::join!(call, look, reply);
        for (name, reply) in [("call", call), ("reply", look)] {
            assert!(
                is_refused(reply.status.as_u16()),
                "{end:?}: {name}: {reply:?}"
            );
            assert!(
                !reply.text.contains("caller alone"),
                "{end:?}: {name}: {reply:?}"
            );
        }
    }
}

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

async fn a_body_that_takes_its_time_is_checked_at_its_end(server: World, other: World) {
    let owner = Tenant(&server, server.token.clone());
    let waiting = server.publish("/api/ns/waits?delay=3600", "old").await;
    push(&server, "held", 1).await;
    let held = lease(&server, "held").await;
    let held = held["token"].as_str().unwrap();
    let dead = server.publish("/api/ns/dead?tries=1", "x").await;
    server.consume("/api/ns/dead?ttr=0&timeout=8").await;
    server.wait_for_dead("dead", 1).await;
    let in_queue = |queue: &str, rest: &str| format!("/v1/ns/queues/{queue}/{rest}");
    let (events, call) = (
        json!({"events": [{"payload": 1}]}),
        json!({"event": {"payload": 1}, "wait_ms": 1}),
    );
    let requests = [
        ("PUT", "/api/ns/new".to_owned(), json!("body")),
        ("PUT", "/api/ns/new/bulk".to_owned(), json!([1, 2])),
        ("PUT", format!("/api/ns/waits/job/{waiting}"), json!("new")),
        ("POST", in_queue("new", "events"), events),
        ("POST", in_queue("new", "calls"), call),
        ("POST", in_queue("held", "leases"), json!({"ttr_ms": 1})),
        (
            "PATCH",
            in_queue("waits", &format!("events/{waiting}")),
            json!({"delay_ms": 0}),
        ),
        (
            "POST",
            format!("/v1/ns/leases/{held}/settle"),
            json!({"outcome": "ack"}),
        ),
        (
            "POST",
            format!("/v1/ns/leases/{held}/extend"),
            json!({"ttr_ms": 0}),
        ),
        (
            "PATCH",
            "/v1/ns/queues/waits".to_owned(),
            json!({"paused": true}),
        ),
        (
            "POST",
            in_queue("dead", "dead-letters/revive"),
            json!({"ids": [dead]}),
        ),
        (
            "POST",
            in_queue("dead", "dead-letters/drop"),
            json!({"ids": [dead]}),
        ),
        (
            "PUT",
            in_queue("waits", "webhook"),
            json!({"url": "https://example.com/"}),
        ),
    ];
    // What has expired is the same to the second check as what was revoked.
    for end in [End::Revoked, End::Narrowed] {
        let tenant = Tenant(&server, end.token(&other).await);
        let mut begun = Vec::new();
        for (method, path, body) in &requests {
            let request = Begun::new(&tenant, method, path, &body.to_string()).await;
            begun.push((format!("{method} {path}"), request));
        }
        end.of(&tenant.1, &other).await;
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
            .send(Method::GET, &in_queue("waits", "webhook"), &Value::Null)
            .await
            .is(404);
        let path = format!("/v1/ns/leases/{held}/extend");
        let more = json!({"ttr_ms": 600_000});
        owner.send(Method::POST, &path, &more).await.is(204);
    }
}
