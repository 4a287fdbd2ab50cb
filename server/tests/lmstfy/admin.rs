//! Section 3: tokens, pools, and what the server says of itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;

use crate::world::{Place, World, on_every_store, reply};

on_every_store! {
    a_token_is_made_listed_and_revoked
    a_token_is_checked
    a_token_may_be_given_by_a_form
    a_token_has_rights
    a_token_expires
    queues_are_listed_until_they_are_destroyed
    open_endpoints
    the_access_log_is_switched
}

async fn a_token_is_made_listed_and_revoked(world: World) {
    let created = world
        .admin(Method::POST, "/token/other?description=shop")
        .await;
    let token = created.is(201)["token"].as_str().unwrap().to_owned();
    assert_eq!(created.text, format!("{{\n    \"token\": \"{token}\"\n}}"));
    let listed = world.admin(Method::GET, "/token/other").await.is(200);
    assert_eq!(listed, json!({"tokens": {token.clone(): "shop"}}));
    let listed = world
        .admin(Method::GET, "/token/other?pool=default")
        .await
        .is(200);
    assert_eq!(
        listed,
        json!({"tokens": {format!("default:{token}"): "shop"}})
    );
    let put = || {
        world
            .client
            .put(world.api_url("/api/other/q"))
            .header("X-Token", &token)
    };
    reply(put()).await.is(201);
    let path = format!("/token/other/{token}");
    world.admin(Method::DELETE, &path).await.is(204);
    reply(put()).await.fails(401, "invalid token");
    world.admin(Method::DELETE, &path).await.is(204);
    assert_eq!(
        world.admin(Method::GET, "/token/other").await.is(200),
        json!({"tokens": {}})
    );
}

async fn a_token_is_checked(world: World) {
    let post = async |path: &str| world.admin(Method::POST, path).await;
    post("/token/ns").await.fails(400, "invalid description");
    post("/token/ns?description=")
        .await
        .fails(400, "invalid description");
    post("/token/ns?description=d&token=0123456789012345678")
        .await
        .fails(400, "the user token was too short");
    // What names its pool has that beside.
    for short in [
        "default:",
        "default:0123456789012345678",
        ":0123456789012345678",
    ] {
        post(&format!("/token/ns?description=d&token={short}"))
            .await
            .fails(400, "the user token was too short");
    }
    let long = "n".repeat(256);
    post(&format!("/token/{long}?description=d"))
        .await
        .fails(400, "the namespace name was too long");
    post("/token/n.s?description=d")
        .await
        .fails(400, "namespace name contains forbidden characters");
    post("/token/ns?description=d&pool=none")
        .await
        .fails(400, "the pool was not exists");
    for (method, path) in [
        (Method::GET, "/token/ns?pool=none"),
        (Method::DELETE, "/token/ns/none:01234567890123456789"),
    ] {
        let unknown = world.admin(method, path).await;
        unknown.fails(400, "the pool was not exists");
    }
    let mine = "/token/ns?description=d&token=01234567890123456789";
    assert_eq!(post(mine).await.is(201)["token"], "01234567890123456789");
    post(mine).await.fails(400, "the token has already existed");
    let put = world
        .client
        .put(world.api_url("/api/ns/q"))
        .header("X-Token", "01234567890123456789");
    reply(put).await.is(201);
}

async fn a_token_may_be_given_by_a_form(world: World) {
    let url = format!("http://{}/token/ns", world.server.admin_address());
    let post = world
        .client
        .post(url)
        .header("Content-Type", "application/x-www-form-urlencoded");
    let created = reply(post.body("description=from+a+form&token=a-token-of-twenty-chars")).await;
    assert_eq!(created.is(201)["token"], "a-token-of-twenty-chars");
    let listed = world.admin(Method::GET, "/token/ns").await.is(200);
    assert_eq!(listed["tokens"]["a-token-of-twenty-chars"], "from a form");
}

async fn a_token_has_rights(world: World) {
    let publisher = world
        .new_token("ns", "&scopes=publish&queues=order-*")
        .await;
    let send = async |method: Method, path: &str| {
        let request = world.client.request(method, world.api_url(path));
        reply(request.header("X-Token", &publisher)).await
    };
    send(Method::PUT, "/api/ns/order-close").await.is(201);
    send(Method::PUT, "/api/ns/mail")
        .await
        .fails(403, "the token is not for queue mail");
    send(Method::GET, "/api/ns/order-close")
        .await
        .fails(403, "the token has no scope consume");
    send(Method::DELETE, "/api/ns/order-close")
        .await
        .fails(403, "the token has no scope admin");
    let consumer = world
        .new_token("ns", "&scopes=consume&queues=order-*")
        .await;
    let get = world
        .client
        .get(world.api_url("/api/ns/mail,order-close"))
        .header("X-Token", &consumer);
    reply(get)
        .await
        .fails(403, "the token is not for queue mail");
    let get = world
        .client
        .get(world.api_url("/api/ns/order-close"))
        .header("X-Token", &consumer);
    reply(get).await.is(200);
    let wrong = world
        .admin(Method::POST, "/token/ns?description=d&scopes=all")
        .await;
    wrong.fails(400, "invalid scopes: a list of publish, consume and admin");
}

/// One that has expired is as one that was revoked: it is in no list, has no limit, and its text may
/// be of another one.
async fn a_token_expires(world: World) {
    let text = "a-token-of-somebodys-choice";
    let path = format!("/token/ns/{text}/limit");
    let limits = async || world.admin(Method::GET, "/limits").await.text;
    let listed = async || world.admin(Method::GET, "/token/ns").await.text;
    let put = || {
        let put = world.client.put(world.api_url("/api/ns/q"));
        put.header("X-Token", text)
    };
    let old = format!("/token/ns?description=old&token={text}&expires_in=2");
    world.admin(Method::POST, &old).await.is(201);
    let limit = r#"{"write":1,"interval":3600}"#;
    world.admin_with(Method::PUT, &path, limit).await.is(200);
    let limit = format!("/token/ns/{}/limit", world.token);
    let other = r#"{"write":9,"interval":60}"#;
    world.admin_with(Method::PUT, &limit, other).await.is(200);
    reply(put()).await.is(201);
    let again = world.admin(Method::POST, &old).await;
    again.fails(400, "the token has already existed");
    assert!(listed().await.contains("old") && limits().await.contains("3600"));
    crate::world::until("the token has expired", async || {
        reply(put()).await.status == 401
    })
    .await;
    let (tokens, limits) = (listed().await, limits().await);
    assert!(
        !tokens.contains("old") && tokens.contains("test"),
        "{tokens}"
    );
    assert!(!limits.contains("3600"), "{limits}");
    assert!(limits.contains(&world.token), "the other's stays: {limits}");

    let new = format!("/token/ns?description=new&token={text}");
    world.admin(Method::POST, &new).await.is(201);
    world.admin(Method::GET, &path).await.is(404);
    for _ in 0..2 {
        reply(put()).await.is(201);
    }
    assert!(listed().await.contains("new"));
    let again = world.admin(Method::POST, &new).await;
    again.fails(400, "the token has already existed");
}

async fn queues_are_listed_until_they_are_destroyed(world: World) {
    for queue in ["b", "a"] {
        world.publish(&format!("/api/ns/{queue}"), "x").await;
    }
    let info = async || world.admin(Method::GET, "/info").await.text;
    assert_eq!(info().await, r#"{"ns":["a","b"]}"#);
    world.delete("/api/ns/a").await.is(204);
    assert_eq!(info().await, r#"{"ns":["b"]}"#);
    world.publish("/api/ns/a", "x").await;
    assert_eq!(info().await, r#"{"ns":["a","b"]}"#);
    let unknown = world.admin(Method::GET, "/info?pool=none").await;
    assert_eq!((unknown.status.as_u16(), unknown.text.as_str()), (200, ""));
}

async fn open_endpoints(world: World) {
    assert_eq!(
        world.admin(Method::GET, "/pools").await.is(200),
        json!(["default"])
    );
    let version = world.admin(Method::GET, "/version").await.is(200);
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["build_commit"].is_string() && version["build_date"].is_string());
    let live = world.get("/healthz").await.is(200);
    assert_eq!(live["status"], "ok");
    let ready = world.get("/readyz").await.is(200);
    assert_eq!(
        (&ready["ready"], &ready["parts"]["pool default"]),
        (&json!(true), &json!("ok"))
    );
}

async fn the_access_log_is_switched(world: World) {
    let status = async |method: Method, path: &str| world.admin(method, path).await.is(200);
    assert_eq!(
        status(Method::GET, "/accesslog").await,
        json!({"status": "disabled"})
    );
    let enabled = status(Method::POST, "/accesslog?status=enable").await;
    assert_eq!(enabled, json!({"status": "enabled"}));
    assert_eq!(status(Method::GET, "/accesslog").await, enabled);
    world
        .admin(Method::POST, "/accesslog?status=x")
        .await
        .fails(400, "invalid status");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_guard_tokens_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n\
                accounts = { ann = 'word' }\n[log]\naccess = false\n[pools.default]\nurl = 'memory:'";
    let settings = duly_server::Settings::from_toml(text).unwrap();
    let server = duly_server::Server::start(settings).await.unwrap();
    let client = crate::world::client();
    let url = |path: &str| format!("http://{}{path}", server.admin_address());
    let refused = reply(client.get(url("/token/ns"))).await;
    assert_eq!((refused.status.as_u16(), refused.text.as_str()), (401, ""));
    assert_eq!(
        refused.headers["www-authenticate"],
        "Basic realm=\"Authorization Required\""
    );
    for (credentials, status) in [("ann:word", 200), ("ann:other", 401), ("bob:word", 401)] {
        let basic = format!("Basic {}", STANDARD.encode(credentials));
        let got = reply(client.get(url("/token/ns")).header("Authorization", basic)).await;
        assert_eq!(got.status.as_u16(), status, "{credentials}");
    }
    assert_eq!(
        reply(client.post(url("/accesslog?status=enable")))
            .await
            .status,
        401
    );
    for path in ["/pools", "/version", "/metrics", "/info", "/accesslog"] {
        assert_eq!(reply(client.get(url(path))).await.status, 200, "{path}");
    }
    server.stop().await;
    drop(folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_is_a_store_of_its_own() {
    let world = World::start_with(Place::Embedded, "[pools.second]\nurl = 'memory:'").await;
    let pools = world.admin(Method::GET, "/pools").await.is(200);
    assert_eq!(pools, json!(["default", "second"]));
    let created = world
        .admin(Method::POST, "/token/ns?description=d&pool=second")
        .await;
    let token = created.is(201)["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("second:"), "{token}");
    let put = world
        .client
        .put(world.api_url("/api/ns/q"))
        .header("X-Token", &token);
    reply(put).await.is(201);
    assert_eq!(world.size("q").await, 0);
    let size = world
        .client
        .get(world.api_url("/api/ns/q/size?token=second:"));
    assert_eq!(reply(size).await.is(200)["size"], 1);
    let inner = token.strip_prefix("second:").unwrap();
    let put = world
        .client
        .put(world.api_url("/api/ns/q"))
        .header("X-Token", inner);
    reply(put).await.fails(401, "invalid token");
    world
        .admin(Method::DELETE, &format!("/token/ns/{token}"))
        .await
        .is(204);
    let put = world
        .client
        .put(world.api_url("/api/ns/q"))
        .header("X-Token", &token);
    reply(put).await.fails(401, "invalid token");
    // A token of a user's choice may name its pool.
    let own = world
        .new_token("ns", "&token=second:a-token-of-my-choice")
        .await;
    assert_eq!(own, "second:a-token-of-my-choice");
    let put = world.client.put(world.api_url("/api/ns/q"));
    reply(put.header("X-Token", own)).await.is(201);
    let listed = world.admin(Method::GET, "/token/ns?pool=second").await;
    let listed = listed.is(200);
    assert_eq!(
        listed["tokens"],
        json!({"second:a-token-of-my-choice": "test"})
    );
}
