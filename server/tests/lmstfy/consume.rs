//! Section 2: consume, ack, and what happens without one.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::publish::data;
use crate::world::{Place, World, on_every_store};

on_every_store! {
    a_job_has_all_its_fields_in_order
    parameters_are_checked_in_order
    a_count_above_one_returns_an_array
    the_order_of_names_is_the_priority
    a_poll_waits_for_a_job
    a_poll_ends_in_time
    a_queue_is_first_in_first_out
    a_job_comes_back_at_the_tail_after_its_ttr
    the_last_try_ends_in_the_dead_letter
    an_acked_job_is_gone
    a_late_ack_removes_a_job
    an_expired_job_vanishes
    a_leased_job_that_expires_vanishes
    a_delayed_job_is_never_early
    a_reply_is_published_to_a_queue_named_by_the_job
}

async fn a_job_has_all_its_fields_in_order(world: World) {
    let id = world.publish("/api/ns/q?tries=3&ttl=100", "hello").await;
    let reply = world.get("/api/ns/q?ttr=30").await;
    let job = reply.is(200);
    let elapsed = job["elapsed_ms"].as_u64().unwrap();
    assert_eq!(
        reply.text,
        format!(
            "{{\"attributes\":null,\"data\":\"aGVsbG8=\",\"elapsed_ms\":{elapsed},\
             \"job_id\":\"{id}\",\"msg\":\"new job\",\"namespace\":\"ns\",\"queue\":\"q\",\
             \"remain_tries\":2,\"ttl\":100}}"
        )
    );
    world.publish("/api/ns/q?ttl=0", "x").await;
    assert_eq!(world.consume("/api/ns/q").await["ttl"], 0);
    world.publish("/api/ns/q", "x").await;
    let job = world.consume("/api/ns/q").await;
    assert_eq!(
        (&job["ttl"], &job["remain_tries"]),
        (&json!(86_400), &json!(0))
    );
}

async fn parameters_are_checked_in_order(world: World) {
    let get = async |path: &str| world.get(&format!("/api/ns/{path}")).await;
    get(",?ttr=x&timeout=x&count=x")
        .await
        .fails(400, "invalid ttr");
    get(",?timeout=x&count=x")
        .await
        .fails(400, "invalid timeout");
    for count in ["x", "0", "101", ""] {
        get(&format!(",?count={count}"))
            .await
            .fails(400, "invalid count");
    }
    get(",,?count=100")
        .await
        .fails(400, "invalid queue name(s)");
    assert_eq!(
        get("q,,q,?freeze_tries=false").await.is(404),
        json!({"msg": "no job available"})
    );
}

async fn a_count_above_one_returns_an_array(world: World) {
    for n in 0..3 {
        world.publish("/api/ns/q", &n.to_string()).await;
    }
    let jobs = world.consume("/api/ns/q?count=2&timeout=5").await;
    assert_eq!(jobs.as_array().map(Vec::len), Some(2));
    let jobs = world.consume("/api/ns/q?count=2&timeout=5").await;
    assert_eq!(jobs.as_array().map(Vec::len), Some(1));
    assert_eq!(jobs[0]["msg"], "new job");
    world.get("/api/ns/q?count=2").await.is(404);
}

async fn the_order_of_names_is_the_priority(world: World) {
    for queue in ["low", "low", "high"] {
        world.publish(&format!("/api/ns/{queue}"), queue).await;
    }
    let jobs = world.consume("/api/ns/none,high,low?count=3").await;
    let queues: Vec<_> = jobs
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["queue"].clone())
        .collect();
    assert_eq!(queues, ["high", "low", "low"]);
}

async fn a_poll_waits_for_a_job(world: World) {
    let poll = world.consume("/api/ns/other,q?timeout=20&count=5");
    let publish = async {
        world.wait_for_poll().await;
        world.publish("/api/ns/q", "x").await
    };
    let began = Instant::now();
    let (jobs, id) = tokio::join!(poll, publish);
    assert_eq!(jobs[0]["job_id"], id);
    assert!(began.elapsed() < Duration::from_secs(10));
}

async fn a_poll_ends_in_time(world: World) {
    let began = Instant::now();
    world.get("/api/ns/q?timeout=1&count=5").await.is(404);
    assert!(began.elapsed() >= Duration::from_secs(1));
}

async fn a_queue_is_first_in_first_out(world: World) {
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(Value::from(
            world.publish("/api/ns/q", &n.to_string()).await,
        ));
    }
    let mut consumed = Vec::new();
    for _ in 0..20 {
        consumed.push(world.consume("/api/ns/q").await["job_id"].clone());
    }
    assert_eq!(consumed, ids);
}

async fn a_job_comes_back_at_the_tail_after_its_ttr(world: World) {
    let first = world.publish("/api/ns/q?tries=2", "first").await;
    let began = Instant::now();
    assert_eq!(world.consume("/api/ns/q?ttr=1").await["job_id"], first);
    let second = world.publish("/api/ns/q", "second").await;
    world.wait_for_size("q", 2).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "never early");
    let jobs = world.consume("/api/ns/q?count=2").await;
    assert_eq!(
        (&jobs[0]["job_id"], &jobs[1]["job_id"]),
        (&json!(second), &json!(first))
    );
    assert_eq!(jobs[1]["remain_tries"], 0);
}

async fn the_last_try_ends_in_the_dead_letter(world: World) {
    let id = world.publish("/api/ns/q?ttl=30", "x").await;
    world.consume("/api/ns/q?ttr=0").await;
    world.wait_for_dead("q", 1).await;
    world.get("/api/ns/q").await.is(404);
    let found = world.get(&format!("/api/ns/q/job/{id}")).await.is(200);
    assert_eq!(
        (&found["ttl"], &found["remain_tries"]),
        (&json!(0), &json!(0))
    );
}

async fn an_acked_job_is_gone(world: World) {
    let id = world.publish("/api/ns/q?tries=5", "x").await;
    world.consume("/api/ns/q").await;
    world
        .delete(&format!("/api/ns/other/job/{id}"))
        .await
        .is(204);
    world.get(&format!("/api/ns/q/job/{id}")).await.is(200);
    let acked = world.delete(&format!("/api/ns/q/job/{id}")).await;
    assert_eq!((acked.status.as_u16(), acked.text.as_str()), (204, ""));
    world
        .get(&format!("/api/ns/q/job/{id}"))
        .await
        .fails(404, "job not found");
    world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    world.delete("/api/ns/q/job/nonsense").await.is(204);
}

async fn a_late_ack_removes_a_job(world: World) {
    let id = world.publish("/api/ns/q?tries=5", "x").await;
    world.consume("/api/ns/q?ttr=0").await;
    world.wait_for_size("q", 1).await;
    world.delete(&format!("/api/ns/q/job/{id}")).await.is(204);
    assert_eq!(world.size("q").await, 0);
    world.get("/api/ns/q").await.is(404);
}

async fn an_expired_job_vanishes(world: World) {
    let id = world.publish("/api/ns/q?ttl=1", "x").await;
    let path = format!("/api/ns/q/job/{id}");
    crate::world::until("the job has expired", async || {
        world.get(&path).await.status == 404
    })
    .await;
    world.get("/api/ns/q").await.is(404);
    assert_eq!(world.dead_size("q").await, 0);
}

async fn a_leased_job_that_expires_vanishes(world: World) {
    let id = world.publish("/api/ns/q?ttl=1&tries=5", "x").await;
    world.consume("/api/ns/q?ttr=2").await;
    let path = format!("/api/ns/q/job/{id}");
    crate::world::until("the job has expired", async || {
        world.get(&path).await.status == 404
    })
    .await;
    // A poll that ends later than its lease.
    world.get("/api/ns/q?timeout=3").await.is(404);
    assert_eq!((world.size("q").await, world.dead_size("q").await), (0, 0));
}

async fn a_delayed_job_is_never_early(world: World) {
    let began = Instant::now();
    world.publish("/api/ns/q?delay=1", "x").await;
    assert_eq!(world.size("q").await, 0);
    let job = world.consume("/api/ns/q?timeout=10").await;
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert!(job["elapsed_ms"].as_u64().unwrap() >= 1_000);
    assert_eq!(data(&job), b"x");
}

async fn a_reply_is_published_to_a_queue_named_by_the_job(world: World) {
    let id = world.publish("/api/ns/work", "question").await;
    let reply_path = format!("/api/ns/{id}?timeout=20");
    let worker = async {
        let job = world.consume("/api/ns/work?timeout=20").await;
        let path = format!("/api/ns/{}", job["job_id"].as_str().unwrap());
        world.publish(&path, "answer").await;
    };
    let (reply, ()) = tokio::join!(world.consume(&reply_path), worker);
    assert_eq!(data(&reply), b"answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_defaults_are_settings() {
    let jobs = "[jobs]\ndelay_s = 1\nttl_s = 50\ntries = 3\nttr_s = 0\ntimeout_s = 20";
    let world = World::start_with(Place::Embedded, jobs).await;
    let began = Instant::now();
    let id = world.publish("/api/ns/q", "x").await;
    assert!(id.ends_with("0G0000"), "{id}");
    let job = world.consume("/api/ns/q").await;
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!((45..50).contains(&job["ttl"].as_u64().unwrap()), "{job}");
    assert_eq!(job["remain_tries"], 2);
    let job = world.consume("/api/ns/q").await;
    assert_eq!(job["remain_tries"], 1, "its time to run was 0");
}
