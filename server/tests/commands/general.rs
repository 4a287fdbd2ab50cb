//! What all commands have in common: usage, stores that are not there, completions, the manual.

use super::alike::leaves;
use super::{Shop, Target, Unread, duly, run_unread};

#[test]
fn a_store_in_a_file_is_never_made_by_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nothing.db");
    let store = format!("sqlite:{}", file.display());
    duly(&["queue", "list", "--store", &store]).fails(3, "there is no store");
    assert!(!file.exists());
    // Without --store it is the default of `duly serve`.
    duly(&["queue", "list"]).fails(3, "sqlite:duly.db");
}

#[test]
fn wrong_usage_has_exit_code_2() {
    duly(&["queue", "lisst"]).fails(2, "'list'");
    for address in ["7777", ":7777", "localhost:7777", "127.0.0.1"] {
        duly(&["serve", "--listen", address]).fails(2, "such as 127.0.0.1:7777");
        duly(&["demo", "--api", address]).fails(2, "such as 127.0.0.1:7777");
    }
    duly(&["queue", "list", "--store", "oracle:x"]).fails(2, "oracle");
    let both = ["--store", "memory:", "--server", "http://x"];
    duly(&[&["queue", "list"], &both[..]].concat()).fails(2, "cannot be used with");
    let no_url = [
        "queue",
        "list",
        "--server",
        "localhost:7777",
        "--token",
        "t",
    ];
    duly(&no_url).fails(2, "is no URL of a server");
    let named = ["--token", "t", "--server", "http://127.0.0.1:1"];
    duly(&[&["queue", "show", "mail"], &named[..]].concat()).fails(2, "namespace.queue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exit_code_is_that_of_the_work_though_nobody_reads() {
    let shop = Shop::open(Target::Embedded).await;
    for (command, code) in [
        (&["queue", "list"][..], 0),
        (&["queue", "show", "ns.nothing"], 3),
        (&["queue", "purge", "ns.mail"], 2),
        (&["records", "--limit", "1"], 0),
        (
            &[
                "event",
                "cancel",
                "--queue",
                "ns.mail",
                "--all",
                "--dry-run",
            ],
            0,
        ),
    ] {
        for unread in [Unread::Output, Unread::Errors] {
            let ended = shop.run_unread(command, unread);
            assert_eq!(ended, Some(code), "{command:?} {unread:?}");
        }
    }
    let long = "x".repeat(100_000);
    for (command, code) in [
        (&["queue", &*long][..], 2),
        (&["queue", "lisst"], 2),
        (&["serve", "--store", "oracle:x"], 1),
        (&["demo", "--listen", "192.0.2.1:1"], 1),
    ] {
        let ended = run_unread(command, Unread::Errors);
        assert_eq!(ended, Some(code), "{}", command[0]);
    }
}

/// What there is of each, so that one is more than the first.
const TWO_OF_EACH: &[&[&str]] = &[
    &["queue", "set", "ns.other", "--rate", "2", "--new"],
    &["schedule", "set", "ns.a", "@yearly", "--queue", "ns.recurs"],
    &["schedule", "set", "ns.b", "@yearly", "--queue", "ns.recurs"],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_cut_says_so() {
    let shop = Shop::open(Target::Embedded).await;
    for command in TWO_OF_EACH {
        shop.run(command).text();
    }
    let mut lists = Vec::new();
    for command in leaves(&[]) {
        let words: Vec<_> = command.split(' ').collect();
        let help = duly(&[&words[..], &["--help"]].concat());
        let is_list = !matches!(words[..], ["dead", "revive" | "drop"]);
        if is_list && help.text().contains("--limit <N>") {
            lists.push(command);
        }
    }
    assert!(lists.len() >= 6, "{lists:?}");
    for command in lists {
        let words: Vec<_> = command.split(' ').collect();
        let mut forms = vec![&[][..], &["--json"]];
        if command == "records" {
            forms.extend([&["--format", "csv"][..], &["--newest"]]);
        }
        for form in forms {
            let cut = shop.run(&[&words[..], form, &["--limit", "1"]].concat());
            let next = serde_json::from_str::<serde_json::Value>(cut.text());
            let says_json = next.is_ok_and(|it| it["next"].is_string() || it["has_more"] == true);
            let words_of_it = ["raise --limit", "go on with", "the first"];
            let says = |text: &str| words_of_it.iter().any(|it| text.contains(it));
            assert!(
                says_json || says(&cut.out) || says(&cut.err),
                "{command} {form:?}: {cut:?}"
            );
            let whole = shop.run(&[&words[..], form, &["--limit", "50"]].concat());
            assert!(!says(whole.text()) && whole.err.is_empty(), "{whole:?}");
        }
    }
}

#[test]
fn arguments_without_end_get_a_bounded_error() {
    let long = "x".repeat(100_000);
    let many: Vec<&str> = std::iter::repeat_n("word", 100_000).collect();
    for words in [&["queue", &*long][..], &["queue", "show", &*long], &many] {
        let ran = duly(words);
        assert_ne!(ran.code, 0);
        assert!(ran.err.len() < 3_000, "{} bytes", ran.err.len());
    }
}

#[test]
fn a_server_that_does_not_respond_has_exit_code_5() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    duly(&[
        "queue", "show", "ns.mail", "--token", "t", "--server", &server,
    ])
    .fails(5, "does not respond; `duly serve` starts a server");
}

#[test]
fn what_no_header_can_have_is_wrong_usage() {
    let server = "http://127.0.0.1:1"; // nobody is asked
    let show = ["queue", "show", "ns.mail", "--server", server];
    duly(&[&show[..], &["--token", "a\rb"]].concat()).fails(2, "a character that no header has");
}

#[test]
fn a_number_without_a_unit_is_no_time() {
    let drop = [
        "dead", "drop", "--store", "memory:", "--yes", "--since", "2",
    ];
    duly(&drop).fails(2, "such as 2d");
}

/// Answers each request with this.
async fn answering(status: u16, body: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move || async move { (axum::http::StatusCode::from_u16(status).unwrap(), body) };
    tokio::spawn(axum::serve(listener, axum::Router::new().fallback(answer)).into_future());
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_answers_in_place_of_a_server_is_told_from_one() {
    let proxy = answering(502, "<html>Bad Gateway</html>").await;
    let show = [
        "queue", "show", "ns.mail", "--token", "t", "--server", &proxy,
    ];
    duly(&show).fails(5, "502 Bad Gateway");
    for body in ["{}", r#"{"tokens": ["a"]}"#] {
        let other = answering(200, body).await;
        duly(&["token", "list", "ns", "--admin", &other]).fails(1, "is no server of duly");
    }
}

#[test]
fn completions_and_the_manual_are_written() {
    for shell in ["bash", "zsh", "fish"] {
        let written = duly(&["completions", shell]);
        assert!(written.text().contains("reschedule"), "{shell}");
    }
    let manual = duly(&["man"]);
    assert!(manual.text().contains(".TH duly 1"), "{manual:?}");
    assert!(manual.text().contains("Exit codes"), "{manual:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    duly(&["man", "--folder", path]).text();
    assert!(folder.path().join("duly-queue-set.1").exists());
    duly(&["man", "--folder", &format!("{path}/new/pages")]).text();
    assert!(folder.path().join("new/pages/duly.1").exists());
    let file = folder.path().join("duly.1");
    duly(&["man", "--folder", file.to_str().unwrap()]).fails(1, "cannot be written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_of_the_settings_is_the_default() {
    let shop = Shop::open(Target::Embedded).await;
    let store = format!("sqlite:{}", shop.folder().join("jobs.db").display());
    let file = shop.folder().join("server.toml");
    std::fs::write(&file, format!("[pools.default]\nurl = '{store}'\n")).unwrap();
    let file = file.to_str().unwrap();
    let listed = duly(&["queue", "list", "--json", "--config", file]).json();
    assert_eq!(listed[0]["queue"], "ns.mail");
    duly(&["queue", "list", "--config", "none.toml"]).fails(2, "none.toml");
}

/// What a command works on is the same everywhere, and stands behind its own options.
#[test]
fn the_help_of_a_command_has_its_own_options_first() {
    for (command, option) in [
        (&["records"][..], "--follow"),
        (&["top"], "--interval"),
        (&["forecast"], "--horizon"),
        (&["doctor"], "--repair"),
        (&["dead", "revive"], "--rate"),
        (&["schedule", "set"], "--overlap"),
    ] {
        let help = duly(&[command, &["--help"]].concat());
        let text = help.text();
        let (own, target) = text.split_once("\nStore or server:\n").expect(text);
        assert!(own.contains(option) && target.contains("--store"), "{text}");
        assert!(!target.contains(option), "{text}");
    }
}

#[test]
fn a_schedule_is_explained_by_its_next_instants() {
    let nights = "30 2 * * * Europe/Berlin";
    let next = [
        "schedule",
        "next",
        nights,
        "--from",
        "2026-03-27T12:00:00Z",
        "--count",
        "3",
    ];
    let shown = duly(&next);
    let text = shown.text();
    for line in [
        "At 02:30, Europe/Berlin",
        "2026-03-28 02:30:00 +01:00  2026-03-28T01:30:00.000Z",
        "2026-03-29 03:00:00 +02:00  2026-03-29T01:00:00.000Z",
        "2026-03-30 02:30:00 +02:00  2026-03-30T00:30:00.000Z",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let shown = duly(&[&next[..], &["--json"]].concat()).json();
    assert_eq!(shown["recurrence"], nights);
    assert_eq!(shown["next"][1]["at_ms"], 1_774_746_000_000_u64);
    assert_eq!(shown["next"].as_array().map(Vec::len), Some(3));
    for (recurrence, code, why) in [
        ("61 * * * *", 2, "write minute, hour"),
        ("0 9 * * * Europe/Munich", 2, "there is no time zone"),
        ("0 0 0 1 1 * 2020", 3, "is not once more"),
    ] {
        duly(&["schedule", "next", recurrence]).fails(code, why);
    }
}

#[test]
fn the_tables_of_an_outbox_are_printed_for_migrations() {
    for (database, table) in [
        ("postgres", "create table if not exists duly_outbox ("),
        ("sqlite", "create table if not exists duly_outbox ("),
        ("mysql", "create procedure if not exists duly_push("),
    ] {
        let shown = duly(&["outbox", "schema", "--database", database]);
        assert!(shown.text().contains(table), "{database}");
    }
    duly(&["outbox", "schema", "--database", "oracle"])
        .fails(2, "there are postgres, sqlite and mysql");
}
