//! Actions: roles, forged forms, and what they do.

use std::time::Duration;

use duly::event::State;
use duly::records::Outcome;
use duly::schedule::ScheduleOptions;
use duly::time::When;
use duly_dashboard::Role;
use serde_json::{Value, json};

use crate::site::Site;

const ACTIONS: [(&str, Role); 18] = [
    ("pause", Role::Admin),
    ("resume", Role::Admin),
    ("rate", Role::Admin),
    ("cancel", Role::Operate),
    ("run-now", Role::Operate),
    ("reschedule", Role::Operate),
    ("revive", Role::Admin),
    ("drop", Role::Admin),
    ("revive-all", Role::Admin),
    ("drop-all", Role::Admin),
    ("cancel-all", Role::Operate),
    ("run-all", Role::Operate),
    ("reschedule-all", Role::Operate),
    ("replay", Role::Admin),
    ("pause-schedule", Role::Admin),
    ("resume-schedule", Role::Admin),
    ("run-schedule", Role::Operate),
    ("remove-schedule", Role::Admin),
];

#[tokio::test]
async fn an_action_needs_its_role() {
    for role in [Role::View, Role::Operate, Role::Admin] {
        let site = Site::memory(role).await;
        let queue = site.bus.queue_named::<Value>("mail").unwrap();
        let id = queue
            .push(json!(1), Duration::from_secs(60))
            .await
            .unwrap()
            .id();
        let options = ScheduleOptions::new("mail", "@daily").unwrap();
        let schedules = site.bus.schedules();
        schedules.set("nightly", options).await.unwrap();
        // Every form of a visitor has the same token.
        let own = Site::memory(Role::Admin)
            .await
            .get("/act/pause?queue=mail")
            .await;
        for (action, needed) in ACTIONS {
            let id = id.to_string();
            let page = site
                .get(&format!(
                    "/act/{action}?queue=mail&id={id}&schedule=nightly"
                ))
                .await;
            let fields = [
                ("csrf", own.csrf()),
                ("queue", "mail"),
                ("id", &id),
                ("delay", "9"),
                ("schedule", "nightly"),
            ];
            let done = site.post(&format!("/act/{action}"), &fields).await;
            if role >= needed {
                assert_eq!(page.status, 200, "{action} as {role:?}");
                assert_ne!(done.status, 403, "{action} as {role:?}");
            } else {
                assert_eq!(page.status, 403, "{action} as {role:?}");
                assert_eq!(done.status, 403, "{action} as {role:?}");
            }
        }
        if role == Role::View {
            let controls = site.bus.controls().await.unwrap();
            assert!(controls.is_empty(), "{controls:?}");
            let event = site.bus.event(id).await.unwrap().unwrap();
            assert_eq!(event.state, State::Scheduled);
            let schedule = schedules.get("nightly").await.unwrap().unwrap();
            assert_eq!(schedule.paused, None);
        }
    }
}

#[tokio::test]
async fn a_forged_form_does_nothing() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    queue.push(json!(1), When::Now).await.unwrap();
    let question = site.get("/act/pause?queue=mail").await;
    let (good, queue) = (question.csrf(), ("queue", "mail"));

    assert_eq!(site.post("/act/pause", &[queue]).await.status, 403);
    let wrong = [("csrf", "wrong"), queue];
    assert_eq!(site.post("/act/pause", &wrong).await.status, 403);
    let right = [("csrf", good), queue];
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://example.org"),
        ("origin", "null"),
    ] {
        let request = site.form("/act/pause", &right).header(name, value);
        assert_eq!(Site::send(request).await.status, 403, "{name}: {value}");
    }
    // Of another browser, which has another cookie.
    let other = site.form("/act/pause", &right);
    let other = other.header("cookie", format!("duly_visit={}", "w".repeat(24)));
    let mut other = other.build().unwrap();
    let cookie = format!("duly_visit={}", "w".repeat(24)).parse().unwrap();
    other.headers_mut().insert("cookie", cookie);
    let other = reqwest::Client::new().execute(other).await.unwrap();
    assert_eq!(other.status(), 403);
    assert!(site.bus.controls().await.unwrap().is_empty());

    // A question alone does nothing either.
    assert_eq!(site.get("/act/pause?queue=mail").await.status, 200);
    assert!(site.bus.controls().await.unwrap().is_empty());
    assert_eq!(site.post("/act/pause", &right).await.status, 303);
    assert!(site.bus.controls().await.unwrap()["mail"].paused);
}

/// Makes dead letters, each with this error.
pub(crate) async fn bury(site: &Site, queue: &str, many: usize, error: &str) {
    let queue = site.bus.queue_named::<Value>(queue).unwrap();
    for number in 0..many {
        queue
            .push(json!({"number": number}), When::Now)
            .await
            .unwrap();
    }
    let mut buried = 0;
    while buried < many {
        let lease = queue
            .lease(many.min(1_000), Duration::from_secs(60))
            .wait(Duration::from_secs(9));
        for leased in lease.send().await.unwrap() {
            let _ = leased.bury(error).await.unwrap();
            buried += 1;
        }
    }
}

#[tokio::test]
async fn dead_letters_are_revived_by_a_filter_and_the_record_says_by_whom() {
    let site = Site::memory(Role::Admin).await;
    bury(&site, "mail", 60, "no such address").await;
    bury(&site, "mail", 3, "the post is closed").await;
    let page = site.get("/dead?queue=mail&error=closed").await;
    assert_eq!(
        page.text.matches("the post is closed").count(),
        3,
        "{page:?}"
    );
    let question = site.get("/act/revive-all?queue=mail&error=address").await;
    assert!(
        question.text.contains("60 dead letters match."),
        "{question:?}"
    );
    let fields = [("queue", "mail"), ("error", "address"), ("rate", "100000")];
    let fields: Vec<_> = fields
        .into_iter()
        .chain([("csrf", question.csrf())])
        .collect();
    let began = site.post("/act/revive-all", &fields).await;
    assert_eq!(began.status, 303, "{began:?}");
    let ended = async {
        while site.bus.stats("mail").await.unwrap().dead > 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended)
        .await
        .unwrap();
    assert_eq!(site.bus.stats("mail").await.unwrap().ready, 60);
    let revived = site
        .bus
        .records()
        .outcome(Outcome::Revived)
        .page()
        .await
        .unwrap();
    assert_eq!(revived.items.len(), 60);
    assert!(
        revived
            .items
            .iter()
            .all(|record| record.by.as_deref() == Some("anonymous"))
    );
    let page = site.get("/dead?queue=mail").await;
    assert!(page.text.contains("<strong>60</strong> so far"), "{page:?}");
}

#[tokio::test]
async fn what_is_over_cannot_be_changed_and_the_page_says_so() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    let id = queue
        .push(json!(1), Duration::from_secs(60))
        .await
        .unwrap()
        .id();
    let question = site.get(&format!("/act/cancel?queue=mail&id={id}")).await;
    let id = id.to_string();
    let fields = [("csrf", question.csrf()), ("queue", "mail"), ("id", &id)];
    assert_eq!(site.post("/act/cancel", &fields).await.status, 303);
    let late = site.post("/act/reschedule", &fields).await;
    assert_eq!(late.status, 409);
    assert!(late.text.contains("nothing was done"), "{late:?}");
}
