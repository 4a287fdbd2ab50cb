//! Asking for records: by what, in which order, page by page while they arrive, and by the minute;
//! out of the store alone, and out of store and journal together.

use std::sync::Arc;
use std::time::Duration;

use duly::Annotation;
use duly::event::TraceId;
use duly::journal::{Journal, MemoryJournal, RecorderOptions};
use duly::prelude::*;
use duly::records::{Cause, Format, MinuteStats, Query, Record, Records};
use duly::testing::{Probe, TestBus};
use duly::time::Timestamp;

use crate::world::{World, ms, secs};

over_every_store! {
    records_are_found_by_anything_that_is_asked_for,
    the_newest_come_first_where_that_is_asked_for,
    pages_stay_right_while_records_arrive_and_move_to_the_journal,
    minutes_count_every_record_once,
}

const ORDERS: Annotation = Annotation::new("orders")
    .attempts(2)
    .timeout(Duration::from_secs(5))
    .backoff(RetryPolicy::fixed(Duration::from_secs(60)));

/// Fails by the payload: 1 once, 2 for good, 3 by its time-out; 4 panics.
fn handler() -> Probe<u64> {
    Probe::running(|event, _cx| async move {
        match event.payload {
            1 if event.attempt() == 1 => Err(Failure::retry("the bank is closed")),
            2 => Err(Failure::permanent("no such account: =1+1, \"x\"\nend")),
            3 => std::future::pending().await,
            4 => std::panic::resume_unwind(Box::new("on purpose")),
            _ => Ok(()),
        }
    })
}

/// A bus without a journal, one with a journal that has everything, one whose journal has a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kept {
    Store,
    Journal,
    Both,
}

impl Kept {
    const ALL: [Self; 3] = [Self::Store, Self::Journal, Self::Both];
}

pub(crate) async fn bus(
    world: &World,
    kept: Kept,
) -> (TestBus, Queue<u64>, Option<Arc<dyn Journal>>) {
    let mut builder = world.builder().register_as(ORDERS, handler());
    let journal = (kept != Kept::Store).then(|| Arc::new(MemoryJournal::new()) as Arc<dyn Journal>);
    if let Some(journal) = &journal {
        let linger = match kept {
            Kept::Both => secs(8),
            _ => Duration::ZERO,
        };
        builder = builder
            .shared_journal(Arc::clone(journal))
            .recorder_options(RecorderOptions {
                linger,
                fallback_poll_every: Some(secs(86_400)),
                ..RecorderOptions::default()
            });
    }
    let bus = world.start(builder).await;
    let queue = bus.queue_named("orders").unwrap();
    (bus, queue, journal)
}

/// A world for each kind; a store that keeps its records itself takes no journal.
pub(crate) fn worlds(world: World) -> Vec<(Kept, World)> {
    if world.is_embedded() {
        return vec![(Kept::Store, world)];
    }
    let [one, two, three] = Kept::ALL;
    vec![
        (one, world),
        (two, World::memory()),
        (three, World::memory()),
    ]
}

async fn found(records: Records) -> Vec<Record> {
    found_by(records.limit(3)).await
}

pub(crate) async fn found_by(records: Records) -> Vec<Record> {
    let mut stream = records.stream();
    let mut found = Vec::new();
    while let Some(record) = stream.next().await {
        found.push(record.unwrap());
    }
    found
}

async fn records_are_found_by_anything_that_is_asked_for(world: World) {
    for (kept, world) in worlds(world) {
        let (bus, queue, _journal) = bus(&world, kept).await;
        let start = bus.now();
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let mut ids = Vec::new();
        for payload in 0..5 {
            let event = queue
                .event(payload)
                .after(secs(payload))
                .key(format!("k{}", payload % 2));
            let header = format!("00-{trace}-00f067aa0ba902b7-01");
            let event = match payload {
                2 => event.header("traceparent", header),
                _ => event,
            };
            ids.push(event.push().await.unwrap().id());
        }
        bus.advance(secs(20)).await;
        let cancelled = queue.push(9, secs(60)).await.unwrap().id();
        let _ = queue.cancel(cancelled).await.unwrap();
        bus.settle().await;

        let of = async |records: Records| -> Vec<_> {
            let found = found(records).await;
            found.iter().map(|it| (it.id, it.attempt)).collect()
        };
        let all = || bus.records();
        let first = |at: &[usize]| -> Vec<_> { at.iter().map(|at| (ids[*at], 1)).collect() };
        assert_eq!(
            of(all().outcome(Outcome::Acked)).await,
            first(&[0]),
            "{kept:?}"
        );
        assert_eq!(of(all().failed()).await, first(&[1, 2, 4, 3]), "{kept:?}");
        let either = all().outcome(Outcome::Acked).outcome(Outcome::Cancelled);
        assert_eq!(of(either).await, [(ids[0], 1), (cancelled, 0)]);
        assert_eq!(of(all().cause(Cause::TimedOut)).await, first(&[3]));
        assert_eq!(of(all().cause(Cause::Panicked)).await, first(&[4]));
        assert_eq!(of(all().key("k1")).await, first(&[1, 3]));
        assert_eq!(of(all().key("k")).await, []);
        assert_eq!(
            of(all().trace(trace.parse::<TraceId>().unwrap())).await,
            first(&[2])
        );
        assert_eq!(
            of(all().error_contains("such account: =1")).await,
            first(&[2])
        );
        assert_eq!(of(all().error_contains("Such")).await, []);
        assert_eq!(
            of(all().node(bus.node_id()).failed()).await,
            first(&[1, 2, 4, 3])
        );
        assert_eq!(of(all().node(duly::records::NodeId(1))).await, []);
        let some = all().since(start + secs(1)).until(start + secs(4));
        assert_eq!(of(some).await, first(&[1, 2]), "{kept:?}");
        assert_eq!(
            of(all().failed().key("k0").error_contains("such")).await,
            first(&[2])
        );
    }
}

async fn the_newest_come_first_where_that_is_asked_for(world: World) {
    for (kept, world) in worlds(world) {
        let (bus, queue, _journal) = bus(&world, kept).await;
        for payload in 10..30 {
            queue.push(payload, When::Now).await.unwrap();
            bus.advance(secs(1)).await;
        }
        let oldest = found(bus.records()).await;
        let mut newest = found(bus.records().newest_first()).await;
        newest.reverse();
        assert_eq!(oldest.len(), 20, "{kept:?}");
        assert_eq!(oldest, newest);
        assert!(oldest.is_sorted_by_key(|record| record.stages.finished_us));
        let page = bus.records().newest_first().limit(1).page().await.unwrap();
        assert_eq!(page.items[..], oldest[19..]);
    }
}

async fn pages_stay_right_while_records_arrive_and_move_to_the_journal(world: World) {
    for (kept, world) in worlds(world) {
        let (bus, queue, _journal) = bus(&world, kept).await;
        for _ in 0..10 {
            queue.push_many(10..20, secs(0)).await.unwrap();
            bus.advance(secs(1)).await;
        }
        let there = found(bus.records()).await;
        assert_eq!(there.len(), 100);
        for newest_first in [false, true] {
            let ask = || {
                if newest_first {
                    bus.records().newest_first().limit(7)
                } else {
                    bus.records().limit(7)
                }
            };
            let mut seen = Vec::new();
            let mut after = None;
            loop {
                let page = ask().after(after).page().await.unwrap();
                seen.extend(page.items);
                queue.push(50, When::Now).await.unwrap();
                bus.advance(secs(1)).await;
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            for record in &there {
                let times = seen.iter().filter(|it| *it == record).count();
                assert_eq!(times, 1, "{kept:?}, {newest_first}: {record:?}");
            }
            let mut ids: Vec<_> = seen.iter().map(|record| record.id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), seen.len(), "one is there twice");
        }
    }
}

async fn minutes_count_every_record_once(world: World) {
    for (kept, world) in worlds(world) {
        let (bus, queue, _journal) = bus(&world, kept).await;
        let other = bus.queue_named::<u64>("others").unwrap();
        let mut pushed = 0;
        for second in 0..200 {
            queue.push(second + 10, When::Now).await.unwrap();
            pushed += 1;
            if second % 50 == 0 {
                let id = other.push(1, secs(600)).await.unwrap().id();
                let _ = other.cancel(id).await.unwrap();
                pushed += 1;
            }
            bus.advance(secs(1)).await;
            if second % 7 == 0 {
                let page = bus.records().minutes().page().await.unwrap();
                let sum: u64 = page.items.iter().map(MinuteStats::total).sum();
                assert_eq!(sum, pushed, "{kept:?} after {second} s");
            }
        }
        let minutes = bus.records().minutes().page().await.unwrap().items;
        let mut expected = std::collections::BTreeMap::<_, MinuteStats>::new();
        for record in found_by(bus.records()).await {
            let key = (MinuteStats::of(&record), record.queue.clone());
            let minute = expected
                .entry(key.clone())
                .or_insert_with(|| MinuteStats::new(key.0, key.1));
            minute.add(&record);
        }
        let expected: Vec<_> = expected.into_values().collect();
        assert_eq!(minutes, expected, "{kept:?}");
        assert!(minutes.len() >= 6);
        let p99 = minutes[0].lateness.percentile(99.0).unwrap();
        assert!(p99 < ms(1), "{p99:?}");

        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page = bus.records().minutes().after(after).limit(2);
            let page = page.page().await.unwrap();
            paged.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(paged, expected, "{kept:?}");
        let second = expected[0].start + secs(60);
        let some = bus.records().queue("orders").since(second + secs(30));
        let some = some
            .until(second + secs(90))
            .minutes()
            .page()
            .await
            .unwrap();
        let starts: Vec<Timestamp> = some.items.iter().map(|minute| minute.start).collect();
        assert_eq!(starts, [second, second + secs(60)], "{kept:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_makes_no_sense_is_refused_in_words() {
    let (bus, _queue) = World::memory().push_only::<u64>("orders").await;
    let now = bus.now();
    let all = || bus.records();
    for (asked, words) in [
        (all().queue("no spaces"), "queue name"),
        (
            all().limit(0),
            "the limit of a page is 0; it must be 1 to 1000",
        ),
        (all().limit(1_001), "is 1001"),
        (all().since(now).until(now), "is empty"),
        (all().key(""), "the key has 0 bytes"),
        (all().key("k".repeat(1_025)), "has 1025 bytes"),
        (all().error_contains(""), "text of the error has 0 bytes"),
    ] {
        let refused = asked.clone().page().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains(words), "{refused}");
        let refused = asked.clone().stream().next().await.unwrap().unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
        let refused = asked.export(Format::Csv, Vec::new()).await.unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
    }
    for asked in [all().failed(), all().key("k"), all().newest_first()] {
        let refused = asked.minutes().page().await.unwrap_err();
        assert!(
            refused.to_string().contains("by queue and time"),
            "{refused}"
        );
    }
    let refused = all().minutes().limit(10_001).page().await.unwrap_err();
    assert!(refused.to_string().contains("is 10001"), "{refused}");
    let query = Query::default();
    assert_eq!(query.page_len(), 100);
}
