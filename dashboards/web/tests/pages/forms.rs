//! Actions: roles, forged forms, and what they do.

use std::sync::Arc;
use std::time::Duration;

use duly::event::State;
use duly::records::Outcome;
use duly::schedule::ScheduleOptions;
use duly::time::When;
use duly_dashboard::{Access, AccessError, Credentials, Role, User};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::site::{Site, until};

const ACTIONS: [(&str, Role); 24] = [
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
    ("revive-chosen", Role::Admin),
    ("drop-chosen", Role::Admin),
    ("cancel-chosen", Role::Operate),
    ("run-chosen", Role::Operate),
    ("reschedule-chosen", Role::Operate),
    ("purge", Role::Admin),
    ("replay", Role::Admin),
    ("pause-schedule", Role::Admin),
    ("resume-schedule", Role::Admin),
    ("run-schedule", Role::Operate),
    ("remove-schedule", Role::Admin),
];

/// The actions of [`Role::Operate`].
const OPERATING: [&str; 10] = [
    "cancel",
    "run-now",
    "reschedule",
    "cancel-all",
    "run-all",
    "reschedule-all",
    "cancel-chosen",
    "run-chosen",
    "reschedule-chosen",
    "run-schedule",
];

#[tokio::test]
async fn an_action_needs_its_role() {
    let of = |role| User::new("anonymous", role);
    let users = [
        (Role::View, of(Role::View), [].as_slice()),
        (Role::Operate, of(Role::Operate), &[]),
        (Role::Admin, of(Role::Admin), &[]),
        (Role::View, of(Role::Operate).without_operating(), &[]),
        (Role::Admin, of(Role::Admin).without_operating(), &OPERATING),
        (
            Role::Operate,
            of(Role::Operate).without_runs(),
            &["run-schedule"],
        ),
        (
            Role::Admin,
            of(Role::Admin).without_runs(),
            &["run-schedule"],
        ),
    ];
    for (role, user, except) in users {
        let case = format!("{user:?} without {except:?}");
        let memory = Site::memory(Role::View).await;
        let site = Site::of_user(memory.bus.clone(), user).await;
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
                    "/act/{action}?queue=mail&id={id}&schedule=nightly&chosen=mail/{id}"
                ))
                .await;
            let fields = [
                ("csrf", own.csrf()),
                ("queue", "mail"),
                ("id", &id),
                ("chosen", &format!("mail/{id}")),
                ("delay", "9"),
                ("schedule", "nightly"),
            ];
            let done = site.post(&format!("/act/{action}"), &fields).await;
            if role >= needed && !except.contains(&action) {
                assert_eq!(page.status, 200, "{action} as {case}");
                assert_ne!(done.status, 403, "{action} as {case}");
            } else {
                assert_eq!(page.status, 403, "{action} as {case}");
                assert_eq!(done.status, 403, "{action} as {case}");
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

/// Who began a sweep stops it, and of others who administers; nobody is offered what is refused.
#[tokio::test]
async fn a_sweep_is_stopped_by_its_user_or_who_administers() {
    let memory = Site::memory(Role::Admin).await;
    bury(&memory, "mail", 9, "x").await;
    let ann = || User::new("ann", Role::Admin).without_operating();
    let sweeps = Arc::new(Mutex::new(ann()));
    let access = Changing(Arc::clone(&sweeps));
    let site = Site::with(memory.bus.clone(), |it| it.authorize(access)).await;
    for (user, may) in [
        (ann(), true),
        (User::new("bob", Role::Operate), false),
        (User::new("eve", Role::View), false),
        (User::new("eve", Role::Admin).without_operating(), true),
        (User::new("eve", Role::Admin), true),
    ] {
        *sweeps.lock() = ann();
        let question = site.get("/act/drop-all?queue=mail").await;
        let csrf = question.csrf().to_owned();
        let fields = [
            ("csrf", csrf.as_str()),
            ("queue", "mail"),
            ("rate", "0.001"),
        ];
        assert_eq!(site.post("/act/drop-all", &fields).await.status, 303);
        let page = site.get("/dead?queue=mail").await.text;
        let (_, id) = page.split_once("/act/stop?id=").unwrap();
        let id = id.split('&').next().unwrap().to_owned();
        let case = format!("{user:?}");
        *sweeps.lock() = user;
        let page = site.get("/dead?queue=mail").await;
        assert_eq!(page.text.contains("/act/stop?id="), may, "{case}: {page:?}");
        let fields = [("csrf", page.csrf()), ("id", &id)];
        let stopped = site.post("/act/stop", &fields).await;
        assert_eq!(
            stopped.status,
            if may { 303 } else { 403 },
            "{case}: {stopped:?}"
        );
        *sweeps.lock() = ann();
        let fields = [("csrf", csrf.as_str()), ("id", &id)];
        site.post("/act/stop", &fields).await;
        until("it has ended", async || {
            let page = site.get("/dead?queue=mail").await.text;
            !page.contains("/act/stop?id=")
        })
        .await;
    }
}

/// Everybody is the user that is here now.
#[derive(Debug)]
struct Changing(Arc<Mutex<User>>);

impl Access for Changing {
    fn user<'a>(
        &'a self,
        _: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        let user = self.0.lock().clone();
        Box::pin(std::future::ready(Ok(Some(user))))
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_rescheduled_to_a_time() {
    let site = Site::memory(Role::Operate).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let hour = Duration::from_secs(3_600);
    let ids = queue.push_many([1, 2, 3], hour).await.unwrap();
    let ids: Vec<String> = ids.iter().map(|it| it.id().to_string()).collect();
    let chosen = format!("mail/{}", ids[1]);
    let (two, all) = ("2035-12-02T09:00", "2036-01-02T09:30:05");
    let due = async || {
        let items = site.bus.events().queue("mail").page().await.unwrap().items;
        let mut due: Vec<_> = items.iter().map(|it| it.due.to_string()).collect();
        due.sort_unstable();
        due
    };
    for (action, name, value, at) in [
        ("reschedule", "id", &ids[0], two),
        ("reschedule-chosen", "chosen", &chosen, two),
    ] {
        let asked = site
            .get(&format!("/act/{action}?queue=mail&{name}={value}"))
            .await;
        let input = "type=\"datetime-local\" name=\"at\"";
        assert!(asked.text.contains(input), "{action}: {}", asked.text);
        let fields = [
            ("queue", "mail"),
            (name, value),
            // What the form has unless it is changed.
            ("delay", "60"),
            ("at", at),
            ("csrf", asked.csrf()),
        ];
        let done = site.post(&format!("/act/{action}"), &fields).await;
        assert_eq!(done.status, 303, "{action}: {}", done.text);
    }
    let moved = due().await;
    assert!(moved[1..].iter().all(|it| it.starts_with(two)), "{moved:?}");
    assert!(moved[0] < moved[1], "one is as it was: {moved:?}");
    let asked = site.get("/act/reschedule-all?queue=mail").await;
    let fields = [
        ("queue", "mail"),
        ("delay", "60"),
        ("at", all),
        ("rate", "1000"),
        ("csrf", asked.csrf()),
    ];
    let done = site.post("/act/reschedule-all", &fields).await;
    assert_eq!(done.status, 303, "{}", done.text);
    until("all are due then", async || {
        due().await.iter().all(|it| it.starts_with(all))
    })
    .await;
    let wrong = [("queue", "mail"), ("at", "noon"), ("csrf", asked.csrf())];
    let refused = site.post("/act/reschedule-all", &wrong).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("Not done."), "{}", refused.text);
}
