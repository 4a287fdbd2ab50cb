//! Events are listed in the order of their due times, complete, by bounded scans.

use std::collections::BTreeSet;

use duly::Bus;
use duly::admin::{EventList, EventListCursor, Events, StoredEvent};
use duly::event::State as EventState;
use duly::prelude::*;
use duly::testing::Probe;
use duly::time::Timestamp;
use serde_json::json;

use crate::world::{ORDERS, World, secs};

over_every_store! {
    a_list_is_complete_and_in_the_order_of_due_times,
    a_list_is_filtered_by_due_time_state_and_text,
    a_text_is_found_in_keys_headers_and_payloads_of_each_codec,
}

/// Reads a list to its end, each time from the text of a cursor.
async fn whole(events: impl Fn() -> Events) -> Vec<EventList> {
    let (mut lists, mut next): (Vec<EventList>, Option<EventListCursor>) = (Vec::new(), None);
    loop {
        let list = events().list(next).await.unwrap();
        let text = list.next.as_ref().map(ToString::to_string);
        next = text.map(|text| text.parse().unwrap());
        assert_eq!(next, list.next);
        lists.push(list);
        if next.is_none() {
            return lists;
        }
    }
}

fn ids(lists: &[EventList]) -> Vec<EventId> {
    let items = lists.iter().flat_map(|list| &list.items);
    items.map(|event| event.id).collect()
}

async fn a_list_is_complete_and_in_the_order_of_due_times(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let other = bus.queue_named::<u64>("mail").unwrap();
    bus.set_buckets("orders", Some(7)).await.unwrap();
    bus.advance(secs(2)).await; // until the bus has heard of it
    let mut expected = BTreeSet::new();
    for number in 0..60_u64 {
        // Some fall due together, and the order of pushes is another one.
        let delay = secs(600 + number * 37 % 20);
        let queue = if number % 3 == 0 { &other } else { &queue };
        let event = queue
            .event(number)
            .after(delay)
            .key(format!("customer:{}", number % 2));
        let receipt = event.push().await.unwrap();
        expected.insert((receipt.due(), receipt.id(), number % 2));
    }
    let sorted: Vec<EventId> = expected.iter().map(|(_, id, _)| *id).collect();
    for limit in [1, 7, 60, 1_000] {
        let lists = whole(|| bus.events().limit(limit)).await;
        assert_eq!(ids(&lists), sorted, "{limit}");
        assert!(
            lists
                .iter()
                .all(|list| list.items.len() <= limit && !list.is_partial)
        );
        assert!(lists.iter().all(|list| list.scanned == 60), "{limit}");
        assert_eq!(lists.len(), 60_usize.div_ceil(limit), "{limit}");
        let of_key = expected.iter().filter(|(.., key)| *key == 1);
        let of_key: Vec<EventId> = of_key.map(|(_, id, _)| *id).collect();
        let lists = whole(|| bus.events().key("customer:1").limit(limit)).await;
        assert_eq!(ids(&lists), of_key, "{limit}");
    }
    let one = bus.events().list(None).await.unwrap();
    assert!(
        one.items.iter().all(|event| event.payload.is_none()),
        "payloads are not in memory"
    );
}

async fn a_list_is_filtered_by_due_time_state_and_text(world: World) {
    let probe = Probe::new();
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let mut due = Vec::new();
    for delay in [300, 100, 200] {
        let event = queue
            .event(delay)
            .after(secs(delay))
            .key(format!("customer:{delay}"));
        let receipt = event.push().await.unwrap();
        due.push((receipt.due(), receipt.id()));
    }
    due.sort_unstable();
    let list = async |events: Events| ids(&[events.list(None).await.unwrap()]);
    let [first, second, third] = [due[0], due[1], due[2]];
    assert_eq!(
        list(bus.events().since(second.0)).await,
        [second.1, third.1]
    );
    assert_eq!(list(bus.events().until(second.0)).await, [first.1]);
    let between = bus.events().since(second.0).until(third.0);
    assert_eq!(list(between).await, [second.1]);
    assert_eq!(list(bus.events().state(EventState::Dead)).await, []);
    assert_eq!(
        list(bus.events().state(EventState::Scheduled)).await.len(),
        3
    );
    assert_eq!(list(bus.events().contains("mer:20")).await, [second.1]);
    // A page and what is done to a key have the same filters.
    let page = bus.events().since(third.0).page().await.unwrap();
    assert_eq!(
        page.items.iter().map(|it| it.id).collect::<Vec<_>>(),
        [third.1]
    );
    let since = queue.events().key("customer:100").since(second.0);
    assert_eq!(since.cancel().await.unwrap(), [], "it is due earlier");
    bus.advance(secs(400)).await;
    assert_eq!(probe.payloads(), [100, 200, 300]);
    assert_eq!(list(bus.events()).await, []);
}

async fn a_text_is_found_in_keys_headers_and_payloads_of_each_codec(world: World) {
    let (bus, queue) = world.push_only::<serde_json::Value>("orders").await;
    let value = || json!({"customer": 42, "to": "ann@example.org"});
    let json = queue
        .event(value())
        .after(secs(60))
        .push()
        .await
        .unwrap()
        .id();
    let msgpack = bus.queue_named::<serde_json::Value>("orders").unwrap();
    let msgpack = msgpack.with_codec(duly::codec::Codec::MsgPack);
    let msgpack = msgpack
        .event(value())
        .after(secs(60))
        .push()
        .await
        .unwrap()
        .id();
    let header = queue
        .event(json!(1))
        .after(secs(60))
        .header("who", "ann@example.org");
    let header = header.push().await.unwrap().id();
    let unique = queue
        .event(json!(2))
        .after(secs(60))
        .unique("close:42", Unique::Keep);
    let unique = unique.push().await.unwrap().id();
    let found = async |text: &str| -> BTreeSet<EventId> {
        let list = bus.events().contains(text).list(None).await.unwrap();
        list.items.iter().map(|it: &StoredEvent| it.id).collect()
    };
    for text in [r#""customer":42"#, r#""customer": 42"#] {
        assert_eq!(found(text).await, BTreeSet::from([json, msgpack]), "{text}");
    }
    assert_eq!(found("ann@").await, BTreeSet::from([json, msgpack, header]));
    assert_eq!(found("42").await, BTreeSet::from([json, msgpack, unique]));
    assert_eq!(found("43").await, BTreeSet::new());
}

async fn in_memory() -> Bus {
    let bus = Bus::builder()
        .settings(Default::default())
        .store_url("memory:");
    bus.only_registered().publish_only().start().await.unwrap()
}

#[tokio::test]
async fn a_scan_that_ends_early_says_so_and_goes_on() {
    const ALL: u64 = 21_000;
    let bus = in_memory().await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    for part in 0..ALL / 1_000 {
        let values = part * 1_000..(part + 1) * 1_000;
        let after = secs(3_600 + part * 8 % 21);
        queue.push_many(values, after).await.unwrap();
    }
    let lists = whole(|| bus.events().limit(1_000)).await;
    assert!(
        lists.iter().all(|list| list.scanned <= 10_100),
        "a call is bounded"
    );
    assert!(lists[0].is_partial, "the first list is not the whole one");
    assert!(!lists.last().unwrap().is_partial);
    let found: BTreeSet<EventId> = ids(&lists).into_iter().collect();
    assert_eq!(found.len(), ids(&lists).len(), "each is there once");
    assert_eq!(found.len() as u64, ALL);
    for list in &lists {
        assert!(list.items.is_sorted_by_key(|event| event.due));
    }
    // What matches nothing is scanned in bounded steps, too.
    let never = Timestamp::from_millis(1);
    let lists = whole(|| bus.events().until(never)).await;
    assert!(lists.len() >= 3 && ids(&lists).is_empty());
    bus.shutdown(secs(1)).await.unwrap();
}

#[tokio::test]
async fn a_cursor_that_is_none_is_refused_in_words() {
    for text in [
        "",
        "x",
        "~x",
        "mail/0/f~",
        "mail/x/~",
        "mail/0/00~1/2",
        "mail/01/~",
    ] {
        let error = text.parse::<EventListCursor>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("`next`"), "{error}");
    }
}
