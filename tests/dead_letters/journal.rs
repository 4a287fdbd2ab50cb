//! Why letters died is told out of the journal too, and said where it cannot be read.

use std::sync::Arc;

use duly::dead_letters::{DeadLetter, LastRecord};
use duly::journal::RecorderOptions;
use duly::prelude::*;
use duly::records::Cause;
use duly::testing::TestBus;

use crate::bad::{Bad, Mode};
use crate::dead_letters::kit::{MAILS, namesakes, numbers, picky, tells_namesakes_apart};
use crate::world::{ORDERS, World, secs};

over_every_store! {
    why_a_letter_died_is_told_out_of_the_journal,
    letters_of_one_id_are_told_apart_in_the_journal,
    while_the_journal_is_away_letters_are_listed_and_it_is_said,
    while_the_journal_is_away_nothing_is_done_by_what_only_it_knows,
}

/// Four dead letters, whose records are in a journal and wait in no outbox.
async fn recorded(world: &World) -> (TestBus, Arc<Bad>) {
    let journal: Arc<Bad> = Arc::default();
    let options = RecorderOptions {
        linger: secs(0),
        ..RecorderOptions::default()
    };
    let builder = world
        .builder()
        .register_as(ORDERS.attempts(1), picky())
        .register_as(MAILS, picky())
        .shared_journal(Arc::clone(&journal) as _)
        .recorder_options(options);
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.push_many(0..4, secs(0)).await.unwrap();
    bus.advance(secs(60)).await;
    assert_eq!(journal.all().await.len(), 4);
    assert_eq!(bus.journal_status().unwrap().waiting, 0);
    (bus, journal)
}

async fn why_a_letter_died_is_told_out_of_the_journal(world: World) {
    if world.is_embedded() {
        return; // its store takes no journal
    }
    let (bus, _journal) = recorded(&world).await;
    assert_eq!(
        numbers(bus.dead_letters().cause(Cause::Panicked)).await,
        [1, 3]
    );
    assert_eq!(numbers(bus.dead_letters().error("order 2")).await, [2]);
    let page = bus.dead_letters().page().await.unwrap();
    assert!(page.items.iter().all(|letter| letter.error().is_some()));
    let sweep = bus.dead_letters().error("no order").revive_all().await;
    assert_eq!(sweep.unwrap().done, 2);
    bus.advance(secs(1)).await;
    // They died once more, of the same, and that is the one that is told.
    let page = bus.dead_letters().error("order 2").page().await.unwrap();
    let record = page.items[0].last.record().unwrap();
    assert!(record.stages.finished_us >= (bus.now() - secs(1)).as_micros());
}

async fn letters_of_one_id_are_told_apart_in_the_journal(world: World) {
    if world.is_embedded() {
        return; // its store takes no journal
    }
    let (bus, _journal) = recorded(&world).await;
    namesakes(&bus).await;
    assert_eq!(bus.journal_status().unwrap().waiting, 0);
    tells_namesakes_apart(&bus).await;
}

async fn while_the_journal_is_away_letters_are_listed_and_it_is_said(world: World) {
    if world.is_embedded() {
        return; // its store takes no journal
    }
    let (bus, journal) = recorded(&world).await;
    for mode in [Mode::Fails, Mode::Hangs] {
        journal.now(mode);
        let page = bus.dead_letters().page().await.unwrap();
        assert_eq!(page.items.len(), 4);
        let is_unread = |letter: &DeadLetter| matches!(letter.last, LastRecord::Unread(_));
        assert!(page.items.iter().all(is_unread), "{mode:?}: {page:?}");
        let words = page.items[0].to_string();
        assert!(words.contains("could not be read"), "{words}");
        assert!(!words.contains("the store"), "{words}");
    }
    journal.now(Mode::Works);
    assert_eq!(numbers(bus.dead_letters().error("order")).await, [0, 2]);
}

async fn while_the_journal_is_away_nothing_is_done_by_what_only_it_knows(world: World) {
    if world.is_embedded() {
        return; // its store takes no journal
    }
    let (bus, journal) = recorded(&world).await;
    journal.now(Mode::Fails);
    let asked = || bus.dead_letters().error("order");
    let error = asked().page().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("the journal is away"), "{error}");
    let sweep = asked().drop_all().await.unwrap();
    assert_eq!((sweep.matched, sweep.done), (0, 0));
    assert_eq!(sweep.stopped.unwrap().kind(), ErrorKind::Unavailable);
    // What the store alone can tell is done all the same.
    let sweep = bus.dead_letters().queue("orders").drop_all().await.unwrap();
    assert_eq!(sweep.done, 4);
}
