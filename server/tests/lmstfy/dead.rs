//! Section 2: dead letters.

use std::time::Duration;

use duly::codec::{Codec, Frame, KeyRing, Raw};
use duly::config::QueueChoices;
use duly::lease::LeaseStatus;
use duly::prelude::*;
use serde_json::json;

use super::publish::data;
use crate::kills::Program;
use crate::servers::{Redis, RedisOptions};
use crate::test_clock::{advance, post};
use crate::world::{World, client, on_every_store, reply};

on_every_store! {
    an_empty_dead_letter
    the_head_is_the_oldest
    a_respawned_job_keeps_its_id
    a_respawned_job_dies_and_is_respawned_again
    respawn_is_limited_and_oldest_first
    dead_letters_are_deleted_oldest_first
    a_dead_job_is_deleted_by_its_id
    respawns_at_the_same_time_double_no_job
}

/// Publishes a job and lets it die.
async fn die(world: &World, body: &str) -> String {
    let dead = world.dead_size("q").await;
    let id = world.publish("/api/ns/q?ttl=50", body).await;
    world.consume("/api/ns/q?ttr=0").await;
    world.wait_for_dead("q", dead + 1).await;
    id
}

async fn an_empty_dead_letter(world: World) {
    let reply = world.get("/api/ns/q/deadletter").await;
    reply.is(200);
    let empty = r#"{"deadletter_head":"","deadletter_size":0,"namespace":"ns","queue":"q"}"#;
    assert_eq!(reply.text, empty);
    let respawned = world.put("/api/ns/q/deadletter", "").await.is(200);
    assert_eq!(respawned, json!({"count": 0, "msg": "respawned"}));
    world.delete("/api/ns/q/deadletter").await.is(204);
    for wrong in ["0", "-1", "x", ""] {
        let path = format!("/api/ns/q/deadletter?limit={wrong}");
        world.put(&path, "").await.fails(400, "invalid limit");
        world.delete(&path).await.fails(400, "invalid limit");
    }
    world
        .put("/api/ns/q/deadletter?ttl=x", "")
        .await
        .fails(400, "invalid ttl");
}

async fn the_head_is_the_oldest(world: World) {
    let first = die(&world, "first").await;
    die(&world, "second").await;
    let dead = world.get("/api/ns/q/deadletter").await.is(200);
    assert_eq!(dead["deadletter_size"], 2);
    assert_eq!(dead["deadletter_head"], first);
}

async fn a_respawned_job_keeps_its_id(world: World) {
    let id = die(&world, "body").await;
    let respawned = world.put("/api/ns/q/deadletter?ttl=100", "").await.is(200);
    assert_eq!(respawned, json!({"count": 1, "msg": "respawned"}));
    assert_eq!((world.dead_size("q").await, world.size("q").await), (0, 1));
    let found = world.get(&format!("/api/ns/q/job/{id}")).await.is(200);
    assert_eq!((&found["job_id"], &found["ttl"]), (&json!(id), &json!(100)));
    let job = world.consume("/api/ns/q").await;
    assert_eq!(
        (&job["job_id"], &job["remain_tries"]),
        (&json!(id), &json!(0))
    );
    assert_eq!(job["attributes"], json!(null));
    assert_eq!(data(&job), b"body");
    world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    world.get(&format!("/api/ns/q/job/{id}")).await.is(404);
}

async fn a_respawned_job_dies_and_is_respawned_again(world: World) {
    let id = die(&world, "body").await;
    for _ in 0..3 {
        let respawned = world.put("/api/ns/q/deadletter?ttl=0", "").await.is(200);
        assert_eq!(respawned["count"], 1);
        let job = world.consume("/api/ns/q?ttr=0").await;
        assert_eq!((&job["job_id"], &job["ttl"]), (&json!(id), &json!(0)));
        world.wait_for_dead("q", 1).await;
        let dead = world.get("/api/ns/q/deadletter").await.is(200);
        assert_eq!(dead["deadletter_head"], id);
    }
}

async fn respawn_is_limited_and_oldest_first(world: World) {
    let mut ids = Vec::new();
    for body in ["a", "b", "c"] {
        ids.push(die(&world, body).await);
    }
    let respawned = world.put("/api/ns/q/deadletter?limit=2", "").await.is(200);
    assert_eq!(respawned["count"], 2);
    let jobs = world.consume("/api/ns/q?count=5").await;
    let jobs = jobs.as_array().unwrap();
    let back: Vec<_> = jobs.iter().map(|job| job["job_id"].clone()).collect();
    assert_eq!(back, ids[..2]);
    assert_eq!(jobs[0]["ttl"], 86_400);
    assert_eq!(world.dead_size("q").await, 1);
    let respawned = world
        .put("/api/ns/q/deadletter?limit=100", "")
        .await
        .is(200);
    assert_eq!(respawned["count"], 1);
}

async fn dead_letters_are_deleted_oldest_first(world: World) {
    let first = die(&world, "a").await;
    let second = die(&world, "b").await;
    world.delete("/api/ns/q/deadletter").await.is(204);
    world.get(&format!("/api/ns/q/job/{first}")).await.is(404);
    world.get(&format!("/api/ns/q/job/{second}")).await.is(200);
    world.delete("/api/ns/q/deadletter?limit=10").await.is(204);
    assert_eq!(world.dead_size("q").await, 0);
}

async fn a_dead_job_is_deleted_by_its_id(world: World) {
    let id = die(&world, "a").await;
    world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    assert_eq!(world.dead_size("q").await, 0);
}

/// Consumes jobs without an ack until there are none; returns their ids, sorted.
async fn all_of(world: &World, ttr_s: u32) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let path = format!("/api/ns/q?count=100&ttr={ttr_s}");
        let jobs = world.get(&path).await;
        if jobs.status == 404 {
            break;
        }
        let jobs = jobs.is(200);
        let some = jobs.as_array().unwrap().iter();
        ids.extend(some.map(|job| job["job_id"].as_str().unwrap().to_owned()));
    }
    ids.sort_unstable();
    ids
}

async fn respawns_at_the_same_time_double_no_job(world: World) {
    const JOBS: u64 = 192;
    let bulk: Vec<u64> = (0..64).collect();
    let bulk = json!(bulk).to_string();
    let mut published = Vec::new();
    while published.len() < usize::try_from(JOBS).unwrap() {
        let reply = world.put("/api/ns/q/bulk?tries=1", &bulk).await.is(201);
        let ids = reply["job_ids"].as_array().unwrap().iter();
        published.extend(ids.map(|id| id.as_str().unwrap().to_owned()));
    }
    published.sort_unstable();
    // They die, are respawned for the first time, and again and again.
    for round in 0..4 {
        let dying = all_of(&world, 0).await;
        assert_eq!(dying, published, "{round}");
        world.wait_for_dead("q", JOBS).await;
        let respawn = async |limit: u64| {
            let path = format!("/api/ns/q/deadletter?limit={limit}");
            let respawned = world.put(&path, "").await.is(200);
            respawned["count"].as_u64().unwrap()
        };
        let counts = tokio::join!(respawn(1_000), respawn(1_000), respawn(100), respawn(7));
        let all = counts.0 + counts.1 + counts.2 + counts.3;
        assert_eq!(all, JOBS, "{round}: {counts:?}");
        assert_eq!(world.dead_size("q").await, 0, "{round}");
        assert_eq!(world.size("q").await, JOBS, "{round}");
    }
    let last = all_of(&world, 600).await;
    assert_eq!(last, published);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawned_job_is_stored_as_it_was_encrypted_with_its_codec_and_version() {
    let redis = Redis::start(RedisOptions::default());
    let (key, folder) = (
        "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
        tempfile::tempdir().unwrap(),
    );
    let keys = format!("k1={key}");
    let variables = [
        ("DULY__ENCRYPTION__KEYS", keys.as_str()),
        ("DULY__ENCRYPTION__USE", "k1"),
    ];
    let program = Program::start_with(folder.path(), &redis.url(), &variables);
    let token = "a-token-of-a-server-with-a-key";
    let admin = format!("{}/token/ns?description=d&token={token}", program.admin);
    reply(client().post(admin)).await.is(201);
    // A program in Rust, whose queue is encrypted and has versions; the server knows nothing of both.
    let ring = KeyRing::new();
    ring.add("k1", key.parse().unwrap()).unwrap();
    ring.choose("k1").unwrap();
    let builder = Bus::builder().store_url(redis.url()).only_registered();
    let mut builder = builder
        .settings(Default::default())
        .publish_only()
        .keys(ring);
    for (queue, encrypt) in [("ns.cards", true), ("ns.prices", false)] {
        let choices = QueueChoices {
            encrypt: Some(encrypt),
            codec: Some(Codec::Raw),
            version: Some(2),
            ..QueueChoices::default()
        };
        builder = builder.queue(queue, choices);
    }
    let bus = builder.start().await.unwrap();
    for (name, encrypt) in [("cards", true), ("prices", false)] {
        let queue = bus.queue_named::<Raw>(&format!("ns.{name}")).unwrap();
        // Raw bytes that could be JSON.
        let event = queue.event(Raw(b"4711".to_vec())).key("customer:8");
        event.push().await.unwrap();
        let (ttr, wait) = (Duration::from_secs(60), Duration::from_secs(10));
        for leased in queue.lease(1, ttr).wait(wait).send().await.unwrap() {
            assert_eq!(leased.bury("no money").await.unwrap(), LeaseStatus::Held);
        }
        let path = format!("{}/api/ns/{name}/deadletter", program.api);
        let respawned = reply(client().put(path).header("X-Token", token)).await;
        assert_eq!(respawned.is(200)["count"], 1);
        let page = queue.events().key("customer:8").page().await.unwrap();
        let [event] = &page.items[..] else {
            panic!("{page:?}");
        };
        let body = queue.get(event.id).await.unwrap().unwrap().body.unwrap();
        let frame = Frame::read(body.payload.as_bytes()).unwrap();
        assert_eq!(frame.key_id, encrypt.then_some("k1"), "{name}");
        assert_eq!((frame.codec, body.version), (Codec::Raw, 2), "{name}");
        assert_eq!(&*event.payload_as::<Raw>().unwrap(), b"4711");
    }
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

const HOUR_MS: u64 = 3_600_000;

/// Leases the one job that waits, and settles it.
async fn settle(world: &World, settlement: serde_json::Value) {
    let lease = json!({"max": 2, "ttr_ms": 30_000});
    let leased = post(world, "/v1/ns/queues/q/leases", lease).await;
    assert_eq!(leased.as_array().unwrap().len(), 1, "{leased}");
    let token = leased[0]["token"].as_str().unwrap();
    post(world, &format!("/v1/ns/leases/{token}/settle"), settlement).await;
}

async fn bury(world: &World) {
    let dead = world.dead_size("q").await;
    settle(world, json!({"outcome": "bury", "reason": "no money"})).await;
    world.wait_for_dead("q", dead + 1).await;
}

/// Lets time pass until the store has dropped the tombstones of before.
async fn pass(world: &World, hours: u64) {
    advance(world, json!({"by_ms": hours * HOUR_MS})).await;
    world.publish("/api/ns/q?ttl=0", "later").await;
    settle(world, json!({"outcome": "ack"})).await;
}

/// Asserts that a job, the only one, is put back under an id.
async fn is_put_back(world: &World, id: &str) {
    let respawned = world.put("/api/ns/q/deadletter?ttl=0", "").await.is(200);
    assert_eq!(respawned["count"], 1);
    assert_eq!((world.dead_size("q").await, world.size("q").await), (0, 1));
    world.get(&format!("/api/ns/q/job/{id}")).await.is(200);
    let found = world.get("/api/ns/q/peek").await.is(200);
    assert_eq!(found["job_id"], id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_job_is_put_back_although_tombstones_of_later_jobs_have_gone() {
    let world = World::start_manual().await;
    let id = world.publish("/api/ns/q?ttl=0", "body").await;
    bury(&world).await;
    pass(&world, 1).await;
    pass(&world, 25).await;
    is_put_back(&world, &id).await;
    let job = world.consume("/api/ns/q?ttr=60").await;
    assert_eq!((&job["job_id"], data(&job)), (&json!(id), b"body".to_vec()));
    world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    world.get(&format!("/api/ns/q/job/{id}")).await.is(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_job_of_a_name_is_put_back_although_an_earlier_one_of_the_name_was() {
    let world = World::start_manual().await;
    let named = json!({"payload": 7, "idempotency_key": "statement:7"});
    let push = async || {
        let events = json!({"events": [&named]});
        let pushed = post(&world, "/v1/ns/queues/q/events", events).await;
        assert_eq!(pushed[0]["duplicate"], false, "{pushed}");
        pushed[0]["id"].as_str().unwrap().to_owned()
    };
    let id = push().await;
    bury(&world).await;
    is_put_back(&world, &id).await;
    pass_until_forgotten(&world).await;
    assert_eq!(push().await, id);
    bury(&world).await;
    is_put_back(&world, &id).await;
    // The id that clients know means the later one.
    world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    assert_eq!(world.size("q").await, 0);
}

/// Lets time pass until the store has forgotten a name, and not yet the job that was put back for it.
async fn pass_until_forgotten(world: &World) {
    advance(world, json!({"by_ms": 20 * HOUR_MS})).await;
    settle(world, json!({"outcome": "ack"})).await;
    pass(world, 5).await;
}
