//! What records hold when they leave the bus: exports as files, and payloads where they are kept.

use duly::Annotation;
use duly::config::QueueChoices;
use duly::records::{Format, Record};
use duly::testing::{Probe, TestBus};
use duly::time::When;
use serde_json::Value;

use crate::delivery::asking::{Kept, bus, found_by, worlds};
use crate::world::{World, secs};

over_every_store! {
    an_export_of_json_lines_reads_back_into_the_same_records,
    an_export_of_csv_holds_every_cell_as_it_is,
    payloads_are_kept_only_where_that_is_asked_for,
}

/// Some of everything, odd texts among it.
async fn full_of_records(world: &World, kept: Kept) -> TestBus {
    let (bus, queue, _journal) = bus(world, kept).await;
    for (payload, key) in [
        (0, "=cmd()"),
        (1, "a,b"),
        (2, "\"quoted\""),
        (3, "@x\r\ny"),
        (4, " ä "),
    ] {
        let event = queue.event(payload).key(key).keep_payload(payload % 2 == 0);
        event.push().await.unwrap();
    }
    queue.push_many(10..1_200, secs(0)).await.unwrap();
    bus.advance(secs(200)).await;
    bus
}

async fn an_export_of_json_lines_reads_back_into_the_same_records(world: World) {
    for (kept, world) in worlds(world) {
        let bus = full_of_records(&world, kept).await;
        let mut file = Vec::new();
        let many = bus.records().export(Format::JsonLines, &mut file).await;
        let text = String::from_utf8(file).unwrap();
        let read: Vec<Record> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(many.unwrap(), read.len() as u64);
        assert!(read.len() > 1_190, "{}", read.len());
        assert!(
            read == found_by(bus.records().limit(1_000)).await,
            "{kept:?}"
        );
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert!(
            line["due"].is_u64() && line["stages"]["started_us"].is_u64(),
            "{line}"
        );
    }
}

async fn an_export_of_csv_holds_every_cell_as_it_is(world: World) {
    let bus = full_of_records(&world, Kept::Store).await;
    let mut file = Vec::new();
    let some = bus.records().limit(100);
    let many = some.export(Format::Csv, &mut file).await.unwrap();
    let mut lines = csv::Reader::from_reader(&file[..]);
    let names = lines.headers().unwrap().clone();
    let rows: Vec<_> = lines.records().map(|row| row.unwrap()).collect();
    let records = found_by(bus.records().limit(1_000)).await;
    assert_eq!((rows.len() as u64, records.len()), (many, rows.len()));
    for (row, record) in rows.iter().zip(&records) {
        let cell = |name: &str| {
            let at = names.iter().position(|it| it == name);
            row[at.unwrap_or_else(|| panic!("a column {name}"))].to_owned()
        };
        assert_eq!(cell("id"), record.id.to_string());
        assert_eq!(cell("queue"), "orders");
        assert_eq!(cell("key"), record.key.clone().unwrap_or_default());
        assert_eq!(cell("attempt"), record.attempt.to_string());
        assert_eq!(cell("outcome"), record.outcome.as_str());
        assert_eq!(cell("cause"), record.cause.map_or("", |it| it.as_str()));
        assert_eq!(cell("due_ms"), record.due.as_millis().to_string());
        assert_eq!(cell("finished_us"), record.stages.finished_us.to_string());
        assert_eq!(cell("node"), record.node.to_string());
        assert_eq!(cell("error"), record.error.clone().unwrap_or_default());
        let late = record.lateness().map(|late| late.as_micros().to_string());
        assert_eq!(cell("lateness_us"), late.unwrap_or_default());
    }
    let text = String::from_utf8(file).unwrap();
    assert!(text.contains("no such account: =1+1"), "data stays data");
    let empty = bus
        .records()
        .queue("nobodys")
        .export(Format::Csv, Vec::new());
    assert_eq!(empty.await.unwrap(), 0);
}

async fn payloads_are_kept_only_where_that_is_asked_for(world: World) {
    let asked = QueueChoices {
        keep_payload: Some(true),
        ..QueueChoices::default()
    };
    let probe = Probe::<String>::new();
    let builder = world
        .builder()
        .queue("kept", asked)
        .register_as(Annotation::new("kept"), probe.clone())
        .register_as(Annotation::new("written").keep_payload(true), probe.clone())
        .register_as(Annotation::new("not"), probe);
    let bus = world.start(builder).await;
    let payload = async |id| {
        bus.advance(secs(1)).await;
        let history = bus.history(id).await.unwrap();
        let payload = history[0].payload.as_ref()?.as_bytes();
        Some(serde_json::from_slice::<String>(payload).unwrap())
    };
    let value = |text: &str| text.to_owned();
    for name in ["kept", "written"] {
        let queue = bus.queue_named::<String>(name).unwrap();
        let one = queue.push(value("a"), When::Now).await.unwrap();
        assert_eq!(payload(one.id()).await, Some(value("a")), "{name}");
        let many = queue.push_many([value("b")], secs(0)).await.unwrap();
        assert_eq!(payload(many[0].id()).await, Some(value("b")), "{name}");
        let not = queue.event(value("c")).keep_payload(false);
        assert_eq!(payload(not.push().await.unwrap().id()).await, None);
        let long = "x".repeat(duly::records::PAYLOAD_KEPT_MAX);
        let long = queue.push(long, When::Now).await.unwrap();
        assert_eq!(payload(long.id()).await, None, "longer than the bound");
    }
    let queue = bus.queue_named::<String>("not").unwrap();
    let one = queue.push(value("a"), When::Now).await.unwrap();
    assert_eq!(payload(one.id()).await, None);
    let kept = queue.event(value("b")).keep_payload(true).push().await;
    assert_eq!(payload(kept.unwrap().id()).await, Some(value("b")));
}
