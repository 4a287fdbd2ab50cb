//! The audit is in the store, bounded, and no queue of anybody.

use std::sync::Arc;

use duly::admin::{AuditFilter, AuditLine};
use duly::prelude::*;
use duly::store::{MemoryStore, Store};
use duly::{Bus, QueueName};

use crate::faulty::Faulty;
use crate::world::{World, secs};

over_every_store! {
    who_did_what_is_kept_by_the_store,
    many_lines_of_many_days_are_read_page_by_page,
    lines_are_found_by_what_who_and_when_among_few_and_many,
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
    bus.add_to_audit("bob", "quiet", "quiet.orders")
        .await
        .unwrap();
    // Another build has written lines that this one cannot read.
    let unreadable = bus.queue_named::<u64>("busy.duly.audit").unwrap();
    let lines = unreadable.push_many(0..600, secs(86_400));
    lines.await.unwrap();
    for number in 0..10_600 {
        bus.add_to_audit("ann", &format!("action {number}"), "busy.orders")
            .await
            .unwrap();
    }
    let quiet = bus.audit_of("quiet", None, 10).await.unwrap();
    assert_eq!(
        actions(&quiet.items),
        ["quiet"],
        "a busy namespace pushes out none of it"
    );
    let (mut all, mut before) = (0, None);
    loop {
        let page = bus.audit(before, 1_000).await.unwrap();
        all += page.items.len();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert!((10_001..=10_257).contains(&all), "{all}");
    let kept = bus.stats("busy.duly.audit").await.unwrap().scheduled;
    assert!((10_000..=10_256).contains(&kept), "{kept}");
    let newest = bus.audit(None, 100).await.unwrap();
    assert!(
        newest
            .items
            .iter()
            .any(|line| line.action == "action 10599")
    );
    bus.shutdown(secs(1)).await.unwrap();
}

/// So many that they are not read at once, with days of many lines, days of none, and a long gap.
async fn many_lines_of_many_days_are_read_page_by_page(world: World) {
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    let mut expected = Vec::new();
    let mut add = async |target: &str| {
        let action = format!("action {}", expected.len());
        bus.add_to_audit("ann", &action, target).await.unwrap();
        bus.advance(secs(1)).await;
        expected.push(action);
    };
    for day in 0..30 {
        let many = [0, 5, 90, 25][day % 4];
        for _ in 0..many {
            add("shop.close").await;
        }
        bus.advance(secs(86_400 - many)).await;
    }
    bus.advance(secs(86_400 * 60)).await;
    for _ in 0..300 {
        add("shop.close, key customer:8").await;
    }
    expected.reverse();
    assert!(expected.len() > 1_000, "{}", expected.len());
    for limit in [7, 100, 1_000] {
        let (mut read, mut before) = (Vec::new(), None);
        loop {
            let page = bus.audit_of("shop", before, limit).await.unwrap();
            assert!(page.items.len() <= limit);
            read.extend(page.items.into_iter().map(|line| line.action));
            let Some(next) = page.next else { break };
            before = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(read, expected, "{limit}");
    }
    let all = bus.audit(None, 10).await.unwrap();
    assert_eq!(actions(&all.items), expected[..10]);
    assert!(
        bus.audit_of("other", None, 10)
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

/// Few lines are read at once, and of many those of a day after the other.
async fn lines_are_found_by_what_who_and_when_among_few_and_many(world: World) {
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    let targets = [
        "shop.close",
        "shop.closed",
        "shop.close/01KBKSY8Q3X4H1W9V0T5RZ7M2C",
        "mail.send",
        "shop.send shop.close, dead letters",
        "schedules/shop.close",
        "shop.*, dead letters",
    ];
    let mut added: Vec<AuditLine> = Vec::new();
    for (days, many) in [(3, 20), (60, 20), (3, 1_200)] {
        for _ in 0..days {
            for number in 0..many / 20 * 7 {
                let actor = ["ann", "bob@web-1"][number % 2];
                let action = ["queue paused", "queue resumed", "rate of queue set"][number % 3];
                let target = targets[number % targets.len()];
                bus.add_to_audit(actor, action, target).await.unwrap();
                bus.advance(secs(1)).await;
            }
            bus.advance(secs(86_400)).await;
        }
        let mut before = None;
        added.clear();
        loop {
            let page = bus.audit(before, 1_000).await.unwrap();
            added.extend(page.items);
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        let texts = |text: &[&str]| -> Vec<Option<String>> {
            let some = text.iter().map(|it| Some((*it).to_owned()));
            [None].into_iter().chain(some).collect()
        };
        let times = || [None, Some(added[added.len() / 3].at)].into_iter();
        for namespace in texts(&["shop", "none"]) {
            for (target, only_target) in [
                (None, false),
                (Some("shop.close"), false),
                (Some("shop.close"), true),
                (Some("shop.close/01KBKSY8Q3X4H1W9V0T5RZ7M2C"), false),
            ] {
                for action in texts(&["paused"]) {
                    for (since, until) in
                        times().flat_map(|since| times().map(move |it| (since, it)))
                    {
                        let filter = AuditFilter {
                            namespace: namespace.clone(),
                            target: target.map(str::to_owned),
                            only_target,
                            actor: action.as_ref().map(|_| "ann".to_owned()),
                            action: action.clone(),
                            since,
                            until,
                        };
                        let expected = added.iter().filter(|line| is_meant(&filter, line));
                        let expected: Vec<_> = expected.cloned().collect();
                        let found = all_matching(&bus, &filter).await;
                        assert_eq!(found, expected, "{filter:?}");
                    }
                }
            }
        }
    }
    assert!(added.len() > 1_400, "{}", added.len());
}

/// Says of a line what the documentation says.
fn is_meant(filter: &AuditFilter, line: &AuditLine) -> bool {
    let is_of_target = |target: &String| match &**target {
        "shop.close" if filter.only_target => [0, 2].contains(&place_of(line)),
        "shop.close" => [0, 2, 4, 6].contains(&place_of(line)),
        _ => [2, 6].contains(&place_of(line)),
    };
    let is_of_namespace = |namespace: &String| namespace == "shop" && place_of(line) != 3;
    filter.namespace.as_ref().is_none_or(is_of_namespace)
        && filter.target.as_ref().is_none_or(is_of_target)
        && filter.actor.as_ref().is_none_or(|it| line.actor == *it)
        && filter
            .action
            .as_ref()
            .is_none_or(|_| line.action == "queue paused")
        && filter.since.is_none_or(|since| line.at >= since)
        && filter.until.is_none_or(|until| line.at < until)
}

fn place_of(line: &AuditLine) -> usize {
    match &*line.target {
        "shop.close" => 0,
        "shop.closed" => 1,
        "mail.send" => 3,
        "schedules/shop.close" => 5,
        "shop.*, dead letters" => 6,
        target if target.contains(',') => 4,
        _ => 2,
    }
}

async fn all_matching(bus: &Bus, filter: &AuditFilter) -> Vec<AuditLine> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = bus.audit_matching(filter, before, 300).await.unwrap();
        assert!(page.next.is_none() || page.items.len() == 300);
        found.extend(page.items);
        before = page.next;
        if before.is_none() {
            return found;
        }
    }
}

/// A page of many namespaces lists the store's buckets once, and asks for each trail twice.
#[tokio::test]
async fn a_page_of_many_namespaces_costs_two_calls_for_each() {
    let near: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let way = Faulty::to(&near);
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.shared_store(Arc::clone(&way) as _).only_registered();
    let bus = bus.publish_only().start().await.unwrap();
    for number in 0..300 {
        let target = format!("tenant-{number}.close");
        let added = bus.add_to_audit("ann", "queue paused", &target).await;
        added.unwrap();
    }
    for limit in [10, 1_000] {
        let before = way.asked();
        let page = bus.audit(None, limit).await.unwrap();
        assert_eq!(page.items.len(), limit.min(300));
        let calls = way.asked() - before;
        assert!(calls <= 2 * 300 + 10, "{limit}: {calls} calls");
    }
    let before = way.asked();
    let page = bus.audit_of("tenant-7", None, 10).await.unwrap();
    assert_eq!(page.items.len(), 1);
    // One more, as no program has done anything in it by itself.
    assert_eq!(way.asked() - before, 4);
}
