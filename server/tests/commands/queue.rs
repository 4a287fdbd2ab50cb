//! `duly queue` and `duly forecast`.

use serde_json::{Value, json};

use super::{Shop, on_every_target};

on_every_target! {
    a_queue_is_shown
    queues_are_listed
    pause_resume_and_rate_are_set
    workers_and_buckets_are_set
    a_drain_waits_until_nothing_is_ready
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
