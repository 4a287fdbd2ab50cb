//! Who did what is on a page, also what was done without one.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use duly_dashboard::{Access, AccessError, Credentials, Role, User};
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::site::{Site, until};

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
        let fields = [
            ("queue", "mail"),
            field,
            ("delay", "60"),
            ("csrf", asked.csrf()),
        ];
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_to_a_queue_stands_under_its_name() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<u64>("shop.close").unwrap();
    let hour = Duration::from_secs(3_600);
    let event = queue.event(7).after(hour).keep_payload(true);
    let id = event.push().await.unwrap().id();
    let _ = queue.cancel(id).await.unwrap();
    let records = async || site.bus.records().id(id).page().await.unwrap().items.len();
    until("it has its record", async || records().await == 1).await;
    queue.push_many([8, 9], hour).await.unwrap();
    let csrf = site
        .get("/act/pause?queue=shop.close")
        .await
        .csrf()
        .to_owned();
    let asked = site.bus.store_time().as_millis().to_string();
    let fields = [
        ("queue", "shop.close"),
        ("asked", &asked),
        ("name", "by mistake"),
        ("rate", "0.001"),
        ("csrf", &csrf),
    ];
    for action in ["replay", "cancel-all"] {
        let done = site.post(&format!("/act/{action}"), &fields).await;
        assert_eq!(done.status, 303, "{action}: {}", done.text);
    }
    let page = site.get("/find").await.text;
    let (_, id) = page.split_once("/act/stop?id=").unwrap();
    let id = id.split('&').next().unwrap();
    let fields = [("id", id), ("csrf", &csrf)];
    assert_eq!(site.post("/act/stop", &fields).await.status, 303);
    let lines = site.bus.audit_of("shop", None, 10).await.unwrap().items;
    let targets: Vec<&str> = lines.iter().map(|line| &*line.target).collect();
    assert_eq!(targets.len(), 3, "{targets:?}");
    assert!(
        targets.iter().all(|it| it.starts_with("shop.close, ")),
        "{targets:?}"
    );
    assert!(
        targets.contains(&"shop.close, replay by mistake"),
        "{targets:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_says_its_filter() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    queue.push(7, Duration::from_secs(3_600)).await.unwrap();
    let csrf = site.get("/act/pause?queue=mail").await.csrf().to_owned();
    let asked = site.bus.store_time().as_millis().to_string();
    for (action, field) in [
        ("drop-all", "key"),
        ("revive-all", "error"),
        ("cancel-all", "q"),
        ("run-all", "q"),
        ("reschedule-all", "q"),
        ("replay", "key"),
    ] {
        for queue in ["mail", ""] {
            let text = format!("{action} of ({queue})");
            let fields = [
                ("queue", queue),
                (field, &text),
                ("in", "key"),
                ("asked", &asked),
                ("name", "one"),
                ("delay", "9"),
                ("csrf", &csrf),
            ];
            if (action, queue) == ("replay", "") {
                continue; // it is of a queue
            }
            // So many run at the same time, and no more.
            let begins = async || {
                let done = site.post(&format!("/act/{action}"), &fields).await;
                assert!(
                    [303, 429].contains(&done.status.as_u16()),
                    "{text}: {done:?}"
                );
                done.status == 303
            };
            until("it begins", begins).await;
            let lines = site.bus.audit(None, 1_000).await.unwrap().items;
            let said = lines.iter().filter(|line| line.target.contains(&text));
            assert_eq!(said.count(), 1, "{text}: {lines:?}");
        }
    }
}

/// Who paused a queue is one step from where it is said to be paused, whatever was done since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_to_one_queue_is_found_among_all_actions() {
    let memory = Site::memory(Role::Admin).await;
    let user = User::new("ann", Role::Admin).only(|queue| queue != "secret");
    let site = Site::of_user(memory.bus.clone(), user).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    queue.push(7, Duration::from_secs(3_600)).await.unwrap();
    let asked = site.get("/act/pause?queue=mail").await;
    let fields = [("queue", "mail"), ("csrf", asked.csrf())];
    assert_eq!(site.post("/act/pause", &fields).await.status, 303);
    let add = async |many: usize, target: &str| {
        for _ in 0..many {
            let added = site.bus.add_to_audit("bob", "changed", target).await;
            added.unwrap();
        }
    };
    // Others whose names begin alike, and more than one reading has.
    add(1_100, "mail-2").await;
    add(60, "mail/01JD0000000000000000000000").await;
    add(70, "mail, events that are ready").await;
    add(1_100, "parcels").await;
    add(1, "secret").await;
    let page = site.get("/queues/mail").await.text;
    let (_, link) = page.split_once("paused</span> <a href=\"/jobs").unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let paused = site.get(&link).await.text;
    assert_eq!(paused.matches("data-label=\"Who\"").count(), 1, "{paused}");
    assert!(paused.contains("data-label=\"Who\">ann<"), "{paused}");
    assert!(
        paused.contains("name=\"action\" value=\"paused\""),
        "{paused}"
    );
    let mut path = "/audit?queue=mail".to_owned();
    let (mut rows, mut pages) = (0, 0);
    loop {
        let page = site.get(&path).await;
        assert_eq!(page.status.as_u16(), 200);
        let page = page.text;
        assert!(
            !page.contains("mail-2") && !page.contains("parcels"),
            "{page}"
        );
        assert!(page.contains("name=\"queue\" value=\"mail\""), "{page}");
        assert!(!page.contains("Nothing"), "{page}");
        rows += page.matches("data-label=\"Who\"").count();
        pages += 1;
        let Some((before, _)) = page.split_once("\" rel=\"next\"") else {
            assert!(page.contains("data-label=\"Who\">ann<"), "{page}");
            assert!(page.contains("queue paused"), "{page}");
            break;
        };
        let (_, query) = before.rsplit_once("href=\"").unwrap();
        path = format!("/audit{}", query.replace("&#38;", "&"));
    }
    assert_eq!((rows, pages), (131, 3));
    let none = site.get("/audit?queue=never").await.text;
    assert!(!none.contains("the next page goes on"), "{none}");
    for other in ["secret", "a%20b"] {
        let page = site.get(&format!("/audit?queue={other}")).await;
        assert_eq!(page.status.as_u16(), 404, "{other}");
    }
}

/// Everybody is this user, and what is done is recorded when it may be.
#[derive(Debug)]
struct Recorded {
    user: User,
    begun: Notify,
    goes_on: Notify,
}

#[derive(Debug)]
struct By(Arc<Recorded>);

impl Access for By {
    fn user<'a>(
        &'a self,
        _: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        Box::pin(std::future::ready(Ok(Some(self.0.user.clone()))))
    }

    fn audit<'a>(&'a self, _: &'a User, _: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        self.0.begun.notify_one();
        Box::pin(self.0.goes_on.notified())
    }
}

fn by(user: User) -> Arc<Recorded> {
    Arc::new(Recorded {
        user,
        begun: Notify::new(),
        goes_on: Notify::new(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sees_some_sees_what_was_done_to_own_queues_and_schedules() {
    let memory = Site::memory(Role::View).await;
    let targets = [
        "shop.close",
        "shop.close, events with key customer:42",
        "schedules/shop.nightly",
        "other.close",
        "other.close, replay one",
        "schedules/other.nightly",
        "schedules/shopping.nightly",
        "every queue, events that are ready",
        "shop.close other.close, dead letters",
    ];
    for target in targets {
        let added = memory.bus.add_to_audit("ann", "changed", target).await;
        added.unwrap();
    }
    let of_shop = User::new("ben", Role::View).only(|queue| queue.starts_with("shop."));
    let of_shop = of_shop.only_schedules_of("shop");
    let of_whole = of_shop.clone().whole_namespace();
    let of_queue = User::new("eve", Role::View).only(|queue| queue == "schedules");
    // A line does not say of which queue a schedule was.
    for (user, seen) in [
        (of_shop, &targets[..2]),
        (of_whole, &targets[..3]),
        (of_queue, &[]),
    ] {
        let site = Site::of_user(memory.bus.clone(), user).await;
        let page = site.get("/audit").await.text;
        for target in targets {
            let is_shown = page.contains(&format!("{target}<"));
            assert_eq!(is_shown, seen.contains(&target), "{target}: {page}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_is_recorded_although_nobody_waits_for_the_response() {
    let memory = Site::memory(Role::Admin).await;
    let queue = memory.bus.queue_named::<u64>("mail").unwrap();
    queue.push(7, Duration::from_secs(3_600)).await.unwrap();
    let access = by(User::new("ann", Role::Admin));
    let (waits, by) = (Arc::clone(&access), By(Arc::clone(&access)));
    let hangs_up = move |request: Request, next: Next| {
        let waits = Arc::clone(&waits);
        async move {
            tokio::select! {
                response = next.run(request) => response,
                () = waits.begun.notified() => StatusCode::REQUEST_TIMEOUT.into_response(),
            }
        }
    };
    let site = Site::mounted(memory.bus.clone(), |it| {
        it.authorize(by).router().layer(from_fn(hangs_up))
    })
    .await;
    let asked = site.get("/act/pause?queue=mail").await;
    let fields = [("queue", "mail"), ("csrf", asked.csrf())];
    assert_eq!(site.post("/act/pause", &fields).await.status, 408);
    assert!(site.bus.controls().await.unwrap()["mail"].paused);
    access.goes_on.notify_one();
    until("it is in the audit", async || {
        let lines = site.bus.audit(None, 10).await.unwrap().items;
        lines.iter().any(|line| line.action == "queue paused")
    })
    .await;
}
