//! Records that cannot be read: a page says so, instead of drawing that nothing happened.

use std::time::Duration;

use duly::journal::{Batch, FoundRecords, Journal, JournalFuture, Keep, MemoryJournal, Pruned};
use duly::records::{MinuteQuery, MinuteStats, Query};
use duly::store::operation::StoreOp;
use duly::time::Timestamp;
use duly::{Bus, Error, ErrorKind, EventId};
use duly_dashboard::Role;

use crate::bounds::Counted;
use crate::site::Site;

/// A journal that takes records, and does not say which.
#[derive(Debug, Default)]
struct Away(MemoryJournal);

fn away<T: Send + 'static>() -> JournalFuture<T> {
    let error = Error::new(ErrorKind::Unavailable, "its database is on holiday");
    Box::pin(std::future::ready(Err(error)))
}

impl Journal for Away {
    fn load(&self, batches: Vec<Batch>) -> JournalFuture<()> {
        self.0.load(batches)
    }

    fn page(&self, _: Query) -> JournalFuture<FoundRecords> {
        away()
    }

    fn minutes(&self, _: MinuteQuery) -> JournalFuture<Vec<MinuteStats>> {
        away()
    }

    fn prune(&self, keep: Keep, now: Timestamp) -> JournalFuture<Pruned> {
        self.0.prune(keep, now)
    }

    fn close(&self) -> JournalFuture<()> {
        self.0.close()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attempt_and_no_lateness_is_drawn_of_a_journal_that_is_away() {
    for is_away in [false, true] {
        let bus = Bus::builder().settings(Default::default());
        let bus = if is_away {
            bus.journal(Away::default())
        } else {
            bus.journal(MemoryJournal::default())
        };
        let bus = bus.store_url("memory:").only_registered().publish_only();
        let bus = bus.start().await.unwrap();
        let queue = bus.queue_named::<u64>("mail").unwrap();
        queue.push(1, Duration::from_secs(600)).await.unwrap();
        let site = Site::of(bus, Role::View).await;
        for path in ["/", "/queues/mail"] {
            let page = site.get(path).await.text;
            for chart in ["Lateness, p99", "Attempts a minute"] {
                assert_eq!(page.contains(chart), !is_away, "{path}: {chart}: {page}");
            }
            for words in ["The records cannot be read", "its database is on holiday"] {
                assert_eq!(page.contains(words), is_away, "{path}: {words}: {page}");
            }
        }
        let page = site.get("/").await.text;
        assert_eq!(page.contains("No queue is late"), !is_away, "{page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_not_said_to_be_gone() {
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.journal(Away::default()).store_url("memory:");
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let queue = bus.queue_named::<u64>("mail").unwrap();
    let delay = Duration::from_secs(600);
    let waits = queue.push(1, delay).await.unwrap().id();
    let site = Site::of(bus, Role::View).await;
    let page = site.get(&format!("/queues/mail/events/{waits}")).await;
    assert_eq!(page.status.as_u16(), 200);
    assert!(
        page.text.contains("its database is on holiday"),
        "{}",
        page.text
    );
    // Whether its records are left, nobody knows.
    let unknown = EventId::from_parts(waits.created(), waits.bucket(), 7);
    for path in [
        format!("/queues/mail/events/{unknown}"),
        format!("/find?queue=mail&q={unknown}"),
    ] {
        let page = site.get(&path).await;
        assert_eq!(page.status.as_u16(), 503, "{path}: {}", page.text);
        assert!(
            page.text.contains("its database is on holiday"),
            "{}",
            page.text
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_cannot_be_read_are_not_said_to_be_none() {
    let store = Counted::failing(|op| matches!(op, StoreOp::Peek { .. }), 0);
    let bus = Bus::builder().settings(Default::default()).store(store);
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let queue = bus.queue_named::<u64>("mail").unwrap();
    queue.push(1, Duration::from_secs(600)).await.unwrap();
    let site = Site::of(bus, Role::View).await;
    let page = site.get("/queues/mail").await;
    assert_eq!(page.status.as_u16(), 200);
    assert!(
        page.text.contains("its disk is on holiday"),
        "{}",
        page.text
    );
    assert!(!page.text.contains("None waits"), "{}", page.text);
}
