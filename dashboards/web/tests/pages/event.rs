//! The page of an event: of many attempts the newest, and how it ended.

use std::time::Duration;

use duly_dashboard::Role;

use crate::site::{Site, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_attempts_the_newest_are_shown_and_how_it_ended() {
    let site = Site::memory(Role::View).await;
    let queue = site.bus.queue_named::<u64>("polls").unwrap();
    let id = queue.push(1, Duration::ZERO).await.unwrap().id();
    // A page of exactly as many records leaves none out.
    for snoozes in [50, 60] {
        let path = format!("/queues/polls/events/{id}");
        let records = site.bus.records().id(id).limit(1_000);
        let recorded = async || records.clone().page().await.unwrap().items.len();
        while recorded().await < snoozes {
            let before = recorded().await;
            let lease = queue.lease(1, Duration::from_secs(60));
            let leased = lease.wait(Duration::from_secs(9)).send().await.unwrap();
            let status = leased[0].snooze(Duration::ZERO).await.unwrap();
            assert_eq!(status, duly::lease::LeaseStatus::Held);
            until("it is recorded", async || recorded().await > before).await;
        }
        let page = site.get(&path).await.text;
        let shown = page.matches("<strong>Snoozed</strong>").count();
        assert_eq!(shown, snoozes.min(50), "{page}");
        assert_eq!(page.contains("What was before"), snoozes > 50, "{page}");
        assert!(page.contains("class=\"next\""), "it goes on: {page}");
    }
    let _ = queue.cancel(id).await.unwrap();
    until("its end is recorded", async || {
        let ended = site.bus.records().id(id).newest_first().page().await;
        ended.unwrap().items[0].outcome == duly::records::Outcome::Cancelled
    })
    .await;
    let page = site.get(&format!("/queues/polls/events/{id}")).await.text;
    let (_, timeline) = page.split_once("<ol class=\"timeline\">").unwrap();
    let (timeline, _) = timeline.split_once("</ol>").unwrap();
    let last = timeline.rsplit("<li").next().unwrap();
    assert!(last.contains("Cancelled"), "{last}");
    let query = format!("records?queue=polls&amp;id={id}&amp;order=oldest");
    assert!(page.contains(&query), "the way to the others: {page}");
    let query = query.replace("&amp;", "&");
    let others = site.get(&format!("/{query}")).await.text;
    assert!(
        others.contains("snoozed") || others.contains("Snoozed"),
        "{others}"
    );
}
