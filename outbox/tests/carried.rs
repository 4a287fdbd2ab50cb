//! The place in a trace that an event carries through an outbox.

use duly::event::TraceContext;
use duly::prelude::*;
use duly_outbox::{PushEventIn, PushIn, Relay, RelayOptions};
use sqlx_0_8::PgPool;

use crate::world::{Order, TestDatabase, eventually, order};

const PLACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Pushes in a transaction in each way that there is.
#[delay_event(queue = "orders", register = false, state(PgPool))]
async fn pushing(event: Event<Order>, cx: &Context) -> Result<(), Failure> {
    let mails = cx.bus().queue_named::<Order>("mails")?;
    let (number, hour) = (
        event.payload.number,
        When::After(std::time::Duration::from_secs(3_600)),
    );
    let mut tx = cx.state::<PgPool>().begin().await?;
    mails.push_in(&mut tx, order(number), hour).await?;
    mails
        .push_many_in(&mut tx, [number + 1, number + 2].map(order), hour)
        .await?;
    let built = mails.event(order(number + 3)).when(hour);
    built.push_in(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_pushes_in_a_transaction_carries_on_the_trace() {
    let database = TestDatabase::new().await;
    let builder = Bus::builder().only_registered().store_url("memory:");
    let builder = builder.register(pushing {}).state(database.pool.clone());
    let bus = builder.start().await.unwrap();
    let options = RelayOptions::default();
    let relay = Relay::sqlx_0_8(&bus, database.pool.clone(), options)
        .await
        .unwrap();
    let orders = bus.queue::<pushing>();
    let traced = orders.event(order(100)).header("traceparent", PLACE);
    // Through the outbox, too.
    let mut tx = database.pool.begin().await.unwrap();
    traced.push_in(&mut tx).await.unwrap();
    orders
        .push_in(&mut tx, order(200), When::Now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let all = async || bus.stats("mails").await.unwrap().scheduled == 8;
    eventually("what the handlers push is in the store", all).await;
    let mails = bus.queue_named::<Order>("mails").unwrap();
    let place = TraceContext::new(PLACE, None);
    assert!(place.is_some());
    for event in mails.events().list(None).await.unwrap().items {
        let stored = mails.get(event.id).await.unwrap().unwrap().body.unwrap();
        let payload = String::from_utf8_lossy(stored.payload.as_bytes()).into_owned();
        let carried = TraceContext::of_headers(&stored.headers);
        let expected = payload.contains(":10").then(|| place.clone()).flatten();
        assert_eq!(carried, expected, "{payload}");
    }
    relay.stop().await;
}
