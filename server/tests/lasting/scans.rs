//! Requests of many steps: they read many events, or change them.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::turns::LONG;
use super::{ENDS, End, is_refused};
use crate::rights::Tenant;
use crate::servers::{self, Redis};
use crate::world::{World, with_prefix};

/// A request: method, path, body, and the operation of `/v1`.
type Request = (Method, String, Value, &'static str);

/// Returns every request that takes many steps.
pub(super) fn requests() -> [Request; 20] {
    let (get, put, post) = (Method::GET, Method::PUT, Method::POST);
    let none = Value::Null;
    let queue = |rest: &str| format!("/v1/ns/queues/q/{rest}");
    let v1 = |rest: &str| format!("/v1/ns/{rest}");
    let api = |rest: &str| format!("/api/ns/q{rest}");
    let ids = json!({"ids": ["01KBKSY8Q3X4H1W9V0T5RZ7M2C"]});
    let all = json!({"action": "cancel", "queue": "q"});
    let erased = json!({"key": "k", "cancel": true});
    let replay = json!({"name": "one"});
    let revive = queue("dead-letters/revive");
    [
        (get.clone(), v1(LONG), none.clone(), "forecastQueue"),
        (get.clone(), v1("events"), none.clone(), "listEvents"),
        (post.clone(), v1("events/change"), all, "changeEvents"),
        (post.clone(), v1("events/erase"), erased, "eraseEvents"),
        (get.clone(), v1("queues"), none.clone(), "listQueues"),
        (get.clone(), v1("overview"), none.clone(), "getOverview"),
        (get.clone(), v1("audit"), none.clone(), "listAudit"),
        (get.clone(), v1("nodes"), none.clone(), "listNodes"),
        (get.clone(), v1("schedules"), none.clone(), "listSchedules"),
        (get.clone(), queue("records"), none.clone(), "listRecords"),
        (
            post.clone(),
            queue("records/replay"),
            replay,
            "replayRecords",
        ),
        (post.clone(), queue("purge"), none.clone(), "purgeQueue"),
        (
            get.clone(),
            queue("dead-letters"),
            none.clone(),
            "listDeadLetters",
        ),
        (post.clone(), revive, ids.clone(), "reviveDeadLetters"),
        (post, queue("dead-letters/drop"), ids, "dropDeadLetters"),
        (get.clone(), api("/peek"), none.clone(), ""),
        (get, api("/deadletter"), none.clone(), ""),
        (put, api("/deadletter?limit=9"), none.clone(), ""),
        (Method::DELETE, api("/deadletter?limit=9"), none.clone(), ""),
        (Method::DELETE, api(""), none, ""),
    ]
}

/// What lists the queues that a token may see: one that is narrowed sees fewer.
const LISTS: [&str; 4] = ["listEvents", "listQueues", "getOverview", "listSchedules"];

/// What may be over before a token of the test ends: its calls have bounds of their own, or need no store.
/// Forecasts that wait for others have a test of theirs.
const BRIEF: [&str; 4] = ["listAudit", "listNodes", "listSchedules", "forecastQueue"];

impl End {
    /// Whether an operation ends with a token that ends so.
    fn is_of(self, operation: &str) -> bool {
        let sees_less = matches!(self, Self::Narrowed) && LISTS.contains(&operation);
        !sees_less && !BRIEF.contains(&operation)
    }
}

/// The store does not respond, so each of them is at one of its steps, or waits for its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_many_steps_ends_with_its_token_everywhere() {
    let (redis, state) = (Redis::plain(), with_prefix(&servers::shared().url()));
    // So that the store does not fail before a token ends.
    let url = format!("{}?timeout=30s", redis.url());
    let start = || {
        let folder = tempfile::tempdir().unwrap();
        World::start_at_beside(folder, url.clone(), &state)
    };
    let (server, other) = (start().await, start().await);
    server.publish("/api/ns/q", "x").await;
    let mut tenants = Vec::new();
    for end in ENDS {
        tenants.push((end, Tenant(&server, end.token_of(&other, 2).await)));
    }
    redis.stop_process();
    let ends = async {
        // So many responses, that whatever was sent before has arrived.
        for _ in 0..20 {
            server.get("/v1/nothing").await.is(404);
        }
        join_all(
            tenants
                .iter()
                .map(|(end, it)| end.of(&it.1, &other, &server)),
        )
        .await
    };
    let requests = requests();
    let sent = tenants.iter().flat_map(|(end, tenant)| {
        let requests = requests.iter().filter(move |request| end.is_of(request.3));
        requests.map(move |(method, path, body, _)| async move {
            let sent = tenant.send(method.clone(), path, body);
            // Without an end it would be there for as long as the store is away.
            let sent = tokio::time::timeout(Duration::from_secs(30), sent).await;
            let sent = sent.unwrap_or_else(|_| panic!("{end:?}: {method} {path} goes on"));
            // What needs the list of buckets may fail before a token expires.
            let has_failed = matches!(end, End::Expired) && sent.status.is_server_error();
            assert!(
                has_failed || is_refused(sent.status.as_u16()),
                "{end:?}: {method} {path}: {sent:?}"
            );
        })
    });
    tokio::join!(join_all(sent), ends);
    redis.cont();
}
