//! Requests that wait: for an event, for room, for a reply, for the next line.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{ENDS, End, is_refused, lease, push};
use crate::rights::Tenant;
use crate::world::{Place, World, reply, until};

/// A body that is sent as it comes.
struct Lines(mpsc::Receiver<&'static str>);

impl http_body::Body for Lines {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let line = self.0.poll_recv(cx);
        line.map(|line| Some(Ok(Frame::data(Bytes::from_static(line?.as_bytes())))))
    }
}

/// Checks the last line of a push of lines: which line was not pushed, and why.
fn says_why(pushed: &str, number: u64, statuses: &[u64], case: &str) {
    let last = pushed.lines().last().unwrap_or_default();
    let last: Value = serde_json::from_str(last).unwrap_or_default();
    let status = last["problem"]["status"].as_u64().unwrap_or_default();
    assert!(statuses.contains(&status), "{case}: {pushed}");
    assert_eq!(last["line"], number, "{case}: {pushed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stop_ends_says_so() {
    let world = World::start(Place::Embedded).await;
    let tenant = Tenant(&world, world.token.clone());
    let path = "/v1/ns/queues/q/leases/stream?ttr_ms=60000";
    let stream = tenant.request(Method::GET, path).send();
    let (sender, lines) = mpsc::channel(1);
    let pushing = tenant
        .request(Method::POST, "/v1/ns/queues/lines/events/lines")
        .header("Content-Type", "application/x-ndjson")
        .body(reqwest::Body::wrap(Lines(lines)))
        .send();
    let (stream, pushing) = tokio::join!(stream, async {
        sender.send("{\"payload\":1}\n").await.ok();
        pushing.await
    });
    world.wait_for_size("lines", 1).await;
    let World { server, .. } = world;
    let rest = async { (stream.unwrap().text().await, pushing.unwrap().text().await) };
    let ((stream, pushed), _) = tokio::join!(rest, server.stop());
    let stream = stream.unwrap();
    assert!(
        stream.contains("event: problem") && stream.contains("closed"),
        "{stream}"
    );
    says_why(&pushed.unwrap(), 2, &[503], "stop");
    drop(sender);
}

pub(super) async fn what_waits_for_an_event_ends_with_its_token_everywhere(
    server: &World,
    other: &World,
) {
    for end in ENDS {
        let tenant = Tenant(server, end.token(other).await);
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
            .request(Method::POST, "/v1/ns/queues/lines/events/lines")
            .header("Content-Type", "application/x-ndjson")
            .body(reqwest::Body::wrap(Lines(lines)))
            .send();
        let before = push(server, "busy", 1).await;
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
            end.of(&text, other, server).await;
            sender.send("{\"payload\":2}\n").await.ok(); // the connection may be closed by now
            drop(sender);
            (push(server, "q", 7).await, push(server, "busy", 2).await)
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
        says_why(&pushed, lines + 1, &[401, 403], &format!("{end:?}"));
        // It was given back, without an attempt.
        let job = lease(server, "q").await;
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

pub(super) async fn what_waits_for_a_reply_ends_with_its_token_everywhere(
    server: &World,
    other: &World,
) {
    for end in ENDS {
        let tenant = Tenant(server, end.token(other).await);
        let text = tenant.1.clone();
        let asked = push(server, "asked", 1).await;
        let asked_lease = lease(server, "asked").await;
        let body = json!({"event": {"payload": 2}, "wait_ms": 8_000});
        let call = tenant.send(Method::POST, "/v1/ns/queues/q/calls", &body);
        let path = format!("/v1/ns/queues/asked/events/{asked}/reply?wait_ms=8000");
        let look = tenant.send(Method::GET, &path, &Value::Null);
        let reply = async {
            let called = lease(server, "q").await;
            end.of(&text, other, server).await;
            let owner = Tenant(server, server.token.clone());
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
