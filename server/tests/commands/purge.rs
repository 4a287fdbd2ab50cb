//! `duly queue purge`.

use std::process::Stdio;
use std::time::Duration;

use duly::Bus;
use duly::time::When;
use reqwest::Method;
use serde_json::json;

use super::{Ran, Shop, catches_interrupts, duly, on_every_target, signal};
use crate::world::{World, until};

on_every_target! {
    a_purge_asks_and_cancels_what_waits
    a_purge_beside_a_producer_cancels_what_waited_alone
    a_purge_keeps_its_rate_and_says_what_it_did_when_it_is_interrupted
}

async fn a_purge_asks_and_cancels_what_waits(shop: &Shop) {
    shop.run(&["queue", "purge", "ns.mail"]).fails(2, "--yes");
    let tried = shop.json(&["queue", "purge", "ns.mail", "--dry-run"]);
    let said = |cancelled, dry_run| json!({"queue": "ns.mail", "matched": 2, "cancelled": cancelled, "dry_run": dry_run});
    assert_eq!(tried, said(0, true));
    assert_eq!(shop.waiting(), 2);
    let mut audit = vec!["audit"];
    if shop.is_server() {
        audit.extend(["--namespace", "ns"]);
    }
    assert_eq!(shop.json(&audit)["items"], json!([]), "nothing was done");
    let purge = ["queue", "purge", "ns.mail", "--yes"];
    let purged = shop.json(&purge);
    assert_eq!(purged, said(2, false));
    let queue = shop.json(&["queue", "show", "ns.mail"]);
    assert_eq!(queue["scheduled"], 0);
    assert_eq!(queue["ready"], 0);
    assert_eq!(queue["dead"], 2, "dead letters stay");
    if !shop.is_server() {
        shop.run(&["queue", "purge", "ns.nothing", "--yes"])
            .fails(3, "ns.nothing");
    }
}

/// Events of each of the pushes beside a purge.
const PUSHED: u64 = 1_000;

async fn a_purge_beside_a_producer_cancels_what_waited_alone(shop: &Shop) {
    if shop.is_embedded() {
        return; // a file has one process, so nothing is pushed meanwhile
    }
    shop.json(&["queue", "set", "ns.mail", "--buckets", "8"]);
    for _ in 0..4 {
        shop.push(PUSHED).await;
    }
    let before = shop.waiting();
    let purge = ["queue", "purge", "ns.mail", "--yes", "--json"];
    let mut purge = shop.command(&purge);
    let purge = purge.stdout(Stdio::piped()).stderr(Stdio::piped());
    let purge = purge.spawn().unwrap();
    until("it has begun", async || shop.waiting() < before).await;
    // It goes on when all of these are there.
    signal(purge.id(), "STOP");
    for _ in 0..4 {
        shop.push(PUSHED).await;
    }
    signal(purge.id(), "CONT");
    let purged = Ran::of(&purge.wait_with_output().unwrap()).json();
    assert_eq!(shop.waiting(), 4 * PUSHED, "what came later stays");
    assert_eq!(purged["cancelled"], before);
}

async fn a_purge_keeps_its_rate_and_says_what_it_did_when_it_is_interrupted(shop: &Shop) {
    shop.push(8).await;
    let rate = ["queue", "purge", "ns.mail", "--yes", "--rate"];
    let begun = tokio::time::Instant::now();
    let purged = shop.json(&[&rate[..], &["20"]].concat());
    assert_eq!(purged["cancelled"], 10);
    let least = Duration::from_millis(400);
    assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
    shop.run(&[&rate[..], &["0"]].concat()).fails(2, "--rate");
    // The second one is cancelled in half an hour.
    shop.push(8).await;
    let slow = [&rate[..], &["0.001"]].concat();
    let mut slow = shop.command(&slow);
    let slow = slow.stdout(Stdio::piped()).stderr(Stdio::piped());
    let slow = slow.spawn().unwrap();
    if shop.is_embedded() {
        until("it has begun", async || catches_interrupts(slow.id())).await;
    } else {
        until("it has begun", async || shop.waiting() < 8).await;
    }
    signal(slow.id(), "INT");
    let ended = Ran::of(&slow.wait_with_output().unwrap());
    assert_ne!(ended.code, 0, "{ended:?}");
    let is_said = ended.err.contains("events were cancelled before");
    assert!(is_said, "{ended:?}");
    let left = if shop.is_embedded() { 7..=8 } else { 7..=7 };
    assert!(left.contains(&shop.waiting()), "{}", shop.waiting());
}

/// Twice as many as are looked through for a page, so that what waits is behind them in some buckets.
const DEAD: usize = 20_000;
const WAITING: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_comes_to_what_waits_behind_many_dead_letters() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let bus = Bus::builder().store_url(&url).only_registered();
    let bus = bus.publish_only().start().await.unwrap();
    let queue = bus.queue_named::<usize>("ns.mail").unwrap();
    let events = (0..DEAD).map(|number| queue.event(number).attempts(1));
    queue.push_many(events, When::Now).await.unwrap();
    let mut buried = 0;
    while buried < DEAD {
        let leased = queue.lease(1_000, Duration::from_secs(60));
        let leased = leased.wait(Duration::from_secs(9)).send().await.unwrap();
        buried += leased.len();
        let buries = leased.iter().map(|event| event.bury("closed"));
        futures_util::future::try_join_all(buries).await.unwrap();
    }
    let hour = Duration::from_secs(3_600);
    queue.push_many(0..WAITING, hour).await.unwrap();
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
    let purge = ["queue", "purge", "ns.mail", "--yes", "--json"];
    let purged = duly(&[&purge[..], &["--store", &url]].concat()).json();
    assert_eq!(purged["cancelled"], WAITING);

    let world = World::start_at(folder, url, "").await;
    for _ in 0..WAITING {
        world.publish("/api/ns/mail?delay=3600", "x").await;
    }
    // A request reads no more than a page.
    let purge_path = "/v1/ns/queues/mail/purge";
    let first = world.api(Method::POST, purge_path, "{}").await.is(200);
    assert_eq!(first["cancelled"], 0);
    assert!(first["next"].is_string(), "{first}");
    let server = world.api_url("");
    let server = ["--server", &server, "--token", &world.token];
    let purged = duly(&[&purge[..], &server].concat()).json();
    assert_eq!(purged["cancelled"], WAITING);
    assert_eq!(world.dead_size("mail").await, DEAD as u64);
    world.server.stop().await;
}
