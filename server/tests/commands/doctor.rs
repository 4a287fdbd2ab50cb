//! `duly doctor`.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Value, json};

use super::{Shop, Target, Unread, duly};
use crate::servers;

/// The kinds of damage that a report has.
fn kinds(report: &Value) -> Vec<&str> {
    let damage = report["damage"].as_array().unwrap().iter();
    let kinds = damage.map(|it| it["kind"].as_str().unwrap());
    kinds.filter(|kind| *kind != "settings").collect()
}

/// The report of a run that has found damage.
fn damaged(shop: &Shop) -> Value {
    let ran = shop.run(&["doctor", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("damaged"), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

/// The key of the bucket that holds a dead letter, with this part.
fn key_of_dead(prefix: &str, part: &str) -> String {
    let pattern = format!("{prefix}:{{ns.mail:*}}:{part}");
    let keys = servers::shared().cli(&["KEYS", &pattern]);
    keys.lines().next().expect("a key").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_on_redis_is_reported_and_repaired() {
    let shop = Shop::open(Target::Redis).await;
    let well = shop.run(&["doctor"]);
    assert!(well.text().contains("no damage; "), "{well:?}");
    assert_eq!(kinds(&shop.json(&["doctor"])), [""; 0]);

    let (_, prefix) = shop.target[1].split_once("prefix=").unwrap();
    let dead = key_of_dead(prefix, "dead");
    servers::shared().cli(&["DEL", &dead]);
    let report = damaged(&shop);
    assert_eq!(kinds(&report), ["misplaced"]);
    let found = report["damage"].as_array().unwrap().iter();
    let found = found.clone().find(|it| it["kind"] == "misplaced").unwrap();
    assert_eq!(found["repaired"], false);
    assert_eq!(found["repair"], "it is put where its state says");
    let example = &found["examples"][0];
    assert_eq!(example["what"], "is dead and not in the dead set");
    assert!(example["bucket"].as_str().unwrap().starts_with("ns.mail"));
    let ids = shop.dead.map(|id| id.to_string());
    assert!(ids.contains(&example["id"].as_str().unwrap().to_owned()));

    let text = shop.run(&["doctor", "--queue", "ns.mail"]);
    assert_eq!(text.code, 1);
    assert!(text.out.contains("misplaced: "), "{text:?}");
    assert!(text.err.contains("--repair"), "{text:?}");
    shop.run(&["doctor", "--repair"]).fails(2, "--yes");
    assert_eq!(damaged(&shop), report, "nothing was changed");

    for form in [&["doctor"][..], &["doctor", "--json"]] {
        let code = shop.run_unread(form, Unread::Output);
        assert_eq!(
            code,
            Some(1),
            "nobody reads it, and there is damage: {form:?}"
        );
    }

    let repaired = shop.json(&["doctor", "--repair", "--yes", "--queue", "ns.mail"]);
    let line = &shop.json(&["audit"])["items"][0];
    let line = [&line["actor"], &line["action"], &line["target"]];
    assert_eq!(line, ["ann", "store repaired", "ns.mail"]);
    assert_eq!(repaired["left"], 0);
    assert_eq!(repaired["repaired"], found["count"]);
    assert_eq!(kinds(&shop.json(&["doctor"])), [""; 0]);
    let listed = shop.json(&["dead", "list", "--queue", "ns.mail"]);
    assert_eq!(listed.as_array().unwrap().len(), 2, "both are found again");
}

/// A store whose registry is gone looks as one that has nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_of_a_lost_registry_is_in_the_audit() {
    let shop = Shop::open(Target::Redis).await;
    let (_, prefix) = shop.target[1].split_once("prefix=").unwrap();
    let keys = ["registry", "registered", "members"].map(|part| format!("{prefix}:{{hub}}:{part}"));
    let keys = keys.iter().map(String::as_str);
    let delete: Vec<_> = std::iter::once("DEL").chain(keys).collect();
    servers::shared().cli(&delete);
    assert_eq!(shop.json(&["queue", "list"]), json!([]));
    assert!(kinds(&damaged(&shop)).contains(&"unregistered"));
    let repaired = shop.json(&["doctor", "--repair", "--yes"]);
    assert!(repaired["repaired"].as_u64() > Some(0), "{repaired}");
    let line = &shop.json(&["audit"])["items"][0];
    let line = [&line["actor"], &line["action"], &line["target"]];
    assert_eq!(line, ["ann", "store repaired", "every queue"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_of_a_file_is_reported() {
    let shop = Shop::open(Target::Embedded).await;
    let well = shop.run(&["doctor"]);
    assert!(well.text().contains("no damage; "), "{well:?}");
    let file = shop.folder().join("jobs.db");
    let damage = "UPDATE events SET due = due - 1 WHERE row = (SELECT max(row) FROM events)";
    change(&file, damage);
    let report = damaged(&shop);
    assert_eq!(kinds(&report), ["set_aside"]);
    assert_eq!(report["damage"][0]["repaired"], false);
    let repair = shop.run(&["doctor", "--repair", "--yes", "--json"]);
    assert_eq!(repair.code, 1, "it cannot be repaired: {repair:?}");
    // It stays listed, and is no failure for ever.
    let later = shop.run(&["doctor", "--since", "0s", "--json"]);
    assert_eq!(kinds(&later.json()), ["set_aside"]);
    let old = "UPDATE damaged SET found = found - 8 * 86400000";
    change(&file, old);
    assert_eq!(shop.json(&["doctor"])["left"], 0);
    // However much it is: more than a check lists.
    let many = "WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < 12000)
         INSERT INTO damaged (found, why, row) SELECT found, why, row + n FROM damaged, n";
    let connection = rusqlite::Connection::open(&file).unwrap();
    assert_eq!(connection.execute(many, []).unwrap(), 11_999);
    drop(connection);
    let report = shop.json(&["doctor"]);
    assert_eq!(
        (&report["left"], &report["damage"][0]["count"]),
        (&json!(0), &json!(12_000))
    );
    change(
        &file,
        "UPDATE damaged SET found = found + 8 * 86400000 WHERE number = 1000",
    );
    assert_eq!(damaged(&shop)["left"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_page_of_a_file_is_reported() {
    let shop = Shop::open(Target::Embedded).await;
    let file = shop.folder().join("jobs.db");
    // A page that no start reads.
    let page = root(&file, "by_trace");
    let bytes = OpenOptions::new().write(true).open(&file).unwrap();
    bytes.write_all_at(&[0xff; 8], (page - 1) * 4_096).unwrap();
    let report = damaged(&shop);
    assert_eq!(kinds(&report), ["file"]);
    let repair = report["damage"][0]["repair"].as_str().unwrap();
    assert!(repair.contains("backup"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_works_on_stores() {
    let shop = Shop::open(Target::Server).await;
    shop.run(&["doctor"]).fails(2, "--store");
    shop.close().await;
    let shop = Shop::open(Target::Embedded).await;
    shop.run(&["doctor", "--queue", "ns.none"])
        .fails(2, "the store has no queue ns.none");
    shop.run(&["doctor", "--yes"]).fails(2, "--repair");
    // What is refused is in no audit, and makes none.
    let repair = ["doctor", "--repair", "--yes", "--queue"];
    for more in [&["shpo.mail"][..], &["ns.mail", "--queue", "shpo.mail"]] {
        shop.run(&[&repair[..], more].concat())
            .fails(2, "the store has no queue shpo.mail");
    }
    assert_eq!(shop.json(&["audit"])["items"], json!([]));
    assert_eq!(shop.json(&[&repair[..], &["ns.mail"]].concat())["left"], 0);
    let line = &shop.json(&["audit"])["items"][0];
    assert_eq!(line["target"], "ns.mail");
    duly(&["doctor", "--store", "sqlite:nothing.db"]).fails(3, "there is no store");
    let memory = duly(&["doctor", "--store", "memory:", "--json"]).json();
    assert_eq!(memory["damage"], json!([]));
}

fn change(file: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(file).unwrap();
    assert_eq!(connection.execute(sql, []).unwrap(), 1);
}

/// The first page of a table.
fn root(file: &Path, table: &str) -> u64 {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection
        .pragma_update(None, "wal_checkpoint", "TRUNCATE")
        .unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: i64 = connection
        .query_row(sql, [table], |row| row.get(0))
        .unwrap();
    page.cast_unsigned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mistyped_prefix_is_told_and_leaves_nothing_behind() {
    let prefix = servers::prefix();
    let url = format!("{}?prefix={prefix}", servers::shared().url());
    for command in [
        &["queue", "list"][..],
        &["doctor"],
        &["doctor", "--repair", "--yes"],
    ] {
        let ran = duly(&[command, &["--store", &url]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        let told = format!("there is nothing under the prefix \"{prefix}\"");
        assert!(ran.err.contains(&told), "{ran:?}");
    }
    let left = servers::shared().cli(&["KEYS", &format!("{prefix}*")]);
    assert_eq!(left, "");
}
