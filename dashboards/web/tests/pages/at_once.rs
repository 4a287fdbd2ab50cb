//! The page after an action shows what the action did, whoever did it.

use std::time::Duration;

use duly::Bus;
use duly::prelude::*;
use duly_dashboard::Role;

use crate::redis::Redis;
use crate::site::{Page, Site, until};

/// A handler that is busy for as long as the test takes.
#[delay_event(queue = "mail", register = false, workers = 1, ring = 64)]
async fn mail(_: Event<u64>) -> Result<(), Failure> {
    std::future::pending().await
}

/// A dashboard in the process of a worker that is busy, and the page of an event that waits.
async fn site_of_a_late_queue(url: String) -> (Site, String) {
    let bus = Bus::builder().settings(Default::default()).store_url(url);
    let bus = bus.only_registered().register(mail {});
    let site = Site::of(bus.start().await.unwrap(), Role::Admin).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    queue.push(1, Duration::ZERO).await.unwrap();
    until("it is busy", async || active(&site.bus) == 1).await;
    // More than the process reads ahead.
    let events = queue.push_many(0..500, Duration::ZERO).await.unwrap();
    let event = events.last().unwrap().id();
    let is_late = async || site.get("/").await.text.contains("Its only worker is busy");
    until("it is late", is_late).await;
    (site, format!("/queues/mail/events/{event}?explain=1"))
}

fn load(bus: &Bus) -> duly::admin::QueueLoad {
    let mut load = bus.load();
    load.retain(|load| load.queue.as_str() == "mail");
    load.remove(0)
}

fn active(bus: &Bus) -> usize {
    load(bus).active
}

/// Looks at every page that says whether the queue is paused, until its handlers follow.
async fn every_page_says(site: &Site, event: &str, is_paused: bool) {
    let workers = usize::from(!is_paused);
    let mut is_followed = false;
    while !is_followed {
        is_followed = load(&site.bus).workers == workers;
        for path in ["/", "/queues", "/queues/mail", event] {
            let page = site.get(path).await.text;
            assert!(!page.contains("All 0 workers"), "{path}: {page}");
            let was = "it was paused until a moment ago";
            assert!(!is_paused || !page.contains(was), "{path}: {page}");
            let page = page.replace(was, "").to_lowercase();
            assert_eq!(page.contains("paused"), is_paused, "{path}: {page}");
        }
    }
}

/// By a page, by another handle of the same bus, and by another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_of_a_late_queue_shows_the_pause_of_anybody_at_once() {
    let redis = Redis::start().await;
    for url in ["memory:".to_owned(), redis.url()] {
        let (site, event) = site_of_a_late_queue(url.clone()).await;
        let mut others = vec![site.bus.clone()];
        if url != "memory:" {
            let other = Bus::builder().settings(Default::default()).store_url(url);
            let other = other.only_registered().publish_only();
            others.push(other.start().await.unwrap());
        }
        for _ in 0..2 {
            act(&site, "pause", &[("queue", "mail")]).await;
            every_page_says(&site, &event, true).await;
            act(&site, "resume", &[("queue", "mail")]).await;
            every_page_says(&site, &event, false).await;
            for other in &others {
                other.pause("mail").await.unwrap();
                every_page_says(&site, &event, true).await;
                other.resume("mail").await.unwrap();
                every_page_says(&site, &event, false).await;
            }
        }
    }
}

async fn act(site: &Site, action: &str, fields: &[(&str, &str)]) -> Page {
    let query: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let asked = site
        .get(&format!("/act/{action}?{}", query.join("&")))
        .await;
    let mut fields = fields.to_vec();
    fields.push(("csrf", asked.csrf()));
    let done = site.post(&format!("/act/{action}"), &fields).await;
    assert_eq!(done.status.as_u16(), 303, "{action}: {}", done.text);
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_shows_a_pause_and_a_resume_at_once() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    queue.push(7, Duration::ZERO).await.unwrap();
    let first = site.get("/").await;
    assert!(!first.text.contains("mail is paused"), "{}", first.text);
    for _ in 0..3 {
        act(&site, "pause", &[("queue", "mail")]).await;
        for path in ["/", "/queues", "/queues/mail"] {
            let page = site.get(path).await.text;
            assert!(page.to_lowercase().contains("paused"), "{path}: {page}");
            assert!(!page.contains("All 0 workers"), "{path}: {page}");
        }
        act(&site, "resume", &[("queue", "mail")]).await;
        for path in ["/", "/queues", "/queues/mail"] {
            let page = site.get(path).await.text;
            assert!(!page.to_lowercase().contains("paused"), "{path}: {page}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_queues_counts_what_an_action_has_changed() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let id = queue
        .push(7, Duration::from_secs(3_600))
        .await
        .unwrap()
        .id()
        .to_string();
    let scheduled = async || {
        let page = site.get("/queues").await.text;
        let (_, row) = page.split_once("data-label=\"Scheduled\">").unwrap();
        row.split('<').next().unwrap().to_owned()
    };
    assert_eq!(scheduled().await, "1");
    act(&site, "cancel", &[("queue", "mail"), ("id", &id)]).await;
    assert_eq!(scheduled().await, "0");
}
