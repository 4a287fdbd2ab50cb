//! A person is erased while records are in outboxes, on their way to the journal or not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duly::prelude::*;
use duly::records::Record;
use duly::store::Outbox;
use duly::testing::Probe;

use crate::bad::{Bad, Mode};
use crate::faulty::Faulty;
use crate::world::{ORDERS, World, ms, secs};

const ANN: &str = "customer:8";

async fn three_are_empty(journal: &Bad) {
    let all = journal.all().await;
    let hers = all.iter().filter(|(_, it)| it.key.as_deref() == Some(ANN));
    let hers: Vec<&Record> = hers.map(|(_, record)| record).collect();
    assert_eq!(hers.len(), 3, "that they were stays");
    assert!(!hers.iter().any(|it| it.has_content()), "{hers:?}");
}

async fn push(queue: &Queue<String>, key: &str, many: usize, after: Duration) {
    let events = (0..many).map(|_| {
        let event = queue.event("Dear Ann".to_owned());
        event.key(key).keep_payload(true)
    });
    queue.push_many(events, after).await.unwrap();
}

/// They are cancelled, their records are loaded while the erasure reads the journal, and leave the
/// outbox before it has done so.
#[tokio::test(start_paused = true)]
async fn what_leaves_its_outbox_meanwhile_is_erased_all_the_same() {
    for can_erase in [true, false] {
        let world = World::memory();
        let way = Faulty::to(&world.store);
        way.can_erase.store(can_erase, Ordering::Relaxed);
        let journal = Arc::<Bad>::default();
        let builder = Bus::builder()
            .only_registered()
            .shared_store(way)
            .shared_journal(Arc::clone(&journal) as _)
            .register_as(ORDERS, Probe::<String>::new());
        let bus = world.start(builder).await;
        let queue = bus.queue_named("orders").unwrap();
        push(&queue, ANN, 3, secs(60)).await;
        journal.now(Mode::OneTakes(ms(500)));
        let report = bus.erase(ANN).cancel().run().await.unwrap();
        assert_eq!(
            (report.cancelled, report.records, report.unreached),
            (3, 3, 0),
            "{can_erase}"
        );
        bus.advance(secs(1)).await;
        three_are_empty(&journal).await;
    }
}

/// The recorder has copied them, and the journal has them only after the erasure went through it.
#[tokio::test(start_paused = true)]
async fn what_is_being_loaded_meanwhile_is_erased_all_the_same() {
    let world = World::memory();
    let journal = Arc::<Bad>::default();
    let builder = Bus::builder()
        .only_registered()
        .shared_store(Arc::clone(&world.store))
        .shared_journal(Arc::clone(&journal) as _)
        .register_as(ORDERS, Probe::<String>::new());
    let bus = world.start(builder).await;
    let queue = bus.queue_named("orders").unwrap();
    journal.next_load_waits(secs(2));
    push(&queue, ANN, 3, ms(0)).await;
    while journal.loads().is_empty() {
        tokio::time::sleep(ms(10)).await;
    }
    assert_eq!(journal.loads(), [3], "they are under way");
    let dry = bus.erase(ANN).dry_run().run().await.unwrap();
    assert_eq!((dry.records, dry.unreached), (3, 0));
    let report = bus.erase(ANN).run().await.unwrap();
    assert_eq!(report.unreached, 0);
    bus.advance(secs(3)).await;
    three_are_empty(&journal).await;
}

/// A page of records looks at the newest of each outbox alone.
#[tokio::test(start_paused = true)]
async fn what_is_old_in_a_long_outbox_is_erased_too() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    way.empty_outboxes.store(200, Ordering::Relaxed);
    for can_erase in [false, true] {
        way.can_erase.store(can_erase, Ordering::Relaxed);
        let (bus, queue) = world
            .serve_by(Arc::clone(&way) as _, ORDERS, &Probe::<String>::new())
            .await;
        if !can_erase {
            push(&queue, ANN, 50, ms(0)).await;
            bus.advance(secs(1)).await;
            for _ in 0..3 {
                push(&queue, "customer:9", 1_000, ms(0)).await;
                bus.advance(secs(1)).await;
            }
        }
        let report = bus.erase(ANN).run().await.unwrap();
        let expected = if can_erase { (50, 0) } else { (0, 50) };
        assert_eq!((report.records, report.unreached), expected);
        bus.shutdown(secs(1)).await.unwrap();
    }
    let page = world.store.read_outbox(&Outbox::Store, 0, 10_000).await;
    let records = page.unwrap().records;
    let has_content = |key| {
        let its = records
            .iter()
            .filter(|(_, it)| it.key.as_deref() == Some(key));
        its.filter(|(_, it)| it.has_content()).count()
    };
    assert_eq!((has_content(ANN), has_content("customer:9")), (0, 3_000));
}
