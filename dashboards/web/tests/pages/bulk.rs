//! What is found is cancelled, run or rescheduled together: asked before, at a rate, with progress, and
//! with who did it in the audit.

use std::time::Duration;

use duly::Bus;
use duly::event::State;
use duly::store::operation::StoreOp;
use duly_dashboard::{Role, User};

use crate::bounds::Counted;
use crate::forms::bury;
use crate::site::{Site, until};

const HOUR: Duration = Duration::from_secs(3_600);

async fn shop(role: Role) -> Site {
    let site = Site::memory(role).await;
    for name in ["invoices", "reminders"] {
        let queue = site.bus.queue_named::<u64>(name).unwrap();
        for number in 0..60 {
            let key = format!("customer:{}", 40 + number % 3);
            queue
                .event(number)
                .after(HOUR)
                .key(key)
                .push()
                .await
                .unwrap();
        }
    }
    site
}

async fn left(site: &Site, key: &str) -> usize {
    site.bus.events().key(key).page().await.unwrap().items.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_events_of_a_customer_are_cancelled_and_no_others() {
    let site = shop(Role::Operate).await;
    let found = site.get("/find?q=customer:42").await;
    assert!(
        found.text.contains("/act/cancel-all?in=key"),
        "{}",
        found.text
    );
    let query = "/act/cancel-all?in=key&q=customer:42";
    let asked = site.get(query).await;
    assert!(asked.text.contains("40 events match."), "{}", asked.text);
    assert!(
        asked.text.contains("with key customer:42"),
        "{}",
        asked.text
    );
    assert_eq!(
        left(&site, "customer:42").await,
        40,
        "a question changes nothing"
    );
    let fields = [
        ("in", "key"),
        ("q", "customer:42"),
        ("rate", "10000"),
        ("csrf", asked.csrf()),
    ];
    let done = site.post("/act/cancel-all", &fields).await;
    assert_eq!(done.status.as_u16(), 303, "{}", done.text);
    until("the end", async || left(&site, "customer:42").await == 0).await;
    for other in ["customer:40", "customer:41"] {
        assert_eq!(left(&site, other).await, 40);
    }
    until("its words", async || {
        let page = site.get("/find").await.text;
        page.contains("<strong>40</strong> so far, done")
    })
    .await;
    let audit = site.get("/audit").await.text;
    assert!(audit.contains("events cancelled"), "{audit}");
    assert!(audit.contains("with key customer:42"), "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_found_runs_now_or_later_within_its_filter() {
    let site = shop(Role::Operate).await;
    let asked = site
        .get("/act/run-all?queue=invoices&state=scheduled")
        .await;
    assert!(asked.text.contains("60 events match."), "{}", asked.text);
    let csrf = asked.csrf().to_owned();
    let filter = [
        ("queue", "invoices"),
        ("state", "scheduled"),
        ("csrf", &csrf),
    ];
    let run = [filter.as_slice(), &[("rate", "100000")]].concat();
    assert_eq!(site.post("/act/run-all", &run).await.status.as_u16(), 303);
    until("the end", async || site.due_soon().await == 60).await;
    let later = site.bus.stats("reminders").await.unwrap();
    assert_eq!(later.scheduled, 60, "another queue waits");
    let asked = site.get("/act/reschedule-all?queue=invoices").await;
    let words = "become due together, so long from now";
    assert!(asked.text.contains(words), "{}", asked.text);
    let filter = [("queue", "invoices"), ("csrf", &csrf)];
    let later = [filter.as_slice(), &[("rate", "100000"), ("delay", "7200")]].concat();
    assert_eq!(
        site.post("/act/reschedule-all", &later)
            .await
            .status
            .as_u16(),
        303
    );
    until("the end", async || site.due_soon().await == 0).await;
    let list = site.bus.events().queue("invoices").state(State::Scheduled);
    let items = list.page().await.unwrap().items;
    assert_eq!(items.len(), 60);
    assert!(items.iter().all(|it| it.due == items[0].due), "together");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_over_events_is_slow_and_stops_when_told() {
    let site = shop(Role::Operate).await;
    let asked = site.get("/act/cancel-all?queue=invoices").await;
    let csrf = asked.csrf().to_owned();
    let fields = [("queue", "invoices"), ("rate", "1"), ("csrf", &csrf)];
    site.post("/act/cancel-all", &fields).await;
    let page = site.get("/find").await.text;
    let (_, id) = page.split_once("/act/stop?id=").unwrap();
    let id = id.split('&').next().unwrap();
    let fields = [("id", id), ("from", "find"), ("csrf", &csrf)];
    let stopped = site.post("/act/stop", &fields).await;
    assert!(
        stopped.headers["location"]
            .to_str()
            .unwrap()
            .starts_with("/jobs/find")
    );
    // The page after it says so, and it ends.
    assert!(!site.get("/find").await.text.contains("so far, running"));
    until("the end", async || {
        site.get("/find").await.text.contains("so far, stopped")
    })
    .await;
    assert!(site.bus.stats("invoices").await.unwrap().scheduled >= 58);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_swept_without_a_filter_or_a_right() {
    let site = shop(Role::Operate).await;
    for query in ["", "?q=customer:42", "?in=key"] {
        let asked = site.get(&format!("/act/cancel-all{query}")).await;
        assert_eq!(asked.status.as_u16(), 400, "{query}");
    }
    let viewer = Site::of(site.bus.clone(), Role::View).await;
    let asked = viewer.get("/act/cancel-all?queue=invoices").await;
    assert_eq!(asked.status.as_u16(), 403);
    assert!(
        !viewer
            .get("/find?queue=invoices")
            .await
            .text
            .contains("cancel-all")
    );
    assert_eq!(left(&site, "customer:42").await, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeps_find_what_waits_died_or_ended_on_a_store_whose_clock_is_ahead() {
    let site = Site::ahead(1, Role::Admin).await;
    let sweep = async |action: &str, said: &str| {
        let asked = site.get(&format!("/act/{action}?queue=mail")).await;
        assert!(asked.text.contains(said), "{action}: {}", asked.text);
        let (_, asked_at) = asked
            .text
            .split_once("name=\"asked\" value=\"")
            .unwrap_or_default();
        let fields = [
            ("queue", "mail"),
            ("name", "by mistake"),
            ("rate", "10000"),
            ("asked", asked_at.split('"').next().unwrap()),
            ("csrf", asked.csrf()),
        ];
        let begun = site.post(&format!("/act/{action}"), &fields).await;
        assert_eq!(begun.status, 303, "{action}: {}", begun.text);
    };
    let waiting = async || {
        let stats = site.bus.stats("mail").await.unwrap();
        (stats.scheduled + stats.ready, stats.dead)
    };
    bury(&site, "mail", 3, "the post is closed").await;
    sweep("revive-all", "3 dead letters match.").await;
    until("they are revived", async || waiting().await == (3, 0)).await;
    sweep("cancel-all", "3 events match.").await;
    until("they are cancelled", async || waiting().await == (0, 0)).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let kept = queue.event(7).after(HOUR).keep_payload(true).push();
    let id = kept.await.unwrap().id();
    let _ = queue.cancel(id).await.unwrap();
    let records = async || site.bus.records().id(id).page().await.unwrap().items.len();
    until("it has its record", async || records().await == 1).await;
    let ended = site.bus.store_time();
    let is_later = async || site.bus.store_time() > ended;
    until("the time has gone on", is_later).await;
    sweep("replay", "1 event would be pushed once more").await;
    until("it is replayed", async || waiting().await == (1, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sweep_did_before_it_failed_is_counted() {
    // More than the 64 that are pushed to one bucket before the next one's turn. Of the two buckets'
    // revivals the store takes the first, and no other.
    const MANY: usize = 65;
    let store = Counted::failing(|op| matches!(op, StoreOp::Revive { .. }), 1);
    let bus = Bus::builder().settings(Default::default()).store(store);
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let site = Site::of(bus, Role::Admin).await;
    site.bus.set_buckets("mail", Some(2)).await.unwrap();
    bury(&site, "mail", MANY, "refused").await;
    let asked = site.get("/act/revive-all?queue=mail").await;
    let fields = [("queue", "mail"), ("rate", "10000"), ("csrf", asked.csrf())];
    let done = site.post("/act/revive-all", &fields).await;
    assert_eq!(done.status.as_u16(), 303, "{}", done.text);
    until("the end", async || {
        let page = site.get("/dead?queue=mail").await.text;
        !page.contains("so far, running")
    })
    .await;
    let page = site.get("/dead?queue=mail").await.text;
    assert!(page.contains("so far, failed: "), "{page}");
    let left = site.bus.stats("mail").await.unwrap().dead;
    assert!(0 < left && left < MANY, "{left}");
    let page = site.get("/dead?queue=mail").await.text;
    let said = format!("<strong>{}</strong> so far", MANY - left);
    assert!(page.contains(&said), "{said}: {page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sees_some_queues_sweeps_all_of_these_and_no_other() {
    let all = Site::memory(Role::Admin).await;
    let hour = HOUR;
    for name in ["shop.mail", "shop.bills", "other.mail"] {
        let queue = all.bus.queue_named::<u64>(name).unwrap();
        let event = queue.event(7).after(hour).key("customer:42");
        event.push().await.unwrap();
        bury(&all, name, 1, "refused").await;
    }
    let user = User::new("ann", Role::Admin).only(|queue| queue.starts_with("shop."));
    let site = Site::of_user(all.bus.clone(), user.only_schedules_of("shop")).await;
    let filter = [("in", "key"), ("q", "customer:42")];
    for (nth, (action, page, filter, said)) in [
        ("cancel-all", "find", &filter[..], "2 events match."),
        ("drop-all", "dead", &[], "2 dead letters match."),
    ]
    .into_iter()
    .enumerate()
    {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.extend_pairs(filter).finish();
        let asked = site.get(&format!("/act/{action}?{query}")).await;
        assert!(asked.text.contains(said), "{action}: {}", asked.text);
        let fields = [filter, &[("rate", "1000"), ("csrf", asked.csrf())]].concat();
        let begun = site.post(&format!("/act/{action}"), &fields).await;
        assert_eq!(begun.status, 303, "{action}: {}", begun.text);
        until("its user sees its end", async || {
            let page = site.get(&format!("/{page}")).await.text;
            page.matches("<strong>2</strong> so far, done").count() == nth + 1
        })
        .await;
        // Each queue says so, and no other namespace's.
        for (namespace, lines) in [("shop", 2), ("other", 0)] {
            let audit = site.bus.audit_of(namespace, None, 10).await.unwrap();
            let lines_of = audit.items.iter().filter(|line| match action {
                "cancel-all" => line.target.contains(", events of all queues that ann sees"),
                _ => line
                    .target
                    .contains(", dead letters of all queues that ann"),
            });
            assert_eq!(lines_of.count(), lines, "{namespace}: {audit:?}");
        }
    }
    for (name, left) in [("shop.mail", 0), ("shop.bills", 0), ("other.mail", 1)] {
        let stats = site.bus.stats(name).await.unwrap();
        assert_eq!((stats.scheduled, stats.dead), (left, left), "{name}");
    }
    // Who sees one of the queues alone sees no sweep over both.
    let user = User::new("ben", Role::Admin).only(|queue| queue == "shop.mail");
    let one = Site::of_user(all.bus.clone(), user).await;
    assert!(!one.get("/find").await.text.contains("so far"));
}
