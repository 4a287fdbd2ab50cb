//! The servers that tests start do what tests rely on, and are gone afterwards.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::servers::{
    Address, Aof, Cluster, Fault, Postgres, PostgresOptions, Proxy, Redis, RedisOptions, Sentinels,
    prefix, shared, shared_cluster, shared_postgres,
};

/// Waits until a condition holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("not in time: {what}");
}

fn folder_of(redis: &Redis) -> PathBuf {
    redis.socket().parent().expect("a folder").to_owned()
}

/// Whether any process runs in a folder.
fn is_used(folder: &std::path::Path) -> bool {
    let processes = std::fs::read_dir("/proc").expect("there is /proc");
    processes
        .flatten()
        .filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok())
        .any(|cwd| cwd.starts_with(folder))
}

#[test]
fn a_server_answers_and_leaves_nothing_behind() {
    let redis = Redis::plain();
    let folder = folder_of(&redis);
    assert_eq!(redis.cli(&["PING"]), "PONG");
    assert!(redis.url().starts_with("redis+unix:///"));
    assert!(is_used(&folder));
    drop(redis);
    assert!(!folder.exists() && !is_used(&folder));
}

#[test]
fn a_panic_leaves_nothing_behind() {
    let redis = Redis::plain();
    let folder = folder_of(&redis);
    let panicked = std::thread::spawn(move || {
        let _redis = redis;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert!(!folder.exists() && !is_used(&folder));
}

const FOLDER: &str = "DULY_SERVERS_FOLDER";
const SERVER: &str = "DULY_SERVERS_SERVER";

/// Not a test by itself: a child process runs it, and aborts with its server running.
#[test]
fn child() {
    let Ok(file) = std::env::var(FOLDER) else {
        return;
    };
    let postgres; // until the process ends
    let folder = match std::env::var(SERVER).as_deref() {
        Ok("redis") => folder_of(shared()),
        _ => {
            postgres = Postgres::start(PostgresOptions::default());
            postgres.folder().to_owned()
        }
    };
    std::fs::write(file, folder.to_str().expect("text")).expect("it is written");
    std::process::abort();
}

#[test]
fn a_killed_process_leaves_nothing_behind() {
    for server in ["redis", "postgres"] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("where");
        let status = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "servers_work::child"])
            .env(FOLDER, &file)
            .env(SERVER, server)
            .output()
            .expect("a child");
        assert!(!status.status.success());
        let folder = PathBuf::from(std::fs::read_to_string(file).expect("it was written"));
        wait_until(&format!("its {server} has ended"), || {
            !folder.exists() && !is_used(&folder)
        });
    }
}

#[test]
fn what_was_synced_is_there_after_a_kill() {
    for tcp in [false, true] {
        let mut redis = Redis::start(RedisOptions {
            aof: Aof::Always,
            tcp,
            ..RedisOptions::default()
        });
        redis.cli(&["SET", "key", "value"]);
        let url = redis.url();
        redis.kill();
        redis.restart();
        assert_eq!(redis.cli(&["GET", "key"]), "value");
        assert_eq!(redis.url(), url);
    }
}

#[test]
fn a_stopped_server_answers_when_it_goes_on() {
    let redis = Redis::plain();
    redis.stop_process();
    let asked = std::thread::scope(|scope| {
        let asked = scope.spawn(|| redis.cli(&["PING"]));
        std::thread::sleep(Duration::from_millis(50)); // there is nothing to see of what is stopped
        assert!(!asked.is_finished());
        redis.cont();
        asked.join().expect("an answer")
    });
    assert_eq!(asked, "PONG");
}

#[test]
fn a_full_server_says_so() {
    let redis = Redis::start(RedisOptions {
        maxmemory: Some(1),
        ..RedisOptions::default()
    });
    assert!(redis.cli(&["SET", "key", "value"]).starts_with("OOM"));
}

#[test]
fn a_server_speaks_tls() {
    let redis = Redis::start(RedisOptions {
        tls: true,
        ..RedisOptions::default()
    });
    let pong = Command::new("redis-cli")
        .args(["-u", &redis.tls_url(), "--cacert"])
        .arg(redis.authority())
        .arg("PING")
        .output()
        .expect("redis-cli");
    assert_eq!(String::from_utf8_lossy(&pong.stdout), "PONG\n");
}

#[test]
fn a_prefix_is_never_the_same_twice() {
    assert_ne!(prefix(), prefix());
}

#[test]
fn a_sentinel_names_another_master_after_a_kill() {
    let mut sentinels = Sentinels::start();
    let old = sentinels.master();
    set_on_replicas(old, "key", 2);
    sentinels.failover();
    assert_ne!(sentinels.master(), old);
    assert_eq!(sentinels.cli(&["GET", "key"]), "value");
    sentinels.restart_dead();
    assert_eq!(sentinels.cli(&["GET", "key"]), "value");
}

#[test]
fn a_slot_moves_and_a_replica_takes_over() {
    let mut cluster = Cluster::start(6);
    let slot = cluster.slot_of("{a}");
    let from = cluster.master_of(slot);
    cluster.node(from).cli(&["SET", "{a}", "value"]);
    let to = cluster.master_of((slot + 8_192) % 16_384);
    assert_ne!(from, to);
    cluster.move_slot(slot, to);
    assert_eq!(cluster.node(to).cli(&["GET", "{a}"]), "value");
    assert_eq!(cluster.master_of(slot), to);

    let port = cluster.ports().nth(to).expect("its port");
    set_on_replicas(port, "{a}", 1);
    assert_eq!(cluster.kill_master_of(slot), to);
    cluster.wait_for_another_master(slot, to);
    let new = cluster.master_of(slot);
    assert_ne!(new, to);
    assert_eq!(cluster.node(new).cli(&["GET", "{a}"]), "value");
    cluster.restart(to);
    cluster.wait_until_served();
}

/// Sets a key to `value`, and returns when so many replicas have it. By one connection: `WAIT` waits
/// for what its own connection wrote.
fn set_on_replicas(master: u16, key: &str, replicas: usize) {
    let mut master = TcpStream::connect(("127.0.0.1", master)).expect("a master");
    write!(master, "SET {key} value\r\nWAIT {replicas} 20000\r\n").expect("it is sent");
    let expected = format!("+OK\r\n:{replicas}\r\n");
    let mut answer = vec![0; expected.len()];
    master.read_exact(&mut answer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), expected);
}

#[test]
fn the_shared_cluster_is_the_same_for_all() {
    let url = shared_cluster();
    assert_eq!(url.matches("127.0.0.1:").count(), 6);
    assert_eq!(shared_cluster(), url);
}

#[test]
fn the_shared_cluster_is_the_same_for_another_process() {
    let port = shared_cluster().rsplit(':').next().map(str::to_owned);
    let port = port.expect("a port").parse().expect("a number");
    let mut node = TcpStream::connect(("127.0.0.1", port)).expect("a node");
    node.write_all(b"CLUSTER INFO\r\n").expect("it is sent");
    let mut answer = [0; 512];
    let length = node.read(&mut answer).expect("an answer");
    assert!(String::from_utf8_lossy(&answer[..length]).contains("cluster_state:ok"));
}

/// A connection through a proxy, and what is read after a command until it ends.
fn ask(proxy: &Proxy, command: &str) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).expect("a connection");
    let time = Duration::from_millis(300);
    stream.set_read_timeout(Some(time)).expect("a time limit");
    stream.write_all(command.as_bytes()).expect("it is sent");
    let (mut all, mut piece) = (Vec::new(), [0; 64]);
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        all.extend_from_slice(&piece[..length]);
        if all.ends_with(b"\r\n") {
            break;
        }
    }
    (stream, all)
}

#[test]
fn a_proxy_cuts_where_it_is_told() {
    let redis = Redis::plain();
    let proxy = Proxy::before(Address::Unix(redis.socket()));
    let count = || redis.cli(&["GET", "n"]);
    assert_eq!(ask(&proxy, "INCR n\r\n").1, b":1\r\n");

    proxy.on_request(|bytes| bytes.starts_with(b"INCR").then_some(Fault::CutBefore));
    assert_eq!(ask(&proxy, "INCR n\r\n").1, b"");
    assert_eq!(count(), "1");
    assert_eq!(ask(&proxy, "PING\r\n").1, b"+PONG\r\n");

    proxy.on_request(|_| Some(Fault::CutAfter));
    assert_eq!(ask(&proxy, "INCR n\r\n").1, b"");
    assert_eq!(count(), "2");

    proxy.on_request(|_| Some(Fault::CutWithin));
    assert_eq!(ask(&proxy, "INCR n\r\n").1, b":3");
    assert_eq!(count(), "3");

    proxy.on_request(|_| Some(Fault::Hang));
    assert_eq!(ask(&proxy, "INCR n\r\n").1, b"");
    assert_eq!(count(), "3");

    proxy.on_request(|_| Some(Fault::Delay(Duration::from_millis(20))));
    assert_eq!(ask(&proxy, "INCR n\r\n").1, b":4\r\n");

    proxy.heal();
    let (mut open, _) = ask(&proxy, "INCR n\r\n");
    proxy.flap(2, Duration::from_millis(1), Duration::from_millis(1));
    assert_eq!(open.read(&mut [0; 8]).unwrap_or(0), 0);
    proxy.refuse(true);
    assert_eq!(ask(&proxy, "INCR n\r\n").1, b"");
    assert_eq!(count(), "5");
    let counts = proxy.counts();
    assert!(counts.cuts >= 4 && counts.refused >= 1, "{counts:?}");
}

#[test]
fn a_postgres_keeps_what_it_committed_and_leaves_nothing_behind() {
    let mut postgres = Postgres::start(PostgresOptions::default());
    let folder = postgres.folder().to_owned();
    postgres.sql("CREATE TABLE kept AS SELECT 7 AS seven");
    assert_eq!(postgres.sql("SHOW fsync"), "on");
    let url = postgres.url();
    postgres.kill();
    postgres.restart();
    assert_eq!(postgres.sql("SELECT * FROM kept"), "7");
    assert_eq!(postgres.url(), url);
    drop(postgres);
    assert!(!folder.exists() && !is_used(&folder));
}

#[test]
fn a_panic_leaves_no_postgres_behind() {
    let postgres = Postgres::start(PostgresOptions::default());
    let folder = postgres.folder().to_owned();
    let panicked = std::thread::spawn(move || {
        let _postgres = postgres;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert!(!folder.exists() && !is_used(&folder));
}

#[test]
fn a_stopped_postgres_answers_when_it_goes_on() {
    let postgres = Postgres::start(PostgresOptions::default());
    postgres.stop_process();
    let asked = std::thread::scope(|scope| {
        let asked = scope.spawn(|| postgres.sql("SELECT 7"));
        std::thread::sleep(Duration::from_millis(50)); // there is nothing to see of what is stopped
        assert!(!asked.is_finished());
        postgres.cont();
        asked.join().expect("an answer")
    });
    assert_eq!(asked, "7");
}

#[test]
fn the_shared_postgres_answers() {
    assert_eq!(shared_postgres().sql("SELECT 7"), "7");
}
