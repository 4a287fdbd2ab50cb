//! What happened so far is told from journal and outbox together, and from one where the other is
//! away.

use std::sync::Arc;

use duly::explain::Reason;
use duly::journal::RecorderOptions;
use duly::prelude::*;
use duly::testing::{Probe, TestBus};

use crate::bad::{Bad, Mode};
use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, secs};

over_every_store! {
    attempts_are_told_from_the_journal,
    while_the_journal_is_away_the_outbox_tells_and_it_is_said,
    while_the_store_is_away_the_journal_tells,
}

/// An event that is tried each second, whose records are carried to a journal as they come.
async fn retried(world: &World) -> (TestBus, EventId, Arc<Bad>, Arc<Faulty>) {
    let journal: Arc<Bad> = Arc::default();
    let way = Faulty::to(&world.store);
    let options = RecorderOptions {
        linger: secs(0),
        ..RecorderOptions::default()
    };
    let probe = Probe::<u64>::answering(|_, _| Err(Failure::retry("not yet")));
    let builder = Bus::builder()
        .only_registered()
        .shared_store(Arc::clone(&way) as _)
        .shared_journal(Arc::clone(&journal) as _)
        .recorder_options(options)
        .register_as(ORDERS.attempts(1_000), probe);
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(4)).await;
    assert_eq!(journal.all().await.len(), 5);
    (bus, id, journal, way)
}

async fn attempts_are_told_from_the_journal(world: World) {
    if world.is_embedded() {
        return; // its store takes no journal
    }
    let (bus, id, _journal, _way) = retried(&world).await;
    let attempts = bus.explain(id).await.unwrap().attempts;
    let told = attempts.records.iter().map(|record| record.attempt);
    assert!(told.eq(1..=5));
    assert_eq!(attempts.unread, None);
}

async fn while_the_journal_is_away_the_outbox_tells_and_it_is_said(world: World) {
    if world.is_embedded() {
        return; // its store takes no journal
    }
    let (bus, id, journal, _way) = retried(&world).await;
    for mode in [Mode::Fails, Mode::Hangs] {
        journal.now(mode);
        bus.advance(secs(3)).await;
        let explained = bus.explain(id).await.unwrap();
        assert!(matches!(explained.reasons[..], [Reason::NotDue { .. }]));
        let told = &explained.attempts.records;
        assert!(told.len() >= 3, "{explained}");
        assert!(told.iter().all(|record| record.attempt > 5), "{explained}");
        let words = explained.to_string();
        assert!(words.contains("the journal did not respond"), "{words}");
        assert!(words.contains("not all of it could be read"), "{words}");
        assert!(!words.contains("the store did not"), "{words}");
    }
}

async fn while_the_store_is_away_the_journal_tells(world: World) {
    if world.is_embedded() {
        return; // its store takes no journal
    }
    let (bus, id, _journal, way) = retried(&world).await;
    way.is(Fault::Refused(ErrorKind::Unavailable));
    let explained = bus.explain(id).await.unwrap();
    assert!(matches!(explained.reasons[..], [Reason::StoreAway { .. }]));
    assert_eq!(explained.attempts.records.len(), 5);
}
