//! Stores that go to another server, and one that has lost all it had.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::redis::{Scene, settle};
use super::{TOKEN, failed, publish};
use crate::servers::{Cluster, Redis, Sentinels};
use crate::world::{reply, until};

/// Whether the replicas have what their master has, by its `INFO replication`.
fn is_copied(info: &str, replicas: usize) -> bool {
    let offset = info
        .lines()
        .find_map(|it| it.strip_prefix("master_repl_offset:"));
    let offset = format!("offset={},", offset.expect("an offset").trim());
    info.matches(&offset).count() == replicas
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_no_sentinel_names_a_master_that_lives() {
    let mut sentinels = Sentinels::start();
    sentinels.notice_nothing();
    let mut scene = Scene::before("failover", &sentinels.url(), &[]).await;
    until("the replicas have all", async || {
        is_copied(&sentinels.cli(&["INFO", "replication"]), 2)
    })
    .await;
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
    until("the replica has all", async || {
        let cluster = cluster.borrow();
        let master = cluster.node(cluster.master_of(slot));
        is_copied(&master.cli(&["INFO", "replication"]), 1)
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
            let refused = server.request(reqwest::Method::GET, "/v1/ns/queues");
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
