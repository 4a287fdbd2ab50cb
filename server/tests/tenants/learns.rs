//! What one tenant learns of another: the same requests, where there is another and where there is
//! none, have the same responses.
//!
//! The requests are those of the description of `/v1` and of the contract of lmstfy, with the names,
//! ids and tokens of leases of the other, and with names that are nearly the other's.

use std::collections::BTreeMap;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::shape::shape;
use crate::world::{Place, World, on_every_store, reply};

on_every_store! {
    the_other_makes_no_difference
}

const OTHER: &str = "acmea";
const OWN: &str = "acme";
const QUEUE: &str = "payroll-quetzal-project";
/// Names of queues that a tenant tries.
const TRIED: [&str; 3] = [QUEUE, "payroll-quetzal-projec", "own"];

/// What the other has.
#[derive(Clone, Default)]
struct Secrets {
    /// A scheduled, a ready, a leased, a dead and a done event.
    ids: Vec<String>,
    lease: String,
}

async fn fill(world: &World) -> Secrets {
    let token = world.new_token(OTHER, "").await;
    let send = async |method: Method, path: &str, body: Value| {
        let request = world.client.request(method, world.api_url(path));
        let request = request.header("X-Token", &token);
        let request = request.header("Content-Type", "application/json");
        reply(request.body(body.to_string())).await
    };
    let queue = format!("/v1/{OTHER}/queues/{QUEUE}");
    let lease = async || {
        let body = json!({"ttr_ms": 3_600_000, "wait_ms": 8_000});
        let leased = send(Method::POST, &format!("{queue}/leases"), body).await;
        leased.is(200)[0].clone()
    };
    let push = async |event: Value| {
        let body = json!({"events": [event]});
        let pushed = send(Method::POST, &format!("{queue}/events"), body).await;
        pushed.is(201)[0]["id"].as_str().unwrap().to_owned()
    };
    let mut secrets = Secrets::default();
    for outcome in ["ack", "bury", ""] {
        secrets
            .ids
            .push(push(json!({"payload": "resplendent", "attempts": 1})).await);
        let leased = lease().await;
        let token = leased["token"].as_str().unwrap().to_owned();
        if outcome.is_empty() {
            secrets.lease = token;
            continue;
        }
        let path = format!("/v1/{OTHER}/leases/{token}/settle");
        send(Method::POST, &path, json!({"outcome": outcome}))
            .await
            .is(204);
    }
    let keyed = json!({"payload": "resplendent", "key": "k", "delay_ms": 86_400_000,
        "idempotency_key": "once"});
    secrets.ids.push(push(keyed).await);
    secrets
        .ids
        .push(push(json!({"payload": "resplendent"})).await);
    send(Method::PATCH, &queue, json!({"rate": 17.0}))
        .await
        .is(204);
    let webhook = json!({"url": "https://quetzal.example/hook"});
    let set = send(
        Method::PUT,
        &format!("/v1/{OTHER}/queues/hooked/webhook"),
        webhook,
    )
    .await;
    assert!(set.status.is_success(), "{set:?}");
    for (name, when) in [(QUEUE, "every 1d phase 7h"), ("own", "0 0 1 1 *")] {
        let schedule = json!({"queue": "recurs", "when": when, "payload": "resplendent"});
        let path = format!("/v1/{OTHER}/schedules/{name}");
        send(Method::PUT, &path, schedule).await.is(201);
    }
    secrets
}

/// A request of the tenant.
struct Tried {
    method: Method,
    path: String,
    body: Option<(&'static str, String)>,
}

/// The bodies of an operation.
fn bodies(operation: &str, secrets: &Secrets) -> Vec<Option<Value>> {
    let id = &secrets.ids[0];
    let settle = |outcome: &str| Some(json!({"outcome": outcome}));
    match operation {
        "pushEvents" => {
            let one = |event: Value| Some(json!({"events": [event]}));
            vec![
                one(json!({"payload": 1, "id": secrets.ids[4], "delay_ms": 3_600_000})),
                one(json!({"payload": 2, "idempotency_key": "once", "delay_ms": 3_600_000})),
                one(json!({"payload": 3, "key": "k", "delay_ms": 3_600_000})),
            ]
        }
        "pushEventLines" => vec![Some(
            json!({"payload": 4, "id": secrets.ids[4], "delay_ms": 3_600_000}),
        )],
        "call" => vec![Some(
            json!({"event": {"payload": 1, "delay_ms": 3_600_000}, "wait_ms": 0}),
        )],
        "changeEvent" => vec![
            Some(json!({"delay_ms": 1_000})),
            Some(json!({"payload": 1})),
        ],
        "changeEvents" => {
            let change = |body: Value| Some(body);
            vec![
                change(json!({"action": "cancel", "key": "k"})),
                change(json!({"action": "count", "contains": "resplendent"})),
                change(json!({"action": "run_now", "queue": QUEUE})),
            ]
        }
        "eraseEvents" => vec![
            Some(json!({"key": "k"})),
            Some(json!({"key": "k", "queue": QUEUE, "cancel": true})),
        ],
        "replayRecords" => vec![
            Some(json!({"name": "one"})),
            Some(json!({"name": "one", "key": "k", "error": "resplendent", "dry_run": true})),
        ],
        "leaseEvents" => vec![Some(json!({"ttr_ms": 1_000, "max": 10}))],
        "settleLease" => ["ack", "retry", "release", "bury"].map(settle).to_vec(),
        "extendLease" => vec![Some(json!({"ttr_ms": 1_000}))],
        "changeQueue" => vec![Some(json!({"paused": false})), Some(json!({"rate": 5.0}))],
        "reviveDeadLetters" | "dropDeadLetters" => vec![Some(json!({"ids": [id]}))],
        "setWebhook" => vec![Some(json!({"url": "https://own.example/hook"}))],
        "setSchedule" => [QUEUE, "recurs"]
            .map(|queue| Some(json!({"queue": queue, "when": "0 2 1 1 *", "payload": 1})))
            .to_vec(),
        "purgeQueue" => vec![Some(json!({}))],
        "getEvent" | "cancelEvent" | "explainEvent" | "getReply" | "listQueues" | "getOverview"
        | "getQueue" | "forecastQueue" | "listRecords" | "listDeadLetters" | "getWebhook"
        | "removeWebhook" | "listWebhooks" | "streamLeases" | "drainStream" | "listAudit"
        | "listEvents" | "listNodes" | "listSchedules" | "getSchedule" | "pauseSchedule"
        | "resumeSchedule" | "runSchedule" | "removeSchedule" => {
            vec![None]
        }
        other => panic!("{other} is new: say here which bodies it takes"),
    }
}

fn queries(operation: &str, secrets: &Secrets) -> Vec<String> {
    let id = &secrets.ids[1];
    match operation {
        "getReply" => vec!["?wait_ms=0".to_owned()],
        "forecastQueue" => vec!["?horizon_ms=90000000&step_ms=9000000".to_owned()],
        "listRecords" => vec![
            String::new(),
            "?limit=1".to_owned(),
            "?error=resplendent&limit=1".to_owned(),
            "?outcome=buried&limit=1".to_owned(),
            format!("?id={id}"),
        ],
        "listDeadLetters" => vec![
            String::new(),
            "?limit=1".to_owned(),
            "?error=resplendent".to_owned(),
        ],
        "listQueues" | "getOverview" | "listWebhooks" | "listSchedules" => {
            vec![String::new(), "?limit=1".to_owned()]
        }
        _ => vec![String::new()],
    }
}

/// Every request of the description, filled in.
fn of_description(description: &Value, secrets: &Secrets) -> Vec<Tried> {
    let mut tried = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let operation = operation["operationId"].as_str().unwrap();
            let method: Method = method.to_uppercase().parse().unwrap();
            for path in filled(path, secrets) {
                for query in queries(operation, secrets) {
                    for body in bodies(operation, secrets) {
                        let kind = match operation {
                            "pushEventLines" => "application/x-ndjson",
                            _ => "application/json",
                        };
                        let body = body.map(|body| (kind, body.to_string()));
                        tried.push(Tried {
                            method: method.clone(),
                            path: format!("{path}{query}"),
                            body,
                        });
                    }
                }
            }
        }
    }
    tried
}

/// The paths that a template means, in the own namespace and in the other's.
fn filled(template: &str, secrets: &Secrets) -> Vec<String> {
    let mut paths = vec![template.to_owned()];
    let token_of_own = secrets.lease.replace(OTHER, OWN);
    let mut fill = |name: &str, values: &[&str]| {
        let name = format!("{{{name}}}");
        let fill = |path: &String| -> Vec<String> {
            if path.contains(&name) {
                values
                    .iter()
                    .map(|value| path.replace(&name, value))
                    .collect()
            } else {
                vec![path.clone()]
            }
        };
        paths = paths.iter().flat_map(fill).collect();
    };
    fill("namespace", &[OWN, OTHER]);
    fill("queue", &TRIED);
    fill("schedule", &TRIED);
    let ids: Vec<&str> = secrets.ids.iter().map(String::as_str).collect();
    fill("id", &ids);
    fill("token", &[&secrets.lease, &token_of_own]);
    paths
}

/// Every request of the contract of lmstfy.
fn of_contract(secrets: &Secrets) -> Vec<Tried> {
    let mut tried = Vec::new();
    let mut add = |method: Method, path: String, body: Option<&str>| {
        let body = body.map(|body| ("text/plain", body.to_owned()));
        tried.push(Tried { method, path, body });
    };
    for namespace in [OWN, OTHER] {
        for queue in TRIED {
            let path = format!("/api/{namespace}/{queue}");
            for id in &secrets.ids {
                let job = format!("{path}/job/{id}");
                add(Method::GET, job.clone(), None);
                add(Method::PUT, format!("{job}?delay=3600"), Some("x"));
                add(Method::DELETE, job, None);
            }
            for end in ["", "/peek", "/deadletter"] {
                add(Method::GET, format!("{path}{end}"), None);
            }
            if namespace == OWN {
                // These are public: whoever knows the names may ask.
                add(Method::GET, format!("{path}/size"), None);
                add(Method::GET, format!("{path}/deadletter/size"), None);
            }
            add(Method::PUT, format!("{path}?delay=3600"), Some("x"));
            add(Method::PUT, format!("{path}/bulk?delay=3600"), Some("[1]"));
            add(Method::PUT, format!("{path}/deadletter?limit=9"), None);
            add(Method::DELETE, format!("{path}/deadletter?limit=9"), None);
            add(Method::DELETE, path, None);
        }
        add(Method::GET, format!("/api/{namespace}/own,{QUEUE}"), None);
    }
    tried
}

async fn responses(world: &World, secrets: &Secrets) -> BTreeMap<String, String> {
    let token = world.new_token(OWN, "&scopes=publish,consume,admin").await;
    let with_token = |request: RequestBuilder| request.header("X-Token", &token);
    let own = with_token(
        world
            .client
            .put(world.api_url(&format!("/api/{OWN}/own?delay=3600"))),
    );
    reply(own.body("x")).await.is(201);
    let description = world.client.get(world.api_url("/v1/openapi.json"));
    let description = reply(description).await.is(200);
    let tried = of_description(&description, secrets);
    let tried = tried.into_iter().chain(of_contract(secrets));
    let mut responses = BTreeMap::new();
    for (number, Tried { method, path, body }) in tried.enumerate() {
        if path.contains("/leases/stream") {
            continue; // it has no end; its refusals are those of a lease
        }
        let mut request = with_token(world.client.request(method.clone(), world.api_url(&path)));
        let mut said = String::new();
        if let Some((kind, body)) = body {
            said.clone_from(&body);
            request = request.header("Content-Type", kind).body(body);
        }
        let response = reply(request).await;
        let named = |name: &str| response.text.contains(name) && !path.contains(name);
        // The other's rate, and not the seconds of a time.
        let mut rates = response.text.match_indices("17.0");
        let has_rate = rates.any(|(at, _)| !response.text[..at].ends_with(':'));
        assert!(
            !named("acmea") && !named("resplendent") && !has_rate,
            "{method} {path} {said}: {response:?}"
        );
        let headers: Vec<&str> = response.headers.keys().map(|name| name.as_str()).collect();
        let shape = shape(&response.text, &secrets.ids);
        let response = format!("{} {headers:?} {shape}", response.status);
        responses.insert(format!("{number:05} {method} {path} {said}"), response);
    }
    responses
}

async fn the_other_makes_no_difference(world: World) {
    let secrets = fill(&world).await;
    let beside = responses(&world, &secrets).await;
    let alone = World::start(Place::Embedded).await;
    let alone = responses(&alone, &secrets).await;
    assert!(beside.len() > 300, "{}", beside.len());
    let differ = beside
        .iter()
        .filter(|(request, response)| alone[*request] != **response);
    let differ: Vec<String> = differ
        .map(|(request, response)| format!("{request}\n  {response}\n  {}", alone[request]))
        .collect();
    assert!(
        differ.is_empty(),
        "{} differ:\n{}",
        differ.len(),
        differ.join("\n")
    );
    // And nothing of it was changed.
    let token = world.new_token(OTHER, "").await;
    let queue = world
        .client
        .get(world.api_url(&format!("/v1/{OTHER}/queues/{QUEUE}")));
    let stats = reply(queue.header("X-Token", &token)).await.is(200);
    let counts = ["scheduled", "ready", "leased", "dead"].map(|of| stats[of].clone());
    assert_eq!(counts, [1, 1, 1, 1].map(Value::from), "{stats}");
    assert_eq!(stats["rate"], 17.0, "{stats}");
    let schedules = world
        .client
        .get(world.api_url(&format!("/v1/{OTHER}/schedules")));
    let kept = reply(schedules.header("X-Token", token)).await.is(200);
    assert_eq!(kept["items"].as_array().map(Vec::len), Some(2), "{kept}");
    for schedule in kept["items"].as_array().unwrap() {
        assert_eq!(schedule["payload"], "resplendent", "{kept}");
        assert_eq!(schedule["paused_ms"], Value::Null, "{kept}");
    }
}

/// Two namespaces may have events under the same id; each has its own history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_the_same_id_is_another_one() {
    let world = World::start(Place::Redis).await;
    let id = "01KBKSY8Q3X4H1W9V0T5RZ7M2C";
    let mut tokens = Vec::new();
    for namespace in [OWN, OTHER] {
        let token = world.new_token(namespace, "").await;
        let send = async |path: String, body: Value| {
            let post = world
                .client
                .post(world.api_url(&format!("/v1/{namespace}/{path}")));
            let post = post.header("X-Token", &token);
            let post = post.header("Content-Type", "application/json");
            reply(post.body(body.to_string())).await
        };
        let event = json!({"events": [{"payload": 1, "id": id, "attempts": 1}]});
        send("queues/q/events".to_owned(), event).await.is(201);
        let lease = json!({"ttr_ms": 60_000, "wait_ms": 8_000});
        let leased = send("queues/q/leases".to_owned(), lease).await.is(200);
        let lease = leased[0]["token"].as_str().unwrap();
        let bury = json!({"outcome": "bury", "reason": format!("because of {namespace}")});
        send(format!("leases/{lease}/settle"), bury).await.is(204);
        tokens.push(token);
    }
    for path in [
        format!("queues/q/events/{id}/reply"),
        format!("queues/q/explanations/{id}"),
        format!("queues/q/records?id={id}"),
        "queues/q/dead-letters".to_owned(),
    ] {
        let get = world
            .client
            .get(world.api_url(&format!("/v1/{OWN}/{path}")));
        let seen = reply(get.header("X-Token", &tokens[0])).await.text;
        assert!(
            seen.contains("because of acme") && !seen.contains(OTHER),
            "{path}: {seen}"
        );
    }
}
