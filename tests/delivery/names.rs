//! Names and addresses that are not quite right: understood, or refused in words that help.

use duly::BusBuilder;
use duly::config::Settings;
use duly::prelude::*;
use duly::store::Durability;
use duly::testing::{Probe, TestBus};

use crate::world::{ORDERS, World, secs};

fn builder() -> BusBuilder {
    let closes = duly::Annotation::new("order-close");
    Bus::builder()
        .only_registered()
        .register_as(closes, Probe::<u64>::new())
}

async fn refused(builder: BusBuilder, words: &[&str]) {
    let error = TestBus::start(builder).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    for words in words {
        assert!(error.to_string().contains(words), "{words:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn settings_for_a_handlers_queue_spelled_otherwise_are_refused() {
    for name in ["order_close", "Order-Close", "order.close"] {
        let text = format!("[queues.\"{name}\"]\nworkers = 4");
        let settings = Settings::from_toml(&text).unwrap();
        let words = [name, "did you mean order-close?"];
        refused(builder().settings(settings), &words).await;
        let choices = QueueChoices {
            workers: Some(4),
            ..QueueChoices::default()
        };
        refused(builder().queue(name, choices), &words).await;
    }
    let text = "[queues.order-close]\nworkers = 4\n[queues.reports]\nworkers = 1";
    let settings = Settings::from_toml(text).unwrap();
    let bus = TestBus::start(builder().settings(settings)).await.unwrap();
    assert_eq!(bus.load()[0].workers, 4);
}

#[tokio::test(start_paused = true)]
async fn an_operator_who_misspells_a_queue_is_told_which_was_meant() {
    let bus = TestBus::start(builder()).await.unwrap();
    let told = |result: duly::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let words = error.to_string();
        assert!(words.contains("did you mean order-close?"), "{words}");
    };
    for slip in ["order_close", "oder-close"] {
        told(bus.pause(slip).await);
        told(bus.resume(slip).await);
        told(bus.set_rate(slip, Some(1.0)).await);
        told(bus.set_buckets(slip, Some(4)).await);
        told(bus.set_workers_everywhere(slip, Some(4)).await);
        told(bus.set_workers(slip, 4));
    }
    told(bus.stats("order_close").await.map(drop));
    told(bus.bucket_stats("Order-Close").await.map(drop));
    told(
        bus.forecast("order_close", secs(60), secs(60))
            .await
            .map(drop),
    );
    let records = || bus.records().queue("order_close");
    told(records().page().await.map(drop));
    told(records().stream().next().await.unwrap().map(drop));
    let mut file = Vec::new();
    let exported = records().export(duly::records::Format::Csv, &mut file);
    told(exported.await.map(drop));
    told(records().minutes().page().await.map(drop));
    let letters = || bus.dead_letters().queue("order-close").queue("order_close");
    told(letters().page().await.map(drop));
    told(letters().revive_all().await.unwrap().finished().map(drop));
    let dropped = letters().dry_run().drop_all().await.unwrap();
    told(dropped.finished().map(drop));

    // A queue has no first event before its first.
    assert_eq!(bus.stats("reports").await.unwrap().ready, 0);
    has_nothing_of(&bus, "reports").await;
    bus.pause("reports").await.unwrap();
    let queue = bus.queue_named::<u64>("order_close").unwrap();
    queue.push(1, secs(60)).await.unwrap();
    assert_eq!(bus.stats("order_close").await.unwrap().scheduled, 1);
    bus.pause("order_close").await.unwrap();
    has_nothing_of(&bus, "order_close").await;
}

/// Nothing is found of a queue, and that is no error.
async fn has_nothing_of(bus: &Bus, queue: &str) {
    let coming = bus.forecast(queue, secs(1), secs(1)).await.unwrap();
    assert_eq!(coming[0].events, 0);
    let records = bus.records().queue(queue);
    assert_eq!(records.clone().page().await.unwrap().items, []);
    assert_eq!(records.minutes().page().await.unwrap().items, []);
    let letters = bus.dead_letters().queue(queue).page().await.unwrap();
    assert!(letters.items.is_empty());
}

/// One program's queue is named nearly as another's, which has not pushed anything yet.
#[tokio::test(start_paused = true)]
async fn a_queue_of_another_program_is_no_slip() {
    let world = World::shared();
    let closes = duly::Annotation::new("order_close");
    let (_theirs, _queue) = world.serve(closes, &Probe::<u64>::new()).await;
    let (bus, _queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    let here = duly::Annotation::new("order-close");
    let (ours, _queue) = world.serve(here, &Probe::<u64>::new()).await;
    bus.advance(secs(1)).await; // they have heard of each other
    for bus in [&bus, &ours] {
        has_nothing_of(bus, "order_close").await;
        assert_eq!(bus.stats("order_close").await.unwrap().ready, 0);
    }
    let queue = ours.queue_named::<u64>("order_close").unwrap();
    queue.push(1, When::Now).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_empty_key_is_refused() {
    let (bus, queue) = World::memory().push_only::<u64>("orders").await;
    for (event, words) in [
        (queue.event(1).key(""), "the key of the event is empty"),
        (
            queue.event(1).unique("", Unique::Keep),
            "the unique key of the event is empty",
        ),
    ] {
        let error = event.push().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(bus.stats("orders").await.unwrap().ready, 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_can_never_be_so_durable_fails_the_start() {
    let settings = "[store]\nurl = 'memory:'\ndurability = 'disk'";
    let settings = Settings::from_toml(settings).unwrap();
    let words = ["Disk", "Memory", "store.durability"];
    refused(builder().settings(settings), &words).await;
    let builder = builder().store_url("memory:");
    refused(builder.durability(Durability::OsCache), &words[1..]).await;
}

#[tokio::test(start_paused = true)]
async fn a_sqlite_url_is_understood_or_explained() {
    for url in ["sqlite:", "sqlite://"] {
        refused(
            builder().store_url(url),
            &["names no file", "sqlite:duly.db"],
        )
        .await;
        refused(builder().journal_url(url), &["names no file"]).await;
    }
    for url in ["sqlite::memory:", "sqlite://:memory:"] {
        refused(builder().store_url(url), &["`memory:`"]).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("duly.db");
    let url = format!("sqlite://{}", path.display());
    let bus = TestBus::start(builder().store_url(url)).await.unwrap();
    assert!(path.exists());
    bus.shutdown(secs(1)).await.unwrap();
}

/// On a shared store a process without handlers gets the reply of another one's.
#[tokio::test(start_paused = true)]
async fn a_call_from_a_process_that_only_publishes_waits_for_a_handler_elsewhere() {
    let world = World::shared();
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let probe = Probe::<u64>::new();
    let (_elsewhere, _queue) = world.serve(ORDERS, &probe).await;
    queue.call::<()>(1, secs(3_600)).await.unwrap();
    assert_eq!(probe.payloads(), [1]);
    assert_eq!(bus.stats("orders").await.unwrap().ready, 0);
}
