//! Which lines of the audit are shown, and which a sweep leaves.

use std::time::Duration;

use duly_dashboard::{Role, User};

use crate::site::Site;

/// What was done to all queues was done to each; who has a namespace reads nothing of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_to_every_queue_was_done_to_each() {
    let memory = Site::memory(Role::Admin).await;
    for target in [
        "every queue, events with key customer:42",
        "shop.*, key customer:43",
        "other.*, key customer:44",
        "shop.closed, events with key customer:45",
    ] {
        let added = memory.bus.add_to_audit("ann", "cancelled", target).await;
        added.unwrap();
    }
    let of_shop = User::new("ben", Role::View).only(|queue| queue.starts_with("shop."));
    let of_shop = of_shop.only_schedules_of("shop").whole_namespace();
    let all = User::new("eve", Role::View);
    for (user, seen) in [
        (all, &["customer:42", "customer:43"][..]),
        (of_shop, &["customer:43"]),
    ] {
        let site = Site::of_user(memory.bus.clone(), user).await;
        let page = site.get("/audit?queue=shop.close").await.text;
        for key in ["customer:42", "customer:43", "customer:44", "customer:45"] {
            assert_eq!(page.contains(key), seen.contains(&key), "{key}: {page}");
        }
    }
}

/// Who finds events over all queues leaves a line in each in which there were some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_over_every_queue_has_a_line_in_each_that_it_finds() {
    let site = Site::memory(Role::Admin).await;
    for (queue, key) in [
        ("shop.mail", "customer:42"),
        ("other.mail", "customer:42"),
        ("third.mail", "customer:43"),
    ] {
        let queue = site.bus.queue_named::<u64>(queue).unwrap();
        // Enough that the sweep is under way when it is stopped.
        for number in 0..30 {
            let event = queue.event(number).after(Duration::from_secs(3_600));
            event.key(key).push().await.unwrap();
        }
    }
    let asked = site.get("/act/cancel-all?in=key&q=customer:42").await;
    let csrf = asked.csrf();
    let fields = [
        ("in", "key"),
        ("q", "customer:42"),
        ("rate", "1"),
        ("csrf", csrf),
    ];
    assert_eq!(site.post("/act/cancel-all", &fields).await.status, 303);
    // Who stops it leaves one where it left one.
    let page = site.get("/find").await;
    let (_, id) = page.text.split_once("/act/stop?id=").unwrap();
    let id = id.split('&').next().unwrap();
    let fields = [("id", id), ("from", "find"), ("csrf", csrf)];
    assert_eq!(site.post("/act/stop", &fields).await.status, 303);
    for (namespace, many) in [("shop", 2), ("other", 2), ("third", 0)] {
        let lines = site.bus.audit_of(namespace, None, 10).await.unwrap().items;
        assert_eq!(lines.len(), many, "{namespace}: {lines:?}");
        let names = format!("{namespace}.mail, events of every queue, with key customer:42");
        let stop = format!(
            "{namespace}.mail, Cancel events of every queue, with key customer:42, 1 in a second"
        );
        let are_named = lines
            .iter()
            .all(|line| line.target == names || line.target == stop);
        assert!(are_named, "{lines:?}");
        let stops = lines.iter().filter(|line| line.target == stop);
        assert_eq!(stops.count(), many / 2, "{lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_is_filtered_by_who_what_and_when() {
    let site = Site::memory(Role::View).await;
    for (actor, action) in [("ann", "queue paused"), ("bob", "queue resumed")] {
        let added = site.bus.add_to_audit(actor, action, "mail").await;
        added.unwrap();
    }
    for (query, expected) in [
        ("actor=ann", &["ann"][..]),
        ("action=resumed", &["bob"]),
        ("actor=ann&action=resumed", &[]),
        ("since=2020-01-01T00:00", &["bob", "ann"]),
        ("until=2020-01-01T00:00", &[]),
        ("queue=mail&action=queue", &["bob", "ann"]),
    ] {
        let page = site.get(&format!("/audit?{query}")).await.text;
        for actor in ["ann", "bob"] {
            let cell = format!("data-label=\"Who\">{actor}<");
            let is_shown = page.contains(&cell);
            assert_eq!(is_shown, expected.contains(&actor), "{query}: {page}");
        }
        let says_none = page.contains("Nothing that was done matches");
        assert_eq!(says_none, expected.is_empty(), "{query}: {page}");
    }
    let wrong = site.get("/audit?since=yesterday").await;
    assert_eq!(wrong.status.as_u16(), 400);
}
