//! The program as a process: settings, `kill -9`, slow clients, TLS.

use std::time::Duration;

use duly::prelude::*;
use duly_server::{Server, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{Place, World};

#[test]
fn an_unknown_setting_is_named() {
    for (text, key) in [
        ("[api]\nlisen = 'x'", "lisen"),
        ("[apis]\nlisten = 'x'", "apis"),
        ("[pools.a]\nurl = 'memory:'\nsize = 1", "size"),
        ("[log]\nlevel = 'loud'", "log.level"),
        ("[limits]\nconnections = 0", "limits.connections"),
        ("[jobs]\ntries = 0", "jobs.tries"),
        ("[api]\ntls_key = 'x'", "tls_certificate"),
        ("[api]\nlisten = 'localhost:7777'", "such as 127.0.0.1:7777"),
        ("[admin]\nlisten = 7778", "such as 127.0.0.1:7777"),
    ] {
        let error = Settings::from_toml(text).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_its_headers_slowly_is_ended() {
    let world = World::start_with(Place::Embedded, "[limits]\nheader_timeout_s = 1").await;
    let mut slow = TcpStream::connect(world.server.api_address())
        .await
        .unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-")
        .await
        .unwrap();
    let mut text = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), slow.read_to_end(&mut text)).await;
    assert!(ended.is_ok(), "the connection ends");
    world.get("/healthz").await.is(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_bounded() {
    let world = World::start(Place::Embedded).await;
    let mut large = TcpStream::connect(world.server.api_address())
        .await
        .unwrap();
    let head = format!(
        "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Large: {}\r\n\r\n",
        "x".repeat(400_000)
    );
    // The server may refuse before all is written.
    large.write_all(head.as_bytes()).await.ok();
    let mut text = Vec::new();
    large.read_to_end(&mut text).await.ok();
    let text = String::from_utf8_lossy(&text);
    assert!(
        text.is_empty() || text.starts_with("HTTP/1.1 431"),
        "{text}"
    );
    world.get("/healthz").await.is(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_and_tokens_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let text = format!(
        "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n[pools.default]\nurl = '{url}'"
    );
    let settings = Settings::from_toml(&text).unwrap();
    let client = crate::world::client();
    let server = Server::start(settings.clone()).await.unwrap();
    let token = "a-token-of-the-first-server";
    let admin = format!(
        "http://{}/token/ns?description=d&token={token}",
        server.admin_address()
    );
    crate::world::reply(client.post(admin)).await.is(201);
    let put = client.put(format!("http://{}/api/ns/q", server.api_address()));
    crate::world::reply(put.header("X-Token", token).body("x"))
        .await
        .is(201);
    server.stop().await;

    let server = Server::start(settings).await.unwrap();
    let listed = client.get(format!("http://{}/token/ns", server.admin_address()));
    let listed = crate::world::reply(listed).await;
    assert!(listed.text.contains("sha256~"), "{}", listed.text);
    assert!(
        !listed.text.contains(token),
        "nobody knows its text any more"
    );
    let get = client.get(format!(
        "http://{}/api/ns/q?timeout=10",
        server.api_address()
    ));
    crate::world::reply(get.header("X-Token", token))
        .await
        .is(200);
    let stored = std::fs::read(folder.path().join("jobs.db.server")).unwrap();
    assert!(!String::from_utf8_lossy(&stored).contains(token));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_fails_leaves_the_bus_it_was_given_and_nothing_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus::builder().store_url("memory:").only_registered();
    let bus = bus.dynamic_queues().publish_only().start().await.unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (admin, api) = (taken.local_addr().unwrap(), free.local_addr().unwrap());
    drop(free);
    let state = folder.path().join("state.db");
    let text = format!(
        "[api]\nlisten = '{api}'\n[admin]\nlisten = '{admin}'\nstate = 'sqlite:{}'",
        state.display()
    );
    let settings = Settings::from_toml(&text).unwrap();
    let failed = Server::start_with(settings.clone(), bus.clone()).await;
    let error = failed.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("admin listener"), "{error}: {source}");
    assert!(TcpStream::connect(api).await.is_err(), "nothing is served");
    let queue = bus.queue_named::<u64>("ns.q").unwrap();
    queue.push(7, Duration::ZERO).await.unwrap();

    drop(taken);
    let server = Server::start_with(settings.clone(), bus.clone())
        .await
        .unwrap();
    drop(server);
    crate::world::until("its listeners have ended", async || {
        TcpStream::connect(api).await.is_err() && TcpStream::connect(admin).await.is_err()
    })
    .await;
    queue.push(8, Duration::ZERO).await.unwrap();
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}
