//! Many schedules: their bound, those of several namespaces, and the list of all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duly::__server::schedules::{is_whole, page_with};
use duly::prelude::*;
use duly::schedule::{OverlapPolicy, ScheduleOptions};
use duly::store::operation::StoreOp;
use duly::store::{MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};

use super::runs::{DAY, Seen, builder, bus, instants, options};
use crate::faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_namespace_has_as_many_schedules_as_it_may_and_takes_nothing_from_others() {
    let seen = Seen::default();
    let bus = TestBus::start(builder(&seen, &[]).schedules_max(3)).await;
    let bus = bus.unwrap();
    let schedules = bus.schedules();
    let hourly = || options("every 1h");
    for number in 0..3 {
        let name = format!("shop.s{number}");
        schedules.set(&name, hourly()).await.unwrap();
    }
    let error = schedules.set("shop.more", hourly()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    let text = error.to_string();
    assert!(
        text.contains("shop.duly.schedules has 3 schedules, and at most 3"),
        "{text}"
    );
    assert_eq!(schedules.get("shop.more").await.unwrap(), None);
    // A change is no other one, and another namespace has its own bound.
    schedules.set("shop.s0", options("every 2h")).await.unwrap();
    for name in ["more", "bank.more", "shop2.more"] {
        schedules.set(name, hourly()).await.unwrap();
    }
    assert!(schedules.remove("shop.s1").await.unwrap());
    bus.settle().await;
    schedules.set("shop.more", hourly()).await.unwrap();
    bus.advance(Duration::from_secs(3_600)).await;
    for name in ["shop.more", "more", "bank.more", "shop2.more"] {
        assert_eq!(instants(&seen, name).len(), 1, "{name}");
    }
}

/// The names of all schedules, or of those of a namespace, by pages of `limit`.
async fn listed(bus: &Bus, namespace: Option<&str>, limit: usize) -> Vec<String> {
    let (mut seen, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let (schedules, from) = (bus.schedules(), after.as_deref());
        let page = match namespace {
            Some(namespace) => schedules.page_of(namespace, from, limit).await,
            None => schedules.page(from, limit).await,
        };
        let page = page.unwrap();
        assert!(page.items.len() <= limit);
        seen.extend(page.items.into_iter().map(|schedule| schedule.name));
        after = page.next;
        if after.is_none() {
            return seen;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_its_own_schedules_and_a_list_of_them_reads_no_others() {
    let (bus, _) = bus(&[]).await;
    let of = |namespace: &str, many: usize| -> BTreeSet<String> {
        let all = (0..many).map(|number| format!("{namespace}s{number}"));
        all.collect()
    };
    let spaces = [("", 30), ("shop.", 40), ("shop.a.", 3), ("shopping.", 9)];
    for name in spaces.iter().flat_map(|(space, many)| of(space, *many)) {
        bus.schedules()
            .set(&name, options("every 1h"))
            .await
            .unwrap();
    }
    bus.advance(DAY).await;
    let expected: BTreeSet<_> = of("shop.", 40)
        .into_iter()
        .chain(of("shop.a.", 3))
        .collect();
    let shop = listed(&bus, Some("shop"), 7).await;
    assert_eq!(shop.len(), 43, "each once");
    assert_eq!(BTreeSet::from_iter(shop), expected);
    assert_eq!(listed(&bus, Some("shopp"), 7).await, [""; 0]);
    let all = listed(&bus, None, 11).await;
    assert_eq!(all.len(), 82);
    assert_eq!(BTreeSet::from_iter(all).len(), 82);
    for wrong in ["", "shop.", "a.b", "ü"] {
        let error = bus.schedules().page_of(wrong, None, 7).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{wrong}: {error}");
    }
}

/// The order of the links is that of their ids, and each look gives a schedule a link of another id.
#[tokio::test(start_paused = true)]
async fn a_list_has_each_schedule_once_while_all_of_them_are_carried_out() {
    const MANY: usize = 9_600; // a bucket has more than one read returns
    let clock = Arc::new(VirtualClock::new());
    let near = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
    let near: Arc<dyn Store> = Arc::new(near);
    let seen = Seen::default();
    let runs = builder(&seen, &[]).shared_store(Arc::clone(&near));
    let runs = TestBus::start_on(Arc::clone(&clock), runs).await.unwrap();
    let faulty = Faulty::to(&near);
    let slow = Bus::builder().publish_only();
    let slow = slow.shared_store(Arc::clone(&faulty) as _);
    let slow = TestBus::start_on(Arc::clone(&clock), slow).await.unwrap();
    let often = ScheduleOptions::new("report", "every 5m").unwrap();
    let often = often.overlap(OverlapPolicy::Skip);
    let names: BTreeSet<_> = (0..MANY).map(|number| format!("s{number}")).collect();
    for name in &names {
        runs.schedules().set(name, often.clone()).await.unwrap();
    }
    runs.advance(MINUTE * 4).await;
    let next = runs.schedules().get("s1").await.unwrap().unwrap();
    let next = next.next().unwrap().since(runs.now());
    runs.advance(next - Duration::from_millis(100)).await;
    // While one list is read, each schedule is carried out.
    faulty.meets(|bucket, op| match op {
        StoreOp::Peek { .. } if bucket.queue.as_str() == "duly.schedules" => {
            Fault::LatePolicy(Duration::from_millis(70))
        }
        _ => Fault::None,
    });
    let listed = listed(&slow, None, 1_000).await;
    assert_eq!(seen.lock().unwrap().len(), MANY, "all were carried out");
    assert_eq!(listed.len(), MANY, "each once");
    assert_eq!(BTreeSet::from_iter(listed), names);
}

#[tokio::test(start_paused = true)]
async fn a_list_may_leave_large_payloads_out() {
    let (bus, _) = bus(&[]).await;
    for (name, len) in [("shop.small", 100), ("shop.large", 2_000), ("bank.s", 10)] {
        // Of a queue that has no handler here, which could not read it.
        let set = ScheduleOptions::new("texts", "every 1h").unwrap();
        let set = set.payload(&"x".repeat(len)).unwrap();
        bus.schedules().set(name, set).await.unwrap();
    }
    let page = page_with(&bus.schedules(), 1_000, Some("shop"), (None, 10)).await;
    let page = page.unwrap();
    let mut listed: Vec<_> = page
        .items
        .iter()
        .map(|it| (&*it.name, is_whole(it)))
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, [("shop.large", false), ("shop.small", true)]);
    for schedule in &page.items {
        let has_payload = schedule.options.payload_text().is_some();
        assert_eq!(has_payload, is_whole(schedule), "{}", schedule.name);
    }
    let all = bus.schedules().page(None, 10).await.unwrap();
    assert_eq!(all.items.len(), 3);
    assert!(
        all.items
            .iter()
            .all(|it| it.options.payload_text().is_some())
    );
}
