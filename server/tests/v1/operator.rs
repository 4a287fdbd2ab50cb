//! What an operator does: lists of queues, settings, filters.

use reqwest::Method;
use serde_json::{Value, json};

use super::{push, send};
use crate::world::{World, on_every_store};

on_every_store! {
    queues_are_listed_page_by_page
    queues_are_counted_page_by_page
    workers_and_buckets_have_bounds
    many_events_are_changed_by_who_administers_them
    a_person_is_erased_by_who_administers_all_of_it
    dead_letters_and_records_are_filtered
    records_are_replayed_by_who_administers_the_queue
}

async fn queues_are_listed_page_by_page(world: World) {
    for queue in ["c", "a", "b"] {
        world.publish(&format!("/api/ns/{queue}"), "x").await;
    }
    let list = async |query: &str| world.get(&format!("/v1/ns/queues{query}")).await;
    let all = list("").await.is(200);
    assert_eq!(all, json!({"items": ["a", "b", "c"], "next": null}));
    let first = list("?limit=2").await.is(200);
    assert_eq!(first, json!({"items": ["a", "b"], "next": "b"}));
    let second = list("?limit=2&after=b").await.is(200);
    assert_eq!(second, json!({"items": ["c"], "next": null}));
    list("?limit=0").await.is(400);
    list("?limit=1001").await.is(400);
    list("?page=2").await.is(400);
    list("?after=0.5").await.is(400);
}

async fn queues_are_counted_page_by_page(world: World) {
    for queue in ["b", "a", "c"] {
        let delay = if queue == "a" { "?delay=600" } else { "" };
        world.publish(&format!("/api/ns/{queue}{delay}"), "x").await;
    }
    // Queues beside those of the namespace, in the order of names: before, between, after.
    for (namespace, queue) in [("nr", "z"), ("ns-", "a"), ("nt", "a")] {
        let token = world.new_token(namespace, "").await;
        let request = world.client.request(
            Method::PUT,
            world.api_url(&format!("/api/{namespace}/{queue}")),
        );
        let request = request.header("X-Token", token).body("x");
        crate::world::reply(request).await.is(201);
    }
    send(
        &world,
        Method::PATCH,
        "/v1/ns/queues/b",
        &json!({"rate": 2.5}),
    )
    .await
    .is(204);
    let read = async |query: &str| world.get(&format!("/v1/ns/overview{query}")).await;
    let all = read("").await.is(200);
    let names = |page: &Value| -> Vec<Value> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|it| it["queue"].clone()).collect()
    };
    assert_eq!(names(&all), ["a", "b", "c"], "{all}");
    let count = |at: usize, state: &str| all["items"][at][state].as_u64().unwrap();
    assert_eq!(count(0, "scheduled"), 1, "{all}");
    assert_eq!(count(1, "scheduled") + count(1, "ready"), 1, "{all}");
    assert_eq!((count(1, "ended"), count(1, "dead")), (0, 0), "{all}");
    assert_eq!(all["items"][1]["rate"], 2.5, "{all}");
    assert_eq!((&all["nodes"], &all["next"]), (&json!(0), &Value::Null));
    let first = read("?limit=2").await.is(200);
    assert_eq!(
        (names(&first), &first["next"]),
        (names(&all)[..2].to_vec(), &json!("b"))
    );
    let second = read("?limit=2&after=b").await.is(200);
    assert_eq!(
        (names(&second), &second["next"]),
        (vec![json!("c")], &Value::Null)
    );
    // A token for some queues sees those, though others are between them.
    let some = world.new_token("ns", "&queues=a,c").await;
    let read = async |path: &str| {
        let request = world.client.get(world.api_url(path));
        let request = request.header("X-Token", some.as_str());
        crate::world::reply(request).await.is(200)
    };
    let first = read("/v1/ns/overview?limit=2").await;
    assert_eq!(
        (names(&first), &first["next"]),
        (vec![json!("a")], &json!("a"))
    );
    let second = read("/v1/ns/overview?limit=2&after=a").await;
    assert_eq!(
        (names(&second), &second["next"]),
        (vec![json!("c")], &Value::Null)
    );
    assert_eq!(read("/v1/ns/queues").await["items"], json!(["a", "c"]));
    world.get("/v1/ns/overview?limit=1001").await.is(400);
    world.get("/v1/ns/overview?after=0.5").await.is(400);
    world.get("/v1/other/overview").await.is(401);
}

async fn workers_and_buckets_have_bounds(world: World) {
    push(&world, json!({"payload": 1, "delay_ms": 60_000})).await;
    let path = "/v1/ns/queues/q";
    let set = async |change: Value| send(&world, Method::PATCH, path, &change).await;
    let shown = async || {
        let shown = world.get(path).await.is(200);
        (shown["workers"].clone(), shown["buckets"].clone())
    };
    set(json!({"workers": 3.0, "buckets": 4})).await.is(204);
    assert_eq!(shown().await, (json!(3), json!(4)));
    for change in [
        json!({"workers": 1_025}),
        json!({"buckets": 1_025, "workers": 7}),
    ] {
        let problem = set(change).await.is(400);
        assert!(problem["detail"].as_str().unwrap().contains("1 to 1024"));
    }
    assert_eq!(shown().await, (json!(3), json!(4)), "nothing is changed");
    set(json!({"workers": 0, "buckets": 0})).await.is(204);
    assert_eq!(shown().await, (Value::Null, Value::Null));
    let audit = world.admin(Method::GET, "/audit").await.text;
    assert!(audit.contains("workers of queue set") && audit.contains("buckets of queue set"));
}

async fn dead_letters_and_records_are_filtered(world: World) {
    for (key, reason) in [("a", "no such order"), ("b", "the bank is closed")] {
        push(&world, json!({"payload": 1, "key": key})).await;
        let leased = super::lease(&world, json!({"ttr_ms": 30_000, "wait_ms": 10_000})).await;
        let buried = json!({"outcome": "bury", "reason": reason});
        super::settle(&world, &leased[0], buried).await.is(204);
    }
    for (query, expected) in [
        ("", 2),
        ("?error=bank", 1),
        ("?cause=failed", 2),
        ("?cause=panicked", 0),
        ("?key=a", 1),
        ("?since_ms=4000000000000", 0),
        ("?until_ms=1000", 0),
    ] {
        for list in ["dead-letters", "records"] {
            let path = format!("/v1/ns/queues/q/{list}{query}");
            let page = world.get(&path).await.is(200);
            let items = page["items"].as_array().unwrap();
            assert_eq!(items.len(), expected, "{path}: {items:?}");
            assert!(items.iter().all(|item| item["cause"] == "failed"));
        }
    }
    // A span without records hides no wrong parameter.
    for wrong in ["limit=1001", "limit=0", "after=x"] {
        let path = format!("/v1/ns/queues/q/records?since_ms=9&until_ms=8&{wrong}");
        world.get(&path).await.is(400);
    }
    for list in ["dead-letters", "records"] {
        let path = format!("/v1/ns/queues/q/{list}?since_ms=9&until_ms=8");
        assert_eq!(world.get(&path).await.is(200)["items"], json!([]));
    }
    for wrong in [
        "cause=bad",
        "error=",
        "since_ms=-1",
        "until_ms=9000000000000",
    ] {
        for list in ["dead-letters", "records"] {
            let path = format!("/v1/ns/queues/q/{list}?{wrong}");
            world.get(&path).await.is(400);
        }
    }
}

/// Sends a body with a token.
async fn with_token(world: &World, token: &str, path: &str, body: &Value) -> crate::world::Reply {
    let request = world.client.request(Method::POST, world.api_url(path));
    let request = request.header("X-Token", token);
    let request = request.header("Content-Type", "application/json");
    let request = request.body(body.to_string());
    crate::world::reply(request).await
}

async fn many_events_are_changed_by_who_administers_them(world: World) {
    for queue in ["a", "b"] {
        for _ in 0..7 {
            world
                .publish(&format!("/api/ns/{queue}?delay=600"), "x")
                .await;
        }
    }
    let path = "/v1/ns/events/change";
    let change = async |body: Value| send(&world, Method::POST, path, &body).await;
    for body in [
        json!({"action": "cancel"}),
        json!({"action": "cancel", "queue": "a", "delay_ms": 5}),
        json!({"action": "reschedule", "queue": "a"}),
        json!({"action": "reschedule", "queue": "a", "delay_ms": 5, "due_ms": 5}),
        json!({"action": "cancel", "queue": "a", "limit": 0}),
        json!({"action": "cancel", "queue": "a", "after": "x"}),
        json!({"action": "cancel", "key": "k", "unique": "u"}),
        json!({"action": "bury", "queue": "a"}),
    ] {
        let reply = change(body.clone()).await;
        assert!(
            [400, 422].contains(&reply.status.as_u16()),
            "{body}: {reply:?}"
        );
    }
    let counted = change(json!({"action": "count", "state": "scheduled"}))
        .await
        .is(200);
    assert_eq!(
        (&counted["matched"], &counted["changed"]),
        (&json!(14), &json!(0))
    );
    let some = world.new_token("ns", "&queues=a").await;
    let all = json!({"action": "cancel", "state": "scheduled"});
    with_token(
        &world,
        &some,
        path,
        &json!({"action": "cancel", "queue": "b"}),
    )
    .await
    .is(403);
    let done = with_token(&world, &some, path, &all).await.is(200);
    assert_eq!(done["changed"], 7, "those of its own queue");
    let counted = change(json!({"action": "count", "state": "scheduled"})).await;
    assert_eq!(counted.is(200)["matched"], 7, "that of the other is left");
    let none = world.new_token("ns", "&scopes=publish").await;
    with_token(&world, &none, path, &all).await.is(403);
    // A request that goes on with what was never begun has a line, too, and the next one has none.
    for _ in 0..2 {
        let body = json!({"action": "cancel", "state": "scheduled", "after": "ns.b/0/"});
        change(body).await.is(200);
    }
    assert_eq!(lines_of(&world, "events cancelled").await, 2);
}

/// Returns how many lines of the audit are of an action.
pub(super) async fn lines_of(world: &World, action: &str) -> usize {
    let audit = world.get("/v1/ns/audit").await.is(200);
    let lines = audit["items"].as_array().expect("lines").iter();
    lines.filter(|line| line["action"] == action).count()
}

async fn a_person_is_erased_by_who_administers_all_of_it(world: World) {
    let path = "/v1/ns/events/erase";
    let some = world.new_token("ns", "&queues=q").await;
    let body = json!({"key": "customer:8"});
    let refused = with_token(&world, &some, path, &body).await.is(403);
    assert!(
        refused["detail"].as_str().unwrap().contains("give `queue`"),
        "{refused}"
    );
    let body = json!({"key": "customer:8", "queue": "b"});
    with_token(&world, &some, path, &body).await.is(403);
    let of_queue = json!({"key": "customer:8", "queue": "q"});
    push(
        &world,
        json!({"payload": 1, "key": "customer:8", "delay_ms": 600_000}),
    )
    .await;
    let refused = with_token(&world, &some, path, &of_queue).await.is(409);
    assert!(
        refused["detail"].as_str().unwrap().contains("waits"),
        "{refused}"
    );
    let body = json!({"key": "customer:8", "queue": "q", "cancel": true});
    let done = with_token(&world, &some, path, &body).await.is(200);
    assert_eq!(done["cancelled"], 1);
    send(&world, Method::POST, path, &json!({"key": ""}))
        .await
        .is(400);
    send(
        &world,
        Method::POST,
        path,
        &json!({"key": "k", "after": "x"}),
    )
    .await
    .is(400);
    send(&world, Method::POST, path, &json!({"key": "k"}))
        .await
        .is(200);
    for _ in 0..2 {
        let goes_on = json!({"key": "never begun", "after": "records"});
        send(&world, Method::POST, path, &goes_on).await.is(200);
    }
    assert_eq!(lines_of(&world, "events of a key erased").await, 3);
}

async fn records_are_replayed_by_who_administers_the_queue(world: World) {
    let path = "/v1/ns/queues/q/records/replay";
    for number in 0..6 {
        let event = json!({"payload": number, "key": format!("k{}", number % 2),
            "keep_payload": number != 5, "delay_ms": 600_000});
        let id = super::of(&push(&world, event).await, "id");
        let path = format!("/v1/ns/queues/q/events/{id}");
        send(&world, Method::DELETE, &path, &json!(null))
            .await
            .is(204);
    }
    let replay = async |body: Value| send(&world, Method::POST, path, &body).await;
    let some = world.new_token("ns", "&queues=other").await;
    with_token(&world, &some, path, &json!({"name": "one"}))
        .await
        .is(403);
    let publishes = world.new_token("ns", "&scopes=publish").await;
    with_token(&world, &publishes, path, &json!({"name": "one"}))
        .await
        .is(403);
    for wrong in [
        json!({}),
        json!({"name": ""}),
        json!({"name": "n".repeat(129)}),
        json!({"name": "one", "limit": 0}),
        json!({"name": "one", "after": "x"}),
        json!({"name": "one", "outcome": "nope"}),
    ] {
        let reply = replay(wrong.clone()).await;
        assert!(
            [400, 422].contains(&reply.status.as_u16()),
            "{wrong}: {reply:?}"
        );
    }
    let dry = replay(json!({"name": "one", "dry_run": true}))
        .await
        .is(200);
    assert_eq!(
        (&dry["pushed"], &dry["without_payload"]),
        (&json!(5), &json!(1))
    );
    let ready = async || world.get("/v1/ns/queues/q").await.is(200)["ready"].clone();
    assert_eq!(ready().await, 0, "nothing was pushed");
    let of_key = json!({"name": "one", "key": "k0", "outcome": "cancelled"});
    assert_eq!(replay(of_key).await.is(200)["pushed"], 3);
    assert_eq!(ready().await, 3);
    // In steps, up to the time that the first of them has said: no end is after it began.
    let to_come = 4_102_444_800_000_u64;
    let (mut sums, mut body) = (
        [0, 0, 0],
        json!({"name": "one", "limit": 2, "until_ms": to_come}),
    );
    loop {
        let step = replay(body.clone()).await.is(200);
        let counts = ["pushed", "repeated", "without_payload"].map(|it| step[it].as_u64());
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count.unwrap();
        }
        body["until_ms"] = step["until_ms"].clone();
        assert!(body["until_ms"].as_u64() < Some(to_come), "{step}");
        body["after"] = step["next"].clone();
        if body["after"].is_null() {
            break;
        }
    }
    assert_eq!(sums, [2, 3, 1]);
    let leased = super::lease(&world, json!({"ttr_ms": 30_000, "max": 10})).await;
    assert_eq!(leased.len(), 5);
    assert!(
        leased
            .iter()
            .all(|it| it["headers"]["duly-replay-of"].is_string()),
        "{leased:?}"
    );
    assert_eq!(lines_of(&world, "records replayed").await, 2);
}
