//! `duly audit`: what commands, the API and pages have done is in one trail, where the store is.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::Bus;
use serde_json::Value;

use super::alike::leaves;
use super::{Shop, duly, on_every_target, seed};
use crate::servers::{Fault, Proxy, Redis};

on_every_target! {
    every_command_that_changes_something_leaves_a_line
    a_line_says_who_did_what
    the_audit_is_read_in_parts
    the_audit_is_filtered
}

/// Each command that changes something, and the line that it leaves; `S` is the scheduled event.
const CHANGES: &[(&str, &str)] = &[
    ("queue pause ns.mail", "queue paused"),
    ("queue resume ns.mail", "queue resumed"),
    ("queue set ns.mail --rate 5", "rate of queue set"),
    ("event update S --payload 7", "payload of event replaced"),
    ("event reschedule S --after 2h", "event rescheduled"),
    ("event reschedule --all --after 1h", "events rescheduled"),
    ("event run-now S", "event rescheduled"),
    ("event run-now --all", "events rescheduled"),
    ("event cancel S --yes", "event cancelled"),
    ("event cancel --all --yes", "events cancelled"),
    ("event erase --key nobody --yes", "events of a key erased"),
    (
        "event replay --name one --outcome cancelled --yes",
        "records replayed",
    ),
    ("dead revive --error address", "dead letters revived"),
    ("dead drop --all --yes", "dead letters dropped"),
    ("queue purge ns.mail --yes", "queue purged"),
    (
        "schedule set ns.yearly @yearly --queue ns.recurs",
        "schedule set",
    ),
    ("schedule pause ns.yearly", "schedule paused"),
    ("schedule resume ns.yearly", "schedule resumed"),
    ("schedule run-now ns.yearly", "schedule run"),
    ("schedule remove ns.yearly --yes", "schedule removed"),
    ("doctor --repair --yes", "store repaired"),
];

/// Commands that change nothing of a store, or what is in the audit of a server alone: its tokens.
const OTHERS: &[&str] = &[
    "audit",
    "bench",
    "completions",
    "dead list",
    "dead show",
    "demo",
    "event explain",
    "event list",
    "event show",
    "forecast",
    "health",
    "man",
    "node list",
    "outbox schema",
    "queue drain",
    "queue list",
    "queue show",
    "records",
    "schedule list",
    "schedule next",
    "schedule show",
    "serve",
    "token create",
    "token list",
    "token revoke",
    "top",
];

#[test]
fn every_command_is_one_that_changes_something_or_one_of_the_others() {
    let changes = |command: &str| {
        let begin = format!("{command} ");
        CHANGES.iter().any(|(it, _)| it.starts_with(&begin))
    };
    let all = BTreeSet::from_iter(leaves(&[]));
    let unknown = all
        .iter()
        .filter(|it| changes(it) == OTHERS.contains(&it.as_str()));
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0]);
    assert_eq!(all.iter().filter(|it| !changes(it)).count(), OTHERS.len());
}

async fn every_command_that_changes_something_leaves_a_line(shop: &Shop) {
    let id = shop.scheduled.to_string();
    let mut expected = Vec::new();
    for (command, action) in CHANGES {
        if shop.is_server() && command.starts_with("doctor") {
            continue; // it works on the store alone
        }
        let words = command.split(' ');
        let mut words: Vec<_> = words.map(|it| if it == "S" { &id } else { it }).collect();
        if words[0] == "event" || words[0] == "dead" {
            words.extend(["--queue", "ns.mail"]);
        }
        shop.run(&words).text();
        expected.push(*action);
    }
    let found = lines(shop, &[]);
    let actions: Vec<&str> = found.iter().map(|(_, action, _)| &**action).collect();
    assert_eq!(actions, expected);
}

/// Returns the lines, the oldest first: who did what to what.
fn lines(shop: &Shop, more: &[&str]) -> Vec<(String, String, String)> {
    let mut arguments = vec!["audit"];
    arguments.extend(more);
    if shop.is_server() {
        arguments.extend(["--namespace", "ns"]);
    }
    let list = shop.json(&arguments);
    let items = list["items"].as_array().unwrap().iter().rev();
    let text = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    items
        .map(|item| {
            assert!(item["at_ms"].as_u64() > Some(1_700_000_000_000));
            (
                text(item, "actor"),
                text(item, "action"),
                text(item, "target"),
            )
        })
        .collect()
}

async fn a_line_says_who_did_what(shop: &Shop) {
    let id = shop.scheduled.to_string();
    assert_eq!(lines(shop, &[]), []);
    for command in [
        &["queue", "pause", "ns.mail"][..],
        &["queue", "resume", "ns.mail"],
        &["queue", "set", "ns.mail", "--rate", "5", "--workers", "2"],
        &["event", "list", "--queue", "ns.mail"],
        &["dead", "revive", "--queue", "ns.mail", "--all", "--dry-run"],
        &["dead", "revive", "--queue", "ns.mail", "--error", "address"],
        &["dead", "drop", "--queue", "ns.mail", "--all", "--yes"],
    ] {
        shop.run(command).text();
    }
    let mut expected = vec![
        "queue paused",
        "queue resumed",
        "rate of queue set",
        "workers of queue set",
        "dead letters revived",
        "dead letters dropped",
    ];
    let found = lines(shop, &[]);
    let mut actions: Vec<&str> = found.iter().map(|(_, action, _)| &**action).collect();
    // One command sets two, within a millisecond that both lines have.
    actions[2..4].sort_unstable();
    assert_eq!(actions, expected);
    let is_command = !shop.is_server();
    for (actor, _, target) in &found {
        assert!(target.starts_with("ns.mail"), "{target}");
        // A command says who runs it, and a server by which token.
        assert_eq!(actor == "ann", is_command, "{actor}");
        assert_eq!(actor.starts_with("sha256~"), !is_command, "{actor}");
    }
    for command in [
        &[
            "event",
            "reschedule",
            &id,
            "--queue",
            "ns.mail",
            "--after",
            "2h",
        ][..],
        &["event", "cancel", &id, "--queue", "ns.mail", "--yes"],
        &["queue", "purge", "ns.mail", "--yes"],
    ] {
        shop.run(command).text();
    }
    expected.extend(["event rescheduled", "event cancelled", "queue purged"]);
    let found = lines(shop, &[]);
    let mut actions: Vec<&str> = found.iter().map(|(_, action, _)| &**action).collect();
    actions[2..4].sort_unstable();
    assert_eq!(actions, expected);
    assert_eq!(found[7].2, format!("ns.mail/{id}"));
    assert_eq!(found[6].0, found[0].0, "one event is no other actor");
    if is_command {
        assert_eq!(found[4].2, "ns.mail, error address");
        // The trail is no queue.
        let queues = shop.json(&["queue", "list"]);
        assert!(!queues.to_string().contains("duly.audit"), "{queues}");
        // What a program does stands beside it, by its name and machine.
        let builder = Bus::builder().settings(Default::default());
        let bus = builder.store_url(&shop.target[1]).only_registered();
        let bus = bus.publish_only().start().await.unwrap();
        bus.pause("ns.mail").await.unwrap();
        bus.shutdown(Duration::from_secs(5)).await.unwrap();
        let (actor, action, _) = lines(shop, &[]).pop().unwrap();
        assert_eq!(action, "queue paused");
        assert!(
            actor.starts_with("server") && actor.contains('@'),
            "{actor}"
        );
        let queues = shop.json(&["queue", "list"]);
        assert!(!queues.to_string().contains("duly.audit"), "{queues}");
    } else {
        shop.run(&["audit"]).fails(2, "--namespace");
        let other = shop.run(&["audit", "--namespace", "other"]);
        assert_ne!(other.code, 0, "a token reads its own namespace");
    }
}

async fn the_audit_is_read_in_parts(shop: &Shop) {
    for action in ["pause", "resume", "pause", "resume", "pause"] {
        shop.run(&["queue", action, "ns.mail"]).text();
    }
    let mut namespace = Vec::new();
    if shop.is_server() {
        namespace.extend(["--namespace", "ns"]);
    }
    let (mut seen, mut before) = (0, String::new());
    loop {
        let mut arguments = vec!["audit", "--limit", "2"];
        arguments.extend(&namespace);
        if !before.is_empty() {
            arguments.extend(["--before", &before]);
        }
        let list = shop.json(&arguments);
        seen += list["items"].as_array().unwrap().len();
        match list["next"].as_str() {
            Some(next) => before = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, 5);
    let mut shown = vec!["audit"];
    shown.extend(&namespace);
    let shown = shop.run(&shown);
    assert!(shown.text().contains("queue paused"), "{shown:?}");
    let mut wrong = vec!["audit", "--before", "x"];
    wrong.extend(&namespace);
    shop.run(&wrong).fails(2, "`next`");
}

async fn the_audit_is_filtered(shop: &Shop) {
    let id = shop.scheduled.to_string();
    let event = ["event", "run-now", &id, "--queue", "ns.mail"];
    let schedule = [
        "schedule",
        "set",
        "ns.mail",
        "@yearly",
        "--queue",
        "ns.recurs",
    ];
    for command in [
        &["queue", "pause", "ns.mail"][..],
        &["queue", "pause", "ns.mailing", "--new"],
        &event,
        &[
            "event", "cancel", "--queue", "ns.mail", "--key", "nobody", "--yes",
        ],
        &schedule,
        &["queue", "resume", "ns.mail"],
    ] {
        shop.run(command).text();
    }
    let found = |more: &[&str]| -> Vec<String> {
        let found = lines(shop, more).into_iter();
        found
            .map(|(_, action, target)| format!("{action}: {target}"))
            .collect()
    };
    let of_queue = [
        "queue paused: ns.mail".to_owned(),
        format!("event rescheduled: ns.mail/{id}"),
        "events cancelled: ns.mail, key nobody".to_owned(),
        "queue resumed: ns.mail".to_owned(),
    ];
    assert_eq!(found(&["--target", "ns.mail"]), of_queue);
    let of_event = format!("ns.mail/{id}");
    assert_eq!(found(&["--target", &of_event]), of_queue[1..2]);
    let of_schedule = found(&["--target", "schedules/ns.mail"]);
    assert_eq!(of_schedule, ["schedule set: schedules/ns.mail"]);
    let paused = found(&["--target", "ns.mail", "--action", "paused"]);
    assert_eq!(paused, of_queue[..1]);
    let all = found(&[]);
    assert_eq!(all.len(), 6);
    let actor = if shop.is_server() { "sha256~" } else { "ann" };
    assert_eq!(found(&["--actor", actor, "--since", "1h"]), all);
    for nothing in [
        ["--target", "ns.mai"],
        ["--actor", "bob"],
        ["--action", "Paused"],
        ["--until", "1h"],
        ["--since", "2100-01-01T00:00:00Z"],
    ] {
        assert_eq!(found(&nothing), [""; 0], "{nothing:?}");
    }
    // A page has lines that match alone, and the next one goes on behind them.
    let one = [
        "audit",
        "--namespace",
        "ns",
        "--target",
        "ns.mail",
        "--limit",
        "3",
    ];
    let one = if shop.is_server() {
        &one[..]
    } else {
        &[&one[..1], &one[3..]].concat()
    };
    let first = shop.json(one);
    assert_eq!(first["items"].as_array().unwrap().len(), 3);
    let rest = shop.json(&[one, &["--before", first["next"].as_str().unwrap()]].concat());
    assert_eq!(rest["items"][0]["action"], "queue paused");
    assert_eq!(rest["next"], Value::Null);
}

/// A command sets three, and the store refuses one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_made_before_one_that_failed_have_their_lines() {
    const SETTINGS: [&str; 3] = ["rate", "workers", "buckets"];
    for failing in SETTINGS {
        let redis = Redis::plain();
        let proxy = Proxy::before(redis.address());
        let url = proxy.url();
        seed(&url).await;
        let refused = format!("ns.mail:{failing}");
        proxy.on_request(move |piece| {
            let is_refused = String::from_utf8_lossy(piece).contains(&refused);
            is_refused.then_some(Fault::Say("-NOPERM not this one\r\n"))
        });
        let run = |words: &str| {
            let mut words: Vec<&str> = words.split(' ').collect();
            words.extend(["--store", &url, "--json"]);
            duly(&words)
        };
        let set = run("queue set ns.mail --rate 5 --workers 3 --buckets 2");
        assert_ne!(set.code, 0, "{failing}: {set:?}");
        proxy.heal();
        let (queue, audit) = (
            run("queue show ns.mail").json(),
            run("audit").text().to_owned(),
        );
        for setting in SETTINGS {
            let (is_set, line) = (!queue[setting].is_null(), format!("{setting} of queue set"));
            assert!(!is_set || setting != failing, "{setting}: {queue}");
            assert_eq!(
                is_set,
                audit.contains(&line),
                "{failing}: {setting}: {audit}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_and_has_no_line_is_said_to_be_done() {
    let redis = Redis::plain();
    let proxy = Proxy::before(redis.address());
    let url = proxy.url();
    let (id, _) = seed(&url).await;
    proxy.on_request(|piece| {
        let is_line = String::from_utf8_lossy(piece).contains("ns.duly.audit");
        is_line.then_some(Fault::Say("-NOPERM not this one\r\n"))
    });
    let id = id.to_string();
    for command in [
        &["event", "cancel", &id, "--yes"][..],
        &["queue", "pause", "ns.mail"],
        &["schedule", "set", "ns.yearly", "@yearly", "--queue", "ns.r"],
    ] {
        let ran = duly(&[command, &["--store", &url]].concat());
        let note = "note: it is done, and the audit has no line of it";
        assert!(ran.code == 0 && ran.err.contains(note), "{ran:?}");
    }
}
