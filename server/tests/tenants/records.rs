//! What one tenant is told of another: in words, in pages of records, in replies.

use reqwest::Method;
use serde_json::{Value, json};

use crate::rights::tenant;
use crate::world::{Place, World, reply};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_learns_nothing_of_another() {
    let world = World::start(Place::Embedded).await;
    let secret = tenant(&world, "acmea", "").await;
    let other = tenant(&world, "acme", "").await;
    let put = secret.request(Method::PUT, "/api/acmea/payroll-secret-project");
    assert_eq!(reply(put.body("x")).await.status, 201);
    let queue = "/v1/acme/queues/payroll-secret-projec";
    for (method, path, body) in [
        (Method::GET, queue.to_owned(), json!(null)),
        (
            Method::GET,
            format!("{queue}/forecast?horizon_ms=1000&step_ms=100"),
            json!(null),
        ),
        (Method::GET, format!("{queue}/records"), json!(null)),
        (Method::GET, format!("{queue}/dead-letters"), json!(null)),
        (Method::POST, format!("{queue}/purge"), json!({})),
        (
            Method::POST,
            format!("{queue}/dead-letters/revive"),
            json!({}),
        ),
        (Method::PATCH, queue.to_owned(), json!({"rate": 5.0})),
        (Method::GET, "/v1/acme/queues".to_owned(), json!(null)),
        (Method::GET, "/v1/acme/overview".to_owned(), json!(null)),
    ] {
        let answer = other.send(method.clone(), &path, &body).await;
        assert!(
            !answer.text.contains("acmea"),
            "{method} {path}: {answer:?}"
        );
        assert!(
            !answer.text.contains("secret-project\""),
            "{path}: {answer:?}"
        );
    }
    // Its records are found by no page, though an index leads to them.
    let events: Vec<Value> = (0..1_000)
        .map(|_| json!({"payload": 1, "key": "k", "delay_ms": 3_600_000}))
        .collect();
    let queue_of = "/v1/acmea/queues/payroll-secret-project";
    for _ in 0..34 {
        let path = format!("{queue_of}/events");
        let pushed = secret
            .send(Method::POST, &path, &json!({ "events": events }))
            .await;
        assert_eq!(pushed.status, 201, "{pushed:?}");
        let purge = format!("{queue_of}/purge");
        secret.send(Method::POST, &purge, &json!({})).await.is(200);
    }
    let path = format!("{queue}/events");
    let own = json!({"events": [{"payload": 1, "delay_ms": 3_600_000}]});
    other.send(Method::POST, &path, &own).await.is(201);
    other
        .send(Method::POST, &format!("{queue}/purge"), &json!({}))
        .await
        .is(200);
    for more in ["", "&newest_first=true"] {
        let own = format!("{queue_of}/records?key=k&limit=1{more}");
        let own = secret.send(Method::GET, &own, &json!(null)).await.is(200);
        assert!(own["next"].is_string(), "{own}");
        for filter in [
            "key=k",
            "outcome=cancelled&key=k",
            "error=x",
            "cause=failed",
        ] {
            let path = format!("{queue}/records?{filter}{more}");
            let none = other.send(Method::GET, &path, &json!(null)).await.is(200);
            assert_eq!(none["items"], json!([]), "{filter}: {none}");
            assert!(none["next"].is_null(), "{filter}: {none}");
        }
    }
    // A filter finds what is far behind, and each once, whatever the size of a page.
    let last = json!({"events": [
        {"payload": 1, "key": "far", "delay_ms": 3_600_000},
        {"payload": 2, "key": "far", "delay_ms": 3_600_000},
        {"payload": 3, "key": "far", "delay_ms": 3_600_000},
    ]});
    let path = format!("{queue_of}/events");
    let pushed = secret.send(Method::POST, &path, &last).await.is(201);
    let purge = format!("{queue_of}/purge");
    secret.send(Method::POST, &purge, &json!({})).await.is(200);
    for more in ["", "&newest_first=true"] {
        for limit in [1, 2, 3, 100] {
            let (mut seen, mut after) = (Vec::new(), String::new());
            loop {
                let path = format!("{queue_of}/records?key=far&limit={limit}{more}{after}");
                let page = secret.send(Method::GET, &path, &json!(null)).await.is(200);
                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= limit, "{page}");
                seen.extend(items.iter().map(|it| it["id"].to_string()));
                let Some(next) = page["next"].as_str() else {
                    break;
                };
                after = format!("&after={next}");
            }
            seen.sort_unstable();
            let mut all: Vec<_> = (0..3).map(|it| pushed[it]["id"].to_string()).collect();
            all.sort_unstable();
            assert_eq!(seen, all, "{limit}{more}");
        }
    }
    // A rate of a new queue is set before its first event, whatever others are called.
    let set = other
        .send(Method::PATCH, queue, &json!({"rate": 5.0}))
        .await;
    assert_eq!(set.status, 204, "{set:?}");
}
