//! A soak of names, on the stores of one process: rounds in which everything has a new name, each
//! followed by two idle days. The bytes that live afterwards are counted on the one thread that
//! everything runs on.

use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use duly::event::BucketId;
use duly::lease::LeaseStatus;
use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::store::{MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};
use duly::{Annotation, BusBuilder, EventId, QueueName, Unique};

use crate::kit::{names, seeded};

const WORK: &str = "work";
const TTR: Duration = Duration::from_secs(60);
const DAYS: Duration = Duration::from_secs(2 * 86_400);

/// What one name may leave behind, as tables double: a queue that stays takes some thousand bytes.
const BYTES_OF_A_NAME: usize = 128;
/// What hash tables and tree nodes may take more or less, by chance.
const SLACK: usize = 80 << 10;

struct Soak {
    bus: TestBus,
    store: Option<Arc<MemoryStore>>,
    next: u64,
}

impl Soak {
    fn id(&self) -> EventId {
        let bucket = BucketId(fastrand::u16(..));
        EventId::from_parts(self.bus.now(), bucket, fastrand::u64(..))
    }

    /// Everything once, under names that were never used.
    async fn name(&mut self) -> duly::Result<()> {
        self.next += 1;
        let (bus, name) = (&self.bus, format!("queue-{}", self.next));
        let queue = bus.queue_named::<String>(&name)?;
        let absent = self.id();
        assert!(queue.get(absent).await?.is_none());
        assert!(bus.event(absent).await?.is_none());
        assert!(bus.event_in("never", absent).await?.is_none());
        assert_eq!(queue.cancel(absent).await?, CancelOutcome::NotFound);
        assert!(queue.lease(1, TTR).send().await?.is_empty());
        bus.stats(&name).await?;
        // Who changes a queue or a schedule is in the audit of its namespace, for long.
        let quiet = Bus::clone(bus).with_own_audit();
        quiet.pause(&name).await?;
        quiet.resume(&name).await?;

        queue
            .event("a".into())
            .key(&name)
            .id(self.id())
            .push()
            .await?;
        queue
            .event("b".into())
            .unique(&name, Unique::Keep)
            .unique_for(TTR)
            .push()
            .await?;
        let cancelled = queue.event("d".into()).after(TTR).key(&name).push().await?;
        assert_eq!(queue.cancel_by_key(&name).await?.len(), 2);
        let _ = queue.cancel(cancelled.id()).await?;
        let id = queue.id_for_name(&name);
        queue.event("e".into()).id(id).attempts(1).push().await?;
        let from = [QueueName::new(&name)?, QueueName::new("other")?];
        for leased in bus.lease_from(&from, 10, TTR).send().await? {
            let status = if leased.id() == id {
                leased.bury("why").await?
            } else {
                leased.ack().await?
            };
            assert_eq!(status, LeaseStatus::Held);
        }
        let letters = bus.dead_letters().queue(&name).page().await?;
        assert_eq!(letters.items.len(), 1);
        assert_eq!(bus.dead_letters().drop([id]).await?.done, 1);
        bus.records().queue(&name).limit(1).page().await?;
        bus.records().id(absent).limit(1).page().await?;
        bus.events().queue(&name).limit(1).page().await?;

        let schedule = format!("{name}.hourly");
        let hourly = ScheduleOptions::new(WORK, "every 1h")?;
        let schedules = quiet.schedules();
        schedules.set(&schedule, hourly).await?;
        bus.advance(Duration::from_millis(20)).await;
        assert!(schedules.remove(&schedule).await?);

        let work = bus.queue_named::<String>(WORK)?;
        work.event(name.clone())
            .key(&name)
            .id(self.id())
            .push()
            .await?;
        bus.advance(Duration::from_millis(20)).await;
        Ok(())
    }

    async fn other_bus(&self) -> duly::Result<()> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let shared = Arc::clone(store) as Arc<dyn Store>;
        let builder = Bus::builder().only_registered().shared_store(shared);
        let other = TestBus::start_on(Arc::clone(self.bus.clock()), builder.publish_only()).await?;
        let queue = other.queue_named::<String>("other")?;
        queue.push("x".into(), When::Now).await?;
        let _ = queue.lease(1, TTR).send().await?.remove(0).ack().await?;
        other.shutdown(TTR).await
    }

    async fn round(&mut self, names: usize) -> duly::Result<()> {
        for number in 0..names {
            self.name().await?;
            if number % 100 == 0 {
                self.other_bus().await?;
                self.bus.explain(self.id()).await?;
                self.bus.queues().await?;
            }
        }
        self.bus.advance(DAYS + TTR * 5).await;
        // What is idle is looked for as the store is used.
        let work = self.bus.queue_named::<String>(WORK)?;
        for _ in 0..20 * names {
            work.get(self.id()).await?;
        }
        let queues = self.bus.queues().await?;
        assert!(queues.len() <= 2, "idle queues are gone: {queues:?}");
        self.bus.advance(Duration::from_secs(200)).await;
        Ok(())
    }
}

fn soaked(
    names: usize,
    builder: BusBuilder,
    store: Option<Arc<MemoryStore>>,
    clock: Arc<VirtualClock>,
) {
    seeded();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().start_paused(true).build().unwrap();
    let builder = builder.register_as(Annotation::new(WORK), Forgetful);
    let bus = runtime.block_on(TestBus::start_on(clock, builder)).unwrap();
    let mut soak = Soak {
        bus,
        store,
        next: 0,
    };
    // What is bounded fills up first: some hundred names, watermarks of idle buckets, a week of
    // records and the names in them.
    let warm = 300_usize.div_ceil(names).max(5);
    for _ in 0..warm {
        runtime.block_on(soak.round(names)).unwrap();
    }
    // Rounds of one size, as what has ended in a bucket is remembered until something else ends there.
    let counts = measure(|| {
        for _ in 0..2 {
            runtime.block_on(soak.round(names)).unwrap();
        }
    });
    let most = 2 * names * BYTES_OF_A_NAME + SLACK;
    assert!(
        counts.bytes_current <= most as i64,
        "{} bytes are left of {} names",
        counts.bytes_current,
        2 * names
    );
}

/// A handler that notes nothing.
struct Forgetful;

impl Handler for Forgetful {
    type Payload = String;

    async fn handle(&self, _event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn names_leave_nothing_behind_in_memory() {
    let clock = Arc::new(VirtualClock::new());
    let store = MemoryStore::with_clock(Arc::clone(&clock) as _).with_memory(1_000, 200);
    let store = Arc::new(store);
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let builder = Bus::builder().only_registered().shared_store(shared);
    soaked(names(150), builder, Some(store), clock);
}

#[test]
fn names_leave_nothing_behind_in_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("duly.db").display());
    let builder = Bus::builder().only_registered().store_url(url);
    soaked(names(40), builder, None, Arc::new(VirtualClock::new()));
}
