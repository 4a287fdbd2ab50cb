//! Which journal a bus has, and what it says of one that cannot be had.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use duly::BusBuilder;
use duly::journal::{MemoryJournal, RecordChoices, RecorderOptions};
use duly::prelude::*;
use duly::store::{OutboxLimit, WhenFull};
use duly::testing::{Probe, TestBus};

use crate::faulty::Faulty;
use crate::records::bad::Mode;
use crate::records::world::{ORDERS, World, ms, prompt, secs, status};

async fn refused(builder: duly::BusBuilder) -> String {
    let builder = builder.only_registered();
    let refused = TestBus::start(builder).await.expect_err("it is refused");
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    refused.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_url_that_names_no_journal_fails_the_start_in_words() {
    let words = refused(Bus::builder().journal_url("mysql://root:secret@db/records")).await;
    assert!(
        words.contains("mysql") && words.contains("postgres://"),
        "{words}"
    );
    assert!(!words.contains("secret"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_choice_out_of_its_bounds_fails_the_start() {
    let choices = RecordChoices {
        keep_max: Some(0),
        ..RecordChoices::default()
    };
    let builder = Bus::builder()
        .journal(MemoryJournal::new())
        .records(choices);
    let words = refused(builder).await;
    assert!(words.contains("records.keep_max is 0"), "{words}");
    let options = RecorderOptions {
        patience: secs(0),
        ..prompt()
    };
    let builder = Bus::builder().journal(MemoryJournal::new());
    let words = refused(builder.recorder_options(options)).await;
    assert!(words.contains("patience is 0"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_bus_on_virtual_time_has_no_journal_unless_it_is_given_one() {
    let bus = TestBus::start(Bus::builder().only_registered())
        .await
        .unwrap();
    assert_eq!(bus.journal_status(), None);
}

#[tokio::test(start_paused = true)]
async fn a_bus_starts_while_its_journal_is_away() {
    let world = World::new();
    world.journal.now(Mode::Hangs);
    let (bus, queue) = world.start(world.builder(prompt())).await;
    let id = queue.push(1, secs(60)).await.unwrap().id();
    let _ = queue.cancel(id).await.unwrap();
    bus.advance(secs(40)).await;
    assert!(status(&bus).away_since.is_some());
    world.journal.now(Mode::Works);
    bus.advance(secs(60)).await;
    assert_eq!(world.numbers().await, [1]);
}

/// On the machine's own time, since files and databases go by that.
fn real(folder: &tempfile::TempDir) -> duly::BusBuilder {
    let file = folder.path().join("duly.db");
    Bus::builder()
        .only_registered()
        .settings(Default::default())
        .store_url(format!("sqlite:{}", file.display()))
}

#[tokio::test]
async fn a_store_in_a_file_keeps_its_records_in_that_file_and_takes_no_journal() {
    let folder = tempfile::tempdir().unwrap();
    let bus = real(&folder).start().await.unwrap();
    let queue: Queue<u64> = bus.queue_named("orders").unwrap();
    let id = queue.push(1, secs(60)).await.unwrap().id();
    let _ = queue.cancel(id).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
    assert_eq!(bus.journal_status(), None);
    drop((bus, queue));

    let files = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    names.sort();
    let others = [
        "duly.db",
        "duly.db-lock",
        "duly.db-reserve",
        "duly.db-starts",
    ];
    assert_eq!(names, others, "no second file has the records");
    // `off` is what it does anyway.
    for url in [None, Some("off")] {
        let builder = url.into_iter().fold(real(&folder), BusBuilder::journal_url);
        let bus = builder.start().await.unwrap();
        let page = bus.records().id(id).page().await.unwrap();
        assert_eq!(page.items.len(), 1, "{url:?}");
        bus.shutdown(secs(1)).await.unwrap();
    }

    let other = format!("sqlite:{}", folder.path().join("journal.db").display());
    for builder in [
        real(&folder).journal_url(other),
        real(&folder).journal_url("postgres://nobody@127.0.0.1:1/none"),
        real(&folder).journal(MemoryJournal::new()),
    ] {
        let refused = builder.start().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(
            refused.to_string().contains("leave `records.journal` out"),
            "{refused}"
        );
    }
    for choices in [
        RecordChoices {
            outbox_max: Some(10),
            ..RecordChoices::default()
        },
        RecordChoices {
            when_full: Some(WhenFull::RefusePushes),
            ..RecordChoices::default()
        },
    ] {
        let refused = real(&folder).records(choices).start().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(
            refused.to_string().contains("records.keep_max"),
            "{refused}"
        );
    }
    assert!(!folder.path().join("journal.db").exists());
}

/// What a bus chooses goes to the store.
#[tokio::test]
async fn a_store_in_a_file_keeps_so_many_records_as_the_bus_says() {
    let folder = tempfile::tempdir().unwrap();
    let choices = RecordChoices {
        keep_max: Some(10),
        ..RecordChoices::default()
    };
    let bus = real(&folder).records(choices).start().await.unwrap();
    let queue: Queue<u64> = bus.queue_named("orders").unwrap();
    let mut ids = Vec::new();
    for number in 0..30 {
        let id = queue.push(number, secs(60)).await.unwrap().id();
        let _ = queue.cancel(id).await.unwrap();
        ids.push(id);
    }
    let page = bus.records().limit(100).page().await.unwrap();
    let found: Vec<_> = page.items.iter().map(|record| record.id).collect();
    assert_eq!(found, ids[20..]);
    let minutes = bus.records().minutes().page().await.unwrap();
    let counted: u64 = minutes
        .items
        .iter()
        .map(duly::records::MinuteStats::total)
        .sum();
    assert_eq!(counted, 30, "minutes stay");
    bus.shutdown(secs(1)).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_journal_fails_the_start_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "not a journal, and not to be written to").unwrap();
    let url = format!("sqlite:{}", file.display());
    let builder = real(&folder).store_url("memory:").journal_url(url);
    let refused = builder.start().await.unwrap_err();
    assert!(refused.to_string().contains("notes.txt"), "{refused}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, "not a journal, and not to be written to");
}

#[tokio::test]
async fn a_bus_starts_while_its_database_is_down_and_a_wrong_url_fails_the_start() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens on the first port.
    let builder = real(&folder)
        .store_url("memory:")
        .journal_url("postgres://duly:s3cret@127.0.0.1:1/records");
    let bus = builder.start().await.unwrap();
    let queue: Queue<u64> = bus.queue_named("orders").unwrap();
    let id = queue.push(1, secs(60)).await.unwrap().id();
    let _ = queue.cancel(id).await.unwrap();
    while status(&bus).away_since.is_none() {
        tokio::time::sleep(ms(5)).await;
    }
    let words = status(&bus).last_error.unwrap();
    assert!(!words.contains("s3cret"), "{words}");
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let builder = real(&folder)
        .store_url("memory:")
        .journal_url("postgres://duly@db/records?nonsense=1");
    let refused = builder.start().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
}

/// A store with work for whoever comes, and with records.
async fn at_work() -> World {
    let world = World::new();
    let builder = Bus::builder().only_registered();
    let builder = builder.shared_store(Arc::clone(&world.store));
    let (bus, queue) = world
        .start(builder.register_as(ORDERS, Probe::<u64>::new()))
        .await;
    queue.push_many(0..5, secs(0)).await.unwrap();
    bus.settle().await;
    bus.pause("orders").await.unwrap();
    queue.push_many(5..10, secs(0)).await.unwrap();
    bus.resume("orders").await.unwrap();
    drop((bus, queue)); // killed before it has looked
    assert_eq!(world.waiting().await, 5);
    world
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_outboxes_holds_before_anything_is_recorded() {
    let choices = RecordChoices {
        outbox_max: Some(50),
        ..RecordChoices::default()
    };
    let refuses = RecordChoices {
        when_full: Some(WhenFull::RefusePushes),
        ..choices.clone()
    };
    for (choices, has_journal) in [(choices.clone(), true), (refuses, true), (choices, false)] {
        let world = at_work().await;
        let way = Faulty::to(&world.store);
        let builder = Bus::builder().only_registered().shared_store(way.clone());
        let builder = if has_journal {
            builder.shared_journal(Arc::clone(&world.journal) as _)
        } else {
            builder
        };
        let when_full = choices.when_full.unwrap_or_default();
        let builder = builder.records(choices).recorder_options(prompt());
        let (bus, _) = world
            .start(builder.register_as(ORDERS, Probe::<u64>::new()))
            .await;
        bus.advance(secs(5)).await;
        let max = Some(50);
        let limit = *way.limit.lock().unwrap();
        assert_eq!(limit, Some(OutboxLimit { max, when_full }));
        assert_eq!(
            bus.stats("orders").await.unwrap(),
            duly::store::operation::Stats::default()
        );
        assert_eq!(way.before_limit.load(Ordering::Relaxed), 0);
    }
}
