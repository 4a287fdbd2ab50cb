//! How many queues of a namespace have settings.

use std::ops::Range;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::send;
use crate::dashboard::access::{VISIT, csrf, log_in, session, with_form};
use crate::world::{Place, World, on_every_store, reply};

on_every_store! {
    only_so_many_queues_of_a_namespace_have_settings
}

async fn only_so_many_queues_of_a_namespace_have_settings(world: World) {
    let change = async |queue: &str, change: Value| {
        let path = format!("/v1/ns/queues/{queue}");
        send(&world, Method::PATCH, &path, &change).await
    };
    let change = &change;
    let pause = async |numbers: Range<u32>| {
        let paused = numbers.map(|number| async move {
            let paused = change(&format!("q{number}"), json!({"paused": true})).await;
            paused.status.as_u16()
        });
        join_all(paused).await
    };
    for from in (0..960).step_by(60) {
        assert_eq!(pause(from..from + 60).await, [204; 60]);
    }
    // As many as there may be, however many come at once.
    let at_once = pause(960..1_060).await;
    let of = |status| at_once.iter().filter(|it| **it == status).count();
    assert_eq!((of(204), of(507)), (40, 60));
    for more in [
        json!({"paused": true}),
        json!({"rate": 10}),
        json!({"workers": 1}),
        json!({"buckets": 1}),
    ] {
        let refused = change("more", more).await.is(507);
        assert_eq!(refused["kind"], "full", "{refused}");
    }
    change("more", json!({"paused": false, "rate": 0, "workers": 0}))
        .await
        .is(204);
    change("q7", json!({"rate": 10})).await.is(204);
    let token = world.new_token("other", "").await;
    let url = world.api_url("/v1/other/queues/q");
    let other = world.client.patch(url).header("X-Token", token);
    let other = other.header("Content-Type", "application/json");
    let other = other.body(json!({"paused": true}).to_string());
    reply(other).await.is(204);
    change("q8", json!({"paused": false})).await.is(204);
    change("more", json!({"paused": true})).await.is(204);
}

/// Pauses a queue in the dashboard, or sets its rate, as a browser that has this cookie.
async fn act(world: &World, cookie: &str, action: &str, queue: &str) -> u16 {
    let url = |query: &str| {
        let address = world.server.admin_address();
        format!("http://{address}/dashboard/act/{action}{query}")
    };
    let asked = world.client.get(url(&format!("?queue={queue}")));
    let asked = reply(asked.header("cookie", cookie)).await;
    let form = [
        ("csrf", csrf(&asked.text)),
        ("queue", queue),
        ("rate", "10"),
    ];
    let done = world.client.post(url("")).header("cookie", cookie);
    reply(with_form(done, &form)).await.status.as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_has_no_more_settings_by_the_dashboard() {
    let world = World::start(Place::Embedded).await;
    for number in 0..20 {
        world.publish(&format!("/api/ns/more{number}"), "x").await;
    }
    let pause = json!({"paused": true});
    for number in 0..990 {
        let path = format!("/v1/ns/queues/q{number}");
        let paused = send(&world, Method::PATCH, &path, &pause).await;
        paused.is(204);
    }
    let dashboard = format!("http://{}/dashboard", world.server.admin_address());
    let login = log_in(&dashboard, "ns", &world.token).await;
    let token = format!("{VISIT}; {}", session(&login).unwrap());
    let (world, cookie) = (&world, &token);
    let at_once = (0..20).map(|number| async move {
        let action = ["pause", "rate"][number % 2];
        act(world, cookie, action, &format!("ns.more{number}")).await
    });
    let at_once = join_all(at_once).await;
    let of = |status| at_once.iter().filter(|it| **it == status).count();
    assert_eq!((of(303), of(507)), (10, 10), "{at_once:?}");
    let one = |status| {
        let at = at_once.iter().position(|it| *it == status);
        format!("ns.more{}", at.unwrap())
    };
    let (set, refused) = (one(303), one(507));
    // What has a setting may have others, and an operator may set what is to be set.
    for (cookie, action, queue) in [
        (&*token, "rate", &set),
        (&token, "resume", &refused),
        (VISIT, "pause", &refused),
        (&token, "rate", &refused),
    ] {
        assert_eq!(act(world, cookie, action, queue).await, 303, "{action}");
    }
}
