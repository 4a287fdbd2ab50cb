//! Rights: what a scope allows, what a limit counts, what is empty, what a browser sends for others.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::world::{LeaseStream, Place, Reply, World, on_every_store, reply};

on_every_store! {
    what_ends_a_job_needs_the_scope_of_its_state
    what_is_leased_meanwhile_is_its_consumers
    a_limit_counts_what_it_is_for
    each_message_of_a_stream_counts
}

/// A server, and a token of its own.
pub(crate) struct Tenant<'a>(pub(crate) &'a World, pub(crate) String);

impl Tenant<'_> {
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let Self(world, token) = self;
        let request = world.client.request(method, world.api_url(path));
        request.header("X-Token", token)
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Reply {
        let request = self.request(method, path);
        let request = request.header("Content-Type", "application/json");
        reply(request.body(body.to_string())).await
    }

    async fn status(&self, method: Method, path: &str) -> u16 {
        reply(self.request(method, path)).await.status.as_u16()
    }
}

pub(crate) async fn tenant<'a>(world: &'a World, namespace: &str, more: &str) -> Tenant<'a> {
    Tenant(world, world.new_token(namespace, more).await)
}

async fn what_ends_a_job_needs_the_scope_of_its_state(world: World) {
    let publisher = tenant(&world, "ns", "&scopes=publish").await;
    let consumer = tenant(&world, "ns", "&scopes=consume").await;
    let admin = tenant(&world, "ns", "&scopes=admin").await;
    let path = |id: &str| format!("/api/ns/q/job/{id}");

    // What waits is its publisher's to recall, and to read.
    let id = world.publish("/api/ns/q?delay=3600", "x").await;
    for other in [&consumer, &admin] {
        assert_eq!(other.status(Method::DELETE, &path(&id)).await, 403);
    }
    assert_eq!(publisher.status(Method::GET, &path(&id)).await, 200);
    let event = format!("/v1/ns/queues/q/events/{id}");
    assert_eq!(publisher.status(Method::GET, &event).await, 200);
    assert_eq!(publisher.status(Method::DELETE, &path(&id)).await, 204);
    world.get(&path(&id)).await.is(404);

    // What is leased is its consumer's to acknowledge.
    let id = world.publish("/api/ns/q?tries=1", "x").await;
    let job = reply(consumer.request(Method::GET, "/api/ns/q?timeout=10&ttr=60")).await;
    assert_eq!(job.is(200)["job_id"], id);
    assert_eq!(publisher.status(Method::DELETE, &path(&id)).await, 403);
    let again = reply(publisher.request(Method::PUT, &path(&id)).body("y")).await;
    assert_eq!(again.status, 403, "and its new job is not pushed");
    assert_eq!(world.size("q").await, 0);
    assert_eq!(consumer.status(Method::DELETE, &path(&id)).await, 204);
    world.get(&path(&id)).await.is(404);

    // What is dead is for an admin to drop.
    let id = world.publish("/api/ns/q?tries=1", "x").await;
    world.consume("/api/ns/q?timeout=10&ttr=0").await;
    world.wait_for_dead("q", 1).await;
    for other in [&consumer, &publisher] {
        assert_eq!(other.status(Method::DELETE, &path(&id)).await, 403);
    }
    assert_eq!(world.dead_size("q").await, 1);
    assert_eq!(admin.status(Method::DELETE, &path(&id)).await, 204);
    world.wait_for_dead("q", 0).await;
}

/// A publisher recalls a job, or replaces it, while a consumer takes it: one of the two does.
async fn what_is_leased_meanwhile_is_its_consumers(world: World) {
    let publisher = tenant(&world, "ns", "&scopes=publish").await;
    let consumer = tenant(&world, "ns", "&scopes=consume").await;
    for round in 0..200 {
        let id = world.publish("/api/ns/q?tries=3", "x").await;
        let path = format!("/api/ns/q/job/{id}");
        let method = [Method::DELETE, Method::PUT][round % 2].clone();
        let ended = reply(publisher.request(method, &path).body("y"));
        let leased = reply(consumer.request(Method::GET, "/api/ns/q?ttr=600"));
        // One of them is a little earlier.
        let (ended, leased) = match round / 2 % 2 {
            0 => tokio::join!(ended, leased),
            _ => {
                let (leased, ended) = tokio::join!(leased, ended);
                (ended, leased)
            }
        };
        let has_old = leased.status == 200 && leased.json()["job_id"] == id;
        assert_ne!(
            has_old,
            ended.status.is_success(),
            "{round}: {ended:?}, {leased:?}"
        );
        assert!(
            has_old || matches!(ended.status.as_u16(), 201 | 204),
            "{ended:?}"
        );
        // What was to replace it is not there either.
        world.delete(&path).await.is(204);
        if ended.status == 201 {
            let new = ended.json()["job_id"].clone();
            let path = format!("/api/ns/q/job/{}", new.as_str().unwrap());
            world.delete(&path).await.is(204);
        }
        let stats = world.get("/v1/ns/queues/q").await.is(200);
        let counts = ["scheduled", "ready", "leased"].map(|state| stats[state].clone());
        assert_eq!(counts, [json!(0), json!(0), json!(0)], "{round}: {stats}");
    }
}

async fn limit(tenant: &Tenant<'_>, limit: &str) {
    let path = format!("/token/ns/{}/limit", tenant.1);
    tenant.0.admin_with(Method::PUT, &path, limit).await.is(200);
}

async fn a_limit_counts_what_it_is_for(world: World) {
    let tenant = tenant(&world, "ns", "").await;
    limit(&tenant, r#"{"read":1,"write":1,"interval":3600}"#).await;
    let lease = json!({"ttr_ms": 60_000});
    let leases = "/v1/ns/queues/q/leases";

    // A lease that finds nothing counts nothing, and so does a push that is refused.
    for _ in 0..3 {
        let none = tenant.send(Method::POST, leases, &lease).await;
        assert_eq!(none.is(200), json!([]));
    }
    let events = "/v1/ns/queues/q/events";
    for header in ["lmstfy-id", "Lmstfy-Id", "duly-x", "DULY-"] {
        let wrong = json!({"events": [{"payload": 1, "headers": {header: "x"}}]});
        let refused = tenant.send(Method::POST, events, &wrong).await;
        assert_eq!(refused.status, 400, "{header}: {refused:?}");
    }
    let lines = tenant
        .request(Method::POST, events)
        .header("Content-Type", "application/x-ndjson")
        .body("{\"payload\":1}\n{\"payload\":2}\n{\"payload\":3}\n");
    let lines = reply(lines).await.text;
    assert_eq!(lines.matches("duplicate").count(), 1, "{lines}");
    assert_eq!(lines.matches("throttled").count(), 2, "{lines}");

    // What was leased within the limit can be extended and settled.
    let leased = tenant.send(Method::POST, leases, &lease).await.is(200);
    let token = leased[0]["token"].as_str().unwrap();
    let refused = tenant.send(Method::POST, leases, &lease).await;
    assert_eq!(refused.status, 429);
    let seconds: u64 = refused.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=3_600).contains(&seconds), "{seconds}");
    let of_lease = |what: &str| format!("/v1/ns/leases/{token}/{what}");
    for _ in 0..3 {
        let more = json!({"ttr_ms": 60_000});
        let extended = tenant.send(Method::POST, &of_lease("extend"), &more).await;
        assert_eq!(extended.status, 204);
    }
    let ack = json!({"outcome": "ack"});
    let acked = tenant.send(Method::POST, &of_lease("settle"), &ack).await;
    assert_eq!(acked.status, 204, "{acked:?}");
}

async fn each_message_of_a_stream_counts(world: World) {
    let tenant = tenant(&world, "ns", "").await;
    for payload in 0..9 {
        let events = json!({"events": [{"payload": payload}]});
        let path = "/v1/ns/queues/q/events";
        tenant.send(Method::POST, path, &events).await.is(201);
    }
    limit(&tenant, r#"{"read":2,"interval":3600}"#).await;
    let path = "/v1/ns/queues/q/leases/stream?ttr_ms=60000&max_in_flight=1&name=w";
    let mut stream = LeaseStream::open(tenant.request(Method::GET, path)).await;
    for _ in 0..2 {
        let lease = stream
            .next(Duration::from_secs(30))
            .await
            .expect("an event");
        let token = lease["token"].as_str().unwrap();
        let path = format!("/v1/ns/leases/{token}/settle");
        let ack = json!({"outcome": "ack"});
        tenant.send(Method::POST, &path, &ack).await.is(204);
    }
    // The window is used up, for the stream and for all else.
    let lease = json!({"ttr_ms": 60_000});
    let refused = tenant
        .send(Method::POST, "/v1/ns/queues/q/leases", &lease)
        .await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(stream.next(Duration::from_millis(300)).await, None);
    let stats = world.get("/v1/ns/queues/q").await.is(200);
    assert_eq!(stats["leased"], 0, "{stats}");
    // A stream that waits for its next window ends at once when it is drained.
    let drain = "/v1/ns/queues/q/leases/stream/drain?name=w";
    tenant.send(Method::POST, drain, &Value::Null).await.is(204);
    assert_eq!(stream.rest().await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_rights_are_no_rights() {
    let world = World::start(Place::Embedded).await;
    for wrong in ["scopes=", "queues=", "scopes=publish,", "expires_in="] {
        let path = format!("/token/ns?description=x&{wrong}");
        let refused = world.admin(Method::POST, &path).await;
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
    }
    // What is mistyped, given twice, or given where nobody reads it.
    for (wrong, words) in [
        ("scope=publish", "unknown parameter \"scope\"; known are "),
        ("Scopes=publish", "unknown parameter \"Scopes\"; known are "),
        ("queue=mail", "unknown parameter \"queue\"; known are "),
        ("expires=60", "unknown parameter \"expires\"; known are "),
        ("scopes=publish&scopes=admin", "scopes is given twice"),
        ("queues=a&queues=b", "queues is given twice"),
    ] {
        let path = format!("/token/ns?description=x&{wrong}");
        let refused = world.admin(Method::POST, &path).await;
        let error = refused.is(400)["error"].to_string().replace('\\', "");
        assert!(error.contains(words), "{error}");
        let url = format!("http://{}{path}", world.server.admin_address());
        let form = world.client.post(url.replace(&format!("&{wrong}"), ""));
        let form = form.header("Content-Type", "application/x-www-form-urlencoded");
        assert_eq!(reply(form.body(wrong)).await.is(400), refused.is(400));
    }
    let url = format!(
        "http://{}/token/ns?description=x",
        world.server.admin_address()
    );
    for content_type in [
        "application/json",
        "text/plain",
        "multipart/form-data; boundary=x",
    ] {
        let body = r#"{"scopes": "publish"}"#;
        let post = world.client.post(&url).header("Content-Type", content_type);
        let error = reply(post.body(body)).await.is(400)["error"].to_string();
        assert!(error.contains("x-www-form-urlencoded"), "{error}");
    }
    let tokens = world.admin(Method::GET, "/token/ns").await.is(200);
    assert_eq!(tokens["tokens"].as_object().unwrap().len(), 1, "{tokens}");
    for wrong in ["root = ''", "'' = 'secret'"] {
        let settings = duly_server::Settings::from_toml(&format!("[admin.accounts]\n{wrong}"));
        let error = settings.unwrap_err().to_string();
        assert!(error.contains("is empty"), "{error}");
    }
    let long = "x".repeat(513);
    for (wrong, why) in [
        ("'a:b' = 'secret'".to_owned(), "has a colon"),
        (
            "' ann' = 'secret'".to_owned(),
            "begins or ends with a blank",
        ),
        ("ann = \"a\\nb\"".to_owned(), "cannot be entered"),
        (format!("ann = '{long}'"), "more than 512 bytes"),
        (format!("{long} = 'secret'"), "more than 512 bytes"),
    ] {
        let settings = duly_server::Settings::from_toml(&format!("[admin.accounts]\n{wrong}"));
        let error = settings.unwrap_err().to_string();
        assert!(error.contains(why) && error.len() < 200, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_does_nothing() {
    let world = World::start(Place::Embedded).await;
    let admin = |method, path: &str| {
        let url = format!("http://{}{path}", world.server.admin_address());
        world.client.request(method, url)
    };
    let id = world.publish("/api/ns/q", "x").await;
    let create = "/token/ns?description=x&token=a-token-of-somebodys-choice";
    let foreign: [&[(&str, &str)]; 3] = [
        &[("Origin", "http://evil.example")],
        &[
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", "no-cors"),
        ],
        &[("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "cors")],
    ];
    for headers in foreign {
        let with = |mut request: RequestBuilder| {
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request
        };
        for request in [
            admin(Method::POST, create),
            admin(Method::POST, "/accesslog?enable=false"),
            admin(Method::GET, "/token/ns"),
            world.request(Method::GET, "/api/ns/q"),
            world.request(Method::PUT, "/api/ns/q"),
        ] {
            let refused = reply(with(request)).await;
            assert_eq!(refused.status, 403, "{headers:?}: {refused:?}");
        }
    }
    // A page that has let a name of its own point here.
    for path in ["/token/ns", "/dashboard/", "/audit", "/info", "/metrics"] {
        let rebound = reply(admin(Method::GET, path).header("Host", "evil.example:7778")).await;
        assert_eq!(rebound.status, 403, "{path}: {rebound:?}");
        assert!(rebound.text.contains("admin.hosts"), "{rebound:?}");
    }
    // A scraper by name has to be permitted, and is told how; a probe has not.
    let scraped = reply(admin(Method::GET, "/metrics").header("Host", "duly:7778")).await;
    let error = scraped.is(403)["error"].to_string();
    assert!(error.contains("list `duly` in admin.hosts"), "{error}");
    for path in ["/healthz", "/readyz"] {
        let probed = reply(admin(Method::GET, path).header("Host", "duly:7778")).await;
        assert_eq!(probed.status, 200, "{path}: {probed:?}");
    }
    // Nothing of it was done.
    let tokens = world.admin(Method::GET, "/token/ns").await.text;
    assert!(!tokens.contains("somebodys-choice"), "{tokens}");
    assert_eq!(world.consume("/api/ns/q").await["job_id"], id);
}

/// Settings of a server with more for its admin listener.
pub(crate) fn admin_settings(more: &str) -> duly_server::Settings {
    let text = format!(
        "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n{more}\n\
         [pools.default]\nurl = 'memory:'\n"
    );
    duly_server::Settings::from_toml(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_may_be_listed() {
    let client = crate::world::client();
    for accounts in ["", "\naccounts = { ann = 'a password' }"] {
        let settings = admin_settings(&format!("hosts = ['duly.internal']{accounts}"));
        let server = duly_server::Server::start(settings).await.unwrap();
        let status = async |path: &str, host: &str| {
            let request = client.get(format!("http://{}{path}", server.admin_address()));
            let request = request.basic_auth("ann", Some("a password"));
            reply(request.header("Host", host)).await.status.as_u16()
        };
        for path in ["/token/ns", "/metrics", "/info", "/pools", "/version"] {
            assert_eq!(status(path, "duly.internal:80").await, 200, "{path}");
            // Where an account is asked for, no page of another host has it.
            let is_guarded = !accounts.is_empty() && path == "/token/ns";
            let expected = if is_guarded { 200 } else { 403 };
            assert_eq!(status(path, "evil.example").await, expected, "{path}");
        }
        server.stop().await;
    }
}
