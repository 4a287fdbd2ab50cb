//! Promises of the outbox, where records wait for the journal, by number. A store that keeps its records where they
//! are asked for has none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, B, World, bury, ms, retry, secs};
use duly::ErrorKind;
use duly::event::Payload;
use duly::store::operation::{AttemptOutcome, PushOutcome, StoreOp};
use duly::store::{OUTBOX_BATCH_MAX, Outbox, OutboxLimit, OutboxPage, OutboxWatcher, WhenFull};
use duly::time::When;

impl World {
    /// A world whose store has outboxes.
    async fn with_outbox(harness: &dyn StoreHarness) -> Option<Self> {
        let world = Self::new(harness).await;
        world.store().records().is_none().then_some(world)
    }

    /// Returns the outbox with the records of the world's bucket.
    async fn outbox(&self) -> Outbox {
        let outboxes = self.store().outboxes().await.expect("they can be listed");
        if outboxes.contains(&Outbox::Store) {
            Outbox::Store
        } else {
            Outbox::Bucket(self.bucket.clone())
        }
    }

    async fn waiting(&self, after: u64, limit: usize) -> OutboxPage {
        let page = self
            .store()
            .read_outbox(&self.outbox().await, after, limit)
            .await;
        page.expect("it can be read")
    }

    /// Returns the first number, the next one, and the numbers of all waiting records.
    async fn numbers(&self) -> (u64, u64, Vec<u64>) {
        let page = self.waiting(0, OUTBOX_BATCH_MAX).await;
        let numbers = page.records.iter().map(|(number, _)| *number);
        (page.first, page.next, numbers.collect())
    }

    async fn trim(&self, through: u64) {
        let trimmed = self.store().trim_outbox(&self.outbox().await, through);
        trimmed.await.expect("it is trimmed");
    }

    fn limit(&self, max: u64, when_full: WhenFull) {
        let limit = OutboxLimit {
            max: Some(max),
            when_full,
        };
        let limited = self.store().limit_outboxes(limit);
        limited.expect("it can keep so much");
    }

    /// Writes `many` records, each by an operation of its own.
    async fn write_records(&self, many: usize) {
        for _ in 0..many {
            self.add(self.event()).await;
            let delivery = self.take(A).await;
            assert!(self.settle(A, &delivery, AttemptOutcome::Ack).await);
        }
    }
}

pub async fn an_outbox_is_read_by_number(harness: &dyn StoreHarness) {
    let Some(world) = World::with_outbox(harness).await else {
        return;
    };
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.add(world.event()).await);
        let delivery = world.take(A).await;
        assert!(world.settle(A, &delivery, AttemptOutcome::Ack).await);
        world.advance(ms(1));
    }
    for (after, limit, expected) in [(0, 100, 1..=5), (0, 2, 1..=2), (2, 2, 3..=4), (4, 2, 5..=5)] {
        let page = world.waiting(after, limit).await;
        let last = *expected.end();
        assert_eq!((page.first, page.next, page.damaged), (1, 6, 0));
        assert_eq!((page.last, page.has_more()), (last, last < 5));
        let found: Vec<_> = page
            .records
            .iter()
            .map(|(number, it)| (*number, it.id))
            .collect();
        let expected: Vec<_> = expected
            .map(|number| (number, ids[number as usize - 1]))
            .collect();
        assert_eq!(found, expected);
    }
    for after in [5, 6, u64::MAX] {
        let page = world.waiting(after, 2).await;
        assert!(page.records.is_empty() && !page.has_more(), "{page:?}");
    }
}

pub async fn a_read_of_no_records_tells_which_there_are(harness: &dyn StoreHarness) {
    let Some(world) = World::with_outbox(harness).await else {
        return;
    };
    for written in 0..3 {
        for after in [0, 1, u64::MAX] {
            let page = world.waiting(after, 0).await;
            assert_eq!((page.first, page.next), (1, written + 1));
            assert!(page.records.is_empty());
        }
        // At once after the settle that wrote one.
        world.write_records(1).await;
    }
    world.trim(2).await;
    let page = world.waiting(0, 0).await;
    assert_eq!((page.first, page.next), (3, 4));
}

pub async fn trimmed_records_are_gone_and_their_numbers_are_not_given_again(
    harness: &dyn StoreHarness,
) {
    let Some(world) = World::with_outbox(harness).await else {
        return;
    };
    world.write_records(5).await;
    for (through, expected) in [
        (0, 1..=5),
        (2, 3..=5),
        // Repeating the call, or a smaller number, changes nothing.
        (2, 3..=5),
        (1, 3..=5),
        (4, 5..=5),
    ] {
        world.trim(through).await;
        let (first, next) = (*expected.start(), 6);
        assert_eq!(world.numbers().await, (first, next, expected.collect()));
        assert_eq!(world.waiting(0, 0).await.trimmed, first - 1);
    }
    // A number beyond the last trims all.
    world.trim(u64::MAX).await;
    assert_eq!(world.numbers().await, (6, 6, vec![]));
    world.write_records(2).await;
    assert_eq!(world.numbers().await, (6, 8, vec![6, 7]));
    let page = world.waiting(2, 100).await;
    assert_eq!(page.records.len(), 2, "reading goes on where there is one");
}

pub async fn what_was_trimmed_stays_so_after_a_new_opening(harness: &dyn StoreHarness) {
    let Some(world) = World::with_outbox(harness).await else {
        return;
    };
    world.write_records(3).await;
    world.trim(2).await;
    let Some(world) = world.reopened().await else {
        return;
    };
    assert_eq!(world.numbers().await, (3, 4, vec![3]));
    world.trim(3).await;
    let world = world.reopened().await.expect("it came back before");
    assert_eq!(world.numbers().await, (4, 4, vec![]));
    world.write_records(1).await;
    assert_eq!(world.numbers().await, (4, 5, vec![4]));
    assert_eq!(world.waiting(3, 10).await.records.len(), 1);
}

pub async fn a_full_outbox_refuses_pushes_and_is_settled_into(harness: &dyn StoreHarness) {
    let Some(world) = World::with_outbox(harness).await else {
        return;
    };
    world.limit(3, WhenFull::RefusePushes);
    for _ in 0..5 {
        world.add(world.event()).await;
    }
    let held = world.fetch(A).await;
    for delivery in &held[..3] {
        assert!(world.settle(A, delivery, AttemptOutcome::Ack).await);
    }
    let refused = world.event();
    let push = || StoreOp::push(vec![refused.0.clone()]);
    let error = world.try_op(push()).await.expect_err("it is full");
    assert_eq!(error.kind(), ErrorKind::Full);
    assert_eq!(
        world.get(refused.id()).await,
        None,
        "nothing of it happened"
    );
    // Handlers go on, and no record is dropped.
    for delivery in &held[3..] {
        assert!(world.settle(A, delivery, AttemptOutcome::Ack).await);
    }
    assert_eq!(world.numbers().await, (1, 6, vec![1, 2, 3, 4, 5]));
    world.trim(2).await;
    let error = world.try_op(push()).await.expect_err("three still wait");
    assert_eq!(error.kind(), ErrorKind::Full);
    world.trim(3).await;
    assert_eq!(world.push(&refused).await, PushOutcome::Accepted);
}

pub async fn a_full_outbox_that_drops_keeps_the_newest(harness: &dyn StoreHarness) {
    let Some(world) = World::with_outbox(harness).await else {
        return;
    };
    world.limit(5, WhenFull::DropOldest);
    world.write_records(12).await;
    assert_eq!(world.numbers().await, (8, 13, vec![8, 9, 10, 11, 12]));
    // A reader that continues sees by the numbers that some are missing.
    let page = world.waiting(3, 2).await;
    let numbers: Vec<_> = page.records.iter().map(|(number, _)| *number).collect();
    assert_eq!((numbers, page.damaged), (vec![8, 9], 0));
    assert_eq!(page.trimmed, 0, "the missing ones were dropped");
    world.trim(9).await;
    world.write_records(4).await;
    let page = world.waiting(0, 0).await;
    assert_eq!((page.trimmed, page.first, page.next), (9, 12, 17));
    // Without a limit it keeps its default number.
    let anyway = OutboxLimit {
        max: None,
        when_full: WhenFull::DropOldest,
    };
    world.store().limit_outboxes(anyway).expect("it can");
    world.write_records(3).await;
    let (_, next, numbers) = world.numbers().await;
    assert!(next == 20 && numbers.ends_with(&[15, 16, 17, 18, 19]));
    assert!(numbers.len() >= 8, "{numbers:?}");
}

#[derive(Default)]
struct PushResult(AtomicUsize);

impl OutboxWatcher for PushResult {
    fn recorded(&self, _: &Outbox) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub async fn a_watcher_of_outboxes_is_told_of_every_record(harness: &dyn StoreHarness) {
    let Some(world) = World::with_outbox(harness).await else {
        return;
    };
    let found = Arc::new(PushResult::default());
    let watcher: Arc<dyn OutboxWatcher> = Arc::clone(&found) as _;
    let watched = world.store().watch_outboxes(Arc::downgrade(&watcher));
    watched.expect("there is room");
    let id = world.add(world.event()).await;
    world.stats().await;
    assert_eq!(found.0.load(Ordering::SeqCst), 0, "a push leaves none");
    let mut written = 0;
    let mut check = async |what: &str| {
        written += 1;
        // Everything decided before is written when this returns.
        let next = world.waiting(0, 0).await.next;
        assert_eq!(next, written + 1, "{what} leaves one record");
        assert!(found.0.swap(0, Ordering::SeqCst) > 0, "{what}");
    };
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, retry(secs(0))).await);
    check("a retry").await;
    world.take(B).await;
    world.reap_node(B).await;
    check("a reap").await;
    let delivery = world.take(A).await;
    assert!(world.settle(A, &delivery, bury()).await);
    check("a bury").await;
    let payload = Payload::from(b"mended".as_slice());
    let _ = world.op(StoreOp::edit(id, payload, None)).await;
    check("an edit").await;
    world.revive(&[id]).await;
    check("a revive").await;
    let _ = world.cancel(id).await;
    check("a cancel").await;
    let id = world.dead(world.event()).await;
    check("another bury").await;
    world.drop_dead(&[id]).await;
    check("a drop").await;
    let soon = world.now() + secs(1);
    world.add(world.event().when(When::Now).expires(soon)).await;
    world.advance(secs(2));
    world.fetch(A).await;
    check("an expiry").await;
}
