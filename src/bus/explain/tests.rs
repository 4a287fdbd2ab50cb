//! What an explanation tells while the journal, the store's outboxes, or both do not answer.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use crate::bus::explain::past;
use crate::bus::{Bus, Queue};
use crate::error::{Error, ErrorKind};
use crate::event::EventId;
use crate::journal::{Batch, Found, Journal, JournalFuture, Keep, MemoryJournal, Pruned};
use crate::record::{Minute, MinuteQuery, Outcome, Query};
use crate::store::{MemoryStore, Outbox, Store};
use crate::time::Timestamp;

/// A journal that is away.
#[derive(Debug)]
enum Away {
    Refuses,
    Hangs,
}

impl Away {
    fn answer<T: Send + 'static>(&self) -> JournalFuture<T> {
        match self {
            Self::Refuses => Box::pin(ready(Err(Error::new(
                ErrorKind::Unavailable,
                "the database is on holiday",
            )))),
            Self::Hangs => Box::pin(pending()),
        }
    }
}

impl Journal for Away {
    fn load(&self, _batches: Vec<Batch>) -> JournalFuture<()> {
        self.answer()
    }

    fn page(&self, _query: Query) -> JournalFuture<Found> {
        self.answer()
    }

    fn minutes(&self, _query: MinuteQuery) -> JournalFuture<Vec<Minute>> {
        self.answer()
    }

    fn prune(&self, _keep: Keep, _now: Timestamp) -> JournalFuture<Pruned> {
        self.answer()
    }

    fn close(&self) -> JournalFuture<()> {
        self.answer()
    }
}

/// A store with an event that was cancelled, whose record waits in its outbox.
async fn cancelled() -> (Arc<MemoryStore>, EventId) {
    let store = Arc::new(MemoryStore::new());
    let builder = Bus::builder().only_registered().publish_only();
    let builder = builder.settings(crate::config::Settings::default());
    let bus = builder.shared_store(Arc::clone(&store) as _).start().await;
    let queue: Queue<u64> = bus.unwrap().queue_named("orders").unwrap();
    let sent = queue.push(1, Duration::from_secs(60)).await.unwrap();
    queue.cancel(sent.id()).await.unwrap();
    (store, sent.id())
}

#[tokio::test(start_paused = true)]
async fn while_the_journal_is_away_the_outbox_is_told_and_it_says_so() {
    let (store, id) = cancelled().await;
    for away in [Away::Refuses, Away::Hangs] {
        let attempts = past::read(&*store, Some(&away), id).await;
        let outcomes = attempts.records.iter().map(|record| record.outcome);
        assert!(outcomes.eq([Outcome::Cancelled]));
        let unread = attempts.unread.clone().unwrap();
        assert!(unread.contains("the journal did not answer"), "{unread}");
        assert!(attempts.to_string().contains("not all of it could be read"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_journal_has_is_told_where_the_outbox_has_it_no_more() {
    let (store, id) = cancelled().await;
    let journal = MemoryJournal::new();
    let page = store.read_outbox(&Outbox::Store, 0, 10).await.unwrap();
    let records = page.records;
    let outbox = "store".to_owned();
    journal.load(vec![Batch { outbox, records }]).await.unwrap();
    let both = past::read(&*store, Some(&journal), id).await;
    store.trim_outbox(&Outbox::Store, page.next).await.unwrap();
    let attempts = past::read(&*store, Some(&journal), id).await;
    assert_eq!(attempts, both);
    assert_eq!((attempts.records.len(), attempts.unread), (1, None));
    let forgotten = past::read(&*store, None, id).await;
    assert_eq!((forgotten.records.len(), forgotten.unread), (0, None));
}
