//! Which journal a bus has, and what it says of one that cannot be had.

use duly::journal::{MemoryJournal, RecordChoices, RecorderOptions};
use duly::prelude::*;
use duly::testing::TestBus;

use crate::bad::Mode;
use crate::world::{World, prompt, secs, status};

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
    queue.cancel(id).await.unwrap();
    bus.advance(secs(40)).await;
    assert!(status(&bus).away_since.is_some());
    world.journal.now(Mode::Works);
    bus.advance(secs(60)).await;
    assert_eq!(world.numbers().await, [1]);
}
