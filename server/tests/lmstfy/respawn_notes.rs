//! Notes of respawned jobs: they go when the jobs are over.

use serde_json::json;

use crate::servers;
use crate::world::{Place, World, until};

/// Publishes jobs, lets them die, and respawns them for so many seconds; returns their ids.
async fn respawned(world: &World, queue: &str, many: usize, ttl_s: u32) -> Vec<String> {
    let jobs = json!((0..many).collect::<Vec<_>>()).to_string();
    let path = |end: &str| format!("/api/ns/{queue}{end}");
    let bulk = world.put(&path("/bulk?tries=1"), &jobs).await.is(201);
    let ids = bulk["job_ids"].as_array().unwrap().iter();
    let ids = ids.map(|id| id.as_str().unwrap().to_owned()).collect();
    die(world, queue, many).await;
    let respawn = path(&format!("/deadletter?limit=1000&ttl={ttl_s}"));
    assert_eq!(world.put(&respawn, "").await.is(200)["count"], many);
    ids
}

async fn lease(world: &World, queue: &str, many: usize, ttr_s: u32) {
    let path = format!("/api/ns/{queue}?count={many}&ttr={ttr_s}");
    let leased = world.get(&path).await.is(200);
    assert_eq!(leased.as_array().unwrap().len(), many);
}

async fn die(world: &World, queue: &str, many: usize) {
    lease(world, queue, many, 0).await;
    world
        .wait_for_dead(queue, u64::try_from(many).unwrap())
        .await;
}

/// The notes of a world in the shared Redis.
struct Notes(String);

impl Notes {
    fn of(world: &World) -> Self {
        let (_, prefix) = world.url().split_once("prefix=").unwrap();
        let pattern = format!("*{prefix}*:respawned");
        let keys = servers::shared().cli(&["--scan", "--pattern", &pattern]);
        assert_eq!(keys.lines().count(), 1, "{keys}");
        Self(keys)
    }

    fn count(&self) -> String {
        servers::shared().cli(&["HLEN", &self.0])
    }

    /// Takes the times out of all notes, as if they were of long ago.
    fn age(&self) {
        let age = "for _, key in ipairs(redis.call('HKEYS', KEYS[1])) do
                     local id = string.match(redis.call('HGET', KEYS[1], key), '^%S+')
                     redis.call('HSET', KEYS[1], key, id)
                   end";
        servers::shared().cli(&["EVAL", age, "1", &self.0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_noted_of_respawned_jobs_goes_when_they_are_over() {
    let world = World::start(Place::Redis).await;
    let path = |queue: &str, id: &String| format!("/api/ns/{queue}/job/{id}");
    // A consumer has them, and they expire meanwhile.
    let expired = respawned(&world, "expired", 5, 5).await;
    lease(&world, "expired", 5, 600).await;
    let over = respawned(&world, "over", 20, 0).await;
    let waiting = respawned(&world, "waiting", 5, 0).await;
    let leased = respawned(&world, "leased", 5, 600).await;
    lease(&world, "leased", 5, 600).await;
    let dead = respawned(&world, "dead", 5, 0).await;
    die(&world, "dead", 5).await;
    // They end without a word of lmstfy's contract that names them.
    die(&world, "over", 20).await;
    world
        .delete("/api/ns/over/deadletter?limit=20")
        .await
        .is(204);
    let notes = Notes::of(&world);
    assert_eq!(notes.count(), "40");
    // What is new may be of a job that is not pushed yet.
    respawned(&world, "more", 30, 0).await;
    assert_eq!(notes.count(), "70");
    for id in &expired {
        until("it has expired", async || {
            world.get(&path("expired", id)).await.status == 404
        })
        .await;
    }
    notes.age();
    respawned(&world, "last", 30, 0).await;
    assert_eq!(notes.count(), "80", "the twenty are over, and only they");
    for (queue, ids, status) in [
        ("waiting", &waiting, 200),
        ("leased", &leased, 200),
        ("dead", &dead, 200),
        ("over", &over, 404),
    ] {
        for id in ids {
            world.get(&path(queue, id)).await.is(status);
        }
    }
    // The ids that clients know end the others.
    for (queue, ids) in [
        ("waiting", waiting),
        ("leased", leased),
        ("expired", expired),
        ("dead", dead),
    ] {
        for id in ids {
            world.delete(&path(queue, &id)).await.is(204);
        }
        let stats = world.get(&format!("/v1/ns/queues/{queue}")).await.is(200);
        for state in ["scheduled", "ready", "leased", "dead"] {
            assert_eq!(stats[state], 0, "{queue}: {stats}");
        }
    }
}
