//! What a form sends again is what its page is filtered by.

use std::time::Duration;

use duly_dashboard::Role;

use crate::site::{Site, until};

/// Returns the value of a field of a form.
fn field<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("name=\"{name}\""))
        .unwrap_or_else(|| panic!("no field {name}: {page}"));
    let tag = rest.split_once('>').unwrap().0;
    let (_, value) = tag.split_once("value=\"").unwrap();
    value.split('"').next().unwrap()
}

/// Whether a browser shows it in a field of time: of anything else it makes nothing.
fn is_local(text: &str) -> bool {
    let like = "0000-00-00T00:00:00.000";
    let mut both = text.chars().zip(like.chars());
    let is_fit = |(is, like): (char, char)| is == like || like == '0' && is.is_ascii_digit();
    matches!(text.len(), 16 | 19 | 21..=23) && both.all(is_fit)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_span_that_a_link_has_stays_in_the_form() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    queue.push_many([1, 2], Duration::ZERO).await.unwrap();
    let leased = queue.lease(2, Duration::from_secs(30));
    let leased = leased.wait(Duration::from_secs(5)).send().await.unwrap();
    for one in &leased {
        assert_eq!(
            one.bury("refused").await.unwrap(),
            duly::lease::LeaseStatus::Held
        );
    }
    let page = site.get("/history?span=hour&queue=mail").await.text;
    let links = page.split("records?").skip(1);
    let links = links.map(|rest| rest.split('"').next().unwrap().replace("&#38;", "&"));
    let mut links: Vec<String> = links.map(|link| link.replace("&amp;", "&")).collect();
    links.dedup();
    assert!(
        links.iter().any(|link| link.contains("since=")),
        "{links:?}"
    );
    let mut found = 0;
    for link in links.iter().filter(|link| link.contains("since=")) {
        let page = site.get(&format!("/records?{link}")).await.text;
        let (since, until) = (field(&page, "since"), field(&page, "until"));
        assert!(is_local(since) && is_local(until), "{since} {until}");
        let sent = format!("/records?queue=mail&since={since}&until={until}");
        let again = site.get(&sent).await.text;
        let rows = |page: &str| page.matches("<th scope=\"row\">").count();
        assert_eq!(rows(&again), rows(&page), "{link}");
        found = found.max(rows(&again));
    }
    assert_eq!(found, 2, "one of them leads to both");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn milliseconds_in_an_address_are_a_time_in_each_form() {
    let site = Site::memory(Role::Admin).await;
    for page in ["records", "find", "dead"] {
        for (ms, expected) in [
            ("1764324000000", "2025-11-28T10:00"),
            ("1764324007000", "2025-11-28T10:00:07"),
            ("1764324007030", "2025-11-28T10:00:07.03"),
        ] {
            for name in ["since", "until"] {
                let page = site.get(&format!("/{page}?{name}={ms}")).await;
                assert_eq!(page.status.as_u16(), 200, "{}", page.text);
                assert_eq!(field(&page.text, name), expected);
                assert!(is_local(expected));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_keeps_what_it_has_no_field_for() {
    let site = Site::memory(Role::View).await;
    let until = "2026-03-01T00:00";
    let path = format!("/history?span=year&until={until}");
    let page = site.get(&path).await.text;
    assert_eq!(
        (field(&page, "span"), field(&page, "until")),
        ("year", until)
    );
    for (query, order) in [
        ("sort=dead&order=asc", "asc"),
        ("sort=dead", "desc"),
        ("sort=name", "asc"),
    ] {
        let page = site.get(&format!("/queues?{query}")).await.text;
        assert_eq!(field(&page, "order"), order, "{query}");
    }
}

/// The records of what is over are found by keys; their times are those of ends, and no due times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_lead_to_records_by_what_records_have() {
    let site = Site::memory(Role::View).await;
    for (query, expected) in [
        ("in=key&q=customer:8", "records?key=customer%3A8"),
        ("q=customer:8", "records?key=customer%3A8"),
        ("in=unique&q=order:8&queue=mail", "records?queue=mail"),
        ("in=text&q=hello&queue=mail", "records?queue=mail"),
        ("queue=mail&since=2026-11-24T08:30", "records?queue=mail"),
    ] {
        let page = site.get(&format!("/find?{query}")).await;
        let link = format!("/{expected}\"");
        assert!(page.text.contains(&link), "{query}: {}", page.text);
    }
    for place in ["unique", "text"] {
        let path = format!("/find?in={place}&q=x&error=refused");
        assert_eq!(site.get(&path).await.status.as_u16(), 400, "{place}");
    }
}

/// Keys that differ in the spaces at their ends alone, and one of nothing else.
const KEYS: [&str; 5] = ["ann", "ann ", " ann", "ann\u{a0}", "  "];

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_with_spaces_at_its_ends_is_another_key() {
    let site = Site::memory(Role::Admin).await;
    let hour = Duration::from_secs(3_600);
    let (waiting, dead) = (
        site.bus.queue_named::<u64>("mail").unwrap(),
        site.bus.queue_named::<u64>("dead").unwrap(),
    );
    let mut ids = Vec::new();
    for key in KEYS {
        dead.event(1).key(key).attempts(1).push().await.unwrap();
        let leased = dead.lease(1, Duration::from_secs(30));
        let leased = leased.wait(Duration::from_secs(5)).send().await.unwrap();
        let _ = leased[0].bury(format!("no such{key}")).await.unwrap();
        let waits = waiting.event(1).after(hour).key(key).push().await.unwrap();
        ids.push([waits.id(), leased[0].id()].map(|id| id.to_string()));
    }
    for (key, [waits, dead]) in KEYS.into_iter().zip(&ids) {
        let text = encoded(key);
        for (path, id) in [
            (format!("/find?queue=mail&in=key&q={text}"), waits),
            (format!("/find?queue=mail&q={text}"), waits),
            (format!("/dead?key={text}"), dead),
            (format!("/records?queue=dead&key={text}"), dead),
            (
                format!("/records/export?queue=dead&format=csv&key={text}"),
                dead,
            ),
        ] {
            let page = site.get(&path).await.text;
            let found = ids.iter().flatten().filter(|id| page.contains(&**id));
            assert_eq!(found.collect::<Vec<_>>(), [id], "{path}: {page}");
        }
    }
    // By the form of a page that was found, as a browser sends it.
    let text = encoded("ann ");
    let asked = site
        .get(&format!("/act/cancel-all?queue=mail&in=key&q={text}"))
        .await;
    assert!(asked.text.contains("1 event matches."), "{}", asked.text);
    let (_, form) = asked.text.split_once("action=\"/jobs/act/").unwrap();
    let sent = ["queue", "in", "q", "csrf"].map(|name| (name, field(form, name)));
    let done = site.post("/act/cancel-all", &sent).await;
    assert_eq!(done.status, 303, "{}", done.text);
    let left = async || {
        let page = site.bus.events().queue("mail").page().await.unwrap();
        let keys = page.items.into_iter().map(|event| event.key.unwrap());
        keys.collect::<std::collections::BTreeSet<_>>()
    };
    until("it is cancelled", async || left().await.len() < KEYS.len()).await;
    let others = KEYS.into_iter().filter(|key| *key != "ann ");
    assert_eq!(left().await, others.map(str::to_owned).collect());
    // A name that was typed, or an id that was pasted, may have some around it.
    let id = format!("+{}+", ids[0][0]);
    assert_eq!(site.get(&format!("/find?q={id}")).await.status, 303);
    let queues = site.get("/queues?q=+mai+").await.text;
    assert!(queues.contains("/queues/mail\""), "{queues}");
}
