//! The commands of an operator, run as processes: their output and exit codes, straight at a store
//! and against a server.

mod alike;
mod audit;
mod bench;
mod dead;
mod doctor;
mod event;
mod general;
mod interrupted;
mod purge;
mod queue;
mod records;
mod schedule;
mod terminal;
mod token;
mod top;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use duly::time::{Timestamp, When};
use duly::{Bus, EventId};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::servers;
use crate::world::{World, until};

/// What a command works on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Embedded,
    Redis,
    Server,
}

/// A shop whose queue `ns.mail` has an event in an hour, a ready one, and two dead letters.
pub(crate) struct Shop {
    /// The arguments that name the store or the server.
    target: Vec<String>,
    pub(crate) scheduled: EventId,
    pub(crate) dead: [EventId; 2],
    pub(crate) world: Option<World>,
    folder: Option<TempDir>,
}

/// What a command has written, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: &std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    /// Asserts success, and returns the JSON of the output.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Asserts success, and returns the output.
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        &self.out
    }

    /// Asserts an exit code and a part of the error.
    pub(crate) fn fails(&self, code: i32, text: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(text), "{text}: {self:?}");
        assert_eq!(self.out, "", "{self:?}");
    }
}

/// Runs the program without a terminal.
pub(crate) fn duly(arguments: &[&str]) -> Ran {
    duly_with(arguments, &[])
}

/// As [`duly`], with more variables.
fn duly_with(arguments: &[&str], variables: &[(&str, String)]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(arguments);
    command.current_dir(folder.path());
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    Ran::of(&command.output().unwrap())
}

/// As [`Shop::run_unread`].
fn run_unread(arguments: &[&str], unread: Unread) -> Option<i32> {
    let (closed, written) = UnixStream::pair().unwrap();
    drop(closed);
    let written = Stdio::from(OwnedFd::from(written));
    let mut command = command(arguments);
    match unread {
        Unread::Output => command.stdout(written).stderr(Stdio::null()),
        Unread::Errors => command.stdout(Stdio::null()).stderr(written),
    };
    command.status().unwrap().code()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    command.args(arguments).stdin(Stdio::null());
    command.env("USER", "ann").env_remove("DULY_TOKEN");
    command
}

/// Which output of a command nobody reads any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    Output,
    Errors,
}

/// Sends a signal to a process.
fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    let sent = Command::new("kill").args(["-s", name, &pid]).status();
    assert!(sent.unwrap().success());
}

fn catches_interrupts(pid: u32) -> bool {
    catches(pid, 2)
}

/// Whether a process has a handler of a signal; the first one has the first bit.
fn catches(pid: u32, number: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> (number - 1) & 1 != 0)
}

impl Shop {
    pub(crate) async fn open(target: Target) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = match target {
            Target::Redis => {
                let url = servers::shared().url();
                let separator = if url.contains('?') { '&' } else { '?' };
                format!("{url}{separator}prefix={}", servers::prefix())
            }
            _ => format!("sqlite:{}", folder.path().join("jobs.db").display()),
        };
        let (scheduled, dead) = seed(&url).await;
        let (target, world, folder) = match target {
            Target::Server => {
                let world = World::start_at(folder, url, "").await;
                let server = world.api_url("");
                let target = ["--server", &server, "--token", &world.token];
                (target.map(str::to_owned).to_vec(), Some(world), None)
            }
            _ => (vec!["--store".to_owned(), url], None, Some(folder)),
        };
        Self {
            target,
            scheduled,
            dead,
            world,
            folder,
        }
    }

    /// Runs a command on the store or the server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, &[])
    }

    fn run_with(&self, arguments: &[&str], variables: &[(&str, String)]) -> Ran {
        duly_with(&self.with_target(arguments), variables)
    }

    /// Runs a command whose output is a pipe that is closed; returns its exit code.
    fn run_unread(&self, arguments: &[&str], unread: Unread) -> Option<i32> {
        run_unread(&self.with_target(arguments), unread)
    }

    fn with_target<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let target = self.target.iter().map(String::as_str);
        arguments.iter().copied().chain(target).collect()
    }

    /// A command that is to be started.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(&self.with_target(arguments));
        if let Some(folder) = &self.folder {
            command.current_dir(folder.path());
        }
        command
    }

    /// Pushes events that are due in an hour, and keep their payloads; their time of the push is
    /// behind this call.
    async fn push(&self, many: u64) {
        let Some(world) = &self.world else {
            let called = self.server_time();
            let bus = Bus::builder().store_url(&self.target[1]).only_registered();
            let bus = bus.publish_only().start().await.unwrap();
            // What a process that has just begun knows is as old as its replies took.
            until("its time is not behind", async || bus.store_time() > called).await;
            let queue = bus.queue_named::<u64>("ns.mail").unwrap();
            let events = (0..many).map(|number| queue.event(number).keep_payload(true));
            let sent = queue.push_many(events, Duration::from_secs(3_600)).await;
            assert_eq!(sent.unwrap().len() as u64, many);
            return bus.shutdown(Duration::from_secs(5)).await.unwrap();
        };
        let event =
            |number| json!({"payload": number, "delay_ms": 3_600_000, "keep_payload": true});
        let events: Vec<_> = (0..many).map(event).collect();
        let request = world.request(reqwest::Method::POST, "/v1/ns/queues/mail/events");
        let request = request.header("content-type", "application/json");
        let request = request.body(json!({"events": events}).to_string());
        let reply = request.send().await;
        assert!(reply.unwrap().status().is_success());
    }

    /// Returns the time of a shared store by its server; a store in a file has none but the machine's.
    fn server_time(&self) -> Timestamp {
        let url = self.target[1].split('?').next().unwrap();
        if !url.starts_with("redis") {
            return Timestamp::from_millis(0);
        }
        let client = redis::Client::open(url).unwrap();
        let mut server = client.get_connection().unwrap();
        let (s, us): (u64, u64) = redis::cmd("TIME").query(&mut server).unwrap();
        Timestamp::from_millis(s * 1_000 + us.div_ceil(1_000))
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<_> = arguments.iter().copied().chain(["--json"]).collect();
        self.run(&arguments).json()
    }

    /// Returns how many events of the queue wait: a due one is scheduled until a consumer moves it.
    pub(crate) fn waiting(&self) -> u64 {
        self.count(&self.json(&["queue", "show", "ns.mail"]))
    }

    fn count(&self, queue: &Value) -> u64 {
        let count = |state: &str| queue[state].as_u64().unwrap();
        count("scheduled") + count("ready")
    }

    /// Returns whether it is run against a server.
    pub(crate) fn is_server(&self) -> bool {
        self.world.is_some()
    }

    fn is_embedded(&self) -> bool {
        self.target[1].starts_with("sqlite:")
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.as_ref().unwrap().path()
    }

    pub(crate) async fn close(self) {
        if let Some(world) = self.world {
            world.server.stop().await;
        }
    }
}

async fn seed(url: &str) -> (EventId, [EventId; 2]) {
    let bus = Bus::builder().store_url(url).only_registered();
    let bus = bus.publish_only().start().await.unwrap();
    let queue = bus.queue_named::<Value>("ns.mail").unwrap();
    let mut dead = Vec::new();
    for (number, error) in [(1, "no such address"), (2, "the post is closed")] {
        let event = queue.event(json!({"to": number})).key("customer:8");
        let receipt = event.attempts(1).push().await.unwrap();
        let leased = queue.lease(1, Duration::from_secs(30));
        let leased = leased.wait(Duration::from_secs(5)).send().await.unwrap();
        assert_eq!(leased[0].id(), receipt.id());
        let status = leased[0].bury(error).await.unwrap();
        assert_eq!(status, duly::lease::LeaseStatus::Held);
        dead.push(receipt.id());
    }
    let hour = Duration::from_secs(3_600);
    let scheduled = queue.event(json!({"to": 3})).after(hour).key("customer:9");
    let scheduled = scheduled.header("shop", "a").push().await.unwrap().id();
    queue.push(json!({"to": 4}), When::Now).await.unwrap();
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
    (scheduled, dead.try_into().unwrap())
}

/// Makes a test of each case, on each target.
macro_rules! on_every_target {
    ($($case:ident)*) => {
        mod embedded { $crate::commands::on_a_target!(Embedded: $($case)*); }
        mod redis { $crate::commands::on_a_target!(Redis: $($case)*); }
        mod server { $crate::commands::on_a_target!(Server: $($case)*); }
    };
}

macro_rules! on_a_target {
    ($target:ident: $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            use $crate::commands::{Shop, Target};
            let shop = Shop::open(Target::$target).await;
            super::$case(&shop).await;
            shop.close().await;
        }
    )*};
}

pub(crate) use {on_a_target, on_every_target};
