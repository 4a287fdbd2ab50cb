//! `duly top`: one snapshot where there is no terminal, and a live view on one.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use duly::prelude::*;

use super::{Shop, Target, duly};
use crate::world::{Place, World, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_written_where_there_is_no_terminal() {
    for target in [Target::Embedded, Target::Redis, Target::Server] {
        let shop = Shop::open(target).await;
        let namespace: &[&str] = if shop.is_server() {
            &["--namespace", "ns"]
        } else {
            &[]
        };
        let text = shop.run(&[&["top"], namespace].concat());
        let lines: Vec<_> = text.text().lines().collect();
        assert!(lines[0].contains("  1 queue  "), "{lines:?}");
        assert!(lines[0].ends_with("  2 dead  0 nodes"), "{lines:?}");
        assert!(lines[1].starts_with("QUEUE"), "{lines:?}");
        assert!(lines[2].starts_with("ns.mail"), "{lines:?}");
        assert!(!text.out.contains('\u{1b}'), "{lines:?}");

        let json = shop.run(&[&["top", "--json"], namespace].concat()).json();
        let queue = &json["queues"][0];
        assert_eq!(queue["dead"], 2, "{json}");
        // Two died just now, or in the minute before.
        assert!(queue["ended"].as_u64().is_some_and(|it| it <= 2), "{json}");
        assert_eq!(json["has_more"], false, "{json}");
        assert_eq!(json["nodes"], 0, "{json}");
    }
}

#[delay_event(queue = "ns.mail", register = false)]
async fn mail(_: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "other.mail", register = false)]
async fn other(_: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

/// Programs with handlers share the Redis of a server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_counts_the_nodes_of_a_namespace() {
    let world = World::start(Place::Redis).await;
    let builder = || Bus::builder().store_url(world.url()).only_registered();
    let mut nodes = Vec::new();
    for builder in [builder().register(mail {}), builder().register(other {})] {
        nodes.push(builder.start().await.expect("a node"));
    }
    for queue in ["ns.mail", "other.mail"] {
        let queue = nodes[0].queue_named::<u64>(queue).expect("a queue");
        queue.push(7, When::Now).await.expect("pushed");
    }
    let server = world.api_url("");
    let top = ["top", "--json", "--namespace", "ns", "--server", &server];
    let top = [&top[..], &["--token", &world.token]].concat();
    until("the node is counted", async || {
        let seen = duly(&top).json();
        let names: Vec<_> = seen["queues"].as_array().expect("queues").iter().collect();
        let is_there = names.iter().any(|it| it["queue"] == "ns.mail");
        assert!(names.iter().all(|it| it["queue"] != "other.mail"), "{seen}");
        is_there && seen["nodes"] == 1
    })
    .await;
    for node in nodes {
        node.shutdown(Duration::from_secs(5))
            .await
            .expect("it ends");
    }
    world.server.stop().await;
}

#[test]
fn what_is_wrong_at_once_is_an_error_with_its_exit_code() {
    duly(&["top", "--store", "sqlite:nothing.db"]).fails(3, "there is no store");
    duly(&["top", "--interval", "0s"]).fails(2, "is zero");
    duly(&["top", "--limit", "0"]).fails(2, "1..=10000");
}

/// On a terminal that `script` provides, with keys as a user presses them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_has_a_live_view_that_keys_work_and_that_leaves_it_as_it_was() {
    let shop = Shop::open(Target::Embedded).await;
    let store = format!("sqlite:{}", shop.folder().join("jobs.db").display());
    let program = env!("CARGO_BIN_EXE_duly");
    for (colours, no_color) in [(true, ""), (false, "1")] {
        let command = format!("stty rows 20 cols 90; {program} top --store {store}; stty -a");
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("NO_COLOR", no_color)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`script` is there");
        let mut keys = child.stdin.take().expect("it is piped");
        keys.write_all(b"sjq").expect("keys");
        let output = child.wait_with_output().expect("it ends");
        drop(keys);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{shown}");
        let (entered, left) = (shown.find("\u{1b}[?1049h"), shown.rfind("\u{1b}[?1049l"));
        assert!(entered.is_some() && left > entered, "{shown:?}");
        assert!(shown.contains("ns.mail"), "{shown:?}");
        // Two dead letters are red, unless nobody wants colours.
        assert_eq!(shown.contains("\u{1b}[38;5;1;"), colours, "{shown:?}");
        let after = &shown[left.unwrap_or(0)..];
        assert!(
            after.contains(" echo ") && after.contains(" icanon "),
            "{after}"
        );
    }
}
