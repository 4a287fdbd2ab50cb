//! The page after an action shows what the action did.

use std::time::Duration;

use duly_dashboard::Role;

use crate::site::{Page, Site};

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
