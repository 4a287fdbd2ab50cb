//! Tests of a connection to every kind of server.

use std::time::Duration;

use tokio::time::Instant;

use super::super::managed::ManagedConnection;
use super::super::options::ConnectionOptions;
use super::super::url::Target;
use super::pretend::{self, Act};
use super::servers::{Cluster, Redis, RedisOptions, Sentinels};
use super::{count, open, until_answered, words};
use crate::error::ErrorKind;

fn more(words: &[&str]) -> RedisOptions {
    RedisOptions {
        tcp: true,
        more: words.iter().map(|word| (*word).to_owned()).collect(),
        ..RedisOptions::default()
    }
}

async fn refusal(url: &str) -> crate::error::Error {
    let target = Target::parse(url).expect(url);
    let opened = ManagedConnection::open(&target, &ConnectionOptions::of(&target)).await;
    opened.map(|_| ()).expect_err(url)
}

#[tokio::test]
async fn a_socket_a_port_and_a_database_are_reached() {
    let server = Redis::start(more(&[]));
    let socket = format!("redis+unix://{}", server.socket().display());
    let port = format!("redis://127.0.0.1:{}", server.port());
    let mut kept = Vec::new(); // what is dropped is no client any more
    for (url, key) in [
        (socket.clone(), "a"),
        (format!("{socket}?db=3"), "b"),
        (port.clone(), "c"),
        (format!("{port}/5"), "d"),
    ] {
        let link = open(&url).await;
        count(&link, key).await.expect(&url);
        kept.push(link);
    }
    for (database, key) in [("0", "a"), ("3", "b"), ("0", "c"), ("5", "d")] {
        assert_eq!(server.cli(&["-n", database, "GET", key]), "1");
    }
    let names = server.cli(&["CLIENT", "LIST"]);
    assert!(names.contains("name=duly "), "{names}");
}

#[tokio::test]
async fn a_password_and_a_user_are_given_and_a_wrong_one_is_not_shown() {
    let server = Redis::start(more(&[]));
    server.cli(&[
        "ACL", "SETUSER", "ann", "on", ">hunter2", "~*", "&*", "+@all",
    ]);
    server.cli(&["CONFIG", "SET", "requirepass", "s@cret/"]);
    let port = server.port();
    for login in [":s%40cret%2F", "default:s%40cret%2F", "ann:hunter2"] {
        let url = format!("redis://{login}@127.0.0.1:{port}");
        count(&open(&url).await, "k").await.expect(&url);
    }
    let error = refusal(&format!("redis://ann:swordfish@127.0.0.1:{port}")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains("does not accept this user"), "{text}");
    assert!(!text.contains("swordfish"), "{text}");

    let error = refusal(&format!("redis://127.0.0.1:{port}")).await;
    assert!(error.to_string().contains("requires a password"), "{error}");
}

#[tokio::test]
async fn a_user_who_may_not_name_the_connection_is_served() {
    let server = Redis::start(more(&[]));
    let may = ["+hello", "+eval", "+evalsha", "+incr"];
    server.cli(&[&["ACL", "SETUSER", "ann", "on", ">a", "~*"], &may[..]].concat());
    let url = format!("redis://ann:a@127.0.0.1:{}", server.port());
    count(&open(&url).await, "k").await.expect("it runs");
}

#[tokio::test]
async fn tls_needs_a_certificate_that_somebody_vouches_for() {
    let server = Redis::start(RedisOptions {
        tls: true,
        ..RedisOptions::default()
    });
    let trusted = format!("{}?ca={}", server.tls_url(), server.authority().display());
    count(&open(&trusted).await, "k").await.expect("it runs");

    let error = refusal(&server.tls_url()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");

    let error = refusal(&format!("{}?ca=/no/such/file", server.tls_url())).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_said_with_the_place() {
    let error = refusal("redis://127.0.0.1:1").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1"), "{text}");
    assert!(text.contains("cannot be reached"), "{text}");
}

#[tokio::test]
async fn sentinels_lead_to_the_new_master_after_a_failover() {
    let mut servers = Sentinels::start();
    // Nothing listens on the first.
    let (scheme, rest) = ("redis-sentinel://", servers.url());
    let rest = rest.strip_prefix(scheme).expect("a form");
    let link = open(&format!("{scheme}127.0.0.1:1,{rest}")).await;
    count(&link, "k").await.expect("it runs");
    let replicated = link.send(&words(&["WAIT", "2", "4000"])).await;
    assert_eq!(replicated.expect("it waits"), redis::Value::Int(2));

    servers.failover();
    until_answered(&link, "k").await;
    assert_eq!(servers.cli(&["GET", "k"]), "2");

    let unknown = servers
        .url()
        .rsplit_once('/')
        .map(|(hosts, _)| format!("{hosts}/other"));
    let error = refusal(&unknown.expect("a master's name")).await;
    assert!(
        error.to_string().contains("no master of this name"),
        "{error}"
    );
}

/// Its host is gone, and it says nothing.
#[tokio::test]
async fn a_sentinel_that_says_nothing_keeps_no_other_from_being_asked() {
    const PATIENCE: Duration = Duration::from_secs(20);
    let servers = Sentinels::start();
    let (scheme, rest) = ("redis-sentinel://", servers.url());
    let rest = rest.strip_prefix(scheme).expect("a form");
    let silent = pretend::server(Act::Hang).await;
    let silent = silent.strip_prefix("redis://").expect("a form");
    let target = Target::parse(&format!("{scheme}{silent},{rest}")).expect("a URL");
    let options = ConnectionOptions {
        connect_timeout: PATIENCE,
        timeout: 4 * PATIENCE,
        ..ConnectionOptions::of(&target)
    };
    let began = Instant::now();
    let link = ManagedConnection::open(&target, &options).await;
    let link = link.expect("another one names the master");
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    for _ in 0..3 {
        count(&link, "k").await.expect("it is the master");
    }
    assert_eq!(*link.connections().borrow(), 1, "it stays");
}

#[tokio::test]
async fn a_sentinel_that_still_names_the_old_master_is_not_believed() {
    let (master, old) = (Redis::start(more(&[])), Redis::start(more(&[])));
    let port = master.port().to_string();
    assert_eq!(old.cli(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    let mut sentinels = Vec::new();
    for named in [&old, &master] {
        let port = named.port().to_string();
        let (digits, host) = (port.len(), "127.0.0.1");
        let reply = format!("*2\r\n$9\r\n{host}\r\n${digits}\r\n{port}\r\n");
        let url = pretend::server(Act::Say(reply.leak())).await;
        sentinels.push(url.replace("redis://", ""));
    }
    let link = open(&format!("redis-sentinel://{}/m", sentinels.join(","))).await;
    count(&link, "k").await.expect("it is the master");
    assert_eq!(master.cli(&["GET", "k"]), "1");
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_left() {
    let other = Redis::start(more(&[]));
    let server = Redis::start(more(&[]));
    let link = open(&server.url()).await;
    count(&link, "k").await.expect("it runs");
    let made = *link.connections().borrow();
    server.cli(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    let error = count(&link, "k").await.expect_err("it is read-only");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    until_answered(&link, "k").await;
    assert!(
        *link.connections().borrow() > made,
        "the connection was kept"
    );
}

#[tokio::test]
async fn a_cluster_is_served_on_every_slot_and_through_a_failover() {
    let mut cluster = Cluster::start(6);
    let link = open(&cluster.url()).await;
    let keys: Vec<_> = (0..60).map(|number| format!("{{{number}}}")).collect();
    for key in &keys {
        count(&link, key).await.expect(key);
    }
    // Each node that lost the script is sent it, wherever the key is.
    link.send(&words(&["SCRIPT", "FLUSH"]))
        .await
        .expect("flushed");
    for key in &keys {
        assert_eq!(count(&link, key).await.expect(key), redis::Value::Int(2));
    }
    let slot = cluster.slot_of(&keys[0]);
    let made = *link.connections().borrow();
    cluster.kill_master_of(slot);
    for error in until_answered(&link, &keys[0]).await {
        let kinds = [ErrorKind::Unavailable, ErrorKind::Unknown];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    assert!(*link.connections().borrow() > made, "nobody was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_costs_no_call() {
    let cluster = Cluster::start(6);
    let link = open(&cluster.url()).await;
    let key = "{moving}";
    count(&link, key).await.expect("it runs");
    let slot = cluster.slot_of(key);
    let to = (0..3).find(|node| *node != cluster.master_of(slot));
    let calls = async {
        let mut errors = Vec::new();
        for _ in 0..300 {
            if let Err(error) = count(&link, key).await {
                errors.push(error.to_string());
            }
        }
        errors
    };
    let to = to.expect("another master");
    let (errors, ()) = std::thread::scope(|scope| {
        let moving = scope.spawn(|| cluster.move_slot(slot, to));
        let errors =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(calls));
        (errors, moving.join().expect("it moves"))
    });
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(
        count(&link, key).await.expect("it runs"),
        redis::Value::Int(302)
    );
}

#[tokio::test]
async fn a_node_that_hangs_holds_up_nobody_but_its_own_calls() {
    let mut cluster = Cluster::masters(3);
    let link = open(&cluster.url()).await;
    let keys: Vec<_> = (0..30).map(|number| format!("{{{number}}}")).collect();
    let hung = cluster.slot_of(&keys[0]);
    let node = cluster.master_of(hung);
    let (there, elsewhere): (Vec<_>, Vec<_>) = keys
        .iter()
        .partition(|key| cluster.master_of(cluster.slot_of(key)) == node);
    cluster.stop_master_of(hung);
    let mut in_vain = tokio::task::JoinSet::new();
    for key in there {
        let (link, key) = (link.clone(), key.clone());
        in_vain.spawn(async move { count(&link, &key).await });
    }
    let began = Instant::now();
    let mut calls = 0;
    // A new connection as well as an existing one.
    while !in_vain.is_empty() || calls < 100 {
        for key in &elsewhere {
            let called = Instant::now();
            count(&link, key).await.expect("its node answers");
            assert!(
                called.elapsed() < Duration::from_secs(2),
                "{:?}",
                called.elapsed()
            );
            calls += 1;
        }
        let opened = Instant::now();
        count(&open(&cluster.url()).await, elsewhere[0])
            .await
            .expect("it opens");
        assert!(
            opened.elapsed() < Duration::from_secs(2),
            "{:?}",
            opened.elapsed()
        );
        while let Some(answered) = in_vain.try_join_next() {
            let error = answered.expect("no panic").expect_err("nobody answers");
            // A call that found no connection was not sent.
            let kinds = [ErrorKind::Unknown, ErrorKind::Unavailable];
            assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
        }
    }
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    cluster.cont(node);
    until_answered(&link, &keys[0]).await;
}
