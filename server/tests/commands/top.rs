//! `duly top`: one snapshot where there is no terminal, and a live view on one.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{Shop, Target, duly};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_written_where_there_is_no_terminal() {
    for target in [Target::Embedded, Target::Redis, Target::Server] {
        let shop = Shop::open(target).await;
        let (namespace, queue, counts, dead): (&[&str], _, _, _) = match &shop.world {
            // A server lists the queues that it was asked for.
            Some(world) => {
                world.publish("/api/ns/web", "x").await;
                (&["--namespace", "ns"], "ns.web", "0 scheduled  1 ready", 0)
            }
            None => (&[], "ns.mail", "1 scheduled  1 ready", 2),
        };
        let text = shop.run(&[&["top"], namespace].concat());
        let lines: Vec<_> = text.text().lines().collect();
        assert!(lines[0].contains("  1 queue  "), "{lines:?}");
        assert!(lines[0].contains(counts), "{lines:?}");
        assert!(lines[1].starts_with("QUEUE"), "{lines:?}");
        assert!(lines[2].starts_with(queue), "{lines:?}");
        assert!(!text.out.contains('\u{1b}'), "{lines:?}");

        let json = shop.run(&[&["top", "--json"], namespace].concat()).json();
        assert_eq!(json["queues"][0]["dead"], dead, "{json}");
        assert_eq!(json["has_more"], false, "{json}");
        assert_eq!(json["nodes"].is_number(), shop.world.is_none(), "{json}");
    }
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
