//! A replay of a queue that has occurrences of schedules.

use duly::prelude::*;
use duly::schedule::{MissedPolicy, ScheduleOptions};
use duly::testing::{Probe, TestBus};
use duly::{Annotation, BusBuilder};

use super::runs::DAY;

fn builder(queue: Annotation, probe: &Probe<u64>) -> BusBuilder {
    let builder = Bus::builder().only_registered();
    builder.register_as(queue, probe.clone())
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_that_was_passed_over_is_not_replayed() {
    for keeps in [false, true] {
        let probe = Probe::<u64>::new();
        let queue = Annotation::new("numbers").keep_payload(keeps);
        let bus = TestBus::start(builder(queue, &probe)).await.unwrap();
        let often = ScheduleOptions::new("numbers", "every 10m").unwrap();
        let often = often.missed(MissedPolicy::Skip).payload(&7).unwrap();
        let schedules = bus.schedules();
        schedules.set("often", often).await.unwrap();
        bus.advance(DAY / 24).await;
        schedules.pause("often").await.unwrap();
        bus.advance(DAY / 24).await;
        schedules.resume("often").await.unwrap();
        bus.advance(DAY / 24).await;
        let page = bus.records().queue("numbers").limit(1_000).page().await;
        let mut records = page.unwrap().items;
        records.retain(|it| it.outcome != Outcome::Cancelled); // by the pause
        let expired = records.iter().filter(|it| it.outcome == Outcome::Expired);
        assert!(expired.count() >= 5, "they have records: {records:#?}");

        let (ran, dry) = (probe.count(), bus.replay("day").dry_run());
        assert!(ran >= 10);
        let pushed = if keeps { ran } else { 0 };
        for replay in [dry, bus.replay("day")] {
            let report = replay.push(&records).await.unwrap();
            assert_eq!(report.pushed, pushed as u64, "keeps {keeps}: {report:?}");
            let without = if keeps { 0 } else { ran };
            assert_eq!(report.without_payload, without as u64, "{report:?}");
        }
        bus.advance(DAY / 1_440).await;
        assert!(probe.payloads().iter().all(|it| *it == 7));
        assert_eq!(bus.stats("numbers").await.unwrap().dead, 0);
    }
}
