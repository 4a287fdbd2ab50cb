//! Which journal a bus has, and what it says of one that cannot be had.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use duly::journal::{Journal, MemoryJournal, RecordChoices, RecorderOptions, SqliteJournal};
use duly::prelude::*;
use duly::records::Query;
use duly::store::{OutboxLimit, WhenFull};
use duly::testing::{Probe, TestBus};

use crate::faulty::Faulty;
use crate::records::bad::Mode;
use crate::records::world::{ORDERS, World, ids, ms, prompt, secs, status};

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
async fn a_store_in_a_file_has_its_journal_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let bus = real(&folder).start().await.unwrap();
    let queue: Queue<u64> = bus.queue_named("orders").unwrap();
    let id = queue.push(1, secs(60)).await.unwrap().id();
    let _ = queue.cancel(id).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
    let status = status(&bus);
    assert_eq!((status.recorded, status.waiting), (1, 0));
    drop((bus, queue));

    let journal = SqliteJournal::open(folder.path().join("duly.db.records")).unwrap();
    let found = journal.page(Query::default()).await.unwrap();
    assert_eq!(ids(&found.records), [id]);
    drop(journal);
    let bus = real(&folder).start().await.unwrap();
    let page = bus.records().id(id).page().await.unwrap();
    assert_eq!(
        page.items.len(),
        1,
        "the store has let go of it, the journal has it"
    );
    bus.shutdown(secs(1)).await.unwrap();

    let bus = real(&folder).journal_url("off").start().await.unwrap();
    assert_eq!(bus.journal_status(), None);
    bus.shutdown(secs(1)).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_journal_fails_the_start_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "not a journal, and not to be written to").unwrap();
    let url = format!("sqlite:{}", file.display());
    let refused = real(&folder).journal_url(url).start().await.unwrap_err();
    assert!(refused.to_string().contains("notes.txt"), "{refused}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, "not a journal, and not to be written to");
}

#[tokio::test]
async fn a_bus_starts_while_its_database_is_down_and_a_wrong_url_fails_the_start() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens on the first port.
    let builder = real(&folder).journal_url("postgres://duly:s3cret@127.0.0.1:1/records");
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

    let builder = real(&folder).journal_url("postgres://duly@db/records?nonsense=1");
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
        let builder = match has_journal {
            true => builder.shared_journal(Arc::clone(&world.journal) as _),
            false => builder,
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
