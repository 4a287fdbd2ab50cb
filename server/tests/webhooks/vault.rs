//! Webhooks in the shared state: encrypted if the server has a key.

use std::path::Path;

use reqwest::Method;
use serde_json::json;

use super::path;
use super::receiver::Receiver;
use crate::kills::Program;
use crate::world::{client, reply};

const TOKEN: &str = "a-token-of-a-server-with-a-key";

/// Whether a file of the folder has a text.
fn is_stored(folder: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(folder).unwrap();
    let mut files = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.is_file());
    files.any(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).contains(text))
}

/// Sets a webhook, delivers an event after a restart; returns the folder of the store.
async fn delivered_after_a_restart(variables: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let allowed = [
        ("DULY_SERVER__WEBHOOKS__ALLOW_HTTP", "true"),
        ("DULY_SERVER__WEBHOOKS__ALLOW_NETWORKS", "127.0.0.0/8"),
    ];
    let variables = [&allowed, variables].concat();
    let start = || Program::start_with(folder.path(), "sqlite:jobs.db", &variables);
    let (client, receiver) = (client(), Receiver::start().await);
    let mut program = start();
    let admin = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
    reply(client.post(admin)).await.is(201);
    let send = async |program: &Program, method, path: &str, body: serde_json::Value| {
        let request = client.request(method, format!("{}{path}", program.api));
        let request = request
            .header("X-Token", TOKEN)
            .header("Content-Type", "application/json");
        reply(request.body(body.to_string())).await
    };
    let body = json!({"url": receiver.url(), "headers": {"authorization": "Bearer of-the-target"}});
    let set = send(&program, Method::PUT, &path("q"), body).await.is(201);
    let secret = set["created_secret"].as_str().unwrap().to_owned();
    program.kill();
    let program = start();
    let body = json!({"events": [{"payload": 1}]});
    send(&program, Method::POST, "/v1/ns/queues/q/events", body)
        .await
        .is(201);
    assert!(receiver.wait_for(1).await[0].is_signed_by(&secret));
    (folder, secret)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_of_webhooks_are_encrypted_if_there_is_a_key() {
    let key = "k1=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let variables = [
        ("DULY__ENCRYPTION__KEYS", key),
        ("DULY__ENCRYPTION__USE", "k1"),
    ];
    let (folder, secret) = delivered_after_a_restart(&variables).await;
    assert!(!is_stored(folder.path(), &secret));
    assert!(!is_stored(folder.path(), "of-the-target"));
    assert!(is_stored(folder.path(), "sealed:"), "it is stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_of_webhooks_are_in_clear_text_without_a_key() {
    let (folder, secret) = delivered_after_a_restart(&[]).await;
    assert!(is_stored(folder.path(), &secret), "as the documents say");
}

/// As after a rotation whose old key was removed too early.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_whose_key_is_gone_says_so_and_is_set_anew() {
    let variables = |key| {
        [
            ("DULY_SERVER__WEBHOOKS__ALLOW_HTTP", "true"),
            ("DULY_SERVER__WEBHOOKS__ALLOW_NETWORKS", "127.0.0.0/8"),
            ("DULY__ENCRYPTION__KEYS", key),
        ]
    };
    let folder = tempfile::tempdir().unwrap();
    let start = |key, used| {
        let variables = [&variables(key)[..], &[("DULY__ENCRYPTION__USE", used)]].concat();
        Program::start_with(folder.path(), "sqlite:jobs.db", &variables)
    };
    let mut program = start("k1=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "k1");
    let client = client();
    let admin = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
    reply(client.post(admin)).await.is(201);
    let send = async |program: &Program, method, body: serde_json::Value| {
        let request = client.request(method, format!("{}{}", program.api, path("q")));
        let request = request
            .header("X-Token", TOKEN)
            .header("Content-Type", "application/json");
        reply(request.body(body.to_string())).await
    };
    let receiver = Receiver::start().await;
    let body = json!({"url": receiver.url()});
    send(&program, Method::PUT, body.clone()).await.is(201);
    program.kill();

    let program = start("k2=ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=", "k2");
    for (method, body) in [(Method::GET, json!(null)), (Method::PUT, body)] {
        let refused = send(&program, method, body).await.is(409);
        let words = refused["detail"].as_str().unwrap();
        assert!(words.contains("cannot be read"), "{words}");
        assert!(words.contains("`secrets`"), "{words}");
    }
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let whole = json!({"url": receiver.url(), "secrets": [secret]});
    send(&program, Method::PUT, whole).await.is(200);
    let set = send(&program, Method::GET, json!(null)).await.is(200);
    assert_eq!(set["secrets"], 1);
}
