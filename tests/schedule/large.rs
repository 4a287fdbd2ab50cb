//! Schedules whose stored form is larger than a payload may be.

use duly::prelude::*;
use duly::schedule::{Calendar, ScheduleOptions};
use duly::testing::TestBus;

use super::runs::{DAY, Seen, builder, instants, options};

fn large(when: &str, bytes: usize) -> ScheduleOptions {
    // Each quote of it is two bytes in the stored schedule.
    let text = "\"".repeat(bytes / 2);
    options(when).payload(&text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_may_be_pushed_can_be_that_of_a_schedule_and_of_each_change() {
    let bus = Bus::builder().only_registered().run_schedules(true);
    let bus = TestBus::start(bus).await.unwrap();
    let schedules = bus.schedules();
    for hours in 1..=3 {
        let large = large(&format!("every {hours}h"), 1_000_000);
        schedules.set("large", large.clone()).await.unwrap();
        assert!(schedules.get("large").await.unwrap().unwrap().options == large);
    }
    bus.advance(DAY).await;
    assert_eq!(bus.stats("report").await.unwrap().ready, 8);
    assert!(!schedules.get("large").await.unwrap().unwrap().is_changing);

    let error = schedules.set("large", large("every 1h", 1_100_000)).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let words = "schedule large: the payload has 1100002 bytes, at most 1048576 are allowed";
    assert_eq!(error.to_string(), words);
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_of_a_schedule_beside_its_payload_is_none_that_a_user_gave() {
    let seen = Seen::default();
    let few = builder(&seen, &[]).payload_bytes_max(400);
    let bus = TestBus::start(few).await.unwrap();
    let days = (0..300).map(|day| format!("{}-01-{:02}", 2030 + day / 28, day % 28 + 1));
    let days = Calendar::new(days).unwrap();
    // So many that 64 are noted as pushed and to come.
    let often = options("every 1s").exclude(&days);
    bus.schedules().set("often", often).await.unwrap();
    bus.advance(DAY / 144).await;
    assert!(instants(&seen, "often").len() >= 599);
}
