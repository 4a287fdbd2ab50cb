//! Addresses and certificates that are refused.

use std::path::Path;
use std::process::Command;

use duly_server::{Server, Settings};
use serde_json::json;

use super::receiver::Receiver;
use super::{push, set, view, wait_for_empty};
use crate::world::{Place, World, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_with_a_private_address_is_refused_at_once() {
    let world = World::start_with(Place::Embedded, "[webhooks]\nallow_http = true").await;
    for url in [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::1]:8080/",
        "http://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://192.168.1.1/",
    ] {
        let problem = set(&world, json!({"url": url})).await.is(403);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("webhooks.allow_networks"), "{detail}");
    }
    world.get(&super::path("q")).await.is(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_without_tls_is_refused() {
    let world = World::start(Place::Embedded).await;
    let problem = set(&world, json!({"url": "https://shop.test:0/"})).await;
    let problem = problem.is(400);
    assert!(
        problem["detail"].as_str().unwrap().contains("port 0"),
        "{problem}"
    );
    let problem = set(&world, json!({"url": "http://shop.test/"}))
        .await
        .is(403);
    assert!(problem["detail"].as_str().unwrap().contains("https://"));
    set(&world, json!({"url": "https://shop.test/"}))
        .await
        .is(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_name_with_a_private_address_is_refused_at_delivery() {
    let world = World::start_with(Place::Embedded, "[webhooks]\nallow_http = true").await;
    let receiver = Receiver::start().await;
    let port = receiver.address().port();
    let url = format!("http://localhost:{port}/hook");
    set(&world, json!({"url": url})).await.is(201);
    push(&world, json!([{"payload": 1, "attempts": 1}])).await;
    world.wait_for_dead("q", 1).await;
    let error = view(&world).await["last_error"]["text"].to_string();
    assert!(error.contains("is loopback"), "{error}");
    assert!(receiver.received().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allowed_network_is_delivered_to_by_its_name() {
    let settings = "[webhooks]\nallow_http = true\nallow_networks = ['127.0.0.0/8']";
    let world = World::start_with(Place::Embedded, settings).await;
    let receiver = Receiver::start().await;
    let port = receiver.address().port();
    let url = format!("http://localhost:{port}/hook");
    set(&world, json!({"url": url})).await.is(201);
    push(&world, json!([{"payload": 1}])).await;
    receiver.wait_for(1).await;
    wait_for_empty(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_no_more_allowed_is_refused_at_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let receiver = Receiver::start().await;
    let start = async |settings: &str| {
        let own = tempfile::tempdir().unwrap();
        World::start_at(own, url.clone(), settings).await
    };
    let world = start(super::LOCAL).await;
    super::set_to(&world, &receiver, json!({})).await;
    world.server.stop().await;
    let world = start("[webhooks]\nallow_http = true").await;
    push(&world, json!([{"payload": 1, "attempts": 1}])).await;
    until("it is refused", async || world.dead_size("q").await == 1).await;
    assert!(receiver.received().is_empty());
}

/// Writes an authority, `ca.crt`, and a certificate for `localhost` by it.
fn write_certificates(folder: &Path) {
    let key = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    for more in [
        "-subj /CN=tests -keyout ca.key -out ca.crt",
        "-subj /CN=localhost -keyout server.key -out server.crt -CA ca.crt -CAkey ca.key \
         -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE",
    ] {
        let mut openssl = Command::new("openssl");
        openssl
            .arg("req")
            .args(key.split(' '))
            .args(more.split_whitespace());
        let made = openssl.current_dir(folder).output().expect("openssl");
        assert!(made.status.success(), "{made:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_of_a_webhook_target_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let at = folder.path().display();
    let text = format!(
        "[api]\nlisten = '127.0.0.1:0'\ntls_certificate = '{at}/server.crt'\n\
         tls_key = '{at}/server.key'\n[admin]\nlisten = '127.0.0.1:0'\n\
         [pools.default]\nurl = 'memory:'"
    );
    let target = Server::start(Settings::from_toml(&text).unwrap())
        .await
        .unwrap();
    let port = target.api_address().port();
    let trusted = format!("ca_certificates = '{at}/ca.crt'");
    for (more, expected) in [(trusted.as_str(), "HTTP 404"), ("", "certificate")] {
        let settings = format!("[webhooks]\nallow_networks = ['127.0.0.0/8']\n{more}");
        let world = World::start_with(Place::Embedded, &settings).await;
        let url = format!("https://localhost:{port}/v1/nothing");
        set(&world, json!({"url": url})).await.is(201);
        push(&world, json!([{"payload": 1, "attempts": 1}])).await;
        world.wait_for_dead("q", 1).await;
        let error = view(&world).await["last_error"]["text"].to_string();
        assert!(error.contains(expected), "{error}");
    }
    target.stop().await;
}
