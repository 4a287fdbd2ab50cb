//! One tenant has a request on each connection that there is, in one way after the other; another one
//! opens a new connection, and is served.

use std::io::ErrorKind;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::rights::{Tenant, tenant};
use crate::world::{Place, World, client, reply, until};

/// The connections of the server, with how many of them a tenant waits at most, and how many it opens.
const CONNECTIONS: usize = 40;
const MOST: usize = CONNECTIONS / 4 * 3;
const OPENED: usize = 60;
/// How long a response may take on a busy machine; what hangs takes for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// An event whose reply does not come.
const WAITING: &str = "01KBKSY8Q3X4H1W9V0T5RZ7M2C";

/// What the requests of the first tenant wait for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    PollForEvents,
    StreamForEvents,
    StreamForSettlements,
    StreamForItsLimit,
    StreamForItsDrain,
    StreamForItsReader,
    ForLines,
    ForBodies,
    ForRestsOfBodies,
    ForRepliesToCalls,
    ForReplies,
}

const ALL: [Wait; 11] = [
    Wait::PollForEvents,
    Wait::StreamForEvents,
    Wait::StreamForSettlements,
    Wait::StreamForItsLimit,
    Wait::StreamForItsDrain,
    Wait::StreamForItsReader,
    Wait::ForLines,
    Wait::ForBodies,
    Wait::ForRestsOfBodies,
    Wait::ForRepliesToCalls,
    Wait::ForReplies,
];

impl Wait {
    /// Returns the head of a request but for its token and its end.
    fn head(self, queue: &str, number: usize) -> String {
        let stream = format!("GET /v1/crowd/queues/{queue}/leases/stream?ttr_ms=");
        let (path, more) = match self {
            Self::PollForEvents => (format!("GET /api/crowd/{queue}?timeout=600"), ""),
            Self::StreamForItsReader => (format!("{stream}0&max_in_flight=16"), ""),
            Self::ForLines => (
                format!("POST /v1/crowd/queues/{queue}/events/lines"),
                "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n",
            ),
            Self::ForBodies | Self::ForRestsOfBodies => {
                (format!("PUT /api/crowd/{queue}"), "Content-Length: 10\r\n")
            }
            Self::ForRepliesToCalls => (
                format!("POST /v1/crowd/queues/{queue}/calls"),
                "Content-Type: application/json\r\nContent-Length: 43\r\n",
            ),
            Self::ForReplies => (
                format!("GET /v1/crowd/queues/{queue}/events/{WAITING}/reply?wait_ms=8000"),
                "",
            ),
            _ => (format!("{stream}4000000000&name=n-{number}"), ""),
        };
        format!("{path} HTTP/1.1\r\nHost: x\r\n{more}")
    }

    /// Returns what is sent of the body.
    fn body(self) -> &'static str {
        match self {
            Self::ForRestsOfBodies => "x",
            Self::ForRepliesToCalls => r#"{"event": {"payload": 1}, "wait_ms": 80000}"#,
            _ => "",
        }
    }

    /// Whether a response begins while the request waits.
    fn has_head(self) -> bool {
        ![
            Self::PollForEvents,
            Self::ForBodies,
            Self::ForRestsOfBodies,
            Self::ForRepliesToCalls,
            Self::ForReplies,
        ]
        .contains(&self)
    }

    /// Makes what the requests find.
    async fn prepare(self, tenant: &Tenant<'_>, queue: &str) {
        let events: Vec<Value> = match self {
            Self::StreamForItsReader => (0..16)
                .map(|_| json!({"payload": "x".repeat(300_000), "attempts": 1_000}))
                .collect(),
            Self::StreamForSettlements | Self::StreamForItsDrain => {
                (0..OPENED).map(|it| json!({"payload": it})).collect()
            }
            _ => Vec::new(),
        };
        if self == Self::ForReplies {
            let event = json!({"events": [{"payload": 1, "id": WAITING}]});
            let path = format!("/v1/crowd/queues/{queue}/events");
            tenant.send(Method::POST, &path, &event).await.is(201);
        }
        for event in events {
            let path = format!("/v1/crowd/queues/{queue}/events");
            let events = json!({"events": [event]});
            tenant.send(Method::POST, &path, &events).await.is(201);
        }
        if self == Self::StreamForItsLimit {
            let path = format!("/token/crowd/{}/limit", tenant.1);
            let limit = json!({"read": 1, "write": 9, "interval": 3_600}).to_string();
            let limited = tenant.0.admin_with(Method::PUT, &path, &limit).await;
            assert!(limited.status.is_success(), "{limited:?}");
            let event = json!({"events": [{"payload": 1}]});
            let push = "/v1/crowd/queues/used/events";
            tenant.send(Method::POST, push, &event).await.is(201);
            let used = reply(tenant.request(Method::GET, "/api/crowd/used?timeout=20"));
            used.await.is(200);
        }
    }
}

/// Connects; what is not read is soon more than the kernels of both ends keep.
async fn connect(world: &World) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let address = world.server.api_address();
    socket.connect(address).await.unwrap()
}

async fn read(stream: &mut TcpStream, text: &str) -> String {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, async {
        while !String::from_utf8_lossy(&bytes).contains(text)
            && stream.read_buf(&mut bytes).await.is_ok_and(|it| it > 0)
        {}
    });
    read.await.expect("something in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Opens the connections; returns them.
async fn open(tenant: &Tenant<'_>, wait: Wait, queue: &str) -> Vec<TcpStream> {
    let Tenant(world, token) = tenant;
    let mut all = Vec::new();
    for number in 0..OPENED {
        let mut stream = connect(world).await;
        let head = format!("{}X-Token: {token}\r\n\r\n", wait.head(queue, number));
        stream.write_all(head.as_bytes()).await.ok();
        // The others may have to wait until one of these has ended.
        stream.write_all(wait.body().as_bytes()).await.ok();
        let begins = number < MOST && wait.has_head();
        if begins {
            let is_full = [
                Wait::StreamForSettlements,
                Wait::StreamForItsDrain,
                Wait::StreamForItsReader,
            ];
            let is_full = is_full.contains(&wait);
            let until = if is_full { "event: lease" } else { "\r\n\r\n" };
            let begun = read(&mut stream, until).await;
            assert!(begun.starts_with("HTTP/1.1 200"), "{wait:?}: {begun}");
        }
        if begins && wait == Wait::StreamForItsDrain {
            let drain = format!("/v1/crowd/queues/{queue}/leases/stream/drain?name=n-{number}");
            tenant
                .send(Method::POST, &drain, &Value::Null)
                .await
                .is(204);
        }
        all.push(stream);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_one_that_wait_leave_connections_to_the_other() {
    let settings = format!(
        "[limits]\nconnections = {CONNECTIONS}\nwrite_timeout_s = 3600\nbody_timeout_s = 3600"
    );
    let world = World::start_with(Place::Embedded, &settings).await;
    let other = world.new_token("other", "").await;
    for (number, wait) in ALL.into_iter().enumerate() {
        let queue = format!("q{number}");
        let crowd = tenant(&world, "crowd", "").await;
        wait.prepare(&crowd, &queue).await;
        let mut opened = open(&crowd, wait, &queue).await;
        if wait == Wait::PollForEvents {
            world.wait_for_polls(MOST).await;
        }
        for _ in 0..3 {
            let put = client().put(world.api_url("/api/other/q")).body("x");
            let put = reply(put.header("X-Token", &other));
            let put = timeout(PATIENCE, put).await;
            put.unwrap_or_else(|_| panic!("{wait:?}: no connection is left"))
                .is(201);
        }
        if wait == Wait::ForRepliesToCalls {
            // Its event is there, and who is told to retry would push a second one.
            let first = read(&mut opened[0], "}").await;
            assert!(first.starts_with("HTTP/1.1 202"), "{first}");
            assert!(first.contains("\"id\""), "{first}");
            continue;
        }
        let is_read = wait != Wait::StreamForItsReader;
        if !is_read {
            // Whoever reads in its last second is told why.
            until("its connection has ended", async || {
                let sent = opened[0].try_write(b"x");
                sent.is_err_and(|it| it.kind() != ErrorKind::WouldBlock)
            })
            .await;
        }
        let last = read(&mut opened[0], "retry later").await;
        let what = if [Wait::ForBodies, Wait::ForRestsOfBodies].contains(&wait) {
            "requests with unfinished bodies"
        } else {
            "requests that wait"
        };
        // Of its own, or with those of the token before that have not ended yet.
        let text = format!("too many {what}; retry later, with fewer");
        assert_eq!(last.contains(&text), is_read, "{wait:?}: {last}");
    }
}

/// Requests that need no body, with a token and without one.
const BODILESS: [(&str, bool); 4] = [
    ("GET /api/crowd/q?timeout=600", true),
    ("DELETE /api/crowd/q/job/1", true),
    ("GET /api/crowd/q/size", false),
    ("GET /api/crowd/q/deadletter/size", false),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_nobody_needs_leave_connections_to_the_other() {
    const FEW: usize = 8;
    let settings = format!("[limits]\nconnections = {FEW}");
    let world = World::start_with(Place::Embedded, &settings).await;
    let token = world.new_token("crowd", "").await;
    let other = world.new_token("other", "").await;
    for (request, has_token) in BODILESS {
        let mut opened = Vec::new();
        for _ in 0..FEW {
            let address = world.server.api_address();
            let mut stream = TcpStream::connect(address).await.unwrap();
            let token = if has_token { &token } else { "" };
            let head = format!(
                "{request} HTTP/1.1\r\nHost: x\r\nX-Token: {token}\r\nContent-Length: 10\r\n\
                 Expect: 100-continue\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let begun = read(&mut stream, "\r\n\r\n").await;
            assert!(begun.starts_with("HTTP/1.1 100"), "{request}: {begun}");
            opened.push(stream);
        }
        let put = client().put(world.api_url("/api/other/q")).body("x");
        let put = timeout(PATIENCE, reply(put.header("X-Token", &other))).await;
        put.expect("a connection is left").is(201);
        // The first of them has gone for it, before its body was waited for long enough.
        let first = read(&mut opened[0], "\r\n\r\n").await;
        assert_eq!(first, "", "{request}: the other has waited");
    }
}
