//! The webhooks of `/v1`: set, shown, listed, removed, and who may.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::receiver::{Answer, Receiver};
use super::{LOCAL, path, push, push_one, send, set, set_to, view, wait_for_empty};
use crate::world::{Place, World, on_every_store, until};

on_every_store! {
    a_webhook_is_set_shown_listed_and_removed
}

async fn a_webhook_is_set_shown_listed_and_removed(world: World) {
    let body = json!({
        "url": "https://hooks.shop.test/x?key=hidden", "concurrency": 3, "rate": 5.5,
        "timeout_ms": 2_000, "headers": {"authorization": "Bearer hidden"}, "paused": true,
    });
    let created = set(&world, body.clone()).await.is(201);
    let secret = created["created_secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_"), "{created}");
    let seen = view(&world).await;
    assert_eq!(seen["url"], "https://hooks.shop.test/x?...");
    assert_eq!(seen["headers"], json!(["authorization"]));
    assert_eq!(
        (&seen["secrets"], &seen["paused"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(
        (&seen["concurrency"], &seen["rate"]),
        (&json!(3), &json!(5.5))
    );
    assert_eq!(
        (&seen["state"], &seen["in_flight"]),
        (&json!("closed"), &json!(0))
    );
    let changed = set(&world, body.clone()).await.is(200);
    assert_eq!(changed["created_ms"], created["created_ms"]);
    send(&world, Method::PUT, &path("other"), &body)
        .await
        .is(201);
    let listed = world.get("/v1/ns/webhooks").await.is(200);
    let queues: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|webhook| &webhook["queue"])
        .collect();
    assert_eq!(queues, ["other", "q"]);
    for text in [seen.to_string(), changed.to_string(), listed.to_string()] {
        assert!(
            !text.contains("hidden") && !text.contains("whsec_"),
            "{text}"
        );
    }
    world.delete(&path("q")).await.is(204);
    world.delete(&path("q")).await.is(404);
    world.get(&path("q")).await.is(404);
    world.delete(&path("other")).await.is(204);
    assert_eq!(world.get("/v1/ns/webhooks").await.is(200), json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_webhook_is_refused_with_a_problem() {
    let world = World::start(crate::world::Place::Embedded).await;
    let url = "https://shop.test/";
    for (body, status, text) in [
        (json!({}), 422, "missing field `url`"),
        (
            json!({"url": url, "secret": "x"}),
            422,
            "unknown field `secret`",
        ),
        (json!({"url": url, "concurrency": 0}), 400, "1 to 256"),
        (json!({"url": url, "rate": 0}), 400, "10000"),
        (json!({"url": url, "timeout_ms": 1}), 400, "600000"),
        (json!({"url": url, "secrets": []}), 400, "1 or 2"),
        (
            json!({"url": url, "secrets": ["whsec_AAAA"]}),
            400,
            "24 to 64 bytes",
        ),
        (
            json!({"url": url, "headers": {"host": "x"}}),
            400,
            "host is set by duly",
        ),
        (
            json!({"url": "https://a:b@shop.test/"}),
            400,
            "authorization",
        ),
    ] {
        let reply = set(&world, body).await;
        assert_eq!(reply.headers["content-type"], "application/problem+json");
        let problem = reply.is(status);
        assert!(
            problem["detail"].as_str().unwrap().contains(text),
            "{problem}"
        );
    }
    let description = world.get("/v1/openapi.json").await.is(200);
    let webhook = &description["paths"]["/v1/{namespace}/queues/{queue}/webhook"];
    assert!(webhook["put"].is_object() && webhook["delete"].is_object());
    let fields = &description["components"]["schemas"]["WebhookBody"]["properties"];
    assert_eq!(fields["concurrency"]["maximum"], 256);
    assert_eq!(fields["secrets"]["maxItems"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_administer_a_queue_sets_no_webhook_and_sees_no_path_of_one() {
    let mut world = World::start(crate::world::Place::Embedded).await;
    let body = json!({"url": "https://shop.test/secret"});
    set(&world, body.clone()).await.is(201);
    assert_eq!(view(&world).await["url"], "https://shop.test/secret");
    let listed = world.get("/v1/ns/webhooks").await.is(200);
    assert_eq!(listed[0]["url"], "https://shop.test/secret");
    world.token = world
        .new_token("ns", "&scopes=publish,consume&queues=q")
        .await;
    set(&world, body.clone()).await.is(403);
    world.delete(&path("q")).await.is(403);
    // A path may be a secret, as a query may.
    assert_eq!(view(&world).await["url"], "https://shop.test/...");
    let listed = world.get("/v1/ns/webhooks").await.is(200);
    let listed = [&listed[0]["queue"], &listed[0]["url"]];
    assert_eq!(listed, ["q", "https://shop.test/..."]);
    world.token = world.new_token("ns", "&queues=other").await;
    world.get(&path("q")).await.is(403);
    assert_eq!(world.get("/v1/ns/webhooks").await.is(200), json!([]));
    world.token = "nobody".to_owned();
    world.get("/v1/ns/webhooks").await.is(401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_consume_a_queue_sends_its_events_nowhere() {
    let mut world = World::start(Place::Embedded).await;
    let body = json!({"url": "https://shop.test/"});
    set(&world, body.clone()).await.is(201);
    world.token = world.new_token("ns", "&scopes=admin,publish").await;
    for queue in ["q", "other"] {
        let refused = send(&world, Method::PUT, &path(queue), &body).await;
        let detail = refused.is(403)["detail"].to_string();
        assert!(detail.contains("consume"), "{detail}");
    }
    world.delete(&path("q")).await.is(204);
    world.token = world.new_token("ns", "&scopes=admin,consume").await;
    set(&world, body).await.is(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_webhook_delivers_when_it_goes_on() {
    let world = World::start_with(crate::world::Place::Embedded, LOCAL).await;
    let receiver = Receiver::start().await;
    set_to(&world, &receiver, json!({"paused": true})).await;
    push_one(&world).await;
    assert_eq!(world.get("/v1/ns/queues/q").await.is(200)["ready"], 1);
    assert!(receiver.received().is_empty());
    set_to(&world, &receiver, json!({"paused": false})).await;
    receiver.wait_for(1).await;
    wait_for_empty(&world).await;
}

/// One namespace does not use up the webhooks of the others, however many it sets at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_has_so_many_webhooks_and_the_others_have_room() {
    let world = World::start(Place::Embedded).await;
    let body = json!({"url": "https://example.com/"});
    let (world, body) = (&world, &body);
    let put = |number: usize| async move {
        let path = path(&format!("q{number}"));
        send(world, Method::PUT, &path, body).await
    };
    let puts = join_all((0..300).map(put)).await;
    let refused: Vec<_> = puts.iter().filter(|put| put.status != 201).collect();
    for full in &refused {
        let detail = full.is(507)["detail"].to_string();
        assert!(
            detail.contains("the namespace has 250 webhooks"),
            "{detail}"
        );
    }
    assert_eq!(refused.len(), 50);
    let token = world.new_token("other", "").await;
    let put_other = world
        .client
        .put(world.api_url("/v1/other/queues/q/webhook"));
    let put_other = put_other
        .header("X-Token", token)
        .header("Content-Type", "application/json");
    crate::world::reply(put_other.body(body.to_string()))
        .await
        .is(201);
    // Each is set again and removed at once, while another one takes its place.
    let set = (0..300).filter(|number| puts[*number].status == 201);
    let changes = set.enumerate().map(|(at, number)| async move {
        let removed = path(&format!("q{number}"));
        tokio::join!(put(number), world.delete(&removed), put(300 + at))
    });
    join_all(changes).await;
    let listed = world.get("/v1/ns/webhooks").await.is(200);
    let count = listed.as_array().unwrap().len();
    assert!(count <= 250, "{count}");
    for number in count..250 {
        put(600 + number).await.is(201);
    }
    put(1_000).await.is(507);
}

/// What the file of a server keeps of webhooks that are disabled.
fn disabled_rows(world: &World) -> (rusqlite::Connection, i64) {
    let path = world.url().strip_prefix("sqlite:").unwrap();
    let file = rusqlite::Connection::open(format!("{path}.server")).unwrap();
    let count = "SELECT count(*) FROM entries WHERE kind = 'webhooks_disabled'";
    let count = file.query_row(count, [], |row| row.get(0)).unwrap();
    (file, count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_removed_while_its_target_says_gone_leaves_nothing() {
    let world = World::start_with(Place::Embedded, LOCAL).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Held(410));
    set_to(&world, &receiver, json!({})).await;
    push(&world, json!([{"payload": 1, "attempts": 1}])).await;
    receiver.wait_for(1).await;
    send(&world, Method::DELETE, &path("q"), &Value::Null)
        .await
        .is(204);
    receiver.release(1);
    until("its event is back", async || {
        world.get("/v1/ns/queues/q").await.is(200)["ready"] == 1
    })
    .await;
    assert_eq!(disabled_rows(&world).1, 0, "nothing is left");
    // What another server has left is removed by the next one that reads.
    let (file, _) = disabled_rows(&world);
    let left = "INSERT INTO entries VALUES ('webhooks_disabled', 'default/ns/gone', '{}')";
    file.execute(left, []).unwrap();
    set_to(&world, &receiver, json!({"paused": true})).await;
    until("nothing is left of it", async || {
        disabled_rows(&world).1 == 0
    })
    .await;
}
