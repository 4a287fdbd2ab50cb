//! `duly dead`.

use serde_json::json;

use super::{Shop, on_every_target};

on_every_target! {
    dead_letters_are_listed_by_filters
    a_dead_letter_is_shown
    a_revival_needs_a_selection_and_can_be_tried
    dropping_asks
    a_rate_paces
}

const QUEUE: [&str; 2] = ["--queue", "ns.mail"];

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().copied().chain(QUEUE).collect()
}

fn dead(shop: &Shop) -> u64 {
    let queue = shop.json(&["queue", "show", "ns.mail"]);
    queue["dead"].as_u64().unwrap()
}

async fn dead_letters_are_listed_by_filters(shop: &Shop) {
    let list = |more: &[&str]| {
        let arguments = [&with(&["dead", "list"]), more].concat();
        let listed = shop.json(&arguments);
        listed.as_array().unwrap().len()
    };
    assert_eq!(list(&[]), 2);
    assert_eq!(list(&["--limit", "1"]), 1);
    for (limit, is_cut) in [("1", true), ("9", false)] {
        let listed = shop.run(&with(&["dead", "list", "--json", "--limit", limit]));
        let words = "... there may be more; raise --limit, or add filters\n";
        assert_eq!(listed.err, if is_cut { words } else { "" });
    }
    assert_eq!(list(&["--error", "such address"]), 1);
    assert_eq!(list(&["--error", "nothing like it"]), 0);
    assert_eq!(list(&["--since", "1h"]), 2);
    assert_eq!(list(&["--until", "1h"]), 0);
    assert_eq!(list(&["--key", "customer:8"]), 2);
    assert_eq!(list(&["--key", "customer:9"]), 0);
    let by_cause = with(&["dead", "list", "--cause", "failed"]);
    assert_eq!(shop.json(&by_cause).as_array().unwrap().len(), 2);
    assert_eq!(list(&["--cause", "panicked"]), 0);
    let record = shop.json(&with(&["records", "--limit", "1"]));
    assert_eq!(list(&["--node", record["node"].as_str().unwrap()]), 2);
    assert_eq!(list(&["--node", "00000000000000ff"]), 0);
    let listed = shop.run(&with(&["dead", "list"]));
    assert!(listed.text().starts_with("ID "), "{listed:?}");
    assert!(listed.text().contains("the post is closed"), "{listed:?}");
    shop.run(&with(&["dead", "list", "--cause", "bad"]))
        .fails(2, "expected one of");
}

async fn a_dead_letter_is_shown(shop: &Shop) {
    let id = shop.dead[1].to_string();
    let letter = shop.json(&with(&["dead", "show", &id]));
    assert_eq!(letter["id"], id);
    assert_eq!(letter["error"], "the post is closed");
    assert_eq!(letter["tries"], 1);
    let shown = shop.run(&with(&["dead", "show", &id]));
    assert!(shown.text().contains(r#"{"to":2}"#), "{shown:?}");
    let scheduled = shop.scheduled.to_string();
    shop.run(&with(&["dead", "show", &scheduled]))
        .fails(3, &scheduled);
}

async fn a_revival_needs_a_selection_and_can_be_tried(shop: &Shop) {
    shop.run(&with(&["dead", "revive"])).fails(2, "--all");
    let tried = shop.json(&with(&["dead", "revive", "--all", "--dry-run"]));
    assert_eq!(tried, json!({"matched": 2, "done": 0, "dry_run": true}));
    assert_eq!(dead(shop), 2);
    let revived = shop.run(&with(&["dead", "revive", "--error", "closed"]));
    assert_eq!(revived.text(), "1 of 1 dead letters are revived\n");
    assert_eq!(dead(shop), 1);
    let id = shop.dead[0].to_string();
    let gone = shop.dead[1].to_string();
    let tried = shop.run(&with(&["dead", "revive", &gone, &id, "--dry-run"]));
    let missing = format!("; no dead letter that matches: {gone}\n");
    assert!(tried.text().ends_with(&missing), "{tried:?}");
    let limited = ["dead", "revive", &gone, &id, "--dry-run", "--limit", "1"];
    let limited = shop.json(&with(&limited));
    assert_eq!(limited["missing"], json!([]), "it was not looked for");
    let revived = shop.run(&with(&["dead", "revive", &gone, &id]));
    let expected = format!("1 of 2 dead letters are revived{missing}");
    assert_eq!(revived.text(), expected);
    shop.run(&with(&["dead", "revive", &id]))
        .fails(3, "none of the ids");
    assert_eq!(shop.waiting(), 4);
}

async fn dropping_asks(shop: &Shop) {
    shop.run(&with(&["dead", "drop", "--all"]))
        .fails(2, "--yes");
    assert_eq!(dead(shop), 2);
    let limited = ["dead", "drop", "--all", "--limit", "1", "--yes"];
    let dropped = shop.json(&with(&limited));
    assert_eq!(dropped["done"], 1);
    let dropped = shop.json(&with(&["dead", "drop", "--all", "--yes"]));
    assert_eq!(dropped["done"], 1);
    assert_eq!(dead(shop), 0);
    if !shop.is_server() {
        let records = shop.json(&["records", "--outcome", "dropped", "--limit", "1"]);
        assert_eq!(records["actor"], "ann");
    }
}

async fn a_rate_paces(shop: &Shop) {
    let begun = tokio::time::Instant::now();
    let revived = shop.json(&with(&["dead", "revive", "--all", "--rate", "4"]));
    assert_eq!(revived["done"], 2);
    // The second one waits for a quarter of a second.
    assert!(begun.elapsed().as_millis() >= 250);
    shop.run(&with(&["dead", "revive", "--all", "--rate", "0"]))
        .fails(2, "0.001 to 1000000");
}
