//! Promise 5: every ended attempt leaves a record, written in the same step as its outcome.

use duly::prelude::*;
use duly::records::{Cause, ERROR_BYTES_MAX};
use duly::testing::Probe;

use crate::world::{ORDERS, World, secs};

over_every_store! {
    a_record_says_what_happened_and_when,
    every_attempt_that_was_seen_is_on_record,
    an_error_is_cut_at_its_bound,
    records_are_found_by_queue_by_event_and_by_outcome,
    records_are_read_page_by_page,
    records_survive_a_restart,
}

async fn a_record_says_what_happened_and_when(world: World) {
    let probe = Probe::<u64>::running(|event, _cx| async move {
        tokio::time::sleep(secs(2)).await;
        match event.attempt() {
            1 => Err(Failure::retry("not yet")),
            _ => Ok(()),
        }
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let started = bus.now();
    let event = queue.event(1).after(secs(60)).key("order:8");
    let id = event.push().await.unwrap().id();
    bus.advance(secs(120)).await;

    let history = bus.history(id).await.unwrap();
    let [first, second] = &history[..] else {
        panic!("{history:?}");
    };
    for (record, due) in [(first, started + secs(60)), (second, started + secs(63))] {
        assert_eq!(record.queue.as_str(), "orders");
        assert_eq!(record.key.as_deref(), Some("order:8"));
        assert_eq!(record.due, due);
        let stages = &record.stages;
        assert!(stages.moved_us > 0 && stages.moved_us <= stages.fetched_us);
        assert!(stages.fetched_us <= stages.started_us);
        assert_eq!(stages.started_us, due.as_micros());
        assert_eq!(stages.finished_us, (due + secs(2)).as_micros());
        assert_eq!(record.lateness(), Some(secs(0)));
        assert!(record.node.0 > 0);
    }
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!(first.outcome, Outcome::Retried);
    assert_eq!(first.cause, Some(Cause::Failed));
    assert_eq!(first.error.as_deref(), Some("not yet"));
    assert_eq!(second.outcome, Outcome::Acked);
    assert_eq!((second.cause, &second.error), (None, &None));
}

/// Neither is there a record without an attempt, nor an attempt without its record.
async fn every_attempt_that_was_seen_is_on_record(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| {
        if u64::from(event.attempt()) <= event.payload % 4 {
            return Err(Failure::retry("not yet"));
        }
        Ok(())
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.push_many(0..200, secs(1)).await.unwrap();
    bus.run_until_idle(secs(60)).await.unwrap();

    let mut recorded = Vec::new();
    let mut after = None;
    loop {
        let page = bus.records().after(after).limit(100).page().await.unwrap();
        recorded.extend(page.items.iter().map(|record| (record.id, record.attempt)));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let mut seen = probe.attempts();
    seen.sort_unstable();
    recorded.sort_unstable();
    assert_eq!(recorded, seen);
    assert_eq!(seen.len(), 50 * (1 + 2 + 3 + 4));
}

async fn an_error_is_cut_at_its_bound(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| match event.payload {
        1 => Err(Failure::permanent("ä".repeat(5_000))),
        2 => Err(Failure::discard("ä".repeat(5_000))),
        _ => panic!("{}", "ä".repeat(5_000)),
    });
    let (bus, queue) = world.serve(ORDERS.attempts(1), &probe).await;
    for payload in 1..=3 {
        let id = queue.push(payload, When::Now).await.unwrap().id();
        bus.advance(secs(1)).await;
        let history = bus.history(id).await.unwrap();
        let error = history[0].error.as_deref().unwrap();
        assert!(error.len() <= ERROR_BYTES_MAX, "{} bytes", error.len());
        assert!(error.starts_with("ää"));
    }
}

async fn records_are_found_by_queue_by_event_and_by_outcome(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| match event.payload {
        1 => Ok(()),
        _ => Err(Failure::permanent("no")),
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let good = queue.push(1, When::Now).await.unwrap().id();
    let bad = queue.push(2, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;

    let ids = async |records: duly::records::Records| {
        let page = records.page().await.unwrap();
        page.items
            .iter()
            .map(|record| record.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(bus.records().id(good)).await, [good]);
    assert_eq!(ids(bus.records().outcome(Outcome::Buried)).await, [bad]);
    assert_eq!(ids(bus.records().queue("orders")).await.len(), 2);
    assert_eq!(ids(bus.records().queue("others")).await, []);
    let error = bus.records().queue("no spaces").page().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

async fn records_are_read_page_by_page(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    queue.push_many(0..25, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    let (mut lengths, mut after) = (Vec::new(), None);
    loop {
        let page = bus.records().after(after).limit(10).page().await.unwrap();
        lengths.push(page.items.len());
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(lengths, [10, 10, 5]);
}

async fn records_survive_a_restart(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let before = bus.history(id).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let (bus, _queue) = world.push_only::<u64>("orders").await;
    assert_eq!(bus.history(id).await.unwrap(), before);
    assert_eq!(before.len(), 1);
}

/// Who follows records goes on from the last page, also from one without any.
#[tokio::test(start_paused = true)]
async fn a_follower_goes_on_from_the_last_page() {
    let world = World::memory();
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    let (mut after, mut seen) = (None, Vec::new());
    for round in 0..6_u64 {
        for _ in 0..round * 40 {
            queue.push(round, When::Now).await.unwrap();
        }
        bus.advance(secs(1)).await;
        loop {
            let page = bus
                .records()
                .queue("orders")
                .after(after)
                .page()
                .await
                .unwrap();
            seen.extend(page.items.iter().map(|record| record.id));
            assert!(page.next.is_none() || page.next == page.end);
            after = page.end;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(after.is_some(), round > 0);
    }
    assert_eq!(seen.len(), 600);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 600, "none comes twice");
}
