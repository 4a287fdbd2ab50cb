//! `duly queue` and `duly forecast`.

use std::time::Duration;

use duly::Bus;
use duly::time::When;
use serde_json::{Value, json};

use super::{Shop, duly, on_every_target};
use crate::world::World;

on_every_target! {
    a_queue_is_shown
    queues_are_listed
    pause_resume_and_rate_are_set
    workers_and_buckets_are_set
    a_drain_waits_until_nothing_is_ready
    a_purge_asks_and_cancels_what_waits
    a_forecast_is_a_chart
}

async fn a_queue_is_shown(shop: &Shop) {
    let queue = shop.json(&["queue", "show", "ns.mail"]);
    assert_eq!(queue["queue"], "ns.mail");
    assert_eq!(shop.waiting(), 2);
    assert_eq!(queue["leased"], 0);
    assert_eq!(queue["dead"], 2);
    assert_eq!(queue["paused"], false);
    let shown = shop.run(&["queue", "show", "ns.mail"]);
    let text = shown.text();
    assert!(text.contains("state         running\n"), "{text}");
    assert!(text.contains("dead          2\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a pipe: {text}");
}

async fn queues_are_listed(shop: &Shop) {
    let mut list = vec!["queue", "list"];
    if let Some(world) = &shop.world {
        shop.run(&list).fails(2, "--namespace");
        list.extend(["--namespace", "ns"]);
        world.publish("/api/ns/web", "x").await;
        let queues = shop.json(&list);
        assert_eq!(queues[1]["queue"], "ns.web");
        assert_eq!(queues[1]["ready"], 1);
        let first = shop.run(&[&list[..], &["--limit", "1"]].concat());
        assert!(first.text().ends_with("raise --limit\n"), "{first:?}");
        let first = shop.run(&[&list[..], &["--limit", "1", "--json"]].concat());
        assert_eq!(first.json().as_array().unwrap().len(), 1);
        assert_eq!(first.err, "... and more queues; raise --limit\n");
    }
    let queues = shop.json(&list);
    assert_eq!(queues[0]["queue"], "ns.mail");
    assert_eq!(queues[0]["dead"], 2);
    let listed = shop.run(&list);
    let mut lines = listed.text().lines();
    let heads: Vec<_> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(
        heads,
        ["QUEUE", "SCHEDULED", "READY", "LEASED", "DEAD", "OLDEST"]
    );
    let cells: Vec<_> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(cells[0], "ns.mail");
    assert_eq!(cells[3..5], ["0", "2"]);
    if !shop.is_server() {
        shop.run(&["queue", "show", "ns.nothing"])
            .fails(3, "ns.nothing");
    }
}

async fn pause_resume_and_rate_are_set(shop: &Shop) {
    let paused = shop.run(&["queue", "pause", "ns.mail"]);
    assert_eq!(paused.text(), "queue ns.mail is paused\n");
    assert_eq!(shop.json(&["queue", "show", "ns.mail"])["paused"], true);
    let resumed = shop.json(&["queue", "resume", "ns.mail"]);
    assert_eq!(resumed, json!({"queue": "ns.mail", "paused": false}));
    assert_eq!(shop.json(&["queue", "show", "ns.mail"])["paused"], false);

    let set = shop.json(&["queue", "set", "ns.mail", "--rate", "2.5"]);
    assert_eq!(set["rate"], 2.5);
    assert_eq!(shop.json(&["queue", "show", "ns.mail"])["rate"], 2.5);
    shop.json(&["queue", "set", "ns.mail", "--rate", "none"]);
    assert_eq!(
        shop.json(&["queue", "show", "ns.mail"])["rate"],
        Value::Null
    );

    shop.run(&["queue", "set", "ns.mail", "--rate", "9999999"])
        .fails(2, "1000000");
    shop.run(&["queue", "set", "ns.mail", "--rate", "fast"])
        .fails(2, "neither a number nor `none`");
    shop.run(&["queue", "set", "ns.mail"]).fails(2, "--rate");
    shop.run(&["queue", "pause", "no spaces"])
        .fails(2, "a queue name is");
}

async fn workers_and_buckets_are_set(shop: &Shop) {
    let arguments = ["queue", "set", "ns.mail", "--workers", "3"];
    shop.json(&arguments);
    shop.json(&["queue", "set", "ns.mail", "--buckets", "4"]);
    let queue = shop.json(&["queue", "show", "ns.mail"]);
    assert_eq!(
        (&queue["workers"], &queue["buckets"]),
        (&json!(3), &json!(4))
    );
    shop.run(&["queue", "set", "ns.mail", "--buckets", "0"])
        .fails(2, "must be 1 to");
    shop.json(&[
        "queue",
        "set",
        "ns.mail",
        "--workers",
        "none",
        "--buckets",
        "none",
    ]);
    let queue = shop.json(&["queue", "show", "ns.mail"]);
    assert_eq!(
        (&queue["workers"], &queue["buckets"]),
        (&Value::Null, &Value::Null)
    );
}

async fn a_drain_waits_until_nothing_is_ready(shop: &Shop) {
    let drain = ["queue", "drain", "ns.mail", "--timeout", "0s"];
    shop.run(&drain).fails(5, "still has 1 events");
    assert_eq!(shop.waiting(), 2, "a drain changes nothing");
    if let Some(world) = &shop.world {
        world.consume("/api/ns/mail?ttr=30&timeout=5").await;
        shop.run(&drain).fails(5, "still has 1 events");
    } else {
        shop.json(&["queue", "purge", "ns.mail", "--yes"]);
        let drained = shop.json(&["queue", "drain", "ns.mail", "--scheduled"]);
        assert_eq!(drained, json!({"queue": "ns.mail", "left": 0}));
    }
}

async fn a_purge_asks_and_cancels_what_waits(shop: &Shop) {
    shop.run(&["queue", "purge", "ns.mail"]).fails(2, "--yes");
    let purge = ["queue", "purge", "ns.mail", "--yes"];
    let purged = shop.json(&purge);
    assert_eq!(purged, json!({"queue": "ns.mail", "cancelled": 2}));
    let queue = shop.json(&["queue", "show", "ns.mail"]);
    assert_eq!(queue["scheduled"], 0);
    assert_eq!(queue["ready"], 0);
    assert_eq!(queue["dead"], 2, "dead letters stay");
    if !shop.is_server() {
        shop.run(&["queue", "purge", "ns.nothing", "--yes"])
            .fails(3, "ns.nothing");
    }
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
    let server = world.api_url("");
    let server = ["--server", &server, "--token", &world.token];
    let purged = duly(&[&purge[..], &server].concat()).json();
    assert_eq!(purged["cancelled"], WAITING);
    assert_eq!(world.dead_size("mail").await, DEAD as u64);
    world.server.stop().await;
}

async fn a_forecast_is_a_chart(shop: &Shop) {
    let span = ["forecast", "ns.mail", "--horizon", "2h", "--step", "30m"];
    let steps = shop.json(&span);
    let events = steps.as_array().unwrap().iter();
    let events: Vec<_> = events.map(|it| it["events"].as_u64().unwrap()).collect();
    // The first step may have the event that is due now.
    assert_eq!(events[1..], [1, 0, 0]);
    let chart = shop.run(&span);
    let lines: Vec<_> = chart.text().lines().collect();
    assert_eq!(lines[1].matches('█').count(), 50, "{chart:?}");
    assert!(lines[4].ends_with("events of queue ns.mail until then"));
    shop.run(&["forecast", "ns.mail", "--horizon", "1h", "--step", "1s"])
        .fails(2, "3600 steps");
    shop.run(&["forecast", "ns.mail", "--horizon", "soon"])
        .fails(2, "is no duration");
}
