//! A Redis that fails, with the jobs and the shared state in it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};

use super::{PATIENCE, Target, failed, publish};
use crate::kills::Program;
use crate::servers::{Aof, Redis, RedisOptions};
use crate::world::{LeaseStream, reply};

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
    /// It has closed every connection.
    Disconnected,
    /// It has forgotten every script.
    Forgetful,
}

impl Fault {
    fn begin(self, redis: &mut Redis, operator: &mut Operator) {
        let commands: &[&str] = match self {
            Self::Killed => return redis.kill(),
            Self::Stopped => return redis.stop_process(),
            Self::Full => &["CONFIG SET maxmemory 1"],
            Self::LoggedOut => &["CONFIG SET requirepass unknown", "CLIENT KILL TYPE normal"],
            Self::Replica => &["REPLICAOF 127.0.0.1 1"],
            Self::Crowded => &[
                "CONFIG SET maxclients 1",
                "CLIENT KILL TYPE normal",
                "CLIENT KILL TYPE pubsub",
            ],
            Self::Lonely => &["CONFIG SET min-replicas-to-write 1"],
            Self::Disconnected => &["CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"],
            Self::Forgetful => &["SCRIPT FLUSH"],
        };
        commands.iter().for_each(|command| operator.says(command));
    }

    fn end(self, redis: &mut Redis, operator: &mut Operator) {
        operator.says(match self {
            Self::Killed => return redis.restart(),
            Self::Stopped => return redis.cont(),
            Self::Full => "CONFIG SET maxmemory 0",
            Self::LoggedOut => "CONFIG SET requirepass \"\"",
            Self::Replica => "REPLICAOF NO ONE",
            Self::Crowded => "CONFIG SET maxclients 10000",
            Self::Lonely => "CONFIG SET min-replicas-to-write 0",
            Self::Disconnected | Self::Forgetful => return,
        });
    }
}

async fn requests_have_responses_and_afterwards_all_works(fault: Fault) {
    let why = &format!("{fault:?}");
    let mut redis = Redis::start(RedisOptions {
        aof: Aof::Always,
        ..RedisOptions::default()
    });
    let mut operator = Operator::at(&redis);
    let folder = tempfile::tempdir().unwrap();
    let server = Target::start(folder.path(), &redis.url(), &[]).await;
    let mut confirmed = BTreeSet::new();
    let none = failed(&server, 0).await;
    assert!(none.is_empty(), "{why}: before it: {none:?}");
    publish(&server, 10, &mut confirmed).await;
    assert_eq!(confirmed.len(), 10);
    let path = "/v1/ns/queues/streamed/leases/stream?max_in_flight=5&ttr_ms=600000";
    let mut stream = LeaseStream::open(server.request(Method::GET, path)).await;
    push(&server).await;
    let first = stream.next(PATIENCE).await.expect("a lease");
    fault.begin(&mut redis, &mut operator);
    failed(&server, 1).await;
    publish(&server, 3, &mut confirmed).await;
    fault.end(&mut redis, &mut operator);
    server.recovers(why).await;
    publish(&server, 10, &mut confirmed).await;
    // The stream goes on, and what its consumer has is its own.
    let id = push(&server).await;
    let second = stream.next(PATIENCE).await.expect("a lease");
    let attempt = (&second["id"], &second["attempt"]);
    assert_eq!(attempt, (&id, &json!(1)), "{why}");
    for leased in [first, second] {
        let path = format!("/v1/ns/leases/{}/settle", leased["token"].as_str().unwrap());
        let request = server.request(Method::POST, &path);
        let request = request.header("Content-Type", "application/json");
        reply(request.body(r#"{"outcome":"ack"}"#)).await.is(204);
    }
    drop(stream);
    server.keeps(&confirmed, why).await;
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
    once_it_has_closed_all_connections: Disconnected,
    once_it_has_forgotten_its_scripts: Forgetful,
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
