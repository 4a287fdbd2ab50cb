//! Pages of schedules: what comes, what was, and what an operator does.

use std::time::Duration;

use duly::Bus;
use duly::admin::Schedule;
use duly::schedule::ScheduleOptions;
use duly_dashboard::{Role, User};
use serde_json::Value;

use crate::site::{Page, Site};

async fn site(role: Role) -> Site {
    let bus = Bus::builder()
        .settings(Default::default())
        .store_url("memory:")
        .only_registered()
        .publish_only()
        .run_schedules(true);
    Site::of(bus.start().await.unwrap(), role).await
}

/// No schedule of it proceeds, so that the event that stands for one keeps its id.
async fn site_at_rest() -> Site {
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.store_url("memory:").only_registered().publish_only();
    Site::of(bus.start().await.unwrap(), Role::Admin).await
}

async fn set(site: &Site, name: &str, queue: &str, when: &str) {
    let options = ScheduleOptions::new(queue, when).unwrap();
    let options = options.payload(&"for sales").unwrap();
    site.bus.schedules().set(name, options).await.unwrap();
}

async fn schedule(site: &Site) -> Option<Schedule> {
    site.bus.schedules().get("nightly").await.unwrap()
}

/// Asks before an action, and does it.
async fn act(site: &Site, action: &str) -> (Page, Page) {
    let question = site.get(&format!("/act/{action}?schedule=nightly")).await;
    let form = [("csrf", question.csrf()), ("schedule", "nightly")];
    let done = site.post(&format!("/act/{action}"), &form).await;
    (question, done)
}

#[tokio::test]
async fn schedules_are_listed_with_what_comes_and_what_was() {
    let site = site(Role::Admin).await;
    let none = site.get("/schedules").await;
    assert!(none.text.contains("No schedule."), "{none:?}");
    set(&site, "nightly", "report", "0 2 * * * Europe/Berlin").await;
    set(&site, "often", "mail", "every 90m").await;
    site.bus.schedules().pause("often").await.unwrap();
    let id = site.bus.schedules().run_now("nightly").await.unwrap();
    let queue = site.bus.queue_named::<Value>("report").unwrap();
    let lease = queue.lease(1, Duration::from_secs(60));
    let leased = lease.wait(Duration::from_secs(9)).send().await.unwrap();
    let _ = leased[0].bury("no sales").await.unwrap();

    let list = site.get("/schedules").await;
    for text in [
        "<a href=\"/jobs/schedules/nightly\">nightly</a>",
        "At 02:00, Europe/Berlin",
        "Failed for good",
        "<span class=\"badge good\">runs</span>",
        "<span class=\"badge warn\">paused</span>",
        "1–2 of 2",
    ] {
        assert!(list.text.contains(text), "{text}: {list:?}");
    }
    assert!(
        list.text.find("nightly") < list.text.find("often"),
        "{list:?}"
    );
    let found = site.get("/schedules?q=OFT").await.text;
    assert!(found.contains("/schedules/often") && !found.contains("/schedules/nightly"));

    let page = site.get("/schedules/nightly").await;
    assert_eq!(page.text.matches(" 02:00:00 +0").count(), 11, "{page:?}");
    let event = format!("/queues/report/events/{id}");
    for text in ["no sales", "for sales", "next at 2", &event] {
        assert!(page.text.contains(text), "{text}: {page:?}");
    }
    // The page of the occurrence leads back, also when it is over.
    let link = "<a href=\"/jobs/schedules/nightly\">nightly</a>";
    assert!(site.get(&event).await.text.contains(link));
    let letters = site.bus.dead_letters().queue("report");
    assert_eq!(
        letters.drop([id]).await.unwrap().finished().unwrap().done,
        1
    );
    let over = site.get(&event).await;
    assert!(
        over.text.contains("cancelled</span>") && over.text.contains(link),
        "{over:?}"
    );
    // And that of another event does not.
    let other = queue
        .event(Value::Null)
        .key("nightly")
        .push()
        .await
        .unwrap();
    let other = site
        .get(&format!("/queues/report/events/{}", other.id()))
        .await;
    assert!(!other.text.contains(link), "{other:?}");
}

#[tokio::test]
async fn a_schedule_is_paused_resumed_run_and_removed_by_its_forms() {
    let site = site(Role::Admin).await;
    set(&site, "nightly", "report", "@daily").await;
    let (question, done) = act(&site, "pause-schedule").await;
    assert!(
        question.text.contains("Schedule nightly of queue report"),
        "{question:?}"
    );
    assert_eq!(done.status, 303, "{done:?}");
    let to = done.headers["location"].to_str().unwrap();
    assert!(
        to.starts_with("/jobs/schedules/nightly?done=nightly+is+paused"),
        "{to}"
    );
    assert!(schedule(&site).await.unwrap().paused.is_some());
    let page = site.get("/schedules/nightly").await;
    assert!(
        page.text.contains("/act/resume-schedule?schedule=nightly"),
        "{page:?}"
    );
    assert_eq!(act(&site, "resume-schedule").await.1.status, 303);
    assert!(schedule(&site).await.unwrap().paused.is_none());
    let (_, run) = act(&site, "run-schedule").await;
    let to = run.headers["location"].to_str().unwrap();
    assert!(to.contains("has+pushed+event"), "{to}");
    assert_eq!(site.bus.stats("report").await.unwrap().ready, 1);
    let (question, removed) = act(&site, "remove-schedule").await;
    assert!(question.text.contains("button danger"), "{question:?}");
    let to = removed.headers["location"].to_str().unwrap();
    assert!(to.starts_with("/jobs/schedules?done="), "{to}");
    assert_eq!(schedule(&site).await, None);
    for path in ["/schedules/nightly", "/schedules/no%20name"] {
        assert_eq!(site.get(path).await.status, 404, "{path}");
    }
    assert_eq!(
        site.get("/act/pause-schedule?schedule=nightly")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn a_user_of_some_queues_sees_their_schedules_alone() {
    let bus = Bus::builder()
        .settings(Default::default())
        .store_url("memory:");
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let user = User::new("ann", Role::Admin).only(|queue| queue == "mail");
    let site = Site::of_user(bus, user).await;
    set(&site, "nightly", "report", "@daily").await;
    set(&site, "hourly", "mail", "@hourly").await;
    let list = site.get("/schedules").await.text;
    assert!(
        list.contains("hourly") && !list.contains("nightly"),
        "{list}"
    );
    assert_eq!(site.get("/schedules/hourly").await.status, 200);
    assert_eq!(site.get("/schedules/nightly").await.status, 404);
    let question = site.get("/act/pause-schedule?schedule=hourly").await;
    for action in ["pause", "resume", "run", "remove"] {
        let path = format!("/act/{action}-schedule");
        let asked = site.get(&format!("{path}?schedule=nightly")).await;
        assert_eq!(asked.status, 404, "{action}");
        let form = [("csrf", question.csrf()), ("schedule", "nightly")];
        assert_eq!(site.post(&path, &form).await.status, 404, "{action}");
    }
    let kept = schedule(&site).await.unwrap();
    assert_eq!((kept.paused, kept.last), (None, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_a_queue_of_duly_itself_is_no_event_that_is_changed() {
    let site = site_at_rest().await;
    set(&site, "nightly", "report", "@yearly").await;
    let added = site.bus.add_to_audit("ann", "queue paused", "report");
    added.await.unwrap();
    for queue in ["duly.schedules", "duly.audit"] {
        let events = site.bus.events().queue(queue).page().await.unwrap();
        let id = events.items[0].id.to_string();
        let page = site.get(&format!("/queues/{queue}/events/{id}")).await;
        assert_eq!(page.status, 200, "{queue}: {page:?}");
        assert!(!page.text.contains("/act/cancel"), "{queue}: {page:?}");
        for action in ["cancel", "run-now", "reschedule"] {
            let path = format!("/act/{action}");
            let asked = site.get(&format!("{path}?queue={queue}&id={id}")).await;
            let form = [("csrf", asked.csrf()), ("queue", queue), ("id", &id)];
            let done = site.post(&path, &form).await;
            assert_eq!(done.status, 400, "{queue}, {action}: {done:?}");
            let why = "is a queue of duly itself";
            assert!(done.text.contains(why), "{queue}, {action}: {done:?}");
        }
    }
    assert!(schedule(&site).await.is_some());
    let mut lines = site.bus.audit(None, 10).await.unwrap().items;
    lines.retain(|line| line.actor == "ann"); // the program has set the schedule
    assert_eq!(lines.len(), 1, "{lines:?}");
}
