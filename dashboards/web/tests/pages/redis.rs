//! Redis: the commands that a page costs, counted by the server; two nodes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duly::Bus;
use duly::prelude::*;
use duly_dashboard::Role;
use tempfile::TempDir;

use crate::site::Site;

/// A server that keeps nothing.
pub(super) struct Redis {
    process: Child,
    socket: PathBuf,
    _home: TempDir,
}

impl Redis {
    pub(super) async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("s.sock");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--unixsocket"]);
        let process = command.arg(&socket).stdout(Stdio::null()).spawn().unwrap();
        let server = Self {
            process,
            socket,
            _home: home,
        };
        let up = async {
            while UnixStream::connect(&server.socket).is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), up)
            .await
            .unwrap();
        server
    }

    pub(super) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket.display())
    }

    /// Runs a script, with words.
    fn eval(&self, script: &str, words: &[&str]) {
        let mut command = Command::new("redis-cli");
        let command = command.arg("-e").arg("-s").arg(&self.socket);
        let command = command.args(["EVAL", script, "0"]).args(words);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }

    /// Returns how many commands it has run, those of scripts included.
    fn commands(&self) -> u64 {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.write_all(b"INFO commandstats\r\n").unwrap();
        let (mut text, mut bytes) = (String::new(), [0; 65_536]);
        while !text.ends_with("\r\n\r\n") {
            let read = stream.read(&mut bytes).unwrap();
            text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
        let calls = text
            .lines()
            .filter(|line| !line.starts_with("cmdstat_info"));
        let calls = calls.filter_map(|line| line.split_once("calls=")?.1.split_once(','));
        calls.map(|(calls, _)| calls.parse::<u64>().unwrap()).sum()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the fewest commands of each page.
async fn costs_with(queues: usize) -> BTreeMap<String, u64> {
    let server = Redis::start().await;
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.store_url(server.url()).only_registered().publish_only();
    let bus = bus.start().await.unwrap();
    let mut first = None;
    for number in 0..queues {
        let queue = bus
            .queue_named::<u64>(&format!("queue-{number:04}"))
            .unwrap();
        let sent = queue.push(7, Duration::from_secs(600)).await.unwrap();
        first.get_or_insert(sent.id());
    }
    let id = first.unwrap();
    let site = Site::of(bus, Role::Admin).await;
    let whole = async {
        let title = format!("of {}", duly_number(queues));
        while !site.get("/queues").await.text.contains(&title) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), whole)
        .await
        .unwrap();
    let mut costs = BTreeMap::new();
    for path in [
        "/".to_owned(),
        "/queues".to_owned(),
        "/queues/queue-0000".to_owned(),
        format!("/queues/queue-0000/events/{id}?explain=1"),
        "/dead".to_owned(),
        "/dead?queue=queue-0000".to_owned(),
        "/records?queue=queue-0000".to_owned(),
        "/nodes".to_owned(),
        "/act/revive-all?queue=queue-0000".to_owned(),
        "/act/rate?queue=queue-0000".to_owned(),
    ] {
        let mut fewest = u64::MAX;
        for _ in 0..10 {
            let before = server.commands();
            let page = site.get(&path).await;
            assert_eq!(page.status, 200, "{path}");
            fewest = fewest.min(server.commands() - before);
        }
        costs.insert(path.replace(&id.to_string(), "ID"), fewest);
    }
    costs
}

/// As the pages write it.
fn duly_number(number: usize) -> String {
    match number {
        1_000 => "1\u{202f}000".to_owned(),
        _ => number.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_costs_more_commands_with_more_queues() {
    let (few, many) = (costs_with(100).await, costs_with(1_000).await);
    for (path, many) in &many {
        let few = few[path];
        assert!(
            *many <= few + 2,
            "{path}: {few} commands of 100 queues, {many} of 1,000"
        );
        assert!(*many <= 100, "{path}: {many} commands");
    }
    assert!(many["/queues/queue-0000"] > 0, "{many:?}");
}

/// The bucket of one queue cannot be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_cannot_be_counted_holds_up_no_other() {
    let server = Redis::start().await;
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.store_url(server.url()).only_registered().publish_only();
    let bus = bus.start().await.unwrap();
    let shows = async |site: &Site, path: &str, text: &str| {
        let shown = async {
            while !site.get(path).await.text.contains(text) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let shown = tokio::time::timeout(Duration::from_secs(30), shown).await;
        assert!(shown.is_ok(), "{path} does not show {text:?}");
    };
    let push = async |queue: &str| {
        let queue = bus.queue_named::<u64>(queue).unwrap();
        queue.push(7, Duration::ZERO).await.unwrap();
    };
    let names = ["a-first", "broken", "z-last"];
    for name in names {
        push(name).await;
    }
    let site = Site::of(bus.clone(), Role::Admin).await;
    let ready = |many: usize| format!("data-label=\"Ready\">{many}</td>");
    for name in names {
        shows(&site, &format!("/queues?q={name}"), &ready(1)).await;
    }
    let damage = "for _, key in ipairs(redis.call('KEYS', '*{' .. ARGV[1] .. ':*}:meta')) do \
                      redis.call('RENAME', key, key .. ARGV[2]) \
                      redis.call('SET', key, 'a text') \
                  end";
    let heal = "for _, key in ipairs(redis.call('KEYS', '*{' .. ARGV[1] .. ':*}:meta' .. ARGV[2])) do \
                    redis.call('RENAME', key, key:sub(1, -1 - #ARGV[2])) \
                end";
    server.eval(damage, &["broken", ".kept"]);
    shows(&site, "/", "1 queue cannot be counted").await;
    for name in ["a-first", "z-last"] {
        push(name).await;
        shows(&site, &format!("/queues?q={name}"), &ready(2)).await;
    }
    // It stays in the list, and is not said to be late.
    let page = site.get("/queues?q=broken").await.text;
    assert!(page.contains(&ready(1)), "{page}");
    assert!(
        page.contains("data-label=\"Late\"><span class=\"\">–</span>"),
        "{page}"
    );
    server.eval(heal, &["broken", ".kept"]);
    push("broken").await;
    shows(&site, "/queues?q=broken", &ready(2)).await;
    assert!(!site.get("/").await.text.contains("cannot be counted"));
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_nodes_of_a_store_are_shown_and_which_of_them_is_this_one() {
    #[delay_event(queue = "mail", register = false)]
    async fn mail(_: Event<u64>) -> Result<(), Failure> {
        Ok(())
    }
    let server = Redis::start().await;
    let node = || async {
        let bus = Bus::builder().settings(Default::default());
        let bus = bus
            .store_url(server.url())
            .only_registered()
            .register(mail {});
        bus.start().await.unwrap()
    };
    let (one, two) = (node().await, node().await);
    let queue = one.queue_named::<u64>("mail").unwrap();
    queue.push(7, Duration::from_secs(600)).await.unwrap();
    let site = Site::of(one.clone(), Role::View).await;
    let both = async {
        while one.nodes().await.unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        while site
            .get("/nodes")
            .await
            .text
            .matches("/records?node=")
            .count()
            < 2
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .unwrap();
    let page = site.get("/nodes").await.text;
    // The server is on this machine, and shares its clock.
    let (_, clock) = page.split_once("Clock of the store").unwrap();
    assert!(clock.contains("this machine</span>"), "{page}");
    assert!(!clock.contains("class=\"warn\""), "{page}");
    assert_eq!(page.matches("this process</span>").count(), 1, "{page}");
    assert_eq!(page.matches(">alive</span>").count(), 2, "{page}");
    assert!(
        page.contains("load and the clock of another process are not in the store"),
        "{page}"
    );
    assert!(
        site.get("/queues/mail")
            .await
            .text
            .matches(">alive</span>")
            .count()
            == 2
    );

    // One that leaves is not shown any more.
    two.shutdown(Duration::from_secs(5)).await.unwrap();
    let gone = async {
        while site
            .get("/nodes")
            .await
            .text
            .matches("/records?node=")
            .count()
            > 1
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .unwrap();
    one.shutdown(Duration::from_secs(5)).await.unwrap();
}
