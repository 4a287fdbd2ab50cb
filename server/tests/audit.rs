//! The audit: who changed what, when, and from where.

use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, on_every_store, reply};

on_every_store! {
    admin_actions_are_recorded_and_nothing_secret
    the_audit_is_read_page_by_page
    an_operator_leaves_a_line_for_one_event_and_a_program_none
    schedules_are_recorded_for_who_administers_all_queues
}

async fn audit(world: &World, query: &str) -> Value {
    world
        .admin(Method::GET, &format!("/audit{query}"))
        .await
        .is(200)
}

async fn admin_actions_are_recorded_and_nothing_secret(world: World) {
    let token = world.new_token("ns", "").await;
    let path = format!("/token/ns/{token}");
    let limit = r#"{"read":5,"write":5,"interval":1}"#;
    world
        .admin_with(Method::PUT, &format!("{path}/limit"), limit)
        .await
        .is(200);
    world.admin(Method::DELETE, &path).await.is(204);
    let id = world.publish("/api/ns/q", "x").await;
    for change in [
        json!({"paused": true}),
        json!({"paused": false}),
        json!({"rate": 5.0}),
    ] {
        let patch = world.request(Method::PATCH, "/v1/ns/queues/q");
        let patch = patch.header("Content-Type", "application/json");
        reply(patch.body(change.to_string())).await.is(204);
    }
    // Many are revived by many requests, which are one line.
    for action in ["revive", "drop", "revive", "drop"] {
        let path = format!("/v1/ns/queues/q/dead-letters/{action}");
        let post = world
            .request(Method::POST, &path)
            .header("Content-Type", "application/json");
        reply(post.body(json!({"ids": [id]}).to_string()))
            .await
            .is(200);
    }
    world.put("/api/ns/q/deadletter", "").await.is(200);
    world.delete("/api/ns/q/deadletter").await.is(204);
    world.delete("/api/ns/q").await.is(204);

    let page = audit(&world, "").await;
    let items = page["items"].as_array().unwrap();
    let actions: Vec<_> = items
        .iter()
        .rev()
        .map(|item| item["action"].as_str().unwrap())
        .collect();
    assert_eq!(
        actions,
        [
            "token created",
            "token created",
            "limit set",
            "token revoked",
            "queue paused",
            "queue resumed",
            "rate of queue set",
            "dead letters revived",
            "dead letters dropped",
            "dead letters revived",
            "dead letters dropped",
            "queue destroyed",
        ]
    );
    for item in items {
        assert_eq!(item["from"], "127.0.0.1");
        assert!(item["at_ms"].as_u64() > Some(1_700_000_000_000));
        assert!(item["target"].as_str().unwrap().starts_with("default/ns"));
    }
    assert!(items[0]["actor"].as_str().unwrap().starts_with("sha256~"));
    assert_eq!(items[11]["actor"], "anonymous");
    let text = page.to_string();
    assert!(
        !text.contains(&token) && !text.contains(&world.token),
        "{text}"
    );
}

async fn schedules_are_recorded_for_who_administers_all_queues(world: World) {
    let put = world.request(Method::PUT, "/v1/ns/schedules/payroll-cut");
    let put = put.header("Content-Type", "application/json");
    let schedule = json!({"queue": "b", "when": "0 9 * * *", "payload": 1});
    reply(put.body(schedule.to_string())).await.is(201);
    let ask = async |rights: &str, query: &str| {
        let token = world.new_token("ns", rights).await;
        let get = world.api_url(&format!("/v1/ns/audit{query}"));
        reply(world.client.get(get).header("X-Token", token)).await
    };
    let page = ask("&scopes=admin", "").await.is(200);
    assert!(page.to_string().contains("payroll-cut"));
    // What a token for some queues may not see is not told by the place where its next page begins.
    let some = "&scopes=admin&queues=a";
    for target in [
        "",
        "&target=ns.b",
        "&target=ns.b/events",
        "&target=schedules/ns.payroll-cut",
    ] {
        let refused = ask(some, &format!("?limit=1{target}")).await;
        assert_eq!(refused.status, 403, "{target}: {refused:?}");
        assert!(refused.text.contains("token"), "{target}: {refused:?}");
    }
    for (method, path, body) in [
        (Method::PATCH, "queues/a", json!({"paused": true})),
        (Method::POST, "events/erase", json!({"key": "k"})),
    ] {
        let request = world.request(method, &format!("/v1/ns/{path}"));
        let request = request.header("Content-Type", "application/json");
        let done = reply(request.body(body.to_string())).await;
        assert!(done.status.is_success(), "{done:?}");
    }
    let all = ask("&scopes=admin", "?target=ns.a").await.is(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 2, "{all}");
    let page = ask(some, "?limit=1&target=ns.a").await.is(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(page["items"][0]["action"], "queue paused", "{page}");
    assert_eq!(page["next"], Value::Null, "{page}");
}

async fn an_operator_leaves_a_line_for_one_event_and_a_program_none(world: World) {
    let publisher = world.new_token("ns", "&scopes=publish").await;
    let operator = world.new_token("ns", "&scopes=admin").await;
    let id = world.publish("/api/ns/q?delay=600", "x").await;
    let changed = async |token: &str, query: &str, body: Option<Value>| {
        let url = world.api_url(&format!("/v1/ns/queues/q/events/{id}{query}"));
        let request = match body {
            None => world.client.delete(url),
            Some(body) => {
                let patch = world.client.patch(url).body(body.to_string());
                patch.header("Content-Type", "application/json")
            }
        };
        reply(request.header("X-Token", token)).await
    };
    let both = || Some(json!({"payload": 7, "delay_ms": 900_000}));
    changed(&publisher, "", both()).await.is(200);
    changed(&publisher, "?audited=false", both()).await.is(200);
    for (token, query, status) in [
        (&publisher, "?audited=true", 403),
        (&operator, "", 403),
        (&operator, "?audited=yes", 403),
        (&publisher, "?audited=yes", 400),
        (&publisher, "?audit=true", 400),
    ] {
        assert_eq!(
            changed(token, query, both()).await.status,
            status,
            "{query}"
        );
        assert_eq!(changed(token, query, None).await.status, status, "{query}");
    }
    let lines = async || {
        let page = reply(
            world
                .client
                .get(world.api_url("/v1/ns/audit"))
                .header("X-Token", &operator),
        );
        let page = page.await.is(200);
        let items = page["items"].as_array().unwrap().iter().rev();
        let text = |item: &Value| item["action"].as_str().unwrap().to_owned();
        let of_event = format!("ns.q/{id}");
        items
            .inspect(|item| assert_eq!(item["target"], of_event))
            .map(text)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines().await, [""; 0]);
    changed(&operator, "?audited=true", both()).await.is(200);
    changed(&operator, "?audited=true", None).await.is(204);
    let mut found = lines().await;
    found[..2].sort_unstable(); // both may be of one millisecond
    let expected = [
        "event rescheduled",
        "payload of event replaced",
        "event cancelled",
    ];
    assert_eq!(
        found, expected,
        "what was done, and nothing that was refused"
    );
}

async fn the_audit_is_read_page_by_page(world: World) {
    let mut expected = vec!["token created"];
    for _ in 0..3 {
        world.new_token("ns", "").await;
        for paused in [true, false] {
            let patch = world.request(Method::PATCH, "/v1/ns/queues/q");
            let patch = patch.header("Content-Type", "application/json");
            let change = json!({"paused": paused}).to_string();
            reply(patch.body(change)).await.is(204);
        }
        expected.extend(["token created", "queue paused", "queue resumed"]);
    }
    expected.reverse();
    let (mut seen, mut before) = (Vec::new(), String::new());
    loop {
        let page = audit(&world, &format!("?limit=2{before}")).await;
        let items = page["items"].as_array().unwrap().iter();
        seen.extend(items.map(|item| item["action"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(seen, expected, "whoever it was, the newest first");
    world.admin(Method::GET, "/audit?limit=0").await.is(400);
    world.admin(Method::GET, "/audit?before=x").await.is(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_is_for_accounts_where_there_are_some() {
    let accounts = "[admin]\nlisten = '127.0.0.1:0'\naccounts = { ann = 'secret' }\n";
    let settings =
        format!("[api]\nlisten = '127.0.0.1:0'\n{accounts}[pools.default]\nurl = 'memory:'");
    let settings = duly_server::Settings::from_toml(&settings).unwrap();
    let server = duly_server::Server::start(settings).await.unwrap();
    let url = format!("http://{}/audit", server.admin_address());
    let client = crate::world::client();
    assert_eq!(reply(client.get(&url)).await.status, 401);
    let read = reply(client.get(&url).basic_auth("ann", Some("secret"))).await;
    assert_eq!(read.is(200)["items"], json!([]));
    server.stop().await;
}
