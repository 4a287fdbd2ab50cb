//! Promise 8: what is left of a bus that is gone, and who may end it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{ORDERS, World, secs};

over_every_store! {
    a_queue_of_a_bus_that_is_gone_accepts_nothing,
    a_handler_cannot_shut_down_the_bus_that_waits_for_it,
}

async fn a_queue_of_a_bus_that_is_gone_accepts_nothing(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    let before = queue.push(1, secs(60)).await.unwrap();
    drop(bus);
    let refused = [
        queue.push(2, When::Now).await.map(drop),
        queue.push_many(3..5, secs(0)).await.map(drop),
        queue.cancel(before.id()).await.map(drop),
        queue.get(before.id()).await.map(drop),
        queue.call::<()>(6, secs(1)).await,
        queue.publish(7).await,
        queue.reschedule(before.id(), secs(1)).await.map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    let error = queue.push(8, When::Now).await.unwrap_err().to_string();
    assert!(error.contains("keep the bus"), "{error}");
    if !world.is_embedded() {
        let buckets = world.store.buckets().await.unwrap();
        assert_eq!(buckets.len(), 1, "what was accepted before is there");
    }
}

async fn a_handler_cannot_shut_down_the_bus_that_waits_for_it(world: World) {
    let refused = Arc::<Mutex<Option<duly::Error>>>::default();
    let probe = Probe::<u64>::running({
        let refused = Arc::clone(&refused);
        move |_event, cx| {
            let (bus, refused) = (cx.bus().clone(), Arc::clone(&refused));
            async move {
                let error = bus.shutdown(secs(3_600)).await.err();
                *refused.lock().unwrap() = error;
                Ok(())
            }
        }
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.push(1, When::Now).await.unwrap();
    bus.settle().await;
    let error = refused.lock().unwrap().take().expect("it was refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("waits for the handler"),
        "{error}"
    );
    queue.push(2, When::Now).await.expect("the bus runs on");
}

/// On real time: the store's thread writes what is left and lets go of the file.
#[tokio::test]
#[allow(clippy::disallowed_methods)] // real time: this waits for a thread
async fn the_file_is_free_although_a_queue_outlives_its_bus() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("duly.db").display());
    let builder = || Bus::builder().publish_only().store_url(&url);
    let queue = {
        let bus = builder().journal_url("off").start().await.unwrap();
        bus.queue_named::<u64>("orders").unwrap()
    };
    let error = queue.push(1, When::Now).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let began = Instant::now();
    let bus = loop {
        match builder().journal_url("off").start().await {
            Ok(bus) => break bus,
            Err(error) => assert!(began.elapsed() < secs(60), "{error}"),
        }
        tokio::task::yield_now().await;
    };
    bus.shutdown(secs(5)).await.unwrap();
    drop(queue);
}
