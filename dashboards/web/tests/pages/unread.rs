//! Records that cannot be read: a page says so, instead of drawing that nothing happened.

use std::time::Duration;

use duly::journal::{Batch, FoundRecords, Journal, JournalFuture, Keep, MemoryJournal, Pruned};
use duly::records::{MinuteQuery, MinuteStats, Query};
use duly::store::operation::StoreOp;
use duly::time::Timestamp;
use duly::{Bus, Error, ErrorKind, EventId};
use duly_dashboard::{Role, User};

use crate::bounds::Counted;
use crate::site::{Site, until};

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

/// What the page says of the next hour.
#[derive(Debug, PartialEq)]
enum Says {
    /// That nothing is scheduled.
    Nothing,
    /// What falls due.
    All,
    /// What falls due, and of how many queues it is not known.
    Some(&'static str),
    /// Of how many queues it is not known.
    Unknown(&'static str),
}

/// How many queues have something scheduled, how many forecasts can be read, which queues the visitor
/// sees, and what the page says.
type Case = (u64, usize, fn(&str) -> bool, Says);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_to_come_and_was_not_read_is_not_said_to_be_nothing() {
    let all = |_: &str| true;
    let least = |queue: &str| queue == "queue-00";
    let both = |queue: &str| ["queue-00", "queue-10"].contains(&queue);
    let cases: [Case; 8] = [
        (0, 0, all, Says::Nothing),
        (1, 0, all, Says::Unknown("Of 1 queue")),
        (1, 99, all, Says::All),
        (8, 0, all, Says::Unknown("Of 8 queues")),
        (11, 99, all, Says::Some("Of 3 queues")),
        (11, 99, least, Says::Unknown("Of 1 queue")),
        (11, 99, both, Says::Some("Of 1 queue")),
        (11, 99, |queue| queue == "none", Says::Nothing),
    ];
    for (queues, read, sees, says) in cases {
        let is_forecast: fn(&StoreOp) -> bool = |op| matches!(op, StoreOp::Forecast { .. });
        let store = Counted::failing(is_forecast, if read == 0 { 0 } else { usize::MAX });
        let bus = Bus::builder().settings(Default::default()).store(store);
        let bus = bus.only_registered().publish_only().start().await.unwrap();
        for number in 0..queues {
            let queue = bus
                .queue_named::<u64>(&format!("queue-{number:02}"))
                .unwrap();
            for event in 0..=number {
                let event = queue.event(event).after(Duration::from_secs(600));
                event.push().await.unwrap();
            }
        }
        let site = Site::of_user(bus, User::new("ann", Role::View).only(sees)).await;
        let case = format!("{queues} queues, {read} read, {says:?}");
        let (nothing, chart) = ("Nothing is scheduled for the next hour", "fall due in the");
        let unknown = "it is not known what falls due";
        until("all is read that can be", async || {
            let page = site.get("/").await.text;
            let said = [nothing, chart, unknown].map(|words| page.contains(words));
            let is_true = said == [says == Says::Nothing, false, false] || !said[0];
            assert!(is_true, "{case}: {page}");
            let many = match says {
                Says::Nothing => return said[0],
                Says::All => return said == [false, true, false],
                Says::Some(many) if said[1] => many,
                Says::Unknown(many) if !said[1] => many,
                _ => return false,
            };
            page.contains(&format!("{many} {unknown}"))
        })
        .await;
        if read == 0 && queues > 0 {
            let page = site.get("/queues/queue-00").await.text;
            assert!(page.contains("is not known: "), "{case}: {page}");
            assert!(page.contains("its disk is on holiday"), "{case}: {page}");
            let page = site.get("/").await.text;
            assert!(page.contains("its disk is on holiday"), "{case}: {page}");
        }
    }
}
