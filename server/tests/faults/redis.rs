//! A Redis that fails, with the jobs and the shared state in it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{PATIENCE, Target, failed, publish};
use crate::kills::Program;
use crate::servers::{self, Aof, Proxy, Redis, RedisOptions};
use crate::world::{LeaseStream, Reply, reply, until};

/// A connection of its own to a Redis, which takes commands when nobody else gets in.
struct Operator(Child);

impl Operator {
    fn at(redis: &Redis) -> Self {
        let mut command = Command::new("redis-cli");
        command.arg("-s").arg(redis.socket());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut operator = Self(command.spawn().expect("`redis-cli` is there"));
        operator.says("PING");
        operator
    }

    /// Sends a command, and waits for its reply.
    fn says(&mut self, command: &str) {
        let input = self.0.stdin.as_mut().expect("it is piped");
        writeln!(input, "{command}").expect("it runs");
        let output = self.0.stdout.as_mut().expect("it is piped");
        let mut byte = [0];
        while byte != [b'\n'] {
            output.read_exact(&mut byte).expect("a reply");
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Pushes an event for the stream; returns its id.
async fn push(server: &Target) -> Value {
    let request = server.request(Method::POST, "/v1/ns/queues/streamed/events");
    let request = request.header("Content-Type", "application/json");
    let body = json!({"events": [{"payload": 1}]});
    let pushed = reply(request.body(body.to_string())).await.is(201);
    pushed[0]["id"].clone()
}

/// What becomes of a Redis.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It is killed, and started again.
    Killed,
    /// It does nothing for a while, and keeps its connections.
    Stopped,
    /// It has no memory left.
    Full,
    /// It asks for a password that nobody has.
    LoggedOut,
    /// It is a replica, and refuses writes.
    Replica,
    /// It takes no more connections, and has closed those that were there.
    Crowded,
    /// It has too few replicas, and refuses writes.
    Lonely,
    /// It loads its data.
    Loading,
    /// It runs somebody's script, which does not end.
    Busy,
    /// It takes connections, and nothing arrives on them, nor on those that were there.
    Silent,
    /// It has closed every connection.
    Disconnected,
    /// It has forgotten every script and every function.
    Forgetful,
}

/// A Redis, and what is done to it.
struct Ground {
    redis: Redis,
    operator: Operator,
    proxy: Proxy,
    /// A client whose command takes long.
    slow: Option<Child>,
}

impl Ground {
    fn new() -> Self {
        let redis = Redis::start(RedisOptions {
            aof: Aof::Always,
            ..RedisOptions::default()
        });
        Self {
            operator: Operator::at(&redis),
            proxy: Proxy::before(redis.address()),
            redis,
            slow: None,
        }
    }

    /// Sends a command that takes long, and waits until others are refused with this word.
    async fn runs(&mut self, command: &[&str], word: &str) {
        let mut client = Command::new("redis-cli");
        client.arg("-s").arg(self.redis.socket()).args(command);
        let client = client.stdout(Stdio::null()).spawn();
        self.slow = Some(client.expect("`redis-cli` is there"));
        let refused = async || self.redis.cli(&["GET", "a"]).starts_with(word);
        until("others are refused", refused).await;
    }

    async fn begin(&mut self, fault: Fault) {
        let commands: &[&str] = match fault {
            Fault::Killed => return self.redis.kill(),
            Fault::Stopped => return self.redis.stop_process(),
            Fault::Full => &["CONFIG SET maxmemory 1"],
            Fault::LoggedOut => &["CONFIG SET requirepass unknown", "CLIENT KILL TYPE normal"],
            Fault::Replica => &["REPLICAOF 127.0.0.1 1"],
            Fault::Crowded => &[
                "CONFIG SET maxclients 1",
                "CLIENT KILL TYPE normal",
                "CLIENT KILL TYPE pubsub",
            ],
            Fault::Lonely => &["CONFIG SET min-replicas-to-write 1"],
            Fault::Loading => {
                self.operator.says("DEBUG POPULATE 20000 filler 50");
                let slowly = ["loading-process-events-interval-bytes", "1024"];
                let slowly = [
                    &["CONFIG", "SET"],
                    &slowly[..],
                    &["key-load-delay", "10000"],
                ];
                assert_eq!(self.redis.cli(&slowly.concat()), "OK");
                return self.runs(&["DEBUG", "RELOAD"], "LOADING").await;
            }
            Fault::Busy => {
                self.operator.says("CONFIG SET busy-reply-threshold 10");
                return self.runs(&["EVAL", "while true do end", "0"], "BUSY").await;
            }
            Fault::Silent => {
                self.proxy.on_request(|_| Some(servers::Fault::Hang));
                self.proxy.forget_all();
                return;
            }
            Fault::Disconnected => &["CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"],
            Fault::Forgetful => &["SCRIPT FLUSH", "FUNCTION FLUSH"],
        };
        let operator = &mut self.operator;
        commands.iter().for_each(|command| operator.says(command));
    }

    fn end(&mut self, fault: Fault) {
        self.operator.says(match fault {
            Fault::Killed => return self.redis.restart(),
            Fault::Stopped => return self.redis.cont(),
            Fault::Full => "CONFIG SET maxmemory 0",
            Fault::LoggedOut => "CONFIG SET requirepass \"\"",
            Fault::Replica => "REPLICAOF NO ONE",
            Fault::Crowded => "CONFIG SET maxclients 10000",
            Fault::Lonely => "CONFIG SET min-replicas-to-write 0",
            Fault::Loading => "CONFIG SET key-load-delay 0",
            Fault::Busy => "SCRIPT KILL",
            Fault::Silent => return self.proxy.heal(),
            Fault::Disconnected | Fault::Forgetful => return,
        });
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(client) = &mut self.slow {
            client.kill().ok();
            client.wait().ok();
        }
    }
}

impl Fault {
    /// What the server says of it where it does not pass at once.
    fn words(self) -> Option<&'static str> {
        match self {
            Self::Killed | Self::Crowded => Some("cannot be reached"),
            Self::Stopped | Self::Silent => Some("no answer"),
            Self::Full => Some("maxmemory"),
            Self::LoggedOut => Some("NOAUTH"),
            Self::Replica => Some("replica"),
            Self::Lonely => Some("NOREPLICAS"),
            Self::Loading => Some("loading"),
            Self::Busy => Some("BUSY"),
            Self::Disconnected | Self::Forgetful => None,
        }
    }
}

/// A server whose store fails, with jobs that are confirmed and a stream that is open.
pub(super) struct Scene {
    pub(super) server: Target,
    pub(super) confirmed: BTreeSet<String>,
    stream: LeaseStream,
    pub(super) first: Value,
    why: String,
    _folder: TempDir,
}

impl Scene {
    pub(super) async fn before(why: &str, url: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Target::start(folder.path(), url, variables).await;
        let mut confirmed = BTreeSet::new();
        let none = failed(&server, 0).await;
        assert!(none.is_empty(), "{why}: before it: {none:?}");
        publish(&server, 10, &mut confirmed).await;
        assert_eq!(confirmed.len(), 10);
        let path = "/v1/ns/queues/streamed/leases/stream?max_in_flight=5&ttr_ms=600000";
        let mut stream = LeaseStream::open(server.request(Method::GET, path)).await;
        push(&server).await;
        let first = stream.next(PATIENCE).await.expect("a lease");
        Self {
            server,
            confirmed,
            stream,
            first,
            why: why.to_owned(),
            _folder: folder,
        }
    }

    /// While it fails: requests have responses, and where it goes on failing, `/readyz` says so.
    pub(super) async fn during(&mut self, words: Option<&str>) {
        let failed = failed(&self.server, 1).await;
        publish(&self.server, 3, &mut self.confirmed).await;
        let Some(words) = words else { return };
        assert!(!failed.is_empty(), "{}: nothing fails", self.why);
        let said = RefCell::new(String::new());
        let tells = async || {
            let ready = reply(self.server.request(Method::GET, "/readyz")).await;
            said.replace(ready.text.clone());
            let parts = &ready.json()["parts"];
            let fails = |part: &&str| parts[part] != "ok";
            ready.text.contains(words) && ["pool default", "shared state"].iter().all(fails)
        };
        let told = async {
            while !tells().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let told = tokio::time::timeout(PATIENCE, told).await;
        assert!(told.is_ok(), "{}: {words}: {}", self.why, said.borrow());
    }

    /// Afterwards all works: the stream goes on, and what its consumer has is its own.
    pub(super) async fn after(self) {
        let Self {
            server,
            mut confirmed,
            mut stream,
            first,
            why,
            ..
        } = self;
        server.recovers(&why).await;
        publish(&server, 10, &mut confirmed).await;
        let id = push(&server).await;
        let second = stream.next(PATIENCE).await.expect("a lease");
        let attempt = (&second["id"], &second["attempt"]);
        assert_eq!(attempt, (&id, &json!(1)), "{why}");
        for leased in [first, second] {
            settle(&server, &leased).await.is(204);
        }
        drop(stream);
        server.keeps(&confirmed, &why).await;
    }
}

pub(super) async fn settle(server: &Target, leased: &Value) -> Reply {
    let path = format!("/v1/ns/leases/{}/settle", leased["token"].as_str().unwrap());
    let request = server.request(Method::POST, &path);
    let request = request.header("Content-Type", "application/json");
    reply(request.body(r#"{"outcome":"ack"}"#)).await
}

async fn requests_have_responses_and_afterwards_all_works(fault: Fault) {
    let mut ground = Ground::new();
    let url = match fault {
        Fault::Silent => ground.proxy.url(),
        _ => ground.redis.url(),
    };
    let mut scene = Scene::before(&format!("{fault:?}"), &url, &[]).await;
    ground.begin(fault).await;
    scene.during(fault.words()).await;
    ground.end(fault);
    scene.after().await;
}

/// Makes a test of each fault.
macro_rules! faults {
    ($($name:ident: $fault:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            requests_have_responses_and_afterwards_all_works(Fault::$fault).await;
        }
    )*};
}

faults! {
    while_it_is_killed: Killed,
    while_it_does_nothing: Stopped,
    while_it_is_full: Full,
    while_nobody_may_log_in: LoggedOut,
    while_it_is_a_replica: Replica,
    while_it_takes_no_connections: Crowded,
    while_it_refuses_writes: Lonely,
    while_it_loads_its_data: Loading,
    while_a_script_does_not_end: Busy,
    while_nothing_arrives: Silent,
    once_it_has_closed_all_connections: Disconnected,
    once_it_has_forgotten_its_scripts_and_functions: Forgetful,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_answer_of_the_store_no_event_is_said_to_be_unknown() {
    let mut redis = Redis::start(RedisOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = [("DULY_SERVER__ADMIN__STATE", "sqlite:state.db")];
    let server = Target::start(folder.path(), &redis.url(), &elsewhere).await;
    let id = push(&server).await;
    let path = |id: &str| format!("/v1/ns/queues/streamed/explanations/{id}");
    let explain = async |id: &str| reply(server.request(Method::GET, &path(id))).await;
    let id = id.as_str().unwrap();
    assert_eq!(explain(id).await.is(200)["state"], "ready");
    explain("01KBKSY8Q3X4H1W9V0T5RZ7M2C").await.is(404);
    redis.kill();
    let away = explain(id).await;
    assert!(away.status.is_server_error(), "{away:?}");
    let kind = away.json()["kind"].as_str().unwrap().to_owned();
    assert!(
        ["unavailable", "timed_out"].contains(&kind.as_str()),
        "{away:?}"
    );
}

/// Each may take the grace period, and a unit has the time for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pools_of_a_redis_that_hangs_close_at_the_same_time() {
    let redis = Redis::start(RedisOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let pools = (0..32).map(|number| {
        let name = format!("DULY_SERVER__POOLS__P{number}__URL");
        (name, format!("{}?prefix=p{number}", redis.url()))
    });
    let pools: Vec<_> = pools.collect();
    let pools: Vec<_> = pools.iter().map(|(n, url)| (&**n, &**url)).collect();
    let mut program = Program::start_with(folder.path(), "sqlite:duly.db", &pools);
    redis.stop_process();
    program.signal("TERM");
    assert!(program.ended().await);
}
