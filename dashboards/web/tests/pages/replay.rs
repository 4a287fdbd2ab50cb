//! What had ended is pushed once more from the page of records: asked before, at a rate, with progress,
//! within its filter, once under a name, and with who did it in the audit.

use std::time::Duration;

use duly::event::State;
use duly::records::Outcome;
use duly_dashboard::Role;

use crate::site::{Page, Site, until};

const HOUR: Duration = Duration::from_secs(3_600);

/// A dashboard where events of two customers were cancelled: those of one keep their payloads.
async fn shop() -> Site {
    let site = Site::memory(Role::Admin).await;
    for name in ["invoices", "reminders"] {
        let queue = site.bus.queue_named::<u64>(name).unwrap();
        for number in 0..12 {
            let event = queue.event(number).after(HOUR).keep_payload(number >= 3);
            let event = event.key(format!("customer:{}", 41 + number % 2));
            let id = event.push().await.unwrap().id();
            let _ = queue.cancel(id).await.unwrap();
        }
    }
    let all = async || site.bus.records().page().await.unwrap().items.len() == 24;
    until("all have records", all).await;
    site
}

async fn scheduled_or_ready(site: &Site, queue: &str) -> usize {
    let stats = site.bus.stats(queue).await.unwrap();
    stats.ready + stats.scheduled
}

/// The fields of the question, as its form has them.
pub(crate) fn form<'a>(
    question: &'a Page,
    changes: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let inputs = question.text.split("<input ").skip(1).filter_map(|input| {
        let value = |name: &str| {
            let (_, rest) = input.split_once(&format!("{name}=\""))?;
            rest.split('"').next()
        };
        Some((value(" name").or_else(|| value("name"))?, value("value")?))
    });
    let kept = inputs.filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    kept.chain(changes.iter().copied()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_filter_finds_is_pushed_once_more_and_nothing_else() {
    let site = shop().await;
    let found = site.get("/records?queue=invoices&key=customer:42").await;
    let link = "/act/replay?key=customer%3A42&amp;queue=invoices";
    assert!(
        found.text.contains(&link.replace("&amp;", "&#38;")) || found.text.contains(link),
        "{}",
        found.text
    );
    let path = "/act/replay?queue=invoices&key=customer:42";
    let asked = site.get(path).await;
    // Of 1, 3, 5, 7, 9 and 11 the first kept no payload.
    for said in [
        "5 events would be pushed once more; 1 have no payload",
        "Records of queue invoices, with key customer:42",
    ] {
        assert!(asked.text.contains(said), "{said}: {}", asked.text);
    }
    assert_eq!(
        scheduled_or_ready(&site, "invoices").await,
        0,
        "a question pushes nothing"
    );

    let fields = form(&asked, &[("rate", "10000"), ("name", "by mistake")]);
    let done = site.post("/act/replay", &fields).await;
    assert_eq!(done.status.as_u16(), 303, "{}", done.text);
    let back = done.headers["location"].to_str().unwrap();
    assert!(
        back.starts_with("/jobs/records?key=customer%3A42&queue=invoices&"),
        "{back}"
    );
    until("its words", async || {
        let page = site.get("/records?queue=invoices").await.text;
        page.contains("<strong>5</strong> so far, done; 1 have no payload that can be read")
    })
    .await;
    let events = site
        .bus
        .events()
        .queue("invoices")
        .page()
        .await
        .unwrap()
        .items;
    let mut payloads: Vec<u64> = Vec::new();
    for event in &events {
        assert_eq!(event.state, State::Ready);
        assert_eq!(event.key.as_deref(), Some("customer:42"));
        let payload = event.payload.as_ref().unwrap();
        payloads.push(serde_json::from_slice(payload.as_bytes()).unwrap());
    }
    payloads.sort_unstable();
    assert_eq!(payloads, [3, 5, 7, 9, 11]);
    assert_eq!(scheduled_or_ready(&site, "reminders").await, 0);
    let audit = site.get("/audit").await.text;
    for said in [
        "records replayed",
        "with key customer:42, replay by mistake",
    ] {
        assert!(audit.contains(said), "{said}: {audit}");
    }

    // The same name once more, from a question that was asked again.
    let again = site.get(path).await;
    let fields = form(&again, &[("rate", "10000"), ("name", "by mistake")]);
    assert_eq!(site.post("/act/replay", &fields).await.status.as_u16(), 303);
    until("its words", async || {
        let page = site.get("/records?queue=invoices").await.text;
        page.contains("<strong>0</strong> so far, done; 5 were pushed under its name before")
    })
    .await;
    assert_eq!(scheduled_or_ready(&site, "invoices").await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_after_the_question_is_not_replayed() {
    is_replayed_up_to_the_question("").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_after_the_question_is_not_replayed_although_its_end_is_to_come() {
    is_replayed_up_to_the_question("&until=2100-01-01T00:00").await;
}

async fn is_replayed_up_to_the_question(end: &str) {
    let site = shop().await;
    let asked = site.get(&format!("/act/replay?queue=invoices{end}")).await;
    let asked_at = site.bus.store_time();
    let is_later = async || site.bus.store_time() > asked_at;
    until("the time has gone on", is_later).await;
    let queue = site.bus.queue_named::<u64>("invoices").unwrap();
    let late = queue.event(77).after(HOUR).keep_payload(true);
    let _ = queue.cancel(late.push().await.unwrap().id()).await.unwrap();
    let ended = site
        .bus
        .records()
        .queue("invoices")
        .outcome(Outcome::Cancelled);
    until("it has its record", async || {
        ended.clone().page().await.unwrap().items.len() == 13
    })
    .await;
    let fields = form(&asked, &[("rate", "10000")]);
    assert_eq!(site.post("/act/replay", &fields).await.status.as_u16(), 303);
    until("its end", async || {
        let page = site.get("/records?queue=invoices").await.text;
        page.contains("<strong>9</strong> so far, done")
    })
    .await;
    assert_eq!(scheduled_or_ready(&site, "invoices").await, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_is_slow_and_stops_when_told() {
    let site = shop().await;
    let asked = site.get("/act/replay?queue=invoices").await;
    let fields = form(&asked, &[("rate", "1")]);
    assert_eq!(site.post("/act/replay", &fields).await.status.as_u16(), 303);
    let page = site.get("/records?queue=invoices").await.text;
    let (_, id) = page.split_once("/act/stop?id=").unwrap();
    let id = id.split('&').next().unwrap();
    let fields = [("id", id), ("from", "records"), ("csrf", asked.csrf())];
    let stopped = site.post("/act/stop", &fields).await;
    let back = stopped.headers["location"].to_str().unwrap();
    assert!(back.starts_with("/jobs/records"), "{back}");
    until("the end", async || {
        site.get("/records").await.text.contains("so far, stopped")
    })
    .await;
    assert!(scheduled_or_ready(&site, "invoices").await < 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_replayed_is_said_before_anything_is_pushed() {
    let site = shop().await;
    let asked = site.get("/act/replay").await;
    assert_eq!(asked.status.as_u16(), 400);
    assert!(
        asked.text.contains("choose a queue first"),
        "{}",
        asked.text
    );
    assert!(!site.get("/records").await.text.contains("/act/replay"));
    let asked = site.get("/act/replay?queue=invoices").await;
    // A process that does not handle the queue knows no version of it.
    assert!(asked.text.contains("in this program, or 0"), "{asked:?}");
    let long = "n".repeat(129);
    for (name, value, said) in [
        ("name", "", "the name of the replay has 0 bytes"),
        ("name", &long, "the name of the replay has 129 bytes"),
        ("version", "new", "the version must be a number from 0"),
        ("version", "-1", "the version must be a number from 0"),
        ("rate", "0", "the rate must be 0.001 to 1000000"),
        ("asked", "", "ask again"),
        ("asked", "yesterday", "asked"),
    ] {
        let refused = site
            .post("/act/replay", &form(&asked, &[(name, value)]))
            .await;
        assert_eq!(refused.status.as_u16(), 400, "{name} {value}");
        assert!(
            refused.text.contains(said),
            "{name} {value}: {}",
            refused.text
        );
    }
    let operator = Site::of(site.bus.clone(), Role::Operate).await;
    assert_eq!(
        operator
            .get("/act/replay?queue=invoices")
            .await
            .status
            .as_u16(),
        403
    );
    let page = operator.get("/records?queue=invoices").await.text;
    assert!(!page.contains("/act/replay"), "{page}");
    assert_eq!(scheduled_or_ready(&site, "invoices").await, 0);
}
