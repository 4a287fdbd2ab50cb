//! Bounds: concurrency and rate.

use serde_json::{Value, json};

use super::receiver::{Answer, Receiver};
use super::{LOCAL, push, set_to, wait_for_empty};
use crate::world::{Place, World, until};

fn events(many: usize) -> Value {
    (0..many).map(|number| json!({"payload": number})).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_concurrency_of_a_webhook_is_bounded() {
    let world = World::start_with(Place::Embedded, LOCAL).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Held(200));
    set_to(&world, &receiver, json!({"concurrency": 2})).await;
    push(&world, events(20)).await;
    for done in 0..20 {
        let running = (20 - done).min(2);
        until("as many run as may", async || {
            receiver.in_flight().0 == running && receiver.received().len() == done + running
        })
        .await;
        receiver.release(1);
    }
    wait_for_empty(&world).await;
    assert_eq!(receiver.in_flight().1, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_concurrency_of_all_webhooks_is_bounded() {
    // Of which a namespace alone has half.
    let settings = format!("{LOCAL}concurrency = 5");
    let world = World::start_with(Place::Embedded, &settings).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Held(200));
    set_to(&world, &receiver, json!({"concurrency": 100})).await;
    push(&world, events(20)).await;
    for done in 0..20 {
        until("one more runs", async || {
            receiver.received().len() >= (done + 3).min(20)
        })
        .await;
        receiver.release(1);
    }
    wait_for_empty(&world).await;
    assert_eq!(receiver.in_flight().1, 3);
}

/// Returns the seconds from the first request to the last.
async fn span(receiver: &Receiver, many: usize) -> f64 {
    let received = receiver.wait_for(many).await;
    let times = || received.iter().map(|request| request.at);
    (times().max().unwrap() - times().min().unwrap()).as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rate_of_a_webhook_is_bounded() {
    let world = World::start_with(Place::Embedded, LOCAL).await;
    let receiver = Receiver::start().await;
    set_to(&world, &receiver, json!({"rate": 20.0})).await;
    push(&world, events(21)).await;
    let span = span(&receiver, 21).await;
    assert!(span >= 0.7, "20 after the first, 20 in a second: {span}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_share_the_rate_of_a_webhook() {
    let world = World::start_with(Place::Redis, LOCAL).await;
    let receiver = Receiver::start().await;
    set_to(&world, &receiver, json!({"rate": 10.0})).await;
    let other = world.another_with(LOCAL).await;
    push(&world, events(40)).await;
    let span = span(&receiver, 40).await;
    // Two servers that do not share it need two seconds.
    assert!(
        span >= 2.5,
        "the fourth ten begin after three seconds: {span}"
    );
    drop(other);
}
