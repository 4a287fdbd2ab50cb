//! Tests of explanations whose records are in the journal and no longer in the outbox.

use std::sync::Arc;
use std::time::Duration;

use crate::bus::explain::history;
use crate::bus::handle::Bus;
use crate::bus::queue::Queue;
use crate::event::EventId;
use crate::journal::{Batch, Journal, MemoryJournal};
use crate::store::{MemoryStore, Outbox, Store};

/// Creates a store with a cancelled event, whose record waits in its outbox.
async fn cancelled() -> (Arc<MemoryStore>, EventId) {
    let store = Arc::new(MemoryStore::new());
    let builder = Bus::builder().only_registered().publish_only();
    let builder = builder.settings(crate::config::Settings::default());
    let bus = builder.shared_store(Arc::clone(&store) as _).start().await;
    let bus = bus.unwrap();
    let queue: Queue<u64> = bus.queue_named("orders").unwrap();
    let sent = queue.push(1, Duration::from_secs(60)).await.unwrap();
    let _ = queue.cancel(sent.id()).await.unwrap();
    (store, sent.id())
}

#[tokio::test(start_paused = true)]
async fn what_the_journal_has_is_told_where_the_outbox_has_it_no_more() {
    let (store, id) = cancelled().await;
    let journal = MemoryJournal::new();
    let page = store.read_outbox(&Outbox::Store, 0, 10).await.unwrap();
    let records = page.records;
    let outbox = "store".to_owned();
    journal.load(vec![Batch { outbox, records }]).await.unwrap();
    let both = history::read(&*store, Some(&journal), (None, id)).await;
    store.trim_outbox(&Outbox::Store, page.next).await.unwrap();
    let attempts = history::read(&*store, Some(&journal), (None, id)).await;
    assert_eq!(attempts, both);
    assert_eq!((attempts.records.len(), attempts.unread), (1, None));
    let forgotten = history::read(&*store, None, (None, id)).await;
    assert_eq!((forgotten.records.len(), forgotten.unread), (0, None));
}
