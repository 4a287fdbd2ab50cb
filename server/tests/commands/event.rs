//! `duly event`.

use std::time::Duration;

use duly::event::BucketId;
use duly::time::Timestamp;
use duly::{Bus, EventId};
use serde_json::json;

use super::{Shop, on_every_target};
use crate::test_clock::post;

on_every_target! {
    events_are_listed_by_what_an_operator_knows_of_them
    a_list_of_several_requests_says_how_many_events_were_scanned
    an_event_is_shown_and_explained
    an_event_is_cancelled_when_confirmed
    an_event_is_rescheduled_and_updated
    an_event_that_is_unknown_or_over_has_its_exit_code
    what_is_in_a_queue_of_duly_itself_stays_as_it_is
    events_that_match_are_changed_together
    a_person_is_erased_and_the_audit_says_so
    an_event_of_a_queue_is_found_whatever_has_its_id_in_another_one
}

const QUEUE: [&str; 2] = ["--queue", "ns.mail"];
const UNKNOWN: &str = "01KBKSY8Q3X4H1W9V0T5RZ7M2C";

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().copied().chain(QUEUE).collect()
}

/// A response has 1,000 events, of which the next one has others of the same scan; and a scan has
/// 10,000, behind which the next one begins.
async fn a_list_of_several_requests_says_how_many_events_were_scanned(shop: &Shop) {
    let list = |filter: &[&str]| {
        let list = shop.json(&with(&[&["event", "list"], filter].concat()));
        let found = list["items"].as_array().unwrap().len();
        (found, list["scanned"].as_u64().unwrap())
    };
    let (_, mut all) = list(&[]);
    for (pushes, filter, found) in [
        (2, ["--limit", "1200"], 1_200),
        (10, ["--contains", "a text of none"], 0),
        (0, ["--key", "customer:9"], 1),
    ] {
        for _ in 0..pushes {
            shop.push(1_000).await;
            all += 1_000;
        }
        let scanned = if filter[0] == "--key" { 1 } else { all };
        assert_eq!(list(&filter), (found, scanned), "{filter:?}");
    }
}

async fn an_event_is_shown_and_explained(shop: &Shop) {
    let id = shop.scheduled.to_string();
    let event = shop.json(&with(&["event", "show", &id]));
    assert_eq!(event["id"], id);
    assert_eq!(event["queue"], "ns.mail");
    assert_eq!(event["state"], "scheduled");
    assert_eq!(event["key"], "customer:9");
    assert_eq!(event["headers"], json!({"shop": "a"}));
    assert_eq!(event["payload_base64"], "eyJ0byI6M30=");
    let shown = shop.run(&with(&["event", "show", &id]));
    assert!(shown.text().contains(r#"{"to":3}"#), "{shown:?}");

    let explained = shop.json(&with(&["event", "explain", &id]));
    assert_eq!(explained["state"], "scheduled");
    let text = shop.run(&with(&["event", "explain", &id]));
    assert!(text.text().contains("scheduled"), "{text:?}");
    let command = format!("duly event run-now {id} --queue ns.mail");
    assert!(text.text().contains(&command), "{text:?}");
    let dead = shop.dead[0].to_string();
    let text = shop.run(&with(&["event", "explain", &dead]));
    let command = format!("duly dead revive {dead} --queue ns.mail");
    assert!(text.text().contains(&command), "{text:?}");
    assert!(!text.text().contains("bus."), "{text:?}");
    if shop.is_server() {
        shop.run(&["event", "show", &id]).fails(2, "add --queue");
    } else {
        assert_eq!(shop.json(&["event", "show", &id])["queue"], "ns.mail");
    }
}

async fn events_are_listed_by_what_an_operator_knows_of_them(shop: &Shop) {
    let listed = |filter: &[&str]| -> Vec<String> {
        let arguments: Vec<_> = ["event", "list"].iter().chain(filter).copied().collect();
        let list = shop.json(&with(&arguments));
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|it| it["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let waits = shop.scheduled.to_string();
    let mut dead = shop.dead.map(|id| id.to_string());
    dead.sort_unstable();
    assert_eq!(listed(&["--key", "customer:9"]), [&*waits]);
    let mut of_key = listed(&["--key", "customer:8"]);
    of_key.sort_unstable();
    assert_eq!(of_key, dead);
    assert_eq!(listed(&["--state", "dead"]).len(), 2);
    assert_eq!(listed(&["--contains", r#""to":3"#]), [&*waits]);
    assert_eq!(listed(&["--contains", "mer:9"]), [&*waits]);
    assert_eq!(
        listed(&["--from", "1s", "--state", "scheduled"]).last(),
        Some(&waits)
    );
    assert_eq!(
        listed(&["--to", "1970-01-02T00:00:00Z"]),
        Vec::<String>::new()
    );
    assert_eq!(listed(&["--unique", "none"]), Vec::<String>::new());
    // All, in the order of due times; then the same in parts.
    let all = listed(&[]);
    assert_eq!((all.len(), all.last()), (4, Some(&waits)));
    let (mut parts, mut after) = (Vec::new(), String::new());
    for _ in 0..4 {
        let begin = ["event", "list", "--limit", "1"];
        let mut arguments = with(&begin);
        if !after.is_empty() {
            arguments.extend(["--after", &after]);
        }
        let list = shop.json(&arguments);
        parts.push(list["items"][0]["id"].as_str().unwrap().to_owned());
        after = list["next"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!((parts, after), (all, String::new()));
    let shown = shop.run(&with(&["event", "list", "--limit", "1"]));
    assert!(shown.text().contains("--after '"), "{shown:?}");
    if shop.is_server() {
        shop.run(&["event", "list"]).fails(2, "--namespace");
        let of_namespace = ["event", "list", "--namespace", "ns", "--key", "customer:9"];
        assert_eq!(shop.json(&of_namespace)["items"][0]["queue"], "ns.mail");
    } else {
        assert_eq!(
            shop.json(&["event", "list"])["items"]
                .as_array()
                .unwrap()
                .len(),
            4
        );
    }
    shop.run(&with(&["event", "list", "--state", "done"]))
        .fails(2, "is no state");
    shop.run(&with(&["event", "list", "--after", "x"]))
        .fails(2, "`next`");
}

async fn an_event_is_cancelled_when_confirmed(shop: &Shop) {
    let id = shop.scheduled.to_string();
    let cancel = with(&["event", "cancel", &id]);
    shop.run(&cancel).fails(2, "--yes");
    assert_eq!(
        shop.json(&with(&["event", "show", &id]))["state"],
        "scheduled"
    );
    let done = shop.json(&with(&["event", "cancel", &id, "--yes"]));
    assert_eq!(done, json!({"id": id, "cancelled": true}));
    assert_eq!(shop.waiting(), 1);
}

async fn an_event_is_rescheduled_and_updated(shop: &Shop) {
    let id = shop.scheduled.to_string();
    let at = "2099-01-01T00:00:00Z";
    let moved = shop.json(&with(&["event", "reschedule", &id, "--at", at]));
    assert_eq!(moved, json!({"id": id, "due_ms": 4_070_908_800_000_u64}));
    let payload = r#"{"to":9007199254740993}"#;
    shop.json(&with(&["event", "update", &id, "--payload", payload]));
    let event = shop.run(&with(&["event", "show", &id]));
    assert!(event.text().contains(payload), "{event:?}");
    assert!(event.text().contains("2099-01-01T00:00:00.000Z"));

    shop.json(&with(&["event", "run-now", &id]));
    let due_ms = shop.json(&with(&["event", "show", &id]))["due_ms"].as_u64();
    assert!(due_ms.unwrap() < 4_070_908_800_000);

    shop.run(&with(&["event", "update", &id, "--payload", "text"]))
        .fails(2, "is no JSON");
    shop.run(&with(&["event", "reschedule", &id]))
        .fails(2, "--after");
    shop.run(&with(&["event", "reschedule", &id, "--at", "noon"]))
        .fails(2, "is no time");
    // Elsewhere a duration is one ago: then it would run now.
    shop.run(&with(&["event", "reschedule", &id, "--at", "2h"]))
        .fails(2, "write --after 2h");
}

async fn an_event_that_is_unknown_or_over_has_its_exit_code(shop: &Shop) {
    for command in ["show", "explain", "run-now"] {
        shop.run(&with(&["event", command, UNKNOWN]))
            .fails(3, UNKNOWN);
    }
    shop.run(&with(&["event", "cancel", UNKNOWN, "--yes"]))
        .fails(3, UNKNOWN);
    let dead = shop.dead[0].to_string();
    shop.run(&with(&["event", "run-now", &dead]))
        .fails(4, "dead");
    shop.run(&["event", "show", "7"]).fails(2, "'7'");
}

async fn what_is_in_a_queue_of_duly_itself_stays_as_it_is(shop: &Shop) {
    if shop.is_server() {
        return; // no request reaches such a queue
    }
    shop.run(&["queue", "pause", "ns.mail"]).text();
    let own = ["--queue", "ns.duly.audit"];
    let bus = Bus::builder().store_url(&shop.target[1]).only_registered();
    let bus = bus.publish_only().start().await.unwrap();
    let lines = bus.events().queue(own[1]).page().await.unwrap();
    let id = lines.items[0].id.to_string();
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
    for words in [
        &["cancel", &id, "--yes"][..],
        &["reschedule", &id, "--after", "1h"],
        &["run-now", &id],
        &["update", &id, "--payload", "1"],
    ] {
        let command = [&["event"], words, &own[..]].concat();
        shop.run(&command).fails(2, "a queue of duly itself");
    }
    assert_eq!(shop.json(&["audit"])["items"].as_array().unwrap().len(), 1);
}

async fn events_that_match_are_changed_together(shop: &Shop) {
    let done = |words: &[&str]| shop.json(&with(&[&["event"], words].concat()));
    let customer = ["--key", "customer:9"];
    let counted = done(&["cancel", customer[0], customer[1], "--dry-run"]);
    assert_eq!(counted, json!({"matched": 1, "done": 0, "dry_run": true}));
    let moved = done(&["reschedule", "--after", "20h", customer[0], customer[1]]);
    assert_eq!(moved, json!({"matched": 1, "done": 1, "dry_run": false}));
    let dead = done(&["cancel", "--key", "customer:8", "--yes"]);
    assert_eq!(dead["matched"], 0, "dead letters stay");
    let words = with(&["event", "cancel", "--state", "scheduled", "--yes"]);
    let text = shop.run(&[&words[..], &["--rate", "500"]].concat());
    assert!(text.text().contains("events are cancelled"), "{text:?}");
    let left = shop.json(&with(&["event", "list", "--key", "customer:9"]));
    assert_eq!(left["items"], json!([]));
    let place = with(&["event", "cancel", "--all", "--yes"]);
    let place = [
        &place[..],
        &["--pushed-until", "1h", "--resume", "nonsense"],
    ]
    .concat();
    shop.run(&place).fails(2, "is not a cursor");
}

async fn a_person_is_erased_and_the_audit_says_so(shop: &Shop) {
    let erase = |words: &[&str]| with(&[&["event", "erase"], words].concat()).join("\u{0}");
    let run = |words: &[&str]| {
        let words = erase(words);
        shop.run(&words.split('\u{0}').collect::<Vec<_>>())
    };
    run(&["--key", "customer:9", "--yes"]).fails(4, "1 event with this key waits");
    let said = run(&["--key", "customer:8", "--yes", "--json"]).json();
    assert_eq!(
        (&said["dropped"], &said["running"]),
        (&json!(2), &json!(0)),
        "{said}"
    );
    assert!(
        said["records"].as_u64() > Some(0) || said["unreached"].as_u64() > Some(0),
        "{said}"
    );
    let said = run(&["--key", "customer:9", "--cancel", "--yes"]);
    assert!(said.text().contains("1 events cancelled"), "{said:?}");
    assert!(said.text().contains("not reached: backups"), "{said:?}");
    let list = shop.json(&with(&["event", "list"]));
    let keys: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["key"])
        .collect();
    assert!(
        !keys
            .iter()
            .any(|key| key.as_str().is_some_and(|it| it.starts_with("customer:"))),
        "{list}"
    );
    let mut audit = vec!["audit"];
    if shop.is_server() {
        audit.extend(["--namespace", "ns"]);
    }
    let audit = shop.json(&audit);
    let lines = audit["items"].as_array().unwrap().iter();
    let erased = lines.filter(|line| line["action"] == "events of a key erased");
    let targets: Vec<_> = erased.map(|line| line["target"].clone()).collect();
    assert_eq!(
        targets,
        ["ns.mail, key customer:9", "ns.mail, key customer:8"]
    );
}

/// The queues of which each has an event under every id.
const BOTH: [&str; 2] = ["ns.close", "ns.send"];

/// Pushes events that are due in an hour to both queues; returns their ids.
async fn push_to_both(shop: &Shop) -> [String; 4] {
    let ids =
        [(); 4].map(|()| EventId::from_parts(Timestamp::EPOCH, BucketId(0), fastrand::u64(..)));
    let Some(world) = &shop.world else {
        let bus = Bus::builder().store_url(&shop.target[1]).only_registered();
        let bus = bus.publish_only().start().await.unwrap();
        for (queue, id) in BOTH.iter().flat_map(|queue| ids.map(|id| (queue, id))) {
            let queue = bus.queue_named::<u64>(queue).unwrap();
            let event = queue.event(7).id(id).after(Duration::from_secs(3_600));
            event.push().await.unwrap();
        }
        bus.shutdown(Duration::from_secs(5)).await.unwrap();
        return ids.map(|id| id.to_string());
    };
    for queue in ["close", "send"] {
        let events = ids.map(|id| json!({"payload": 7, "id": id, "delay_ms": 3_600_000}));
        let path = format!("/v1/ns/queues/{queue}/events");
        post(world, &path, json!({"events": events})).await;
    }
    ids.map(|id| id.to_string())
}

async fn an_event_of_a_queue_is_found_whatever_has_its_id_in_another_one(shop: &Shop) {
    let [named @ .., first, second] = push_to_both(shop).await;
    let there = |id: &str| {
        let is_there = |queue: &&str| {
            let shown = shop.run(&["event", "show", id, "--queue", queue, "--json"]);
            shown.code == 0 && shown.json()["state"] == "scheduled"
        };
        BOTH.into_iter().filter(is_there).collect::<Vec<_>>()
    };
    for id in &named {
        for queue in BOTH {
            let event = shop.json(&["event", "show", id, "--queue", queue]);
            assert_eq!(event["queue"], queue);
            let explained = shop.json(&["event", "explain", id, "--queue", queue]);
            assert_eq!(explained["state"], "scheduled");
        }
        shop.json(&["event", "cancel", id, "--yes", "--queue", BOTH[1]]);
        assert_eq!(there(id), BOTH[..1]);
    }
    if shop.is_server() {
        return; // there an event is always named with its queue
    }
    for id in [&first, &second] {
        shop.json(&["event", "cancel", id, "--yes"]);
        let target = shop.json(&["audit"])["items"][0]["target"].clone();
        let left = there(id);
        assert_eq!(left.len(), 1, "{left:?}");
        assert_ne!(
            target,
            format!("{}/{id}", left[0]),
            "the audit names the other one"
        );
    }
}
