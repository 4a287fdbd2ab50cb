//! Section 2: peek, size, a job by its id, destroy.

use futures_util::future::join_all;
use serde_json::json;

use super::publish::data;
use crate::world::{World, on_every_store};

on_every_store! {
    a_peek_shows_the_oldest_ready_job
    a_peek_at_a_busy_queue_finds_a_job
    a_job_is_found_in_any_state
    destroy_removes_ready_jobs_alone
    a_delayed_job_is_recalled
    a_due_job_is_ready_although_nobody_polls
}

async fn a_peek_shows_the_oldest_ready_job(world: World) {
    world
        .get("/api/ns/q/peek")
        .await
        .fails(404, "the queue is empty");
    world.publish("/api/ns/q?delay=60", "later").await;
    let id = world.publish("/api/ns/q?tries=3", "first").await;
    world.publish("/api/ns/q", "second").await;
    let job = world.get("/api/ns/q/peek").await.is(200);
    assert_eq!(
        (&job["job_id"], &job["remain_tries"]),
        (&json!(id), &json!(3))
    );
    assert_eq!(data(&job), b"first");
    assert!(job.get("msg").is_none());
    assert_eq!(world.size("q").await, 2);
}

/// Consumers take the jobs at its head while it is looked for.
async fn a_peek_at_a_busy_queue_finds_a_job(world: World) {
    let bulk = json!((0..64).collect::<Vec<_>>()).to_string();
    for _ in 0..40 {
        world.put("/api/ns/q/bulk", &bulk).await.is(201);
    }
    // The last ones stay.
    let consume = async {
        for _ in 0..20 {
            let jobs = world.get("/api/ns/q?count=100&ttr=600").await.is(200);
            let ids = jobs.as_array().unwrap().iter();
            let acks = ids.map(|job| {
                let path = format!("/api/ns/q/job/{}", job["job_id"].as_str().unwrap());
                async { world.delete(&{ path }).await.is(204) }
            });
            join_all(acks).await;
        }
    };
    let peek = async {
        loop {
            world.get("/api/ns/q/peek").await.is(200);
        }
    };
    tokio::select! {
        () = consume => {}
        () = peek => unreachable!("it goes on"),
    }
}

async fn a_job_is_found_in_any_state(world: World) {
    world
        .get("/api/ns/q/job/nonsense")
        .await
        .fails(404, "job not found");
    let delayed = world.publish("/api/ns/q?delay=60", "x").await;
    let found = world.get(&format!("/api/ns/q/job/{delayed}")).await.is(200);
    assert_eq!(
        (&found["job_id"], &found["remain_tries"]),
        (&json!(delayed), &json!(0))
    );
    let leased = world.publish("/api/ns/q?tries=9", "x").await;
    world.consume("/api/ns/q").await;
    let found = world.get(&format!("/api/ns/q/job/{leased}")).await.is(200);
    assert_eq!(found["remain_tries"], 0);
    assert!(found.get("msg").is_none());
    world
        .get(&format!("/api/ns/other/job/{leased}"))
        .await
        .fails(404, "job not found");
}

async fn destroy_removes_ready_jobs_alone(world: World) {
    let delayed = world.publish("/api/ns/q?delay=60", "x").await;
    let leased = world.publish("/api/ns/q", "x").await;
    world.consume("/api/ns/q").await;
    let ready = world.publish("/api/ns/q", "x").await;
    world.publish("/api/ns/other", "x").await;
    world.delete("/api/ns/q").await.is(204);
    assert_eq!(world.size("q").await, 0);
    assert_eq!(world.size("other").await, 1);
    world.get(&format!("/api/ns/q/job/{ready}")).await.is(404);
    world.get(&format!("/api/ns/q/job/{leased}")).await.is(200);
    world.get(&format!("/api/ns/q/job/{delayed}")).await.is(200);
    world.delete("/api/ns/q").await.is(204);
}

async fn a_due_job_is_ready_although_nobody_polls(world: World) {
    let id = world.publish("/api/ns/q?delay=1", "x").await;
    assert_eq!(world.size("q").await, 0);
    world
        .get("/api/ns/q/peek")
        .await
        .fails(404, "the queue is empty");
    world.wait_for_size("q", 1).await;
    let job = world.get("/api/ns/q/peek").await.is(200);
    assert_eq!(job["job_id"], id);
    world.delete("/api/ns/q").await.is(204);
    assert_eq!(world.size("q").await, 0);
    world.get(&format!("/api/ns/q/job/{id}")).await.is(404);
}

async fn a_delayed_job_is_recalled(world: World) {
    let id = world.publish("/api/ns/q?delay=60", "x").await;
    world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    world.get(&format!("/api/ns/q/job/{id}")).await.is(404);
}
