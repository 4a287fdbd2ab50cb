//! Commands on a terminal, which `script` provides: questions, progress, and colours.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::{Shop, Target};

/// How long a terminal is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const BOLD: &str = "\u{1b}[1m";

/// A command on a terminal of its own.
struct Terminal {
    process: Child,
    keys: ChildStdin,
    written: Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    /// Runs a command on the store of a shop.
    fn run(shop: &Shop, command: &str, no_color: &str) -> Self {
        let store = format!("sqlite:{}", shop.folder().join("jobs.db").display());
        let program = env!("CARGO_BIN_EXE_duly");
        let command = format!("stty rows 20 cols 90; exec {program} {command} --store {store}");
        let mut process = Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("NO_COLOR", no_color)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`script` is there");
        let keys = process.stdin.take().expect("it is piped");
        let mut output = process.stdout.take().expect("it is piped");
        let (write, written) = mpsc::channel();
        thread::spawn(move || {
            let mut some = [0; 4_096];
            while let Ok(count @ 1..) = output.read(&mut some) {
                if write.send(some[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            keys,
            written,
            shown: String::new(),
        }
    }

    /// Waits until this text is shown.
    fn until(&mut self, text: &str) {
        let began = Instant::now();
        while !self.shown.contains(text) {
            let left = PATIENCE.saturating_sub(began.elapsed());
            match self.written.recv_timeout(left) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} is not shown: {:?}", self.shown),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("keys");
    }

    /// Waits for the end. Returns the exit code, and all that was shown.
    fn end(mut self) -> (i32, String) {
        while let Ok(bytes) = self.written.recv_timeout(PATIENCE) {
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        let status = self.process.wait().expect("it ends");
        (status.code().expect("no signal"), self.shown)
    }
}

fn dead(shop: &Shop) -> u64 {
    let queue = shop.json(&["queue", "show", "ns.mail"]);
    queue["dead"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_answered_on_a_terminal_and_only_yes_does_it() {
    let shop = Shop::open(Target::Embedded).await;
    let drop = "dead drop --all --queue ns.mail";
    let end_of_input = "\u{4}";
    for refusal in ["n\n", "\n", "yes please\n", end_of_input] {
        let mut terminal = Terminal::run(&shop, drop, "");
        terminal.until("Drop every matching dead letter for good? [y/N] ");
        terminal.press(refusal);
        let (code, shown) = terminal.end();
        assert_eq!(code, 2, "{refusal:?}: {shown:?}");
        assert!(shown.contains("nothing was changed"), "{shown:?}");
        assert_eq!(dead(&shop), 2, "{refusal:?}");
    }
    let mut terminal = Terminal::run(&shop, drop, "");
    terminal.until("[y/N] ");
    terminal.press("y\n");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown:?}");
    assert!(
        shown.contains("2 of 2 dead letters are dropped"),
        "{shown:?}"
    );
    assert_eq!(dead(&shop), 0);
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_work_shows_how_far_it_is_and_clears_that_at_its_end() {
    let shop = Shop::open(Target::Embedded).await;
    let revive = "dead revive --all --queue ns.mail --rate 1";
    let mut terminal = Terminal::run(&shop, revive, "");
    // One of the two is revived, and the next one has to wait.
    terminal.until("revived 1");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown:?}");
    let (progress, result) = shown.rsplit_once("\u{1b}[2K").expect("a line is cleared");
    assert!(progress.contains("revived 1"), "{shown:?}");
    assert_eq!(
        result.trim(),
        "2 of 2 dead letters are revived",
        "{shown:?}"
    );

    // Where its errors go elsewhere there is none.
    let elsewhere = "queue drain ns.mail --timeout 1ms 2>/dev/null";
    let (_, shown) = Terminal::run(&shop, elsewhere, "").end();
    assert!(!shown.contains("draining"), "{shown:?}");
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colours_are_for_terminals_of_people_who_want_them() {
    let shop = Shop::open(Target::Embedded).await;
    // Progress, which moves the cursor, goes where errors go.
    let list = |command: &str, no_color: &str| {
        let (code, shown) = Terminal::run(&shop, command, no_color).end();
        assert_eq!(code, 0, "{shown:?}");
        assert!(shown.contains("ns.mail"), "{shown:?}");
        shown
    };
    assert!(list("queue list 2>/dev/null", "").contains(BOLD));
    assert!(!list("queue list 2>/dev/null", "1").contains('\u{1b}'));
    assert!(!list("queue list --json 2>/dev/null", "").contains('\u{1b}'));
    shop.close().await;
}
