//! The audit is in the store, bounded, and no queue of anybody.

use duly::admin::AuditLine;
use duly::prelude::*;
use duly::{Bus, QueueName};

use crate::world::{World, secs};

over_every_store! {
    who_did_what_is_kept_by_the_store,
}

fn actions(lines: &[AuditLine]) -> Vec<&str> {
    lines.iter().map(|line| &*line.action).collect()
}

async fn who_did_what_is_kept_by_the_store(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    queue.push(7, secs(3_600)).await.unwrap();
    for action in ["queue paused", "rate of queue set", "queue resumed"] {
        bus.add_to_audit("ann", action, "orders").await.unwrap();
        bus.advance(secs(1)).await;
    }
    let page = bus.audit(None, 2).await.unwrap();
    assert_eq!(actions(&page.items), ["queue resumed", "rate of queue set"]);
    let line = &page.items[0];
    assert_eq!((&*line.actor, &*line.target), ("ann", "orders"));
    let rest = bus.audit(page.next, 2).await.unwrap();
    assert_eq!(
        (actions(&rest.items), rest.next),
        (vec!["queue paused"], None)
    );
    assert_eq!(
        bus.queues().await.unwrap(),
        [QueueName::new("orders").unwrap()]
    );
    assert_eq!(bus.stats_page(None, 10).await.unwrap().items.len(), 1);
    assert_eq!(bus.events().page().await.unwrap().items.len(), 1);
    for (actor, action) in [("", "x"), ("ann", ""), (&*"a".repeat(129), "x")] {
        let error = bus.add_to_audit(actor, action, "orders").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn the_audit_is_bounded_and_the_oldest_lines_go() {
    let bus = Bus::builder()
        .settings(Default::default())
        .store_url("memory:");
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    for number in 0..10_600 {
        bus.add_to_audit("ann", &format!("action {number}"), "orders")
            .await
            .unwrap();
    }
    let (mut all, mut before) = (0, None);
    loop {
        let page = bus.audit(before, 1_000).await.unwrap();
        all += page.items.len();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert!((10_000..=10_256).contains(&all), "{all}");
    let newest = bus.audit(None, 100).await.unwrap();
    assert!(
        newest
            .items
            .iter()
            .any(|line| line.action == "action 10599")
    );
    bus.shutdown(secs(1)).await.unwrap();
}
