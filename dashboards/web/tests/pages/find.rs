//! Events are found from the pages alone, while they wait, by what an operator knows of them.

use std::time::Duration;

use duly::Unique;
use duly_dashboard::{Role, User};
use serde_json::{Value, json};

use crate::site::{Page, Site, until};

const HOUR: Duration = Duration::from_secs(3_600);

/// Returns the ids of the events of a page, in their order.
pub(super) fn ids(page: &Page) -> Vec<String> {
    let parts = page.text.split("/events/").skip(1);
    parts.map(|part| part[..26].to_owned()).collect()
}

/// Returns the address of the next page.
pub(super) fn next(page: &Page) -> Option<String> {
    let (before, _) = page.text.split_once("\" rel=\"next\"")?;
    let (_, query) = before.rsplit_once("href=\"")?;
    Some(query.replace("&#38;", "&").replace("&amp;", "&"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_event_of_a_customer_is_found_while_it_waits() {
    let site = Site::memory(Role::View).await;
    let mut expected = Vec::new();
    for name in ["invoices", "reminders"] {
        let queue = site.bus.queue_named::<Value>(name).unwrap();
        for customer in 40..45 {
            let event = queue
                .event(json!({"customer": customer, "of": name}))
                .after(HOUR);
            let event = event.key(format!("customer:{customer}"));
            let receipt = event
                .unique(format!("{name}:{customer}"), Unique::Keep)
                .push();
            let receipt = receipt.await.unwrap();
            if customer == 42 {
                expected.push((receipt.due(), receipt.id().to_string()));
            }
        }
    }
    expected.sort_unstable();
    let expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
    // The whole key; a part of it; what its payload says; its unique key.
    for text in ["customer:42", "omer:42", "%22customer%22%3A+42"] {
        let page = site.get(&format!("/find?q={text}")).await;
        assert_eq!(
            (page.status.as_u16(), ids(&page)),
            (200, expected.clone()),
            "{text}"
        );
    }
    let one = site.get("/find?q=invoices:42").await;
    assert_eq!(ids(&one).len(), 1);
    assert!(expected.contains(&ids(&one)[0]));
    let one = site.get("/find?q=customer:42&queue=reminders&in=key").await;
    assert_eq!(ids(&one).len(), 1);
    // By its id alone the box leads to it.
    let found = site.get(&format!("/find?q={}", expected[0])).await;
    assert_eq!(found.status.as_u16(), 303);
    let none = site.get("/find?q=customer:99").await;
    assert_eq!(ids(&none), Vec::<String>::new());
    assert!(none.text.contains("No event that waits"), "{}", none.text);
    // What is over has the same filter in the records; errors and nodes are there.
    assert!(
        none.text.contains("/records?key=customer%3A99"),
        "{}",
        none.text
    );
    let failed = site.get("/find?q=customer:42&error=refused").await;
    let to = failed.headers["location"].to_str().unwrap();
    assert!(
        to.contains("/records?") && to.contains("error=refused"),
        "{to}"
    );
    assert!(to.contains("key=customer%3A42"), "{to}");
    for wrong in ["state=done", "since=never", "in=moon", "after=x"] {
        let page = site.get(&format!("/find?queue=invoices&{wrong}")).await;
        assert_eq!(page.status.as_u16(), 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_looks_like_an_id_is_found_in_its_queue_and_beyond() {
    let site = Site::memory(Role::View).await;
    let queue = site.bus.queue_named::<u64>("invoices").unwrap();
    let other = queue.push(7, HOUR).await.unwrap().id().to_string();
    let mut keyed = Vec::new();
    for key in ["01JD0000000000000000000000", &other] {
        let event = queue.event(7).after(HOUR).key(key).push().await.unwrap();
        keyed.push((key, event.id().to_string()));
    }
    for (key, id) in &keyed {
        for query in ["&in=key", "&queue=invoices&in=key"] {
            let page = site.get(&format!("/find?q={key}{query}")).await;
            assert_eq!((page.status.as_u16(), ids(&page)), (200, vec![id.clone()]));
        }
    }
    let (key, id) = &keyed[0];
    let page = site.get(&format!("/find?q={key}&queue=invoices")).await;
    assert_eq!((page.status.as_u16(), ids(&page)), (200, vec![id.clone()]));
    // The id of an event of the queue leads to it, be it over or not.
    let ended = queue.push(7, HOUR).await.unwrap().id();
    let _ = queue.cancel(ended).await.unwrap();
    let records = site.bus.records().id(ended);
    until("it has its record", async || {
        !records.clone().page().await.unwrap().items.is_empty()
    })
    .await;
    for id in [&other, &ended.to_string()] {
        let found = site.get(&format!("/find?q={id}&queue=invoices")).await;
        let to = found.headers["location"].to_str().unwrap();
        assert!(
            to.ends_with(&format!("/queues/invoices/events/{id}")),
            "{to}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_listed_whole_in_the_order_of_due_times() {
    let site = Site::memory(Role::View).await;
    let queue = site.bus.queue_named::<u64>("invoices").unwrap();
    site.bus.set_buckets("invoices", Some(8)).await.unwrap();
    let mut pushed = Vec::new();
    for number in 0..130 {
        let after = HOUR + Duration::from_secs(number * 53 % 131);
        let receipt = queue.push(number, after).await.unwrap();
        pushed.push((receipt.due(), receipt.id().to_string()));
    }
    pushed.sort_unstable();
    let sorted: Vec<String> = pushed.iter().map(|(_, id)| id.clone()).collect();
    let (mut listed, mut address) = (Vec::new(), Some("?queue=invoices".to_owned()));
    let mut pages = 0;
    while let Some(query) = address {
        let page = site.get(&format!("/find{query}")).await;
        assert_eq!(page.status.as_u16(), 200);
        listed.extend(ids(&page));
        (address, pages) = (next(&page), pages + 1);
    }
    assert_eq!((listed, pages), (sorted.clone(), 3));
    let page = site.get("/queues/invoices").await;
    assert_eq!(ids(&page), sorted[..20], "its own page has the first due");
    assert!(
        page.text.contains("/find?queue=invoices"),
        "and leads to all"
    );
    let (from, to) = (pushed[10].0.as_millis(), pushed[15].0.as_millis());
    let page = site.get(&format!("/find?since={from}&until={to}")).await;
    let between = pushed
        .iter()
        .filter(|(due, _)| (from..to).contains(&due.as_millis()));
    assert_eq!(
        ids(&page),
        between.map(|(_, id)| id.clone()).collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_finds_nothing_in_the_queues_of_others() {
    let memory = Site::memory(Role::View).await;
    let user = User::new("ann", Role::View).only(|queue| queue == "mine");
    let site = Site::of_user(memory.bus.clone(), user).await;
    for name in ["mine", "theirs"] {
        let queue = site.bus.queue_named::<u64>(name).unwrap();
        queue
            .event(7)
            .after(HOUR)
            .key("customer:42")
            .push()
            .await
            .unwrap();
    }
    for query in [
        "q=customer:42",
        "q=42",
        "state=scheduled",
        "q=customer:42&in=key",
    ] {
        let page = site.get(&format!("/find?{query}")).await;
        assert_eq!(ids(&page).len(), 1, "{query}");
        assert!(!page.text.contains("theirs"), "{query}");
    }
    assert_eq!(site.get("/find?queue=theirs").await.status.as_u16(), 404);
}

/// Beside an error or a node each field either is in the address that it leads to, under the name that
/// it has there, or is refused: none is dropped, whichever others there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_is_dropped_where_an_attempt_is_looked_for() {
    let site = Site::memory(Role::View).await;
    let fields = [
        ("error", "declined"),
        ("node", "0000000000000007"),
        ("queue", "invoices"),
        ("q", "customer:42"),
        ("in", "key"),
        ("in", "unique"),
        ("in", "text"),
        ("state", "dead"),
        ("state", "ready"),
        ("since", "1700000000000"),
        ("until", "1700000000000"),
    ];
    let (mut led, mut refused) = (0, 0);
    for chosen in 1_u32..1 << fields.len() {
        let all = fields.iter().enumerate();
        let all = all.filter(|(at, _)| chosen & (1 << at) != 0);
        let all: Vec<(&str, &str)> = all.map(|(_, field)| *field).collect();
        let has = |name: &str| all.iter().filter(|(it, _)| *it == name).count();
        let is_of_attempt = has("error") + has("node") > 0;
        if !is_of_attempt || has("in") > 1 || has("state") > 1 {
            continue;
        }
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.extend_pairs(&all).finish();
        let page = site.get(&format!("/find?{query}")).await;
        if page.status.as_u16() == 400 {
            assert!(page.text.contains("attempts that are over"), "{query}");
            refused += 1;
            continue;
        }
        let to = page.headers["location"].to_str().unwrap();
        let (path, to) = to.split_once('?').unwrap();
        let to: Vec<_> = form_urlencoded::parse(to.as_bytes()).collect();
        for (name, value) in &all {
            let is_kept = match *name {
                "state" => *value == "dead" && path.ends_with("/dead"),
                "in" => has("q") == 0 || *value == "key",
                "q" => to.contains(&("key".into(), (*value).into())),
                "since" | "until" => false, // there it would be another time
                _ => to.contains(&((*name).into(), (*value).into())),
            };
            assert!(is_kept, "{query}: {path} {to:?} drops {name}");
        }
        let there = page.headers["location"].to_str().unwrap();
        let there = site.get(there.strip_prefix("/jobs").unwrap()).await;
        assert!(there.status.is_success(), "{query}: {}", there.text);
        led += 1;
    }
    assert!(led > 10 && refused > 10, "{led} led, {refused} refused");
}

#[tokio::test]
async fn an_event_is_found_by_the_longest_key() {
    let site = Site::memory(Role::View).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let key = "k".repeat(1_024);
    let sent = queue.event(7).after(HOUR).key(&key);
    let id = sent.push().await.unwrap().id().to_string();
    let page = site.get(&format!("/find?in=key&q={key}")).await.text;
    assert!(page.contains(&id), "{page}");
}
