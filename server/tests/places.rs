//! The program where operators run it: with TLS, behind Sentinels.

use std::path::Path;

use reqwest::{Certificate, Client};
use serde_json::Value;

use crate::kills::Program;
use crate::servers::{Redis, RedisOptions, Sentinels};
use crate::world::{client, reply, until};

const TOKEN: &str = "a-token-of-every-place";

async fn make_token(program: &Program) {
    let path = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
    reply(client().post(path)).await.is(201);
}

async fn publish(client: &Client, api: &str) -> String {
    let put = client.put(format!("{api}/api/ns/q?tries=9"));
    let published = reply(put.header("X-Token", TOKEN).body("x")).await.is(201);
    published["job_id"].as_str().unwrap().to_owned()
}

async fn consume(client: &Client, api: &str) -> Value {
    let get = client.get(format!("{api}/api/ns/q?timeout=20"));
    reply(get.header("X-Token", TOKEN)).await.is(200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_and_its_redis_speak_tls() {
    let redis = Redis::start(RedisOptions {
        tls: true,
        ..RedisOptions::default()
    });
    let authority = redis.authority();
    let file = |name: &str| authority.with_file_name(name).display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("DULY_SERVER__API__TLS_CERTIFICATE", &*file("server.crt")),
        ("DULY_SERVER__API__TLS_KEY", &*file("server.key")),
    ];
    let store = format!("{}?ca={}", redis.tls_url(), authority.display());
    let program = Program::start_with(folder.path(), &store, &variables);
    make_token(&program).await;
    let port = program.api.rsplit(':').next().unwrap();
    let api = format!("https://localhost:{port}");
    let trusting = trusting(&authority);
    let id = publish(&trusting, &api).await;
    assert_eq!(consume(&trusting, &api).await["job_id"], id);
    let health = format!("{api}/healthz");
    assert!(
        client().get(&health).send().await.is_err(),
        "unknown authority"
    );
    assert!(
        client()
            .get(format!("{}/healthz", program.api))
            .send()
            .await
            .is_err(),
        "not without tls"
    );
    reply(trusting.get(&health)).await.is(200);
}

/// A client that trusts one authority.
fn trusting(authority: &Path) -> Client {
    let pem = std::fs::read(authority).unwrap();
    let authority = Certificate::from_pem(&pem).unwrap();
    let _installed = client();
    let builder = Client::builder().tls_certs_only([authority]);
    builder.build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_the_server_follows_the_master() {
    let mut sentinels = Sentinels::start();
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(folder.path(), &sentinels.url());
    make_token(&program).await;
    let client = client();
    let before = publish(&client, &program.api).await;
    assert_eq!(consume(&client, &program.api).await["job_id"], before);
    let sentinels = tokio::task::spawn_blocking(move || {
        sentinels.failover();
        sentinels
    });
    let _sentinels = sentinels.await.unwrap();
    until("the server has found the new master", async || {
        let put = client.put(format!("{}/api/ns/q", program.api));
        reply(put.header("X-Token", TOKEN).body("x")).await.status == 201
    })
    .await;
    consume(&client, &program.api).await;
    let ready = reply(client.get(format!("{}/readyz", program.api))).await;
    assert_eq!(ready.is(200)["ready"], true);
}
