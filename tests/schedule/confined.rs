//! Handles that change schedules of some queues only.

use duly::admin::Schedules;
use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::testing::TestBus;

fn options(queue: &str) -> ScheduleOptions {
    ScheduleOptions::new(queue, "0 9 * * *").unwrap()
}

async fn assert_unknown(schedules: &Schedules, name: &str) {
    for done in [schedules.pause(name).await, schedules.resume(name).await] {
        assert_eq!(done.unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert!(!schedules.remove(name).await.unwrap());
    let run = schedules.run_now(name).await.unwrap_err();
    assert_eq!(run.kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_some_queues_changes_no_schedule_of_another() {
    let bus = TestBus::start(Bus::builder()).await.unwrap();
    let all = bus.schedules();
    let of_a = bus.schedules().only(|queue| queue.as_str() == "a");
    of_a.set("nightly", options("a")).await.unwrap();
    of_a.pause("nightly").await.unwrap();
    of_a.resume("nightly").await.unwrap();
    of_a.run_now("nightly").await.unwrap();
    // It is moved to another queue, between a look at it and a change of it.
    all.set("nightly", options("b")).await.unwrap();
    assert_unknown(&of_a, "nightly").await;
    let set = of_a.set("nightly", options("a")).await.unwrap_err();
    assert_eq!(set.kind(), ErrorKind::Conflict);
    let shown = all.get("nightly").await.unwrap().unwrap();
    assert_eq!((shown.options, shown.paused), (options("b"), None));
    // Of one that is gone the name is free.
    assert!(all.remove("nightly").await.unwrap());
    of_a.set("nightly", options("a")).await.unwrap();
    assert!(of_a.remove("nightly").await.unwrap());
}
