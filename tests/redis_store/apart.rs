//! Buses that share a server and nothing else.

use duly::time::When;
use std::time::Duration;

use crate::redis_store::kit::{Read, fresh, pusher, stop, until};
use crate::servers::shared;

#[tokio::test]
async fn two_prefixes_on_one_server_do_not_see_each_other() {
    let (one, _) = fresh(&shared().url());
    let (other, _) = fresh(&shared().url());
    let (read, worker) = Read::start(&other).await;
    let (bus, queue) = pusher(&one).await;
    let (other_bus, other_queue) = pusher(&other).await;
    bus.pause("letters").await.unwrap();
    let mut ids = Vec::new();
    for delay in [0, 1, 60_000] {
        let delay = Duration::from_millis(delay);
        ids.push(queue.push("a".to_owned(), delay).await.unwrap().id());
    }
    let id = other_queue
        .push("b".to_owned(), When::Now)
        .await
        .unwrap()
        .id();
    until("it is handled", async || read.seen().contains_key(&id)).await;
    stop(&worker).await;
    assert_eq!(read.seen().len(), 1);
    for id in ids {
        assert_eq!(other_queue.get(id).await.unwrap(), None);
        assert!(queue.get(id).await.unwrap().is_some());
    }
    assert_eq!(
        other_bus.stats("letters").await.unwrap(),
        Default::default()
    );
    assert!(other_bus.controls().await.unwrap().is_empty());
    let page = bus.records().page().await.unwrap();
    assert!(page.items.is_empty(), "{:?}", page.items);
    stop(&other_bus).await;
    stop(&bus).await;
}
