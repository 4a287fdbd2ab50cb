//! Deliveries that wait for their turn: what is changed meanwhile, and whom they keep waiting.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::receiver::{Answer, Receiver};
use super::{LOCAL, path, push, push_one, send, set_to, view, wait_for_empty};
use crate::rights::tenant;
use crate::servers::Redis;
use crate::world::{Place, World, reply, until};

fn events(many: usize) -> Value {
    let event = |number| json!({"payload": number, "attempts": 9});
    (0..many).map(event).collect()
}

/// Waits until so many deliveries of the queue `q` run or wait.
async fn wait_for_deliveries(world: &World, many: usize) {
    until("they are leased", async || {
        view(world).await["in_flight"] == many
    })
    .await;
}

/// Has a request of another queue take the only place, once the webhook of `q` waits for events.
async fn take_the_place(world: &World) -> Receiver {
    let receiver = Receiver::start().await;
    receiver.always(Answer::Held(200));
    let body = json!({"url": receiver.url(), "timeout_ms": 600_000});
    send(world, Method::PUT, &path("first"), &body)
        .await
        .is(201);
    world.wait_for_polls(2).await;
    let body = json!({"events": events(1)});
    send(world, Method::POST, "/v1/ns/queues/first/events", &body)
        .await
        .is(201);
    receiver.wait_for(1).await;
    receiver
}

/// Sets a webhook, and uses its rate up, so that a delivery waits for a quarter of an hour.
async fn wait_for_the_rate(world: &World, receiver: &Receiver) {
    let slow = json!({"rate": 0.001});
    set_to(world, receiver, slow.clone()).await;
    push_one(world).await;
    receiver.wait_for(1).await;
    wait_for_empty(world).await;
    // The pace of this server begins anew, the rate that all servers share does not.
    world.delete(&path("q")).await.is(204);
    set_to(world, receiver, slow).await;
    push_one(world).await;
    wait_for_deliveries(world, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_its_turn_is_posted_to_the_url_that_is_set_by_then() {
    let settings = format!("{LOCAL}concurrency = 1");
    let world = World::start_with(Place::Embedded, &settings).await;
    let (old, new) = (Receiver::start().await, Receiver::start().await);
    set_to(&world, &old, json!({})).await;
    let first = take_the_place(&world).await;
    push(&world, events(4)).await;
    wait_for_deliveries(&world, 1).await;
    set_to(&world, &new, json!({})).await;
    first.release(1);
    let received = new.wait_for(4).await;
    assert!(received.iter().all(|request| request.attempt() == 1));
    wait_for_empty(&world).await;
    assert_eq!((old.received().len(), new.received().len()), (0, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_ended_while_it_waits_for_its_turn_is_not_sent() {
    let settings = format!("{LOCAL}concurrency = 1\nttr_ms = 1000");
    let world = World::start_with(Place::Embedded, &settings).await;
    let second = Receiver::start().await;
    set_to(&world, &second, json!({})).await;
    let first = take_the_place(&world).await;
    let ids = push(&world, events(1)).await;
    wait_for_deliveries(&world, 1).await;
    world
        .delete(&format!("/api/ns/q/job/{}", ids[0]))
        .await
        .is(204);
    wait_for_deliveries(&world, 0).await;
    first.release(1);
    wait_for_empty(&world).await;
    // One that is pushed later has its turn later.
    push_one(&world).await;
    let received = second.wait_for(1).await;
    assert_eq!(received.len(), 1);
    assert_ne!(received[0].id(), ids[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_the_rate_of_a_webhook_follows_a_change_of_it() {
    let world = World::start_with(Place::Embedded, LOCAL).await;
    let receiver = Receiver::start().await;
    wait_for_the_rate(&world, &receiver).await;
    set_to(&world, &receiver, json!({})).await;
    receiver.wait_for(2).await;
    wait_for_empty(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_waits_for_its_rate_takes_no_place_of_another() {
    let settings = format!("{LOCAL}concurrency = 1");
    let world = World::start_with(Place::Embedded, &settings).await;
    let (slow, quick) = (Receiver::start().await, Receiver::start().await);
    wait_for_the_rate(&world, &slow).await;
    let body = json!({"url": quick.url()});
    send(&world, Method::PUT, &path("other"), &body)
        .await
        .is(201);
    let body = json!({"events": events(5)});
    send(&world, Method::POST, "/v1/ns/queues/other/events", &body)
        .await
        .is(201);
    quick.wait_for(5).await;
    assert_eq!(slow.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_whose_requests_hang_leaves_places_to_the_webhooks_of_others() {
    let settings = format!("{LOCAL}concurrency = 8");
    let world = World::start_with(Place::Embedded, &settings).await;
    let hangs = Receiver::start().await;
    hangs.always(Answer::Held(200));
    let hanging = json!({"concurrency": 100, "timeout_ms": 600_000});
    set_to(&world, &hangs, hanging).await;
    push(&world, events(40)).await;
    hangs.wait_for(4).await;
    wait_for_deliveries(&world, 4).await;
    // Others find places all the same, though theirs hang as well.
    for namespace in ["second", "third"] {
        let receiver = Receiver::start().await;
        receiver.always(Answer::Held(200));
        let other = tenant(&world, namespace, "").await;
        let path = |end: &str| format!("/v1/{namespace}/queues/q/{end}");
        let body = json!({"url": receiver.url(), "timeout_ms": 600_000});
        let set = other.send(Method::PUT, &path("webhook"), &body).await;
        set.is(201);
        let body = json!({"events": events(9)});
        let pushed = other.send(Method::POST, &path("events"), &body).await;
        pushed.is(201);
        receiver.wait_for(1).await;
    }
    hangs.release(40);
    hangs.wait_for(40).await;
    wait_for_empty(&world).await;
    assert_eq!(hangs.in_flight().1, 4, "one namespace has half of them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_hold_no_events_for_which_there_is_no_place() {
    const QUEUES: usize = 6;
    let settings = format!("{LOCAL}concurrency = 8");
    for is_set_first in [true, false] {
        let world = World::start_with(Place::Embedded, &settings).await;
        let (hangs, other) = (Receiver::start().await, Receiver::start().await);
        hangs.always(Answer::Held(200));
        let set = async || {
            let body = json!({"url": hangs.url(), "concurrency": 256, "timeout_ms": 600_000});
            for queue in 0..QUEUES {
                let path = path(&format!("q{queue}"));
                send(&world, Method::PUT, &path, &body).await.is(201);
            }
        };
        if is_set_first {
            set().await;
            world.wait_for_polls(QUEUES).await;
        }
        for queue in 0..QUEUES {
            let path = format!("/v1/ns/queues/q{queue}/events");
            let body = json!({"events": events(30)});
            send(&world, Method::POST, &path, &body).await.is(201);
        }
        if !is_set_first {
            set().await;
        }
        hangs.wait_for(4).await;
        // Another one is served meanwhile, so that there was time for more.
        let tenant = tenant(&world, "other", "").await;
        let body = json!({"url": other.url()});
        let set = tenant.send(Method::PUT, "/v1/other/queues/q/webhook", &body);
        set.await.is(201);
        let body = json!({"events": events(40)});
        let pushed = tenant.send(Method::POST, "/v1/other/queues/q/events", &body);
        pushed.await.is(201);
        other.wait_for(40).await;
        let mut held = 0;
        for queue in 0..QUEUES {
            let path = path(&format!("q{queue}"));
            let shown = world.get(&path).await.is(200);
            held += shown["in_flight"].as_u64().unwrap();
        }
        // Those that wait for events have one each, which has come meanwhile.
        let most = 4 + if is_set_first { QUEUES as u64 } else { 0 };
        assert!((4..=most).contains(&held), "{held} events are leased");
        assert_eq!(hangs.received().len(), 4);
    }
}

/// Namespaces of a pool whose store hangs have as many webhooks as there are places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_of_a_store_that_hangs_leave_places_to_those_of_another() {
    let redis = Redis::plain();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let pool = format!("[pools.second]\nurl = '{}'\n", redis.url());
    let settings = format!("{pool}{LOCAL}concurrency = 8");
    let world = World::start_at(folder, url, &settings).await;
    let hanging = Receiver::start().await;
    let mut tenants = Vec::new();
    for namespace in ["a", "b", "c", "d"] {
        let tenant = tenant(&world, namespace, "&pool=second").await;
        let path = format!("/v1/{namespace}/queues/q/events");
        let body = json!({"events": events(9)});
        tenant.send(Method::POST, &path, &body).await.is(201);
        tenants.push((namespace, tenant));
    }
    redis.stop_process();
    // A request that the store holds up ends when its time is over, and not later than those of the
    // webhooks: the others do not wait for that.
    let (_, first) = &tenants[0];
    let held = first.request(Method::GET, "/v1/a/queues/q");
    let held = tokio::spawn(reply(held));
    // They are set at once, and answered when the store has a line of that.
    let mut setting = JoinSet::new();
    for (namespace, tenant) in &tenants {
        let path = format!("/v1/{namespace}/queues/q/webhook");
        let body = json!({"url": hanging.url(), "concurrency": 100}).to_string();
        let put = tenant.request(Method::PUT, &path);
        setting.spawn(reply(
            put.header("Content-Type", "application/json").body(body),
        ));
        until("the webhook is set", async || {
            reply(tenant.request(Method::GET, &path)).await.status == 200
        })
        .await;
    }
    let quick = Receiver::start().await;
    set_to(&world, &quick, json!({})).await;
    push(&world, events(9)).await;
    quick.wait_for(9).await;
    assert!(!held.is_finished(), "others have waited for the store");
    assert_eq!(hanging.received().len(), 0);
    redis.cont();
    hanging.wait_for(4 * 9).await;
}
