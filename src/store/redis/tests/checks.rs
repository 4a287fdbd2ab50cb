//! Tests of the start-up preflight.

use super::super::link::managed::ManagedConnection;
use super::super::link::masters::masters;
use super::super::link::options::ConnectionOptions;
use super::super::link::url::Target;
use super::super::op::server_facts::ServerFacts;
use super::super::preflight::check;
use super::pretend::{self, Act};
use super::servers::{Aof, Cluster, Redis, RedisOptions, shared_cluster};
use super::{open, words};
use crate::error::{Error, ErrorKind, Result};
use crate::store::durability::Durability;
use crate::time::{Clock, Mono, SystemClock};

/// A clock that is wrong by some seconds.
#[derive(Debug)]
struct SkewedClock(SystemClock, i64);

impl Clock for SkewedClock {
    fn wall_us(&self) -> u64 {
        self.0.wall_us().saturating_add_signed(self.1 * 1_000_000)
    }

    fn mono(&self) -> Mono {
        self.0.mono()
    }
}

async fn look(url: &str) -> Result<ServerFacts> {
    look_by(url, 0).await
}

async fn look_by(url: &str, wrong_s: i64) -> Result<ServerFacts> {
    let target = Target::parse(url)?;
    let link = ManagedConnection::open(&target, &ConnectionOptions::of(&target)).await?;
    let clock = SkewedClock(SystemClock::new(), wrong_s);
    check(&link, &target, "duly", &clock).await
}

fn refused(found: Result<ServerFacts>) -> String {
    let error: Error = found.expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error.to_string()
}

fn with(aof: Aof, more: &[&str]) -> Redis {
    Redis::start(RedisOptions {
        aof,
        more: more.iter().map(|word| (*word).to_owned()).collect(),
        tcp: true,
        ..RedisOptions::default()
    })
}

#[tokio::test]
async fn durability_is_that_of_the_append_only_file() {
    for (aof, durability) in [
        (Aof::Off, Durability::Memory),
        (Aof::Everysec, Durability::OsCache),
        (Aof::Always, Durability::Disk),
    ] {
        let server = with(aof, &[]);
        let found = look(&server.url()).await.expect("it will do");
        assert_eq!(found.durability, durability);
    }
}

/// In a cluster a call without a key goes to any node.
#[tokio::test]
async fn a_replica_answers_the_check_as_well() {
    let server = with(Aof::Off, &[]);
    let port = server.port().to_string();
    let replica = with(Aof::Off, &["--replicaof", "127.0.0.1", &port]);
    assert!(replica.cli(&["INFO", "replication"]).contains("role:slave"));
    look(&replica.url()).await.expect("it will do");
}

#[tokio::test]
async fn a_server_that_throws_keys_away_is_refused_unless_it_is_allowed() {
    let server = with(Aof::Off, &["--maxmemory-policy", "allkeys-lru"]);
    let words = refused(look(&server.url()).await);
    assert!(words.contains("allkeys-lru"), "{words}");
    assert!(words.contains("noeviction"), "{words}");
    let allowed = format!("{}?eviction=allowed", server.url());
    look(&allowed).await.expect("it will do");
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused() {
    const INFO: &str = "$44\r\n# Server\r\nredis_version:6.2.14\r\nredis_mode:x\r\n\r\n";
    let url = pretend::server(Act::Say(INFO)).await;
    let words = refused(look(&url).await);
    assert!(words.contains("6.2.14"), "{words}");
    assert!(words.contains("7.0"), "{words}");
}

#[tokio::test]
async fn a_wrong_clock_is_measured() {
    let server = with(Aof::Off, &[]);
    for wrong_s in [0, 3_600, -3_600] {
        let found = look_by(&server.url(), wrong_s).await.expect("it will do");
        let off = found.offset_us + wrong_s * 1_000_000;
        assert!(off.abs() < 200_000, "{wrong_s}: {off} us");
    }
}

#[tokio::test]
async fn everything_that_a_user_lacks_is_said_at_once() {
    let server = with(Aof::Off, &[]);
    let port = server.port();
    let url = format!("redis://ann:a@127.0.0.1:{port}");
    let grant = |rules: &[&str]| {
        let always = ["ACL", "SETUSER", "ann", "reset", "on", ">a", "+hello"];
        assert_eq!(server.cli(&[&always[..], rules].concat()), "OK");
    };

    for (rules, lacks) in [
        (
            &["~duly:*", "&duly:*", "+@all", "-hset", "-hsetnx", "-zadd"][..],
            "the commands HSET, HSETNX, ZADD;",
        ),
        (
            &["~other:*", "&duly:*", "+@all"],
            "keys like duly:{check:0}:meta, duly:{hub}:members;",
        ),
        (
            &["~duly:{hub}:*", "&duly:*", "+@all"],
            "keys like duly:{check:0}:meta;",
        ),
        (&["~duly:*", "&other", "+@all"], "the channels duly:*;"),
        (
            &["~duly:*", "&duly:*", "+@all", "-info", "-xadd"],
            "the commands INFO, XADD;",
        ),
        (
            &["~duly:*", "&duly:*", "+@all", "-ssubscribe"],
            "the commands SSUBSCRIBE;",
        ),
        (
            &["~other", "&other", "+@all", "-time"],
            "the commands TIME, keys like duly:{check:0}:meta, duly:{hub}:members, the channels \
             duly:*;",
        ),
        (
            &["~duly:*", "&duly:*", "+@all", "-eval"],
            "the commands EVAL, perhaps more;",
        ),
    ] {
        grant(rules);
        let words = refused(look(&url).await);
        assert!(words.contains(&format!("ann lacks {lacks}")), "{words}");
    }

    // The message contains the command that grants everything.
    let words = refused(look(&url).await);
    let (_, command) = words.split_once("granted by: ").expect("a command");
    let command: Vec<_> = command.split(' ').collect();
    server.cli(&["ACL", "SETUSER", "ann", "reset", "on", ">a"]);
    assert_eq!(server.cli(&command), "OK");
    look(&url).await.expect("everything is granted");
}

/// As from some version after 7.0 on: here a script in front of the check counts the words.
#[tokio::test]
async fn a_server_that_counts_the_words_says_the_same_of_permissions() {
    const COUNTS: &str = "#!lua flags=no-writes
local server = redis
local redis = { acl_check_cmd = function(...)
  local arity, words = server.call('COMMAND', 'INFO', (...))[1][2], select('#', ...)
  if words < math.abs(arity) or arity > 0 and words > arity then
    error('Wrong number of args calling command')
  end
  return server.acl_check_cmd(...)
end }
";
    let server = with(Aof::Off, &[]);
    let script = [COUNTS, include_str!("../link/preflight/rights.lua")].concat();
    server.cli(&["ACL", "SETUSER", "default", "-hset"]);
    let commands = [
        &["HGET", "key", "1", "1", "1", "1"][..],
        &["XADD", "key", "1", "1", "1", "1"],
        &["HSET", "key", "1", "1", "1", "1"],
        &["PING"],
    ];
    let counts = commands.map(|words| words.len().to_string());
    let said = commands.iter().zip(&counts);
    let said =
        said.flat_map(|(words, count)| std::iter::once(count.as_str()).chain(words.to_vec()));
    let call: Vec<_> = ["EVAL", &script, "0"].into_iter().chain(said).collect();
    assert_eq!(server.cli(&call), "1101");
}

#[tokio::test]
async fn a_cluster_will_do_and_is_not_taken_for_one_server() {
    let url = shared_cluster();
    let found = look(&url).await.expect("it will do");
    assert_eq!(found.durability, Durability::Disk);
    let (_, nodes) = url.split_once("://").expect("a form");
    let node = nodes.split(',').next().expect("a node");
    let words = refused(look(&format!("redis://{node}")).await);
    assert!(words.contains("redis-cluster://"), "{words}");
}

#[tokio::test]
async fn one_server_is_not_taken_for_a_cluster() {
    let server = with(Aof::Off, &[]);
    let words = refused(look(&format!("redis-cluster://127.0.0.1:{}", server.port())).await);
    assert!(words.contains("redis://"), "{words}");
}

#[tokio::test]
async fn a_cluster_with_a_slot_that_nobody_serves_is_not_ready() {
    let cluster = Cluster::start(6);
    for port in cluster.ports() {
        let port = port.to_string();
        let dropped = std::process::Command::new("redis-cli")
            .args(["-p", &port, "CLUSTER", "DELSLOTS", "7"])
            .output();
        assert!(dropped.expect("redis-cli runs").status.success());
    }
    let error = look(&cluster.url()).await.expect_err("a slot is missing");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        error.to_string().contains("16383 of 16384 slots"),
        "{error}"
    );
}

/// It runs on and knows no slots; whom a call without a key reaches is chance.
#[tokio::test]
async fn a_node_that_has_left_a_cluster_fails_no_start_and_is_not_asked_for_the_masters() {
    let cluster = Cluster::masters(3);
    let url = cluster.url();
    let early = open(&url).await;
    let everywhere = early.send_everywhere(&words(&["PING"])).await;
    everywhere.expect("it is connected to each");
    cluster.remove(0, 1);
    for _ in 0..30 {
        look(&url).await.expect("it will do");
        let late = open(&url).await;
        assert_eq!(masters(&late).await.expect("two").len(), 2);
        match masters(&early).await {
            Ok(masters) => assert_eq!(masters.len(), 2),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
}

#[tokio::test]
async fn a_policy_that_is_set_while_the_store_is_used_is_noticed() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let server = with(Aof::Off, &[]);
    let target = Target::parse(&server.url()).expect("a URL");
    let link = ManagedConnection::open(&target, &ConnectionOptions::of(&target)).await;
    let (link, evicts) = (link.expect("it opens"), AtomicBool::new(false));
    for (policy, is_evicting) in [
        ("noeviction", false),
        ("allkeys-lru", true),
        ("noeviction", false),
    ] {
        server.cli(&["CONFIG", "SET", "maxmemory-policy", policy]);
        super::super::hub::eviction_watch::look(&link, &target, &evicts).await;
        assert_eq!(evicts.load(Ordering::Relaxed), is_evicting, "{policy}");
    }
}

#[tokio::test]
async fn commands_that_were_renamed_are_named_as_that() {
    for (command, renamed) in [("HSET", "HSET"), ("EVAL", "EVAL"), ("INFO", "INFO")] {
        let server = with(Aof::Off, &["--rename-command", command, "other"]);
        let words = refused(look(&server.url()).await);
        assert!(words.contains(renamed), "{words}");
        assert!(words.contains("rename-command"), "{words}");
        assert!(!words.contains("ACL SETUSER"), "{words}");
    }
}
