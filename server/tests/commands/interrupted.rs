//! What changes many events is interrupted by Ctrl-C or told to end, says what was done and where it
//! goes on, and goes on there.

use std::collections::BTreeSet;
use std::process::Stdio;

use duly::time::{Clock, SystemClock};

use super::{Ran, Shop, catches_interrupts, on_every_target, signal};
use crate::world::until;

on_every_target! {
    a_bulk_goes_on_where_it_was_interrupted
    a_replay_goes_on_where_it_was_interrupted
    a_reschedule_goes_on_at_the_time_of_its_beginning
    what_was_dropped_before_an_interruption_is_said
}

/// Events that are changed, and how many in a second until it is interrupted.
const MANY: u64 = 16;
const SLOW: &str = "2";

/// Returns what of the queue a command changes.
fn picture(shop: &Shop) -> String {
    let queue = ["--queue", "ns.mail", "--limit", "100"];
    let events = shop.json(&[&["event", "list"][..], &queue].concat());
    let dead = shop.json(&[&["dead", "list"][..], &queue].concat());
    format!("{events}{dead}")
}

/// Runs a command at a rate, and tells it to end by a signal when it has begun.
async fn interrupted(shop: &Shop, arguments: &[&str], (rate, by): (&str, &str)) -> Ran {
    let before = picture(shop);
    let arguments = [arguments, &["--rate", rate]].concat();
    let child = shop
        .command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.unwrap();
    until("it has begun", async || {
        // No other command can open an embedded store meanwhile, or it could not.
        let has_changed = shop.is_embedded() || picture(shop) != before;
        has_changed && catches_interrupts(child.id())
    })
    .await;
    signal(child.id(), by);
    Ran::of(&child.wait_with_output().unwrap())
}

/// Returns the number that the error says before a word, and the arguments with which it goes on.
fn said<'a>(ran: &'a Ran, done: &str) -> (u64, Vec<&'a str>) {
    assert_eq!(ran.code, 1, "{ran:?}");
    let (_, said) = ran.err.split_once("it was interrupted; ").unwrap();
    let (count, rest) = said
        .split_once(&format!(" events were {done} before"))
        .unwrap();
    let value = |name: &'static str| {
        let (_, rest) = rest.split_once(name)?;
        let value = rest.split_whitespace().next()?.trim_end_matches(',');
        Some([name, value.trim_matches('\'')])
    };
    let names = ["--at", "--until", "--pushed-until", "--resume"];
    let arguments = names.map(value);
    (
        count.parse().unwrap(),
        arguments.into_iter().flatten().flatten().collect(),
    )
}

async fn a_bulk_goes_on_where_it_was_interrupted(shop: &Shop) {
    shop.push(MANY).await;
    let total = shop.waiting();
    let cancel = ["event", "cancel", "--queue", "ns.mail", "--all", "--yes"];
    let ran = interrupted(shop, &cancel, (SLOW, "INT")).await;
    let (first, place) = said(&ran, "cancelled");
    assert!(first < total, "{ran:?}");
    if place.is_empty() {
        return; // it was interrupted in its first step
    }
    shop.push(MANY).await;
    let rest = shop.json(&[&cancel[..], &place].concat());
    let sum = first + rest["done"].as_u64().unwrap();
    // The step that was under way may be done, and is not counted.
    assert!(
        (total - 1..=total).contains(&sum),
        "{sum} of {total}: {ran:?}, {rest}"
    );
    assert_eq!(shop.waiting(), MANY, "what was pushed meanwhile is left");
    let without = [&cancel[..], &place[place.len() - 2..]].concat();
    shop.run(&without).fails(2, "--pushed-until");
}

async fn a_replay_goes_on_where_it_was_interrupted(shop: &Shop) {
    let cancel = ["event", "cancel", "--queue", "ns.mail", "--all", "--yes"];
    shop.json(&cancel);
    let since = SystemClock::new().now().to_string();
    shop.push(MANY).await;
    shop.json(&cancel);
    let replay = [
        "event",
        "replay",
        "--name",
        "by mistake",
        "--queue",
        "ns.mail",
    ];
    let filter = ["--outcome", "cancelled", "--since", &since, "--yes"];
    let replay = [&replay[..], &filter].concat();
    // Its end is to come, so that what it replays could end before.
    let to_come = [&replay[..], &["--until", "2100-01-01T00:00:00Z"]].concat();
    let ran = interrupted(shop, &to_come, (SLOW, "INT")).await;
    let (first, place) = said(&ran, "replayed");
    assert!(first < MANY, "{ran:?}");
    if place.is_empty() {
        return;
    }
    let ended = shop.json(&cancel)["done"].as_u64().unwrap();
    let rest = shop.json(&[&replay[..], &place].concat());
    let sum = first + rest["pushed"].as_u64().unwrap() + rest["repeated"].as_u64().unwrap();
    assert!(sum >= MANY - 1, "{ran:?}, {rest}");
    // Their payloads are not kept, so this is how many of them were taken for what had ended.
    assert_eq!(rest["without_payload"], 0, "{rest}");
    assert_eq!(shop.waiting(), MANY - ended, "each once: {ran:?}, {rest}");
}

async fn a_reschedule_goes_on_at_the_time_of_its_beginning(shop: &Shop) {
    shop.push(MANY).await;
    let reschedule = ["event", "reschedule", "--queue", "ns.mail", "--all"];
    let later = [&reschedule[..], &["--after", "2h"]].concat();
    let ran = interrupted(shop, &later, (SLOW, "TERM")).await;
    let (_, place) = said(&ran, "rescheduled");
    if !place.contains(&"--resume") {
        return; // it was told to end in its first step
    }
    shop.json(&[&reschedule[..], &place].concat());
    let listed = shop.json(&["event", "list", "--queue", "ns.mail", "--limit", "100"]);
    let events = listed["items"].as_array().unwrap().iter();
    let due: BTreeSet<String> = events
        .filter(|event| event["state"] != "dead")
        .map(|event| event["due_ms"].to_string())
        .collect();
    assert_eq!(due.len(), 1, "{ran:?}, {listed}");
}

async fn what_was_dropped_before_an_interruption_is_said(shop: &Shop) {
    let drop = ["dead", "drop", "--queue", "ns.mail", "--all", "--yes"];
    let ran = interrupted(shop, &drop, ("0.1", "TERM")).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    let (_, said) = ran.err.split_once("it was interrupted; at least ").unwrap();
    let (count, _) = said.split_once(" were dropped before").unwrap();
    assert!(count.parse::<u64>().unwrap() < 2, "{ran:?}");
}
