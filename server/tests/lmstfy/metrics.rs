//! Section 3: metrics, by the names and labels that lmstfy's dashboard reads.

use reqwest::Method;

use crate::kills::Program;
use crate::servers::{Redis, RedisOptions, WallClock};
use crate::world::{Place, World, client, on_every_store, reply, until};

on_every_store! {
    requests_and_jobs_are_counted
    sizes_of_queues_are_gauges
    refused_calls_are_counted_by_token
}

/// Returns a queue that no other test of this process uses.
fn queue() -> String {
    format!("metrics-{}", fastrand::u64(..))
}

/// Returns the page, whose samples have their labels in the order of their names.
async fn page(world: &World) -> Vec<String> {
    let page = world.admin(Method::GET, "/metrics").await;
    assert_eq!(page.status, 200);
    page.text.lines().map(sorted).collect()
}

fn sorted(line: &str) -> String {
    let parts = line
        .split_once('{')
        .and_then(|(name, rest)| Some((name, rest.rsplit_once('}')?)));
    let Some((name, (labels, value))) = parts else {
        return line.to_owned();
    };
    let mut labels: Vec<&str> = labels.split(',').collect();
    labels.sort_unstable();
    format!("{name}{{{}}}{value}", labels.join(","))
}

fn has(page: &[String], begin: &str) {
    assert!(page.iter().any(|line| line.starts_with(begin)), "{begin}");
}

async fn requests_and_jobs_are_counted(world: World) {
    let queue = queue();
    let path = format!("/api/ns/{queue}");
    world.publish(&path, "x").await;
    world.publish(&format!("{path}?delay=600"), "x").await;
    let job = world.consume(&format!("{path}?count=2")).await;
    let id = job[0]["job_id"].as_str().unwrap();
    world.delete(&format!("{path}/job/{id}")).await.is(204);
    world.put(&format!("{path}/deadletter"), "").await.is(200);
    let page = page(&world).await;
    let labels = format!("namespace=\"ns\",pool=\"default\",queue=\"{queue}\"");
    has(
        &page,
        &format!("infra_lmstfy_redis_publish_queue_jobs{{{labels}}} 2"),
    );
    has(
        &page,
        &format!("infra_lmstfy_redis_consume_queue_jobs{{{labels}}} 1"),
    );
    for name in ["job_elapsed_ms", "job_ack_elapsed_ms"] {
        has(
            &page,
            &format!("infra_lmstfy_redis_{name}_count{{{labels}}} 1"),
        );
        for bound in ["15", "52.5", "183.75", "27573.984375", "+Inf"] {
            let bucket = format!("infra_lmstfy_redis_{name}_bucket{{le=\"{bound}\",{labels}}}");
            has(&page, &bucket);
        }
    }
    for name in [
        "publish_jobs",
        "consume_multi_jobs",
        "pool_add_jobs",
        "pool_get_jobs",
        "pool_delete_jobs",
        "timer_add_jobs",
        "queue_direct_push_jobs",
        "queue_pop_jobs",
        "deadletter_respawn_jobs",
    ] {
        has(
            &page,
            &format!("infra_lmstfy_redis_{name}{{pool=\"default\"}} "),
        );
    }
    let call = "api=\"/api/:namespace/:queue\",code=\"201\",method=\"PUT\",namespace=\"ns\",pool=\"default\"";
    has(&page, &format!("infra_lmstfy_http_http_codes{{{call}}} "));
    for bound in ["15", "37.5", "22888.18359375", "+Inf"] {
        let labels = format!(
            "api=\"/api/:namespace/:queue\",le=\"{bound}\",method=\"PUT\",namespace=\"ns\",pool=\"default\""
        );
        has(
            &page,
            &format!("infra_lmstfy_http_latency_milliseconds_bucket{{{labels}}} "),
        );
    }
}

async fn sizes_of_queues_are_gauges(world: World) {
    let queue = queue();
    let path = format!("/api/ns/{queue}");
    world.publish(&path, "dies").await;
    world.consume(&format!("{path}?ttr=0")).await;
    world.wait_for_dead(&queue, 1).await;
    for _ in 0..2 {
        world.publish(&path, "ready").await;
    }
    world.publish(&format!("{path}?delay=600"), "later").await;
    let page = page(&world).await;
    let labels = format!("namespace=\"ns\",pool=\"default\",queue=\"{queue}\"");
    has(
        &page,
        &format!("infra_lmstfy_redis_queue_sizes{{{labels}}} 2"),
    );
    has(
        &page,
        &format!("infra_lmstfy_redis_deadletter_sizes{{{labels}}} 1"),
    );
    has(&page, "infra_lmstfy_redis_timer_sizes{pool=\"default\"} ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_of_queues_that_are_gone_are_0_and_hide_no_other() {
    let world = World::start(Place::Embedded).await;
    let gone = queue();
    world.publish(&format!("/api/ns/{gone}"), "x").await;
    let size = async |queue: &str, size: u32| {
        let labels = format!("namespace=\"ns\",pool=\"default\",queue=\"{queue}\"");
        let line = format!("infra_lmstfy_redis_queue_sizes{{{labels}}} {size}");
        until(&line, async || page(&world).await.contains(&line)).await;
    };
    size(&gone, 1).await;
    world.delete(&format!("/api/ns/{gone}")).await.is(204);
    size(&gone, 0).await;
    // Names of more queues than there are labels, none of which is there for long.
    for number in 0..300 {
        let reply = format!("/api/ns/reply-{number}");
        world.publish(&reply, "x").await;
        world.delete(&reply).await.is(204);
    }
    let stays = queue();
    for _ in 0..2 {
        world.publish(&format!("/api/ns/{stays}"), "x").await;
    }
    size(&stays, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_do_not_fall_as_other_queues_come() {
    let world = World::start(Place::Embedded).await;
    let (last, first) = (format!("z{}", queue()), "a000");
    let line = |name: &str, queue: &str, size: u32| {
        let labels = format!("namespace=\"ns\",pool=\"default\",queue=\"{queue}\"");
        format!("infra_lmstfy_redis_{name}{{{labels}}} {size}")
    };
    let path = format!("/api/ns/{last}");
    world.publish(&path, "dies").await;
    world.consume(&format!("{path}?ttr=0")).await;
    world.wait_for_dead(&last, 1).await;
    world.publish(&path, "x").await;
    world.publish(&path, "x").await;
    world.publish(&format!("{path}?delay=600"), "later").await;
    let sizes = [
        line("queue_sizes", &last, 2),
        line("deadletter_sizes", &last, 1),
        "infra_lmstfy_redis_timer_sizes{pool=\"default\"} 1".to_owned(),
    ];
    let are_shown = |page: &[String]| sizes.iter().all(|line| page.contains(line));
    until("sizes", async || are_shown(&page(&world).await)).await;
    for number in 0..250 {
        world.publish(&format!("/api/ns/a{number:03}"), "x").await;
    }
    let others = line("queue_sizes", first, 1);
    until(&others, async || page(&world).await.contains(&others)).await;
    let page = page(&world).await;
    assert!(are_shown(&page), "{page:?}");
}

/// Pools are read in the order of their names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_hangs_hides_no_sizes_of_another() {
    for name in ["a", "z"] {
        let redis = Redis::plain();
        let more = format!("[pools.{name}]\nurl = '{}'", redis.url());
        let world = World::start_with(Place::Embedded, &more).await;
        let token = world.new_token("ns", &format!("&pool={name}")).await;
        let path = format!("/api/ns/{}", queue());
        let put = world.client.put(world.api_url(&path));
        reply(put.header("X-Token", token)).await.is(201);
        redis.stop_process();
        let queue = queue();
        for delay in [0, 600] {
            let path = format!("/api/ns/{queue}?delay={delay}");
            world.publish(&path, "x").await;
        }
        let labels = format!("namespace=\"ns\",pool=\"default\",queue=\"{queue}\"");
        let sizes = [
            format!("infra_lmstfy_redis_queue_sizes{{{labels}}} 1"),
            "infra_lmstfy_redis_timer_sizes{pool=\"default\"} 1".to_owned(),
        ];
        until(&sizes[0], async || {
            let page = page(&world).await;
            sizes.iter().all(|line| page.contains(line))
        })
        .await;
        redis.cont();
    }
}

async fn refused_calls_are_counted_by_token(world: World) {
    let path = format!("/token/ns/{}/limit", world.token);
    let limit = r#"{"write":1,"read":1,"interval":3600}"#;
    world.admin_with(Method::POST, &path, limit).await.is(201);
    world.publish("/api/ns/q", "x").await;
    assert_eq!(world.put("/api/ns/q", "x").await.status, 429);
    let page = page(&world).await;
    let refused = page.iter().find(|line| {
        line.starts_with("infra_lmstfy_http_rate_limit{action=\"produce\"")
            && line.contains("namespace=\"ns\",pool=\"default\",token=\"sha256~")
    });
    assert!(refused.is_some(), "{page:?}");
    assert!(!page.join("\n").contains(&world.token), "it is a secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_metric_is_described() {
    let world = World::start(crate::world::Place::Embedded).await;
    world.publish("/api/ns/q", "x").await;
    world.consume("/api/ns/q?count=1&timeout=5").await;
    world.get("/api/ns/q/peek").await;
    let page = world.admin(reqwest::Method::GET, "/metrics").await.text;
    let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<_> = names.filter_map(|line| line.split(' ').next()).collect();
    let ours = names
        .iter()
        .filter(|name| name.starts_with("infra_lmstfy_"));
    assert!(ours.count() > 5, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("# HELP {name} ")), "{name}");
    }
}

/// Ids have the time of the store: the clock of a server may be another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_take_as_long_as_they_take_whatever_the_clock_of_the_store_says() {
    let clock = WallClock::new();
    clock.set(-3_600.0);
    let redis = Redis::start(RedisOptions {
        under: clock.words(),
        ..RedisOptions::default()
    });
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(folder.path(), &redis.url());
    let create = format!("{}/token/ns?description=d", program.admin);
    let token = reply(client().post(create)).await.is(201)["token"].clone();
    let send = async |method, path: &str| {
        let request = client().request(method, format!("{}{path}", program.api));
        reply(request.header("X-Token", token.as_str().unwrap()).body("x")).await
    };
    send(Method::PUT, "/api/ns/q").await.is(201);
    let job = send(Method::GET, "/api/ns/q?timeout=10").await.is(200);
    assert!(job["elapsed_ms"].as_u64() < Some(60_000), "{job}");
    let id = job["job_id"].as_str().unwrap();
    let path = format!("/api/ns/q/job/{id}");
    assert_eq!(send(Method::DELETE, &path).await.status, 204);
    let page = reply(client().get(format!("{}/metrics", program.admin))).await;
    for name in ["job_elapsed_ms_sum", "job_ack_elapsed_ms_sum"] {
        let mut lines = page.text.lines();
        let line = lines.find(|line| line.contains(name)).expect(name);
        let (_, sum) = line.rsplit_once(' ').unwrap();
        assert!(sum.parse::<f64>().unwrap() < 60_000.0, "{line}");
    }
}
