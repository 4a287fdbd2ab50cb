//! `duly schedule`.

use serde_json::{Value, json};

use super::{Shop, on_every_target};

on_every_target! {
    a_schedule_is_set_shown_and_removed
    schedules_are_listed
    a_schedule_shows_how_its_occurrences_ended
    a_payload_keeps_its_bytes
    a_name_that_was_probably_meant_is_said
}

const SET: [&str; 6] = [
    "schedule",
    "set",
    "ns.nightly",
    "0 2 * * * Europe/Berlin",
    "--queue",
    "ns.report",
];

fn set(shop: &Shop, more: &[&str]) -> Value {
    shop.json(&[&SET[..], more].concat())
}

fn run(shop: &Shop, command: &str) -> super::Ran {
    shop.run(&command.split(' ').collect::<Vec<_>>())
}

async fn a_schedule_is_set_shown_and_removed(shop: &Shop) {
    let more = [
        "--missed",
        "all(3)",
        "--overlap",
        "wait",
        "--jitter",
        "90s",
        "--exclude",
        "2026-12-25",
        "--exclude",
        "2026-12-26",
        "--payload",
        "{\"of\": 1}",
    ];
    let view = set(shop, &more);
    assert_eq!(
        (&view["name"], &view["queue"]),
        (&json!("ns.nightly"), &json!("ns.report"))
    );
    assert_eq!(view["next"].as_array().map(Vec::len), Some(10));
    let shown = run(shop, "schedule show ns.nightly");
    for line in [
        "schedule  ns.nightly\n",
        "queue     ns.report\n",
        "when      0 2 * * * Europe/Berlin\n",
        "meaning   At 02:00, Europe/Berlin\n",
        "state     running\n",
        "next      next at 2",
        "payload   {\"of\": 1}\n",
        "missed    all(3)\n",
        "overlap   wait\n",
        "jitter    90000 ms\n",
        "exclude   2026-12-25 2026-12-26\n",
        "declared  by no program",
        "NEXT, Europe/Berlin",
        " 02:00:00 +0",
        "LAST RESULTS",
    ] {
        assert!(shown.text().contains(line), "{line}: {}", shown.out);
    }
    assert_eq!(
        shown.out.matches(" 02:00:00 +0").count(),
        11,
        "{}",
        shown.out
    );
    // Options that are not given are the default ones again.
    let view = set(shop, &[]);
    assert_eq!(
        (&view["missed"], &view["payload"]),
        (&json!("once"), &Value::Null)
    );

    let paused = run(shop, "schedule pause ns.nightly");
    assert_eq!(paused.text(), "schedule ns.nightly is paused\n");
    let shown = run(shop, "schedule show ns.nightly");
    assert!(
        shown.text().contains("state     paused since 2"),
        "{}",
        shown.out
    );
    assert!(
        shown.text().contains("not before it is resumed"),
        "{}",
        shown.out
    );
    let resumed = shop.json(&["schedule", "resume", "ns.nightly"]);
    assert_eq!(resumed, json!({"schedule": "ns.nightly", "resumed": true}));
    run(shop, "schedule remove ns.nightly").fails(2, "--yes");
    let removed = run(shop, "schedule remove ns.nightly --yes");
    assert_eq!(removed.text(), "schedule ns.nightly is removed\n");
    run(shop, "schedule show ns.nightly").fails(3, "there is no schedule ns.nightly; `duly sched");
    run(shop, "schedule remove ns.nightly --yes").fails(3, "there is no schedule");
}

async fn schedules_are_listed(shop: &Shop) {
    let mut list = vec!["schedule", "list"];
    if shop.is_server() {
        shop.run(&list).fails(2, "--namespace");
        list.extend(["--namespace", "ns"]);
    }
    assert_eq!(shop.json(&list), json!([]));
    for name in ["ns.b", "ns.c", "ns.a"] {
        let set = ["schedule", "set", name, "every 90m", "--queue", "ns.mail"];
        shop.json(&set);
    }
    run(shop, "schedule pause ns.b").text();
    let listed = shop.json(&list);
    let names: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["ns.a", "ns.b", "ns.c"]);
    let text = shop.run(&list);
    let lines: Vec<_> = text.text().lines().collect();
    assert!(lines[0].starts_with("SCHEDULE  QUEUE    WHEN"), "{lines:?}");
    assert!(lines[1].starts_with("ns.a      ns.mail  "), "{lines:?}");
    assert!(lines[2].ends_with("paused"), "{lines:?}");
    let first = shop.run(&[&list[..], &["--limit", "2"]].concat());
    assert!(
        first
            .text()
            .ends_with("and more schedules; raise --limit\n"),
        "{first:?}"
    );
}

async fn a_schedule_shows_how_its_occurrences_ended(shop: &Shop) {
    set(shop, &[]);
    let pushed = shop.json(&["schedule", "run-now", "ns.nightly"]);
    assert_eq!(pushed["queue"], "ns.report");
    let id = pushed["id"].as_str().unwrap();
    let cancel = ["event", "cancel", id, "--queue", "ns.report", "--yes"];
    shop.json(&cancel);
    let shown = shop.json(&["schedule", "show", "ns.nightly"]);
    assert_eq!(shown["results"][0]["id"], id, "{shown}");
    assert_eq!(shown["results"][0]["outcome"], "cancelled", "{shown}");
    let text = run(shop, "schedule show ns.nightly");
    let last = text.text().lines().last().unwrap();
    assert!(last.contains("cancelled") && last.contains(id), "{last}");
}

async fn a_payload_keeps_its_bytes(shop: &Shop) {
    let payload = r#"{"z":1,"a":  [1.50, 1e400, 123456789012345678901234567890]}"#;
    let with = [&SET[..], &["--payload", payload, "--json"]].concat();
    let whole = format!("\"payload\":{payload},");
    let set = shop.run(&with);
    assert!(set.text().contains(&whole), "{set:?}");
    let shown = run(shop, "schedule show ns.nightly --json");
    assert!(shown.text().contains(&whole), "{shown:?}");
    shop.run(&[&SET[..], &["--payload", "{"]].concat())
        .fails(2, "no JSON");
}

async fn a_name_that_was_probably_meant_is_said(shop: &Shop) {
    set(shop, &[]);
    for command in ["show", "pause", "resume", "run-now", "remove"] {
        let command = format!("schedule {command} ns.nigthly");
        run(shop, &command).fails(3, "no schedule ns.nigthly; did you mean ns.nightly?");
    }
}
