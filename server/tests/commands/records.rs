//! `duly records`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Shop, Target, on_every_target};
use crate::servers::{Postgres, PostgresOptions};

on_every_target! {
    records_are_filtered
    records_have_three_forms
    new_records_are_followed
}

const QUEUE: [&str; 2] = ["--queue", "ns.mail"];

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().copied().chain(QUEUE).collect()
}

async fn records_are_filtered(shop: &Shop) {
    let count = |more: &[&str]| {
        let ran = shop.run(&[&with(&["records"]), more].concat());
        ran.text().lines().count()
    };
    let id = shop.dead[0].to_string();
    assert_eq!(count(&["--outcome", "buried"]), 2);
    assert_eq!(count(&["--outcome", "acked"]), 0);
    assert_eq!(count(&["--id", &id]), 1);
    assert_eq!(count(&["--since", "1h"]), 2);
    assert_eq!(count(&["--until", "1h"]), 0);
    assert_eq!(count(&["--key", "customer:8"]), 2);
    assert_eq!(count(&["--limit", "1"]), 1);
    let by_error = with(&["records", "--error", "address"]);
    assert_eq!(shop.run(&by_error).text().lines().count(), 1);
    assert_eq!(count(&["--cause", "failed"]), 2);
    assert_eq!(count(&["--cause", "panicked"]), 0);
    let record = shop.json(&with(&["records", "--limit", "1"]));
    let node = record["node"].as_str().unwrap();
    assert_eq!(count(&["--node", node]), 2);
    assert_eq!(count(&["--node", "00000000000000ff"]), 0);
    shop.run(&with(&["records", "--node", "web-1"]))
        .fails(2, "16 hexadecimal digits");
    shop.run(&with(&["records", "--outcome", "fine"]))
        .fails(2, "expected one of");
}

async fn records_have_three_forms(shop: &Shop) {
    let newest = with(&["records", "--newest", "--limit", "1"]);
    let record = shop.json(&newest);
    assert_eq!(record["error"], "the post is closed");
    assert_eq!(record["queue"], "ns.mail");
    assert_eq!(record["outcome"], "buried");
    let text = shop.run(&newest);
    assert!(text.text().contains("buried"), "{text:?}");
    let csv = shop.run(&with(&["records", "--format", "csv"]));
    let mut lines = csv.text().lines();
    assert_eq!(
        lines.next(),
        Some("id,queue,attempt,outcome,cause,error,key,due_ms,leased_ms,ended_ms,actor")
    );
    let first = lines.next().unwrap();
    assert!(first.starts_with(&shop.dead[0].to_string()), "{first}");
    assert!(first.contains(",buried,"), "{first}");
    assert_eq!(lines.count(), 1);
}

async fn new_records_are_followed(shop: &Shop) {
    if !shop.target[1].starts_with("redis") && !shop.is_server() {
        return; // a file has one process, which follows; nothing else can add a record
    }
    // More than a page of them: the dead letters stand before all these.
    shop.push(1_000).await;
    shop.push(100).await;
    shop.run(&["queue", "purge", "ns.mail", "--yes"]).text();
    let records = with(&["records", "--limit", "2000"]);
    let all = || shop.run(&records).text().lines().count();
    crate::world::until("all are recorded", async || all() == 1_104).await;
    let mut follows = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(with(&["records", "--follow", "--json", "--limit", "1104"]))
        .args(&shop.target)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follows.stdout.take().unwrap()).lines();
    let mut outcome = || {
        let line = lines.next().unwrap().unwrap();
        let record: Value = serde_json::from_str(&line).unwrap();
        record["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(outcome(), "buried");
    assert_eq!(outcome(), "buried");
    for _ in 2..1_104 {
        assert_eq!(outcome(), "cancelled");
    }
    let id = shop.dead[0].to_string();
    shop.json(&with(&["dead", "drop", &id, "--yes"]));
    assert_eq!(outcome(), "dropped");
    follows.kill().unwrap();
    follows.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_may_be_in_postgresql() {
    let shop = Shop::open(Target::Redis).await;
    let database = Postgres::start(PostgresOptions::default());
    let journal = [("DULY__RECORDS__JOURNAL", database.url())];
    let arguments = ["records", "--format", "json", "--queue", "ns.mail"];
    let recorded = async || {
        let ran = shop.run_with(&arguments, &journal);
        assert!(ran.text().contains("no such address"), "{ran:?}");
        let count = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'records%'";
        database.sql(count).trim() != "0"
    };
    crate::world::until("the journal has its tables", recorded).await;
    shop.close().await;
}

/// A file is pruned by whoever has it open, and a command may run without the settings of its program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_removes_no_record_that_its_program_keeps() {
    let shop = Shop::open(Target::Embedded).await;
    let id = shop.scheduled.to_string();
    let less = [("DULY__RECORDS__KEEP_MAX", "1".to_owned())];
    for arguments in [
        &["queue", "pause", "ns.mail"][..],
        &["event", "cancel", &id, "--queue", "ns.mail", "--yes"],
        &["dead", "revive", "--queue", "ns.mail", "--all"],
        &["doctor"],
    ] {
        let ran = shop.run_with(arguments, &less);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    }
    let buried = with(&["records", "--outcome", "buried"]);
    let left = shop.run_with(&buried, &less).text().lines().count();
    assert_eq!(left, 2, "one for each that is dead");
}
