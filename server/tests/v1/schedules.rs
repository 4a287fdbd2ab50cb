//! Schedules: what is set recurs, and whose it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use super::send;
use crate::rights::{Tenant, tenant};
use crate::world::{Place, World, on_every_store, reply, until};

on_every_store! {
    a_schedule_is_set_shown_paused_run_and_removed
    the_occurrences_of_a_schedule_are_leased
    schedules_are_listed_page_by_page
    a_payload_is_kept_byte_by_byte
    a_token_of_a_queue_has_the_schedules_of_that_queue
}

const NIGHTLY: &str = "/v1/ns/schedules/nightly";

fn nightly() -> Value {
    json!({"queue": "report", "when": "0 2 * * * Europe/Berlin", "payload": {"of": "sales"},
        "missed": "all(3)", "overlap": "allow", "jitter_ms": 5_000.0, "exclude": ["2026-12-25"]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_large_schedules_ends_after_16_mib() {
    const LARGE: usize = 270;
    let world = World::start(Place::Embedded).await;
    let payload = json!("x".repeat(65_000));
    let body = json!({"queue": "report", "when": "0 2 29 2 * UTC", "payload": payload});
    for number in 0..LARGE {
        put(&world, &format!("s{number:03}"), &body).await.is(201);
    }
    let (mut names, mut next) = (Vec::new(), String::new());
    for _ in 0..2 {
        let page = world
            .get(&format!("/v1/ns/schedules?limit=1000{next}"))
            .await;
        let page = page.is(200);
        let items = page["items"].as_array().unwrap();
        assert!((1..LARGE).contains(&items.len()), "{}", items.len());
        assert!(items.iter().all(|item| item["payload"] == payload));
        names.extend(
            items
                .iter()
                .map(|item| item["name"].as_str().unwrap().to_owned()),
        );
        next = match page["next"].as_str() {
            Some(next) => format!("&after={next}"),
            None => String::new(),
        };
    }
    assert_eq!(next, "", "two pages are all");
    let all: Vec<_> = (0..LARGE).map(|number| format!("s{number:03}")).collect();
    assert_eq!(names, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_tokens_that_set_one_name_at_once_on_two_servers_one_has_it() {
    let world = World::start(Place::Redis).await;
    let other = world.another().await;
    let a = tenant(&world, "ns", "&queues=a").await;
    let b = Tenant(&other, world.new_token("ns", "&queues=b").await);
    for round in 0..30 {
        let path = format!("/v1/ns/schedules/s{round}");
        let of = |queue: &str| json!({"queue": queue, "when": "0 2 29 2 * UTC"});
        let (of_a, of_b) = (of("a"), of("b"));
        let set_by_a = a.send(Method::PUT, &path, &of_a);
        let set_by_b = b.send(Method::PUT, &path, &of_b);
        let (by_a, by_b) = tokio::join!(set_by_a, set_by_b);
        let statuses = [by_a.status.as_u16(), by_b.status.as_u16()];
        let (winner, loser) = match statuses {
            [201, 403] => ("a", &b),
            [403, 201] => ("b", &a),
            _ => panic!("{round}: {statuses:?}"),
        };
        let shown = world.get(&path).await.is(200);
        assert_eq!(shown["queue"], winner, "{round}");
        // What it may not see, the other one does not change.
        for action in ["pause", "resume", "run"] {
            let path = format!("{path}/{action}");
            let acted = loser.send(Method::POST, &path, &Value::Null).await;
            acted.is(404);
        }
    }
}

async fn put(world: &World, name: &str, body: &Value) -> crate::world::Reply {
    let path = format!("/v1/ns/schedules/{name}");
    send(world, Method::PUT, &path, body).await
}

async fn post(world: &World, action: &str) -> crate::world::Reply {
    let path = format!("{NIGHTLY}/{action}");
    send(world, Method::POST, &path, &Value::Null).await
}

async fn a_schedule_is_set_shown_paused_run_and_removed(world: World) {
    world.get(NIGHTLY).await.is(404);
    let set = put(&world, "nightly", &nightly()).await.is(201);
    for (field, value) in [
        ("name", json!("nightly")),
        ("queue", json!("report")),
        ("when", json!("0 2 * * * Europe/Berlin")),
        ("meaning", json!("At 02:00, Europe/Berlin")),
        ("payload", json!({"of": "sales"})),
        ("missed", json!("all(3)")),
        ("overlap", json!("allow")),
        ("jitter_ms", json!(5_000)),
        ("exclude", json!(["2026-12-25"])),
        ("only", Value::Null),
        ("paused_ms", Value::Null),
        ("declared_ms", Value::Null),
        ("declaration_gone", json!(false)),
    ] {
        assert_eq!(set[field], value, "{field}: {set}");
    }
    assert_eq!(set["next"].as_array().map(Vec::len), Some(10), "{set}");
    let clock = set["next"][0]["clock"].as_str().unwrap();
    assert!(clock.contains(" 02:00:00 +0"), "{clock}");
    let why = set["explanation"].as_str().unwrap();
    assert!(why.starts_with(&format!("next at {clock}")), "{why}");
    // The next occurrence is pushed ahead, and is an event of the queue.
    until("the next occurrence is pushed", async || {
        let shown = world.get(NIGHTLY).await.is(200);
        shown["ahead"][0] == shown["next"][0] && shown["changing"] == false
    })
    .await;
    assert_eq!(scheduled(&world, "report").await, 1);

    post(&world, "pause").await.is(204);
    let paused = world.get(NIGHTLY).await.is(200);
    assert!(paused["paused_ms"].is_u64(), "{paused}");
    assert_eq!(paused["next"], json!([]));
    until("what was to come is taken back", async || {
        scheduled(&world, "report").await == 0
    })
    .await;
    // Also a paused one is run on request, with its payload.
    let run = post(&world, "run").await.is(201);
    let event = format!(
        "/v1/ns/queues/report/events/{}",
        run["id"].as_str().unwrap()
    );
    let event = world.get(&event).await.is(200);
    assert_eq!(event["key"], "ns.nightly");
    assert_eq!(event["headers"]["duly-schedule"], "ns.nightly");
    let payload = event["payload_base64"].as_str().unwrap();
    assert_eq!(STANDARD.decode(payload).unwrap(), br#"{"of":"sales"}"#);
    // Other options leave it paused.
    let other = json!({"queue": "report", "when": "every 15m"});
    let set = put(&world, "nightly", &other).await.is(200);
    assert!(set["paused_ms"].is_u64(), "{set}");
    assert_eq!(set["payload"], Value::Null);
    post(&world, "resume").await.is(204);
    assert_eq!(world.get(NIGHTLY).await.is(200)["paused_ms"], Value::Null);

    world.delete(NIGHTLY).await.is(204);
    world.get(NIGHTLY).await.is(404);
    world.delete(NIGHTLY).await.is(404);
    for action in ["pause", "resume", "run"] {
        let unknown = post(&world, action).await.is(404);
        assert_eq!(unknown["detail"], "there is no schedule ns.nightly");
    }
    let audit = world.admin(Method::GET, "/audit").await.is(200);
    let lines = audit["items"].as_array().unwrap().iter().rev();
    let done: Vec<_> = lines
        .filter(|line| line["target"] == "default/ns/schedules/nightly")
        .map(|line| line["action"].as_str().unwrap())
        .collect();
    let all = ["set", "paused", "run", "set", "resumed", "removed"];
    assert_eq!(done, all.map(|what| format!("schedule {what}")));
}

async fn scheduled(world: &World, queue: &str) -> u64 {
    let path = format!("/v1/ns/queues/{queue}");
    let stats = world.get(&path).await.is(200);
    stats["scheduled"].as_u64().unwrap()
}

async fn the_occurrences_of_a_schedule_are_leased(world: World) {
    let often = json!({"queue": "often", "when": "every 1s"});
    put(&world, "often", &often).await.is(201);
    let mut seen: Vec<u64> = Vec::new();
    while seen.len() < 3 {
        let lease = json!({"ttr_ms": 60_000, "wait_ms": 8_000});
        let leased = send(&world, Method::POST, "/v1/ns/queues/often/leases", &lease).await;
        for event in leased.is(200).as_array().unwrap() {
            let payload = STANDARD.decode(super::of(event, "payload_base64")).unwrap();
            let payload: Value = serde_json::from_slice(&payload).unwrap();
            assert_eq!(payload["schedule"], "ns.often");
            let instant = &event["headers"]["duly-instant"];
            seen.push(instant.as_str().unwrap().parse().unwrap());
        }
    }
    let steps: Vec<_> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| step % 1_000 == 0), "{seen:?}");
    assert!(steps.iter().all(|step| *step > 0), "{seen:?}");
}

async fn schedules_are_listed_page_by_page(world: World) {
    let other = tenant(&world, "nt", "").await;
    for name in ["a", "d"] {
        let body = json!({"queue": "q", "when": "@daily"});
        let path = format!("/v1/nt/schedules/{name}");
        other.send(Method::PUT, &path, &body).await.is(201);
    }
    let list = async |query: &str| world.get(&format!("/v1/ns/schedules{query}")).await;
    assert_eq!(list("").await.is(200), json!({"items": [], "next": null}));
    for name in ["c", "e", "a", "b", "d"] {
        put(&world, name, &nightly()).await.is(201);
    }
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|it| super::of(it, "name")).collect()
    };
    let all = list("").await.is(200);
    assert_eq!(names(&all), ["a", "b", "c", "d", "e"]);
    assert_eq!(all["next"], Value::Null);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("?limit=2{after}")).await.is(200);
        seen.extend(names(&page));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        assert_eq!(Some(next), seen.last().map(String::as_str));
        after = format!("&after={next}");
    }
    assert_eq!(seen, names(&all));
    for wrong in ["?limit=0", "?limit=1001", "?page=2", "?after=a.b"] {
        list(wrong).await.is(400);
    }
}

/// The text of a payload is what a client has written, in what is shown and in what is pushed.
async fn a_payload_is_kept_byte_by_byte(world: World) {
    for payload in [
        r#"{"z":1,"a":  [1.50, 1e400, 123456789012345678901234567890],"z":2}"#,
        "\"\\u00e9 é \\/ \u{1f600}\"",
        "null",
        " [ ] ",
        "0.10",
    ] {
        let body = format!(r#"{{"queue":"q","when":"@yearly","payload":{payload}}}"#);
        let request = world.request(Method::PUT, "/v1/ns/schedules/kept");
        let request = request.header("Content-Type", "application/json");
        let set = reply(request.body(body)).await;
        assert!(set.status.is_success(), "{set:?}");
        let payload = payload.trim(); // space around a value is none of it
        let shown = format!(r#""payload":{payload},"#);
        assert!(set.text.contains(&shown), "{payload}: {}", set.text);
        let get = world.get("/v1/ns/schedules/kept").await;
        assert!(get.text.contains(&shown), "{payload}: {}", get.text);
        let run = world.request(Method::POST, "/v1/ns/schedules/kept/run");
        let run = reply(run).await.is(201);
        let event = format!("/v1/ns/queues/q/events/{}", super::of(&run, "id"));
        let event = world.get(&event).await.is(200);
        let bytes = STANDARD
            .decode(super::of(&event, "payload_base64"))
            .unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), payload);
    }
}

async fn a_token_of_a_queue_has_the_schedules_of_that_queue(world: World) {
    let report = tenant(&world, "ns", "&queues=report").await;
    let mail = tenant(&world, "ns", "&queues=mail").await;
    let reader = tenant(&world, "ns", "&scopes=consume").await;
    let publisher = tenant(&world, "ns", "&scopes=publish").await;
    let other = tenant(&world, "ns2", "").await;
    let send = async |tenant: &Tenant<'_>, method: Method, path: &str, body: &Value| {
        let reply = tenant.send(method, path, body).await;
        (reply.status.as_u16(), reply.text)
    };
    let set = send(&report, Method::PUT, NIGHTLY, &nightly()).await;
    assert_eq!(set.0, 201, "{set:?}");
    let none = Value::Null;
    let actions = [
        (Method::POST, "/pause"),
        (Method::POST, "/resume"),
        (Method::DELETE, ""),
    ];
    // Of another queue: it is not there, and its name is nobody else's.
    for (method, action) in actions
        .iter()
        .chain(&[(Method::GET, ""), (Method::POST, "/run")])
    {
        let path = format!("{NIGHTLY}{action}");
        let found = send(&mail, method.clone(), &path, &none).await;
        assert_eq!(found.0, 404, "{method} {path}: {found:?}");
        let found = send(&other, method.clone(), &path, &none).await;
        assert_eq!(found.0, 401, "{method} {path}: {found:?}");
    }
    let to_mail = json!({"queue": "mail", "when": "@daily"});
    for (tenant, body) in [(&mail, &to_mail), (&mail, &nightly()), (&report, &to_mail)] {
        let set = send(tenant, Method::PUT, NIGHTLY, body).await;
        assert_eq!(set.0, 403, "{set:?}");
    }
    let list = send(&mail, Method::GET, "/v1/ns/schedules", &none).await;
    assert_eq!(list, (200, r#"{"items":[],"next":null}"#.to_owned()));
    // A scope of each kind of action.
    for (method, action) in &actions {
        for tenant in [&reader, &publisher] {
            let path = format!("{NIGHTLY}{action}");
            let refused = send(tenant, method.clone(), &path, &none).await;
            assert_eq!(refused.0, 403, "{method} {path}: {refused:?}");
        }
    }
    for (tenant, run, get) in [(&reader, 403, 200), (&publisher, 201, 403)] {
        let run_path = format!("{NIGHTLY}/run");
        let done = send(tenant, Method::POST, &run_path, &none).await;
        assert_eq!(done.0, run, "{done:?}");
        let shown = send(tenant, Method::GET, NIGHTLY, &none).await;
        assert_eq!(shown.0, get, "{shown:?}");
        let set = send(tenant, Method::PUT, NIGHTLY, &nightly()).await;
        assert_eq!(set.0, 403, "{set:?}");
    }
    // Who sets one pushes, and for longer than any limit counts.
    let operator = tenant(&world, "ns", "&scopes=admin").await;
    let both = tenant(&world, "ns", "&scopes=publish,admin").await;
    let limited = tenant(&world, "ns", "&scopes=publish,admin").await;
    let limit = format!("/token/ns/{}/limit", limited.1);
    let pushes = r#"{"write":1,"interval":3600}"#;
    world.admin_with(Method::PUT, &limit, pushes).await.is(200);
    for (tenant, status) in [(&operator, 403), (&limited, 403), (&both, 200)] {
        let set = send(tenant, Method::PUT, NIGHTLY, &nightly()).await;
        assert_eq!(set.0, status, "{set:?}");
    }
    let kept = world.get(NIGHTLY).await.is(200);
    assert_eq!(
        (&kept["queue"], &kept["paused_ms"]),
        (&json!("report"), &none)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_schedule_is_refused_in_words() {
    let world = World::start(Place::Embedded).await;
    let with = |field: &str, value: Value| {
        let mut body = nightly();
        body[field] = value;
        body
    };
    for (body, status, words) in [
        (with("when", json!("61 * * * *")), 400, "write minute, hour"),
        (
            with("when", json!("0 9 * * * Europe/Munich")),
            400,
            "there is no time zone",
        ),
        (with("when", json!("every 0s")), 400, "from 1s to"),
        (with("queue", json!("other.report")), 400, "letters, digits"),
        (with("queue", json!("")), 400, "letters, digits"),
        (with("missed", json!("all(0)")), 400, "1 to 1000"),
        (with("overlap", json!("never")), 400, "`allow`, `skip`"),
        (with("jitter_ms", json!(86_400_001)), 400, "a day"),
        (with("jitter_ms", json!(0.5)), 422, "whole number"),
        (with("exclude", json!(["2026-02-30"])), 400, "no date"),
        (
            with("payload", json!("x".repeat(65_536))),
            400,
            "65538 bytes",
        ),
        (with("pattern", json!(1)), 422, "unknown field `pattern`"),
        (json!({"queue": "q"}), 422, "missing field `when`"),
    ] {
        let problem = put(&world, "nightly", &body).await.is(status);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{words}: {detail}");
    }
    put(
        &world,
        "nightly",
        &with("payload", json!("x".repeat(65_534))),
    )
    .await
    .is(201);
    put(&world, "no.dots", &nightly()).await.is(400);
    put(&world, &"x".repeat(197), &nightly()).await.is(201);
    put(&world, &"x".repeat(198), &nightly()).await.is(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_that_changes_all_the_time_is_always_there() {
    let world = World::start(Place::Embedded).await;
    let change = async |name: &str| {
        for number in 0..100 {
            let body = json!({"queue": "q", "when": "@yearly", "payload": number});
            let set = put(&world, name, &body).await;
            assert!(set.status.is_success(), "{number}: {set:?}");
            let shown = world.get(&format!("/v1/ns/schedules/{name}")).await.is(200);
            assert_eq!(shown["payload"], number, "{shown}");
        }
    };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    futures_util::future::join_all(names.map(change)).await;
}
