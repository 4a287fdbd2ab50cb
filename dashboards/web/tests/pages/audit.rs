//! Who did what is on a page, also what was done without one.

use std::time::Duration;

use duly_dashboard::Role;

use crate::site::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_action_is_in_the_audit_of_the_store() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let id = queue
        .push(7, Duration::from_secs(3_600))
        .await
        .unwrap()
        .id()
        .to_string();
    let none = site.get("/audit").await;
    assert!(none.text.contains("Nothing was done yet"), "{}", none.text);
    for (action, field) in [
        ("pause", ("", "")),
        ("resume", ("", "")),
        ("rate", ("rate", "5")),
        ("reschedule", ("id", &*id)),
        ("cancel", ("id", &*id)),
    ] {
        let asked = site.get(&format!("/act/{action}?queue=mail&id={id}")).await;
        let fields = [("queue", "mail"), field, ("csrf", asked.csrf())];
        let done = site.post(&format!("/act/{action}"), &fields).await;
        assert_eq!(done.status.as_u16(), 303, "{action}: {}", done.text);
        // What is done within one millisecond has no order.
        let done_at = site.bus.store_time();
        while site.bus.store_time() <= done_at {
            tokio::task::yield_now().await;
        }
    }
    // A command, or another program.
    site.bus
        .add_to_audit("ann", "queue purged", "mail")
        .await
        .unwrap();
    let page = site.get("/audit").await.text;
    let words = [
        "queue purged",
        "event cancelled",
        "event rescheduled",
        "rate of queue set",
        "queue resumed",
        "queue paused",
    ];
    let places: Vec<_> = words.iter().map(|word| page.find(word).unwrap()).collect();
    assert!(places.is_sorted(), "the newest first: {page}");
    assert!(page.contains("/queues/mail\">mail"), "{page}");
    assert!(
        page.contains(&format!("/queues/mail/events/{id}")),
        "{page}"
    );
    // It is no queue of anybody.
    for path in ["/", "/queues", "/find?state=scheduled"] {
        let page = site.get(path).await.text;
        assert!(!page.contains("duly.audit"), "{path}: {page}");
    }
    assert_eq!(site.get("/audit?before=x").await.status.as_u16(), 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_is_read_page_by_page() {
    let site = Site::memory(Role::View).await;
    for number in 0..120 {
        let target = format!("mail{number}");
        site.bus
            .add_to_audit("ann", "queue paused", &target)
            .await
            .unwrap();
    }
    let (mut seen, mut path) = (Vec::new(), "/audit".to_owned());
    loop {
        let page = site.get(&path).await.text;
        let rows = page.split("/queues/mail").skip(1);
        seen.extend(rows.map(|row| row.split('"').next().unwrap().to_owned()));
        let Some((before, _)) = page.split_once("\" rel=\"next\"") else {
            break;
        };
        let (_, query) = before.rsplit_once("href=\"").unwrap();
        path = format!("/audit{query}");
    }
    let all: Vec<String> = (0..120).rev().map(|number| number.to_string()).collect();
    assert_eq!(seen.len(), 120);
    // Those of one millisecond are in the order of their ids, which are random in it.
    let sorted = |mut names: Vec<String>| {
        names.sort_unstable();
        names
    };
    assert_eq!(sorted(seen), sorted(all));
}
