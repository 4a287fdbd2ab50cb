//! Whole or not at all: bulks that meet a taken id, clients that hang up, the file of the state.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::rights::admin_settings;
use crate::servers;
use crate::world::{Place, World, reply, until, with_prefix};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_that_meets_a_taken_id_leaves_it_alone() {
    let world = World::start(Place::Redis).await;
    let named = |payload: u64, key: &str| json!({"payload": payload, "idempotency_key": key});
    let send = async |events: Value| {
        let request = world.request(Method::POST, "/v1/ns/queues/q/events");
        let request = request.header("Content-Type", "application/json");
        reply(request.body(json!({"events": events}).to_string())).await
    };
    let first = send(json!([named(1, "a")])).await.is(201);
    // One of many is refused: each has its own result, and the others are named as pushed.
    let mixed = send(json!([named(2, "b"), named(9, "a"), named(3, "c")])).await;
    let results = mixed.is(207);
    assert_eq!(
        (&results[0]["duplicate"], &results[2]["duplicate"]),
        (&json!(false), &json!(false)),
        "{results}"
    );
    assert_eq!(results[1]["problem"]["status"], 409, "{results}");
    assert_eq!(world.size("q").await, 3);
    let alone = send(json!([named(9, "a")])).await;
    assert_eq!(alone.status, 409, "{alone:?}");
    let path = format!(
        "/v1/ns/queues/q/events/{}",
        first[0]["id"].as_str().unwrap()
    );
    world.get(&path).await.is(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_of_two_servers_cannot_meet() {
    let world = World::start(Place::Redis).await;
    let mut servers = vec![world.another().await, world.another().await];
    servers.push(world);
    let mut starts = std::collections::BTreeMap::new();
    for (server, world) in servers.iter().enumerate() {
        for _ in 0..20 {
            let id = world.publish("/api/ns/q", "x").await;
            let id: duly::EventId = id.parse().unwrap();
            // What is left of it beside time, counter and delay.
            let of = starts.entry(id.entropy() >> 52).or_insert(server);
            assert_eq!(*of, server);
        }
    }
    assert_eq!(starts.len(), servers.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_leaves_nothing_half_done() {
    let world = World::start(Place::Redis).await;
    for round in 0..30_u64 {
        let old = world.publish("/api/ns/q?delay=3600", "x").await;
        let republish = world
            .request(Method::PUT, &format!("/api/ns/q/job/{old}?delay=3600"))
            .body("y")
            .send();
        // It hangs up at one point or another.
        let _ = tokio::time::timeout(Duration::from_micros(round * 60), republish).await;
    }
    // Each republish was done whole or not at all, so each job is there once.
    let stats = async || world.get("/v1/ns/queues/q").await.is(200)["scheduled"].clone();
    until("every request has ended", async || stats().await == 30).await;
    assert_eq!(stats().await, 30);
}

/// The end of the old job fails before it has changed anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_republish_that_failed_half_way_is_sent_again_and_there_is_one_new_job() {
    let redis = servers::Redis::plain();
    let (folder, url) = (tempfile::tempdir().unwrap(), with_prefix(&redis.url()));
    let world = World::start_at(folder, url, "").await;
    let shown = async |state: &str| world.get("/v1/ns/queues/q").await.is(200)[state].clone();
    let fail = async |path: &str| {
        redis.cli(&["ACL", "SETUSER", "default", "-llen"]);
        let failed = world.put(path, "new").await;
        redis.cli(&["ACL", "SETUSER", "default", "+llen"]);
        assert!(failed.status.is_server_error(), "{failed:?}");
    };
    let old = world.publish("/api/ns/q?delay=3600", "old").await;
    let path = format!("/api/ns/q/job/{old}?delay=1800");
    for _ in 0..3 {
        fail(&path).await;
        assert_eq!(shown("scheduled").await, 2, "the old one, and the new one");
    }
    let new = world.put(&path, "new").await.is(201)["job_id"].clone();
    assert_eq!(shown("scheduled").await, 1);
    world.get(&format!("/api/ns/q/job/{old}")).await.is(404);
    let new = format!("/api/ns/q/job/{}", new.as_str().unwrap());
    world.get(&new).await.is(200);
    // What replaces nothing is a publish, however often it is sent.
    world.put(&path, "new").await.is(201);
    assert_eq!(shown("scheduled").await, 2);

    // A consumer may have been faster than who sends it again.
    let old = world.publish("/api/ns/q?delay=3600", "old").await;
    let path = format!("/api/ns/q/job/{old}?delay=1");
    fail(&path).await;
    let job = world.consume("/api/ns/q?timeout=20&ttr=60").await;
    let new = format!("/api/ns/q/job/{}", job["job_id"].as_str().unwrap());
    world.delete(&new).await.is(204);
    let again = world.put(&path, "new").await.is(201);
    assert_eq!(again["job_id"], job["job_id"]);
    assert_eq!(
        [shown("ready").await, shown("scheduled").await],
        [json!(0), json!(2)]
    );
    world.get(&format!("/api/ns/q/job/{old}")).await.is(404);
}

/// Each is cut while the store lets it write nothing, more often than there are places for connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_in_a_bulk_leaves_it_done_and_audited() {
    const ROUNDS: usize = 3;
    let redis = servers::Redis::plain();
    let (folder, url) = (tempfile::tempdir().unwrap(), with_prefix(&redis.url()));
    let world = World::start_at(folder, url, "[limits]\nconnections = 8\n").await;
    let post = |path: &str, body: Value| {
        let request = world.request(Method::POST, &format!("/v1/ns/{path}"));
        let request = request.header("Content-Type", "application/json");
        request.body(body.to_string())
    };
    let events = json!({"events": [{"payload": 1}, {"payload": 2}, {"payload": 3}]});
    // So many responses, that whatever was sent before has arrived.
    let others = async || {
        for _ in 0..20 {
            world.get("/v1/nothing").await.is(404);
        }
    };
    let hang_up = async |request: reqwest::RequestBuilder| {
        redis.cli(&["CLIENT", "PAUSE", "20000", "WRITE"]);
        let sent = tokio::spawn(request.send());
        others().await;
        if sent.is_finished() {
            panic!("it does not wait for the store: {:?}", sent.await);
        }
        sent.abort();
        assert!(sent.await.is_err());
        others().await;
        redis.cli(&["CLIENT", "UNPAUSE"]);
    };
    let shown = async |queue: &str, state: &str| {
        let stats = world.get(&format!("/v1/ns/queues/{queue}")).await.is(200);
        stats[state].as_u64().unwrap()
    };
    for round in 0..ROUNDS {
        let name = |what: &str| format!("{what}-{round}");
        for queue in ["purged", "cancelled", "revived"].map(name) {
            let push = post(&format!("queues/{queue}/events"), events.clone());
            reply(push).await.is(201);
        }
        let (pushed, revived) = (name("pushed"), name("revived"));
        let lease = json!({"ttr_ms": 60_000, "max": 3});
        let leased = reply(post(&format!("queues/{revived}/leases"), lease)).await;
        let mut ids = Vec::new();
        for lease in leased.is(200).as_array().unwrap() {
            ids.push(lease["id"].clone());
            let token = lease["token"].as_str().unwrap();
            let bury = json!({"outcome": "bury", "reason": "no"});
            reply(post(&format!("leases/{token}/settle"), bury))
                .await
                .is(204);
        }

        let purge = format!("queues/{}/purge", name("purged"));
        hang_up(post(&purge, json!({}))).await;
        let cancel = json!({"action": "cancel", "queue": name("cancelled")});
        hang_up(post("events/change", cancel)).await;
        hang_up(post(&format!("queues/{pushed}/events"), events.clone())).await;
        let revive = format!("queues/{revived}/dead-letters/revive");
        hang_up(post(&revive, json!({"ids": ids}))).await;

        until("all of it is done", async || {
            shown(&name("purged"), "ready").await == 0
                && shown(&name("cancelled"), "ready").await == 0
                && shown(&pushed, "ready").await == 3
                && shown(&revived, "ready").await == 3
        })
        .await;
        until("all of it is in the audit", async || {
            let audit = world.admin(Method::GET, "/audit?limit=100").await.text;
            let actions = [
                ("queue purged", name("purged")),
                ("events cancelled", name("cancelled")),
                ("dead letters revived", revived.clone()),
            ];
            let audit: Value = serde_json::from_str(&audit).unwrap();
            let lines: Vec<_> = audit["items"].as_array().unwrap().iter().collect();
            actions.iter().all(|(action, queue)| {
                let is_it = |line: &&&Value| {
                    line["action"] == *action && line.to_string().contains(queue.as_str())
                };
                lines.iter().filter(is_it).count() == 1
            })
        })
        .await;
    }
}

/// A bulk of more than one step of the store, of which the second finds no room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_bulk_that_fails_in_the_middle_is_undone() {
    let redis = servers::Redis::plain();
    let state = with_prefix(&servers::shared().url());
    let folder = tempfile::tempdir().unwrap();
    let world = World::start_at_beside(folder, redis.url(), &state).await;
    let other = world.publish("/api/ns/q?delay=3600", "other").await;
    let bulk = json!(vec!["x".repeat(400_000); 24]).to_string();
    let used = redis.cli(&["INFO", "memory"]);
    let used = used
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    let used: u64 = used.unwrap().trim().parse().unwrap();
    // Redis asks before a script, not within: there is room for the first step, of 4 MiB, and for what
    // Redis reads of it.
    let most = (used + (6 << 20)).to_string();
    redis.cli(&["CONFIG", "SET", "maxmemory", &most]);
    let refused = world.put("/api/ns/q/bulk?delay=3600", &bulk).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let left = world.get("/v1/ns/events?queue=q").await.is(200);
    let left: Vec<_> = left["items"].as_array().unwrap().iter().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["id"], other);
    until("its first step was done, and is undone", async || {
        let path = "/v1/ns/queues/q/records?outcome=cancelled";
        let records = world.get(path).await.is(200);
        !records["items"].as_array().unwrap().is_empty()
    })
    .await;
    world.put("/api/ns/q/bulk?delay=3600", &bulk).await.is(201);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_of_the_state_is_its_owners_and_one_servers() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.db");
    std::fs::write(&state, "").unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o644)).unwrap();
    let settings = || admin_settings(&format!("state = 'sqlite:{}'", state.display()));
    let server = duly_server::Server::start(settings()).await.unwrap();
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let mode = folder
            .path()
            .join(name)
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let second = duly_server::Server::start(settings()).await;
    let error = std::error::Error::source(&second.unwrap_err())
        .unwrap()
        .to_string();
    assert!(error.contains("another server uses this file"), "{error}");
    server.stop().await;
    let again = duly_server::Server::start(settings()).await.unwrap();
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_confirmed_into_a_file_of_the_state_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (state, away) = (
        folder.path().join("state.db"),
        folder.path().join("away.db"),
    );
    let settings = || admin_settings(&format!("state = 'sqlite:{}'", state.display()));
    let server = duly_server::Server::start(settings()).await.unwrap();
    let client = crate::world::client();
    let (admin, api) = (server.admin_address(), server.api_address());
    let create = |name: &str| {
        let url =
            format!("http://{admin}/token/ns?description=x&token={name}-of-twenty-characters");
        crate::world::reply(client.post(url))
    };
    let ready = || crate::world::reply(client.get(format!("http://{api}/readyz")));
    create("first").await.is(201);
    // Moved, replaced by a copy, and removed: each time another server could begin there.
    for copy in [None, Some(&away), None] {
        std::fs::rename(&state, &away).unwrap();
        if let Some(copy) = copy {
            std::fs::copy(copy, &state).unwrap();
        }
        let refused = create("second").await;
        assert!(refused.status.is_server_error(), "{refused:?}");
        let said = ready().await;
        assert_eq!(said.status, 503, "{said:?}");
        assert!(said.text.contains("is not there any more"), "{said:?}");
        std::fs::rename(&away, &state).unwrap();
        ready().await.is(200);
    }
    create("second").await.is(201);
    server.stop().await;
    let server = duly_server::Server::start(settings()).await.unwrap();
    let tokens = format!("http://{}/token/ns", server.admin_address());
    let tokens = crate::world::reply(client.get(tokens)).await.is(200);
    assert_eq!(tokens["tokens"].as_object().unwrap().len(), 2, "{tokens}");
    server.stop().await;
}
