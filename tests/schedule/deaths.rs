//! A bus that dies at one certain operation, and what the next one makes of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duly::event::BucketKey;
use duly::prelude::*;
use duly::schedule::{MissedPolicy, ScheduleOptions};
use duly::store::operation::StoreOp;
use duly::store::{DedupWindow, EmbeddedOptions, EmbeddedStore, MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};
use duly::time::Timestamp;

use super::runs::{Seen, builder, instants, options};
use crate::faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);

/// A store, and what was carried out on it.
struct Site {
    clock: Arc<VirtualClock>,
    near: Arc<dyn Store>,
    seen: Seen,
}

impl Site {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let near = MemoryStore::with_clock(Arc::clone(&clock) as _).shared();
        Self::of(clock, Arc::new(near))
    }

    fn of(clock: Arc<VirtualClock>, near: Arc<dyn Store>) -> Self {
        Self {
            clock,
            near,
            seen: Seen::default(),
        }
    }

    /// Sites whose stores forget soon which events have ended: in memory, and in a file.
    fn forgetful(folder: &Path) -> [Self; 2] {
        let window = DedupWindow {
            keep_for: Duration::from_secs(1),
            max: 0,
            cap: 1,
            ..DedupWindow::default()
        };
        let clock = Arc::new(VirtualClock::new());
        let near = MemoryStore::with_clock(Arc::clone(&clock) as _).with_window(window);
        let memory = Self::of(clock, Arc::new(near));
        let clock = Arc::new(VirtualClock::new());
        let options = EmbeddedOptions::inline().clock(Arc::clone(&clock) as _);
        let file = EmbeddedStore::open_with(folder.join("duly.db"), options.window(window));
        [memory, Self::of(clock, Arc::new(file.unwrap()))]
    }

    async fn start(&self, store: Arc<dyn Store>) -> TestBus {
        let builder = builder(&self.seen, &[]).shared_store(store);
        let bus = TestBus::start_on(Arc::clone(&self.clock), builder).await;
        bus.unwrap()
    }

    /// A bus that dies at the first operation for which `at` has a fault: it meets that fault, and
    /// nothing that it does later is done.
    async fn dying(
        &self,
        at: impl Fn(&BucketKey, &StoreOp) -> Fault + Send + 'static,
    ) -> (TestBus, Arc<Death>) {
        let faulty = Faulty::to(&self.near);
        let death = Arc::new(Death::default());
        let known = Arc::clone(&death);
        faulty.meets(move |bucket, op| {
            if known.is_dead.load(Ordering::Relaxed) {
                return Fault::Hung;
            }
            let fault = if known.is_near.load(Ordering::Relaxed) {
                at(bucket, op)
            } else {
                Fault::None
            };
            if fault != Fault::None {
                known.is_dead.store(true, Ordering::Relaxed);
            }
            fault
        });
        (self.start(faulty as _).await, death)
    }
}

#[derive(Default)]
struct Death {
    /// Whether it may come.
    is_near: AtomicBool,
    is_dead: AtomicBool,
}

impl Death {
    /// Lets it come, and waits for it.
    async fn of(&self, bus: TestBus) {
        self.is_near.store(true, Ordering::Relaxed);
        for _ in 0..3_600 {
            if self.is_dead.load(Ordering::Relaxed) {
                return;
            }
            bus.advance(Duration::from_secs(1)).await;
        }
        panic!("it did not die within an hour");
    }
}

fn often() -> ScheduleOptions {
    options("every 10m").missed(MissedPolicy::All(100))
}

/// Ends other events in each bucket, so that a store forgets.
async fn others_end(bus: &TestBus) {
    let queue = bus.queue_named::<u64>("report").unwrap();
    for _ in 0..64 {
        bus.advance(Duration::from_millis(2)).await; // it takes no id that is older than one it forgot
        let other = queue.push(7, MINUTE * 300).await.unwrap();
        let _ = queue.cancel(other.id()).await.unwrap();
    }
}

/// The instants of a schedule from `began` until now, and those that were run.
async fn compare(site: &Site, bus: &TestBus, options: &ScheduleOptions, began: Timestamp) {
    let until = bus.now();
    bus.advance(MINUTE).await;
    let expected = options.instants(began).take_while(|at| *at <= until);
    let expected: Vec<_> = expected.collect();
    let mut run = instants(&site.seen, "often");
    run.retain(|at| *at <= until);
    run.sort_unstable();
    assert_eq!(run, expected);
}

#[tokio::test(start_paused = true)]
async fn what_a_bus_took_back_before_it_died_is_made_up_for() {
    let site = Site::new();
    let (bus, death) = site
        .dying(|_, op| match op {
            StoreOp::Cancel { .. } => Fault::Lost,
            _ => Fault::None,
        })
        .await;
    let began = bus.now();
    bus.schedules().set("often", often()).await.unwrap();
    bus.advance(MINUTE * 21).await;
    // Another bus changes it; its instants stay.
    death.is_near.store(true, Ordering::Relaxed);
    let jitter = often().jitter(Duration::from_millis(1)).unwrap();
    let pushes = Bus::builder().publish_only();
    let pushes = pushes.shared_store(Arc::clone(&site.near));
    let pushes = TestBus::start_on(Arc::clone(&site.clock), pushes).await;
    let pushes = pushes.unwrap();
    pushes.schedules().set("often", jitter).await.unwrap();
    death.of(bus).await;
    tokio::time::advance(MINUTE * 15).await;
    let next = site.start(Arc::clone(&site.near)).await;
    next.advance(MINUTE * 30).await;
    compare(&site, &next, &often(), began).await;
}

/// The store has forgotten by then what it took back, as it was away for long, or other events ended.
#[tokio::test(start_paused = true)]
async fn what_a_bus_took_back_and_the_store_forgot_is_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    for site in Site::forgetful(folder.path()) {
        for away in [MINUTE / 2, MINUTE * 15] {
            site.seen.lock().unwrap().clear();
            let (bus, death) = site
                .dying(|_, op| match op {
                    StoreOp::Cancel { .. } => Fault::Lost,
                    _ => Fault::None,
                })
                .await;
            bus.schedules().remove("often").await.unwrap();
            bus.settle().await;
            let began = bus.now();
            bus.schedules().set("often", often()).await.unwrap();
            bus.advance(MINUTE * 21).await;
            death.is_near.store(true, Ordering::Relaxed);
            let jitter = often().jitter(Duration::from_millis(1)).unwrap();
            bus.schedules().set("often", jitter).await.unwrap();
            death.of(bus).await;
            tokio::time::advance(away).await;
            // Others end there, so that it forgets before the next look.
            let pushes = Bus::builder().publish_only();
            let pushes = pushes.shared_store(Arc::clone(&site.near));
            let pushes = TestBus::start_on(Arc::clone(&site.clock), pushes).await;
            let pushes = pushes.unwrap();
            others_end(&pushes).await;
            drop(pushes);
            let next = site.start(Arc::clone(&site.near)).await;
            next.advance(MINUTE * 30).await;
            compare(&site, &next, &often(), began).await;
        }
    }
}

/// So is what somebody else has taken back, which stays so.
#[tokio::test(start_paused = true)]
async fn what_somebody_cancelled_and_the_store_forgot_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    for site in Site::forgetful(folder.path()) {
        let bus = site.start(Arc::clone(&site.near)).await;
        let began = bus.now();
        bus.schedules().set("often", often()).await.unwrap();
        bus.advance(MINUTE * 21).await;
        let queue = bus.queue_named::<u64>("report").unwrap();
        let cancelled = bus.schedules().get("often").await.unwrap().unwrap().next();
        assert_eq!(queue.cancel_by_key("often").await.unwrap().len(), 1);
        bus.advance(MINUTE).await;
        others_end(&bus).await;
        let jitter = often().jitter(Duration::from_millis(1)).unwrap();
        bus.schedules().set("often", jitter).await.unwrap();
        bus.advance(MINUTE * 40).await;
        let often = often();
        let all = often.instants(began).take_while(|at| *at <= bus.now());
        let expected: Vec<_> = all.filter(|at| Some(*at) != cancelled).collect();
        assert_eq!(instants(&site.seen, "often"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_maker_died_is_carried_out_soon() {
    let site = Site::new();
    let runs = site.start(Arc::clone(&site.near)).await;
    runs.schedules().set("often", often()).await.unwrap();
    runs.advance(MINUTE).await;
    // It dies once the change is stored, and before anybody is told.
    let is_rewritten = AtomicBool::new(false);
    let faulty = Faulty::to(&site.near);
    faulty.meets(move |_, op| match op {
        _ if is_rewritten.load(Ordering::Relaxed) => Fault::Hung,
        StoreOp::Rewrite(_) => {
            is_rewritten.store(true, Ordering::Relaxed);
            Fault::None
        }
        _ => Fault::None,
    });
    let maker = Bus::builder().publish_only().shared_store(faulty as _);
    let maker = TestBus::start_on(Arc::clone(&site.clock), maker).await;
    let maker = maker.unwrap();
    let (schedules, change) = (maker.schedules(), options("every 7m"));
    let set = schedules.set("often", change.clone());
    let never = tokio::time::timeout(MINUTE / 60, set).await;
    assert!(never.is_err(), "it died");
    runs.advance(MINUTE / 6).await;
    let shown = runs.schedules().get("often").await.unwrap().unwrap();
    assert_eq!(shown.options, change);
    assert!(!shown.is_changing, "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_link_whose_ack_was_lost_does_nothing_after_a_change() {
    let site = Site::new();
    let (bus, death) = site
        .dying(|bucket, op| match op {
            StoreOp::Settle { settlements, .. }
                if bucket.queue.as_str() == "duly.schedules" && !settlements.is_empty() =>
            {
                Fault::Hung
            }
            _ => Fault::None,
        })
        .await;
    let began = bus.now();
    bus.schedules().set("often", often()).await.unwrap();
    bus.advance(MINUTE * 21).await;
    death.of(bus).await;
    // The next one changes it at once; the old link is still leased.
    let next = site.start(Arc::clone(&site.near)).await;
    let other = options("every 7m").missed(MissedPolicy::All(100));
    next.schedules().set("often", other.clone()).await.unwrap();
    let changed = next.now();
    next.advance(MINUTE * 60).await;
    let until = next.now();
    next.advance(MINUTE).await;
    let before = often();
    let before = before.instants(began).take_while(|at| *at <= changed);
    let after = other.instants(changed).take_while(|at| *at <= until);
    let expected: Vec<_> = before.chain(after).collect();
    let mut run = instants(&site.seen, "often");
    run.sort_unstable();
    assert_eq!(run, expected);
}

/// It pushed what is to come, and died before it noted that; then the schedule is changed.
#[tokio::test(start_paused = true)]
async fn what_a_bus_pushed_before_it_died_is_not_pushed_again_by_a_change() {
    let site = Site::new();
    let (bus, death) = site
        .dying(|bucket, op| match op {
            StoreOp::Push(_) if bucket.queue.as_str() == "report" => Fault::Lost,
            _ => Fault::None,
        })
        .await;
    let began = bus.now();
    bus.schedules().set("often", often()).await.unwrap();
    bus.advance(MINUTE * 21).await;
    death.of(bus).await;
    tokio::time::advance(MINUTE).await;
    // The next one is of a build that declares it otherwise.
    let jitter = often().jitter(Duration::from_millis(1)).unwrap();
    let next = builder(&site.seen, &[("often", jitter)]);
    let next = next.shared_store(Arc::clone(&site.near));
    let next = TestBus::start_on(Arc::clone(&site.clock), next);
    let next = next.await.unwrap();
    next.advance(MINUTE * 45).await;
    compare(&site, &next, &often(), began).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_bus_died_before_it_pushed_is_pushed_by_the_next() {
    let site = Site::new();
    let (bus, death) = site
        .dying(|bucket, op| match op {
            StoreOp::Push(_) if bucket.queue.as_str() == "report" => Fault::Hung,
            _ => Fault::None,
        })
        .await;
    let began = bus.now();
    bus.schedules().set("often", often()).await.unwrap();
    bus.advance(MINUTE * 21).await;
    death.of(bus).await;
    let next = site.start(Arc::clone(&site.near)).await;
    next.advance(MINUTE * 60).await;
    compare(&site, &next, &often(), began).await;
}
