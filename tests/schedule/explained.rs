//! What an explanation says of a schedule and of its occurrences.

use super::runs::{DAY, bus, options};

#[tokio::test(start_paused = true)]
async fn an_occurrence_says_its_schedule_and_instant_and_a_schedule_says_its_next() {
    let (bus, _) = bus(&[("daily", options("0 9 * * *"))]).await;
    bus.advance(DAY).await;
    let shown = bus.schedules().get("daily").await.unwrap().unwrap();
    let instant = shown.ahead[0];
    let events = bus.events().queue("report").key("daily").page().await;
    let id = events.unwrap().items[0].id;
    let explained = bus.explain(id).await.unwrap();
    let text = explained.to_string();
    let line = format!("\nfor   the instant {instant} of schedule daily\n");
    assert!(text.contains(&line), "{text}");
    assert_eq!(explained.occurrence.unwrap().instant, instant);
    let clock = shown.options.recurrence().clock_time(instant);
    let words = format!("next at {clock}, because of `0 9 * * * UTC`; its event is pushed already");
    assert_eq!(shown.explain(), words);
    // One that was pushed by somebody stands for no instant.
    let queue = bus.queue_named::<u64>("other").unwrap();
    let id = queue.push(7, DAY).await.unwrap().id();
    assert_eq!(bus.explain(id).await.unwrap().occurrence, None);
}

#[tokio::test(start_paused = true)]
async fn each_occurrence_and_each_schedule_is_found_by_its_id_in_whichever_bucket_it_lies() {
    let (bus, _) = bus(&[]).await;
    bus.set_buckets("report", Some(64)).await.unwrap();
    for number in 0..40 {
        let daily = options("0 9 * * *");
        let name = format!("daily-{number}");
        bus.schedules().set(&name, daily).await.unwrap();
    }
    bus.settle().await;
    for name in ["report", "duly.schedules"] {
        let page = bus.events().queue(name).limit(100).page().await.unwrap();
        assert_eq!(page.items.len(), 40, "{name}");
        for event in page.items {
            let found = bus.event_in(name, event.id).await.unwrap();
            assert!(found.is_some(), "{event:?}");
            let explained = bus.explain(event.id).await.unwrap();
            assert_eq!(explained.key, event.key, "{event:?}");
        }
    }
}
