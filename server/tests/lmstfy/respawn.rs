//! Respawns of dead jobs that are not all alike: some cannot be put back, some have more than a job of
//! lmstfy has, some die again meanwhile.

use std::time::Duration;

use duly::__server::payloads;
use duly::codec::{Codec, KeyRing, Raw};
use duly::config::{QueueChoices, Settings};
use duly::event::BUCKET_HEADER;
use duly::lease::LeaseStatus;
use duly::prelude::*;
use duly::{EventBuilder, LatePolicy, Unique};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::publish::data;
use crate::kills::Program;
use crate::servers::{Redis, RedisOptions};
use crate::test_clock::{advance, post};
use crate::world::{Reply, World, client, on_every_store, reply, until};

on_every_store! {
    what_dies_again_meanwhile_is_put_back_once
}

const TOKEN: &str = "a-token-of-several-servers";

/// A server as a program of its own, whose limits and keys may be others than those of the next.
struct Site {
    program: Program,
    _folder: TempDir,
}

impl Site {
    async fn start(redis: &Redis, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = Program::start_with(folder.path(), &redis.url(), variables);
        let admin = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
        reply(client().post(admin)).await; // of all servers after the first it is known
        Self {
            program,
            _folder: folder,
        }
    }

    async fn ask(&self, method: Method, path: &str, body: &str) -> Reply {
        let url = format!("{}/api/ns/q{path}", self.program.api);
        let request = client().request(method, url).header("X-Token", TOKEN);
        reply(request.body(body.to_owned())).await
    }

    async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path, "").await
    }

    async fn respawn(&self, limit: usize) -> Value {
        let path = format!("/deadletter?limit={limit}");
        self.ask(Method::PUT, &path, "").await.is(200)["count"].clone()
    }

    /// Asserts how many jobs are dead and how many ready.
    async fn has(&self, dead: usize, ready: usize) {
        let sizes = [
            self.get("/deadletter").await.is(200)["deadletter_size"].clone(),
            self.get("/size").await.is(200)["size"].clone(),
        ];
        assert_eq!(sizes, [json!(dead), json!(ready)]);
    }

    /// Has the one job that waits die.
    async fn die(&self) -> Value {
        let job = self.get("?ttr=0").await.is(200);
        until("the job is dead", async || {
            self.get("/deadletter").await.is(200)["deadletter_size"] == 1
        })
        .await;
        job
    }
}

/// A program in Rust on the queue of a site: it has a key, and may push larger events.
async fn rust(redis: &Redis) -> (Bus, Queue<Raw>) {
    let ring = KeyRing::new();
    let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    ring.add("k1", key.parse().unwrap()).unwrap();
    ring.choose("k1").unwrap();
    let mut settings = Settings::default();
    settings.payload_bytes_max = Some(4 << 20);
    let choices = QueueChoices {
        buckets: Some(1),
        codec: Some(Codec::Raw),
        ..QueueChoices::default()
    };
    let builder = Bus::builder().settings(settings).store_url(redis.url());
    let builder = builder.only_registered().publish_only().keys(ring);
    let bus = builder.queue("ns.q", choices).start().await.unwrap();
    let queue = bus.queue_named("ns.q").unwrap();
    (bus, queue)
}

/// Pushes an event and has it die.
async fn dead(queue: &Queue<Raw>, event: EventBuilder<Raw>) -> EventId {
    let id = event.push().await.unwrap().id();
    let (ttr, wait) = (Duration::from_secs(60), Duration::from_secs(10));
    for leased in queue.lease(1, ttr).wait(wait).send().await.unwrap() {
        assert_eq!(leased.id(), id);
        assert_eq!(leased.bury("no money").await.unwrap(), LeaseStatus::Held);
    }
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_jobs_that_cannot_be_put_back_keep_no_other_from_it() {
    let redis = Redis::start(RedisOptions::default());
    let site = Site::start(&redis, &[]).await;
    let (bus, queue) = rust(&redis).await;
    let plain = |body: &str| queue.event(Raw(body.as_bytes().to_vec()));
    let headers = (0..32).fold(plain("headers"), |event, n| {
        event.header(format!("h{n}"), "v")
    });
    let sealed = payloads::encrypted(queue.clone()).event(Raw(b"sealed".to_vec()));
    let large = queue.event(Raw(vec![7; (1 << 20) + (8 << 10)]));
    let mut ids = Vec::new();
    for event in [sealed, plain("a"), large, plain("b"), headers, plain("c")] {
        ids.push(dead(&queue, event).await);
    }
    let head = site.get("/deadletter").await.is(200);
    assert_eq!(head["deadletter_head"], ids[0].to_string());
    assert_eq!(site.respawn(1).await, 1, "the first that can be");
    site.has(5, 1).await;
    assert_eq!(site.respawn(100).await, 2);
    assert_eq!(site.respawn(100).await, 0);
    site.has(3, 3).await;
    let jobs = site.get("?count=10").await.is(200);
    let bodies = jobs.as_array().unwrap().iter().map(data);
    assert_eq!(bodies.collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    for id in [ids[0], ids[2], ids[4]] {
        let head = site.get("/deadletter").await.is(200);
        assert_eq!(head["deadletter_head"], id.to_string());
        site.ask(Method::DELETE, "/deadletter", "").await.is(204);
    }
    site.has(0, 0).await;
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// A consumer beside has all that is put back die again, at once.
async fn what_dies_again_meanwhile_is_put_back_once(world: World) {
    const JOBS: u64 = 250;
    let bulk = json!((0..50).collect::<Vec<_>>()).to_string();
    for _ in 0..JOBS / 50 {
        world.put("/api/ns/q/bulk?tries=1", &bulk).await.is(201);
    }
    while world.get("/api/ns/q?count=100&ttr=0").await.status == 200 {}
    world.wait_for_dead("q", JOBS).await;
    let kill = async {
        loop {
            world.get("/api/ns/q?count=100&ttr=0&timeout=1").await;
        }
    };
    let path = format!("/api/ns/q/deadletter?limit={}", JOBS * 10);
    let respawned = tokio::select! {
        respawned = world.put(&path, "") => respawned.is(200),
        () = kill => unreachable!("it goes on"),
    };
    assert_eq!(respawned["count"], JOBS);
}

/// The second server may push less than the first; what it has noted before that fails holds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawn_that_fails_leaves_a_job_the_id_that_clients_know() {
    let redis = Redis::start(RedisOptions::default());
    let first = Site::start(&redis, &[]).await;
    let second = Site::start(&redis, &[("DULY__PAYLOAD_BYTES_MAX", "200")]).await;
    for deaths in [1, 2, 3] {
        for is_deleted in [true, false] {
            let published = first.ask(Method::PUT, "?tries=1", &"x".repeat(300)).await;
            let id = published.is(201)["job_id"].clone();
            let job = format!("/job/{}", id.as_str().unwrap());
            assert_eq!(first.die().await["job_id"], id);
            for _ in 1..deaths {
                assert_eq!(first.respawn(1).await, 1);
                assert_eq!(first.die().await["job_id"], id);
            }
            second.ask(Method::PUT, "/deadletter", "").await;
            let found = first.get(&job).await.is(200);
            assert_eq!(found["job_id"], id, "after {deaths}");
            first.has(1, 0).await;
            if is_deleted {
                first.ask(Method::DELETE, &job, "").await.is(204);
                first.has(0, 0).await;
                assert_eq!(first.respawn(1).await, 0);
            } else {
                assert_eq!(first.respawn(1).await, 1);
                first.has(0, 1).await;
                assert_eq!(first.get("").await.is(200)["job_id"], id);
                first.ask(Method::DELETE, &job, "").await.is(204);
            }
            assert_eq!(first.get(&job).await.status, 404, "after {deaths}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawned_job_is_what_it_was_but_for_its_attempts_and_its_expiry() {
    let redis = Redis::start(RedisOptions::default());
    let site = Site::start(&redis, &[]).await;
    let (bus, queue) = rust(&redis).await;
    let hour = Duration::from_secs(3_600);
    let holder = || {
        let event = queue.event(Raw(b"other".to_vec()));
        event.unique("user:7", Unique::Keep)
    };
    for is_taken in [false, true] {
        let event = queue.event(Raw(b"body".to_vec())).key("customer:8");
        let event = event.unique("user:7", Unique::Keep).unique_for(hour);
        let event = event.late(LatePolicy::Bury(hour)).keep_payload(true);
        let event = event
            .header("duly-schedule", "nightly")
            .header("colour", "red");
        let id = dead(&queue, event).await;
        let was = queue.get(id).await.unwrap().unwrap().body.unwrap();
        if is_taken {
            assert!(holder().push().await.unwrap().is_accepted());
        }
        assert_eq!(site.respawn(1).await, 1);
        let page = queue.events().key("customer:8").page().await.unwrap();
        let [event] = &page.items[..] else {
            panic!("{page:?}");
        };
        let now = queue.get(event.id).await.unwrap().unwrap().body.unwrap();
        let headers = now.headers.iter();
        let headers = headers.filter(|(name, _)| name != "lmstfy-id" && name != BUCKET_HEADER);
        assert!(headers.eq(&was.headers), "{:?}", now.headers);
        assert_eq!((&now.key, now.late), (&was.key, was.late));
        assert!(now.keeps_payload);
        assert_eq!(now.unique.is_none(), is_taken);
        let again = holder().push().await.unwrap();
        assert!(again.is_duplicate());
        assert_eq!(again.id() == event.id, !is_taken);
        for id in [event.id, again.id()] {
            let _ = queue.cancel(id).await.unwrap();
        }
    }
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// As a job that waits it would be over; a respawn sets another ttl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_job_whose_ttl_is_over_is_respawned_and_not_revived() {
    let world = World::start_manual().await;
    let id = world.publish("/api/ns/q?ttl=60&tries=1", "body").await;
    let lease = json!({"max": 1, "ttr_ms": 30_000});
    let leased = post(&world, "/v1/ns/queues/q/leases", lease).await;
    let settle = format!(
        "/v1/ns/leases/{}/settle",
        leased[0]["token"].as_str().unwrap()
    );
    post(
        &world,
        &settle,
        json!({"outcome": "bury", "reason": "no money"}),
    )
    .await;
    advance(&world, json!({"by_ms": 61_000})).await;
    let revive = "/v1/ns/queues/q/dead-letters/revive";
    let revived = post(&world, revive, json!({"ids": [&id]})).await;
    assert_eq!(revived["done"], 0);
    assert_eq!((world.dead_size("q").await, world.size("q").await), (1, 0));
    let respawned = world.put("/api/ns/q/deadletter?ttl=60", "").await.is(200);
    assert_eq!(respawned["count"], 1);
    let job = world.consume("/api/ns/q?ttr=60").await;
    assert_eq!((&job["job_id"], data(&job)), (&json!(id), b"body".to_vec()));
}

/// What else pushes to the store may write any header; the mark of a respawned job is one of a note.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_of_no_respawn_is_no_name_of_a_job() {
    let world = World::start(crate::world::Place::Redis).await;
    let bus = Bus::builder().store_url(world.url()).publish_only();
    let bus = bus.dynamic_queues().start().await.unwrap();
    for (dies, tries) in [(false, 9), (true, 1)] {
        let other = world.publish("/api/ns/q?delay=3600", "other").await;
        let queue = bus.queue_to_push::<Value>("ns.q").unwrap();
        let event = queue.event(json!(1)).attempts(tries);
        let event = event.header("lmstfy-id", other.clone());
        let id = event.push().await.unwrap().id().to_string();
        let shown = if dies {
            world.consume("/api/ns/q?timeout=10&ttr=0").await;
            world.wait_for_dead("q", 1).await;
            let dead = world.get("/api/ns/q/deadletter").await.is(200);
            assert_eq!(dead["deadletter_head"], id);
            world.put("/api/ns/q/deadletter", "").await.is(200);
            world.get(&format!("/api/ns/q/job/{id}")).await.is(200)
        } else {
            world.wait_for_size("q", 1).await;
            let peeked = world.get("/api/ns/q/peek").await.is(200);
            assert_eq!(peeked["job_id"], id);
            let found = world.get(&format!("/api/ns/q/job/{id}")).await.is(200);
            assert_eq!(found["job_id"], id);
            world.consume("/api/ns/q?timeout=10&ttr=60").await
        };
        assert_eq!(shown["job_id"], id);
        world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
        assert_eq!(world.size("q").await, 0);
        // The other one is as it was.
        let path = format!("/api/ns/q/job/{other}");
        let left = world.get(&path).await.is(200);
        assert_eq!(data(&left), b"other");
        world.delete(&path).await.is(204);
    }
    bus.shutdown(Duration::from_secs(1)).await.unwrap();
}
