//! Redis Functions, and scripts where there are none.

use duly::__internal::redis::scripts;
use std::ops::RangeInclusive;
use std::sync::Arc;

use duly::event::{Envelope, Payload};
use duly::store::operation::NewEvent;
use duly::store::{Durability, Store};
use duly::time::When;
use duly::{QueueName, Unique};

use crate::redis_store::kit::{Bare, fresh};
use crate::servers::{Cluster, Fault, Proxy, Redis};

/// How often the server has run a command.
fn calls(server: &Redis, command: &str) -> u64 {
    calls_in(&server.cli(&["INFO", "commandstats"]), command)
}

fn calls_in(stats: &str, command: &str) -> u64 {
    let name = format!("cmdstat_{command}:calls=");
    let calls = stats.split(&name).nth(1);
    calls.map_or(0, |rest| {
        let (calls, _) = rest.split_once(',').expect("more follows");
        calls.parse().expect("a number")
    })
}

/// Pushes events and handles each under a request, and looks the bucket over.
async fn live(bare: &Bare, requests: RangeInclusive<u64>) {
    for request in requests {
        let id = bare.new_id();
        bare.push(id, When::Now).await.unwrap();
        assert_eq!(bare.fetch(request, 10).await.unwrap(), [id]);
        assert_eq!(bare.ack(request, &[id]).await.unwrap(), [true]);
    }
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}

/// Makes a call until its connection is not cut.
async fn persist<T>(call: impl AsyncFn() -> duly::Result<T>) {
    for _ in 0..10 {
        if call().await.is_ok() {
            return;
        }
    }
    panic!("ten calls failed");
}

#[tokio::test]
async fn each_script_is_a_library_that_a_server_takes() {
    let server = Redis::plain();
    for script in scripts() {
        let name = script.function();
        assert_eq!(server.cli(&["FUNCTION", "LOAD", script.library()]), name);
        let hash = server.cli(&["SCRIPT", "LOAD", script.text()]);
        assert_eq!(hash, script.hash(), "{name}");
    }
    let listed = server.cli(&["FUNCTION", "LIST"]);
    assert_eq!(listed.matches("library_name").count(), scripts().count());
}

#[tokio::test]
async fn functions_are_called_once_a_server_has_them_and_given_to_one_that_lost_them() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    live(&bare, 1..=2).await;
    for first in [11, 21] {
        assert_eq!(server.cli(&["FUNCTION", "FLUSH"]), "OK");
        live(&bare, first..=first).await;
        server.cli(&["CONFIG", "RESETSTAT"]);
        live(&bare, first + 1..=first + 5).await;
        let scripts = calls(&server, "eval") + calls(&server, "evalsha");
        assert_eq!((calls(&server, "fcall"), scripts), (16, 0));
    }
}

#[tokio::test]
async fn a_user_who_may_not_call_functions_is_served_by_scripts() {
    let server = Redis::start(crate::servers::RedisOptions {
        tcp: true,
        ..Default::default()
    });
    for lacks in ["-fcall", "-function|load"] {
        let rules = [
            "ACL", "SETUSER", "ann", "reset", "on", ">a", "~*", "&*", "+@all", lacks,
        ];
        assert_eq!(server.cli(&rules), "OK");
        let (url, _) = fresh(&format!("redis://ann:a@127.0.0.1:{}", server.port()));
        let bare = Bare::open(&url).await;
        live(&bare, 1..=2).await;
        assert_eq!(calls(&server, "fcall"), 0, "{lacks}");
        assert!(calls(&server, "evalsha") > 0, "{lacks}");
    }
}

#[tokio::test]
async fn a_full_server_that_takes_no_library_runs_scripts() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let (first, second) = (bare.new_id(), bare.new_id());
    bare.push(first, When::Now).await.unwrap();
    bare.push(second, When::Now).await.unwrap();
    server.cli(&["FUNCTION", "FLUSH"]);
    server.cli(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert_eq!(bare.fetch(1, 1).await.unwrap(), [first]);
    server.cli(&["CONFIG", "RESETSTAT"]);
    assert_eq!(bare.ack(1, &[first]).await.unwrap(), [true]);
    assert_eq!(bare.fetch(2, 1).await.unwrap(), [second]);
    assert_eq!(bare.ack(2, &[second]).await.unwrap(), [true]);
    assert_eq!(
        (calls(&server, "fcall"), calls(&server, "function|load")),
        (0, 0)
    );
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_library_that_is_lost_on_its_way_is_given_again() {
    let server = Redis::plain();
    let proxy = Proxy::before(server.address());
    let (url, _) = fresh(&proxy.url());
    let bare = Bare::open(&url).await;
    live(&bare, 1..=2).await;
    server.cli(&["FUNCTION", "FLUSH"]);
    let mut cuts = 3; // the first library of each operation
    proxy.on_request(move |bytes| {
        let loads = bytes.windows(4).any(|it| it == b"LOAD");
        cuts -= u32::from(loads && cuts > 0);
        (loads && cuts > 0).then_some(Fault::CutBefore)
    });
    for request in 11..=14 {
        let id = bare.new_id();
        persist(async || bare.push(id, When::Now).await).await;
        persist(async || bare.fetch(request, 10).await).await;
        persist(async || bare.ack(request, &[id]).await).await;
    }
    assert!(proxy.counts().cuts > 0);
    live(&bare, 15..=15).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    live(&bare, 16..=17).await;
    let scripts = calls(&server, "eval") + calls(&server, "evalsha");
    assert_eq!((calls(&server, "fcall"), scripts), (7, 0));
}

#[tokio::test]
async fn a_store_that_opens_removes_the_libraries_of_other_versions_and_no_others() {
    let server = Redis::plain();
    let library = |name: &str| {
        let text = format!(
            "#!lua name={name}\nredis.register_function('{name}', function() return 1 end)\n"
        );
        assert_eq!(server.cli(&["FUNCTION", "LOAD", &text]), name);
    };
    let (url, _) = fresh(&server.url());
    live(&Bare::open(&url).await, 1..=1).await;
    let ours = server.cli(&["FUNCTION", "LIST"]);
    library("duly_push_0123456789abcdef");
    library("dulynoted");
    let bare = Bare::open(&url).await;
    let listed = server.cli(&["FUNCTION", "LIST"]);
    assert!(!listed.contains("duly_push_0123456789abcdef"), "{listed}");
    let expected = ours.matches("library_name").count() + 1;
    assert_eq!(listed.matches("library_name").count(), expected, "{listed}");
    live(&bare, 2..=2).await;
}

#[tokio::test]
async fn each_master_of_a_cluster_is_given_the_functions() {
    let cluster = Cluster::masters(3);
    let (url, _) = fresh(&cluster.url());
    let mut bare = Bare::open(&url).await;
    let count = |command: &str| -> Vec<u64> {
        let masters = 0..3;
        let stats = masters.map(|at| cluster.node(at).cli(&["INFO", "commandstats"]));
        stats.map(|stats| calls_in(&stats, command)).collect()
    };
    for round in 1..=2 {
        let before = count("eval");
        for number in 0..16 {
            bare.bucket.queue = QueueName::new(&format!("letters-{number}")).unwrap();
            live(&bare, round..=round).await;
        }
        assert!(count("fcall").iter().all(|calls| *calls > 0));
        assert_eq!(count("eval") == before, round == 2, "{before:?}");
    }
}

/// They are in a pipeline with their wait, which brings no library.
#[tokio::test]
async fn pushes_that_wait_for_a_replica_bring_their_text_once() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let mut brought = Vec::new();
    for _ in 0..2 {
        let before = calls(&server, "eval");
        let queue = bare.bucket.queue.clone();
        let envelope = Envelope::new(bare.new_id(), queue, Payload::default());
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when: When::Now,
            on_taken: Unique::Keep,
        };
        let wanted = Durability::Replicated(1);
        let pushed = bare.store.push_durably(&bare.bucket, vec![event], wanted);
        pushed.await.expect_err("there is no replica");
        brought.push(calls(&server, "eval") - before);
    }
    assert_eq!(brought[1], 0, "{brought:?}");
    assert_eq!(bare.fetch(1, 10).await.unwrap().len(), 2);
}
