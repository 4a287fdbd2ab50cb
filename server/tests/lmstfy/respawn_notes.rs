//! Notes of respawned jobs: they go when the jobs are over.

use serde_json::json;

use crate::servers;
use crate::world::{Place, World};

/// Publishes jobs, lets them die, and respawns them; returns their ids.
async fn respawned(world: &World, queue: &str, many: usize) -> Vec<String> {
    let jobs = json!((0..many).collect::<Vec<_>>()).to_string();
    let path = |end: &str| format!("/api/ns/{queue}{end}");
    let bulk = world.put(&path("/bulk?tries=1"), &jobs).await.is(201);
    let ids = bulk["job_ids"].as_array().unwrap().iter();
    let ids = ids.map(|id| id.as_str().unwrap().to_owned()).collect();
    die(world, queue, many).await;
    let respawned = world.put(&path("/deadletter?limit=1000"), "").await.is(200);
    assert_eq!(respawned["count"], many);
    ids
}

async fn die(world: &World, queue: &str, many: usize) {
    let leased = world
        .get(&format!("/api/ns/{queue}?count={many}&ttr=0"))
        .await;
    assert_eq!(leased.is(200).as_array().unwrap().len(), many);
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
    let over = respawned(&world, "over", 20).await;
    let waits = respawned(&world, "waits", 5).await;
    // They end without a word of lmstfy's contract that names them.
    die(&world, "over", 20).await;
    world
        .delete("/api/ns/over/deadletter?limit=20")
        .await
        .is(204);
    let notes = Notes::of(&world);
    assert_eq!(notes.count(), "25");
    // What is new may be of a job that is not pushed yet.
    respawned(&world, "more", 30).await;
    assert_eq!(notes.count(), "55");
    notes.age();
    respawned(&world, "last", 30).await;
    assert_eq!(notes.count(), "65", "the twenty are over, and only they");
    for (queue, ids, status) in [("waits", waits, 200), ("over", over, 404)] {
        for id in ids {
            let path = format!("/api/ns/{queue}/job/{id}");
            world.get(&path).await.is(status);
        }
    }
}
