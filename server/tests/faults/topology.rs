//! Stores that go to another server, and one that has lost all it had.

use std::cell::RefCell;
use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::Value;

use super::redis::{Scene, settle};
use super::{TOKEN, Target, failed, publish};
use crate::commands::duly;
use crate::servers::{Cluster, Redis, Sentinels};
use crate::world::{reply, until};

/// Waits until the replicas have what their master has now, by its `INFO replication`. It goes on: what
/// sentinels publish there is copied as well.
async fn is_copied(replicas: usize, info: impl Fn() -> String) {
    let begun = info();
    let lines = &mut begun.lines();
    let master = lines.find_map(|it| it.strip_prefix("master_repl_offset:"));
    let master: u64 = master.expect("an offset").trim().parse().expect("a number");
    let offset = |line: &str| {
        line.split_once(",offset=")?
            .1
            .split(',')
            .next()?
            .parse()
            .ok()
    };
    until("the replicas have all", async || {
        let offsets: Vec<u64> = info().lines().filter_map(offset).collect();
        offsets.iter().filter(|it| **it >= master).count() == replicas
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_no_sentinel_names_a_master_that_lives() {
    let mut sentinels = Sentinels::start();
    sentinels.notice_nothing();
    let mut scene = Scene::before("failover", &sentinels.url(), &[]).await;
    is_copied(2, || sentinels.cli(&["INFO", "replication"])).await;
    let old = sentinels.kill_master();
    scene.during(Some("cannot be reached")).await;
    sentinels.wait_for_another_than(old);
    scene.after().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_part_of_a_cluster_has_no_master() {
    let cluster = RefCell::new(Cluster::start(6));
    let url = cluster.borrow().url();
    let mut scene = Scene::before("cluster", &url, &[]).await;
    let slot = {
        let cluster = cluster.borrow();
        let keys = (0..6).map(|at| cluster.node(at).cli(&["KEYS", "*kept*"]));
        let keys = keys.collect::<Vec<_>>().join("\n");
        let key = keys.lines().find(|key| key.contains('{'));
        cluster.slot_of(key.unwrap_or_else(|| panic!("no key of the jobs: {keys}")))
    };
    is_copied(1, || {
        let cluster = cluster.borrow();
        let master = cluster.node(cluster.master_of(slot));
        master.cli(&["INFO", "replication"])
    })
    .await;
    let old = cluster.borrow_mut().kill_master_of(slot);
    scene.during(None).await;
    cluster.borrow().wait_for_another_master(slot, old);
    scene.after().await;
}

/// What it had is gone, tokens too where they were in it; the server does not have to be told of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_it_has_lost_all_it_had() {
    for state in ["", "sqlite:state.db"] {
        let why = format!("emptied, state {state:?}");
        let redis = Redis::plain();
        let elsewhere = [("DULY_SERVER__ADMIN__STATE", state)];
        let elsewhere = if state.is_empty() {
            &[][..]
        } else {
            &elsewhere
        };
        let mut scene = Scene::before(&why, &redis.url(), elsewhere).await;
        redis.cli(&["FLUSHALL"]);
        let server = &scene.server;
        if state.is_empty() {
            let refused = server.request(Method::GET, "/v1/ns/queues");
            until("the token is gone", async || {
                let refused = refused.try_clone().expect("it has no body");
                reply(refused).await.status == 401
            })
            .await;
            let path = format!("/token/ns?description=d&token={TOKEN}",);
            let again = server
                .client
                .post(format!("{}{path}", server.program.admin));
            reply(again).await.is(201);
        } else {
            failed(server, 1).await;
        }
        server.recovers(&why).await;
        // What was leased is nobody's any more, which its consumer learns.
        let gone = settle(server, &scene.first).await;
        assert!(gone.status.is_client_error(), "{why}: {gone:?}");
        scene.confirmed = BTreeSet::new();
        publish(&scene.server, 10, &mut scene.confirmed).await;
        assert_eq!(scene.confirmed.len(), 10, "{why}");
        scene.server.keeps(&scene.confirmed, &why).await;
    }
}

/// Queues of two namespaces, of which some are away: what is first by name is among them, and a queue
/// that is gone meanwhile is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_part_of_a_cluster_is_away_the_queues_of_the_others_are_counted() {
    const QUEUES: usize = 9;
    for is_killed in [false, true] {
        let mut cluster = Cluster::masters(3);
        let of = |cluster: &Cluster, tag: &str| cluster.master_of(cluster.slot_of(tag));
        let needed = of(&cluster, "{hub}");
        let names = (0..).map(|number| format!("q{number}"));
        let is_elsewhere = |name: &String| of(&cluster, &format!("{{a.{name}:0}}")) != needed;
        let first = names.clone().find(is_elsewhere).expect("there is one");
        let slot = cluster.slot_of(&format!("{{a.{first}:0}}"));
        let away = cluster.master_of(slot);
        let names = names.skip_while(|name| *name != first).take(QUEUES);
        let queues = names.flat_map(|name| ["a", "z"].map(|it| (it, name.clone())));
        let queues: Vec<_> = queues.collect();
        let is_away = |(namespace, name): &(&str, String)| {
            of(&cluster, &format!("{{{namespace}.{name}:0}}")) == away
        };
        let (away, here): (Vec<_>, Vec<_>) = queues.into_iter().partition(is_away);
        assert!(away.len() > 1 && here.len() > 1, "{away:?} {here:?}");

        let folder = tempfile::tempdir().unwrap();
        let elsewhere = [("DULY_SERVER__ADMIN__STATE", "sqlite:state.db")];
        let server = Target::start(folder.path(), &cluster.url(), &elsewhere).await;
        for namespace in ["a", "z"] {
            let path = format!("/token/{namespace}?description=d&token={TOKEN}");
            server.admin(Method::POST, &path, "").await.is(201);
        }
        let push = async |(namespace, queue): &(&str, String), more: &str| {
            let path = format!("/api/{namespace}/{queue}{more}");
            reply(server.request(Method::PUT, &path).body("x"))
                .await
                .is(201);
        };
        let sizes = async |expected: Vec<String>| {
            until(&expected.join("\n"), async || {
                let page = server.admin(Method::GET, "/metrics", "").await.text;
                let size = |line: &str| line.starts_with("infra_lmstfy_redis_");
                let lines: BTreeSet<_> = page.lines().filter(|line| size(line)).collect();
                expected.iter().all(|line| lines.contains(line.as_str()))
            })
            .await;
        };
        let size = |(namespace, queue): &(&str, String), size: u32| {
            let labels = format!("pool=\"default\",namespace=\"{namespace}\",queue=\"{queue}\"");
            format!("infra_lmstfy_redis_queue_sizes{{{labels}}} {size}")
        };
        let delayed =
            |many: u32| format!("infra_lmstfy_redis_timer_sizes{{pool=\"default\"}} {many}");
        for queue in away.iter().chain(&here) {
            push(queue, "").await;
        }
        push(&here[0], "?delay=3600").await;
        let all = away.iter().chain(&here).map(|queue| size(queue, 1));
        sizes(all.chain([delayed(1)]).collect()).await;

        if is_killed {
            cluster.kill_master_of(slot);
        } else {
            cluster.stop_master_of(slot);
        }
        let (gone, stays) = here.split_last().expect("some");
        let (namespace, name) = gone;
        let gone_path = format!("/api/{namespace}/{name}");
        reply(server.request(Method::DELETE, &gone_path))
            .await
            .is(204);
        for queue in stays {
            push(queue, "").await;
        }
        push(&here[0], "?delay=3600").await;
        let counted = stays
            .iter()
            .map(|queue| size(queue, 2))
            .chain([size(gone, 0)]);
        // A part of the sum would be told as the whole, and what is away may have its jobs.
        let as_before = away.iter().map(|queue| size(queue, 1)).chain([delayed(1)]);
        sizes(counted.chain(as_before).collect()).await;

        let list = ["queue", "list", "--json", "--server", &server.program.api];
        let list = [&list[..], &["--token", TOKEN, "--namespace"]].concat();
        for namespace in ["a", "z"] {
            let path = format!("/v1/{namespace}/overview");
            let page = reply(server.request(Method::GET, &path)).await.is(200);
            let listed = duly(&[&list[..], &[namespace]].concat()).json();
            let view = |it: &Value| (it["ready"].clone(), it["uncounted"].is_string());
            for (items, prefix) in [
                (&page["items"], String::new()),
                (&listed, format!("{namespace}.")),
            ] {
                let items = items.as_array().unwrap();
                let found = |name: &str| {
                    let name = format!("{prefix}{name}");
                    let item = items.iter().find(|it| it["queue"] == *name);
                    view(item.unwrap_or_else(|| panic!("no {name} in {items:?}")))
                };
                for (_, name) in away.iter().filter(|(of, _)| *of == namespace) {
                    assert_eq!(found(name), (0.into(), true), "{name}");
                }
                for (_, name) in stays.iter().filter(|(of, _)| *of == namespace) {
                    assert_eq!(found(name), (2.into(), false), "{name}");
                }
            }
        }
    }
}
