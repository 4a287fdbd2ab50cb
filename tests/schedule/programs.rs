//! Schedules that several programs on one store carry out: one without the key, one without the
//! handler.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::codec::{Key, KeyRing};
use duly::prelude::*;
use duly::schedule::{OverlapPolicy, ScheduleOptions};
use duly::store::operation::{PeekBy, Snapshot, StoreOp};
use duly::store::{MemoryStore, Store};
use duly::testing::{TestBus, VirtualClock};
use duly::time::Timestamp;
use duly::{BusBuilder, OldPayload, State};

use super::runs::DAY;
use crate::faulty::Faulty;

const HOUR: Duration = Duration::from_secs(3_600);
const WORD: &str = "resplendent quetzal";

/// A store that several programs have.
pub(super) struct Shared {
    clock: Arc<VirtualClock>,
    pub(super) store: Arc<dyn Store>,
}

impl Shared {
    pub(super) fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let store = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _));
        Self { clock, store }
    }

    pub(super) fn clock(&self) -> Arc<VirtualClock> {
        Arc::clone(&self.clock)
    }

    pub(super) async fn start(&self, builder: BusBuilder) -> TestBus {
        let builder = builder.shared_store(Arc::clone(&self.store));
        let bus = TestBus::start_on(Arc::clone(&self.clock), builder).await;
        bus.unwrap()
    }

    /// A program that takes the time for later than it is by so much.
    pub(super) async fn ahead(&self, ahead: Duration, builder: BusBuilder) -> TestBus {
        let way = Faulty::to(&self.store);
        let ahead_us = u64::try_from(ahead.as_micros()).unwrap();
        way.ahead_us.store(ahead_us, Ordering::Relaxed);
        let bus = TestBus::start_on(Arc::clone(&self.clock), builder.shared_store(way as _));
        bus.await.unwrap()
    }

    /// A program that carries schedules out, and has no handlers.
    pub(super) async fn server(&self, keys: KeyRing) -> TestBus {
        let builder = Bus::builder().publish_only().run_schedules(true);
        self.start(builder.keys(keys)).await
    }

    /// All events that have not ended, of each queue.
    pub(super) async fn events(&self) -> Vec<(String, Snapshot)> {
        let mut all = Vec::new();
        for bucket in self.store.buckets().await.unwrap() {
            let peek = StoreOp::peek(PeekBy::All, None, 100);
            let page = peek.apply(&*self.store, &bucket).await.unwrap();
            let queue = bucket.queue.to_string();
            if queue.ends_with("duly.audit.programs") {
                continue; // lines about what was done
            }
            all.extend(page.events.into_iter().map(|it| (queue.clone(), it)));
        }
        all
    }

    /// What can be read of the secret without a key.
    async fn is_readable(&self) -> bool {
        let word = WORD.as_bytes();
        self.events().await.iter().any(|(_, event)| {
            let bytes = event.body.as_ref().unwrap().payload.as_bytes();
            bytes.windows(word.len()).any(|part| part == word)
        })
    }
}

fn ring(ids: &[(&str, u8)]) -> KeyRing {
    let keys = KeyRing::new();
    for (id, byte) in ids {
        keys.add(id, Key::new([*byte; 32])).unwrap();
        keys.choose(id).unwrap();
    }
    keys
}

type Instants = Arc<Mutex<Vec<(Timestamp, Duration)>>>;

#[delay_event(queue = "cards", encrypt = true, register = false)]
async fn charge(event: Event<String>, ran: State<Instants>) -> Result<(), Failure> {
    assert_eq!(event.payload, WORD);
    let instant = event.occurrence().unwrap().instant;
    ran.lock().unwrap().push((instant, event.lateness()));
    Ok(())
}

fn secret(when: &str) -> ScheduleOptions {
    let secret = ScheduleOptions::new("cards", when).unwrap();
    secret.payload(&WORD).unwrap()
}

/// The program of the handler.
fn charging(keys: &KeyRing, ran: &Instants) -> BusBuilder {
    let builder = Bus::builder().keys(keys.clone()).register(charge {});
    builder.state(Arc::clone(ran))
}

#[tokio::test(start_paused = true)]
async fn a_process_without_the_key_hands_a_schedule_on_to_those_that_have_it() {
    for overlap in [OverlapPolicy::Allow, OverlapPolicy::Skip] {
        let (shared, ran) = (Shared::new(), Instants::default());
        let options = secret("every 1h").overlap(overlap);
        let keys = ring(&[("k1", 1)]);
        let declares = || charging(&keys, &ran).schedule("secret", options.clone());
        let blind = shared.server(KeyRing::new()).await;
        let able = shared.start(declares()).await;
        let began = able.now();
        able.advance(DAY * 2).await;
        // And for a while it is alone.
        able.shutdown(HOUR).await.unwrap();
        blind.advance(Duration::from_secs(600)).await;
        let able = shared.start(declares()).await;
        able.advance(DAY).await;
        let letters = blind.stats("duly.schedules").await.unwrap().dead;
        assert_eq!(letters, 0, "{overlap}");
        let all = options.instants(began).take_while(|at| *at <= able.now());
        let all: Vec<_> = all.collect();
        let ran = ran.lock().unwrap().clone();
        let instants: Vec<_> = ran.iter().map(|(instant, _)| *instant).collect();
        assert_eq!(instants, all, "{overlap}");
        if overlap == OverlapPolicy::Allow {
            let late = ran.iter().filter(|(_, late)| !late.is_zero());
            assert_eq!(late.count(), 0, "{ran:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_under_which_nothing_is_counted_can_go_and_each_schedule_goes_on() {
    let (shared, ran) = (Shared::new(), Instants::default());
    let keys = ring(&[("old", 1)]);
    let bus = charging(&keys, &ran).schedule("secret", secret("@monthly"));
    let other = ScheduleOptions::new("other", "every 1h").unwrap();
    let bus = shared.start(bus.schedule("other", other)).await;
    bus.settle().await;
    let count = async |queue: &str| bus.reencrypt(queue).count().await.unwrap();
    let before = count("cards").await;
    assert_eq!((before.under("old"), before.plain), (2, 0)); // its event, and itself
    let other = count("other").await;
    assert_eq!((other.under("old"), other.plain), (0, 2));

    keys.add("new", Key::new([2; 32])).unwrap();
    keys.choose("new").unwrap();
    let done = bus.reencrypt("cards").run().await.unwrap();
    let done = done.finished().unwrap();
    assert_eq!((done.rewritten, done.failed), (2, 0));
    let after = count("cards").await;
    assert_eq!((after.under("old"), after.under("new")), (0, 2));

    keys.remove("old").unwrap();
    bus.advance(DAY * 100).await;
    assert_eq!(ran.lock().unwrap().len(), 3);
    assert_eq!(bus.stats("duly.schedules").await.unwrap().dead, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_encrypted_stays_so_whoever_carries_the_schedule_out() {
    for is_declared in [true, false] {
        let (shared, ran) = (Shared::new(), Instants::default());
        let keys = ring(&[("k1", 1)]);
        let mut builder = charging(&keys, &ran);
        if is_declared {
            builder = builder.schedule("secret", secret("every 1h"));
        }
        let program = shared.start(builder).await;
        if !is_declared {
            let schedules = program.schedules();
            schedules.set("secret", secret("every 1h")).await.unwrap();
        }
        program.settle().await;
        program.shutdown(HOUR).await.unwrap();
        // It has the keys, and not the options of the queue.
        let server = shared.server(keys.clone()).await;
        for _ in 0..5 {
            server.advance(HOUR).await;
            assert!(!shared.is_readable().await, "declared: {is_declared}");
        }
        server.schedules().pause("secret").await.unwrap();
        server.settle().await;
        assert!(!shared.is_readable().await, "declared: {is_declared}");
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Price {
    cents: u64,
}

fn upgrade(_: OldPayload<'_>) -> Result<Price, Failure> {
    Err(Failure::permanent("it is of the version of today"))
}

#[delay_event(
    queue = "prices",
    version = 2,
    upgrade = upgrade,
    attempts = 1,
    late = "expire(3d)",
    register = false
)]
async fn price(event: Event<Price>, ran: State<Arc<AtomicUsize>>) -> Result<(), Failure> {
    assert_eq!((event.payload.cents, event.attempts()), (7, 1));
    ran.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_has_the_options_of_its_queue_whoever_pushes_it() {
    let (shared, ran) = (Shared::new(), Arc::<AtomicUsize>::default());
    let options = ScheduleOptions::new("prices", "every 1h").unwrap();
    let options = options.payload(&Price { cents: 7 }).unwrap();
    let declares = || {
        let builder = Bus::builder().register(price {}).state(Arc::clone(&ran));
        builder.schedule("prices", options.clone())
    };
    let program = shared.start(declares()).await;
    program.settle().await;
    program.shutdown(HOUR).await.unwrap();
    let server = shared.server(KeyRing::new()).await;
    server.advance(DAY).await;
    server.schedules().run_now("prices").await.unwrap();
    let events = shared.events().await;
    let events = events.iter().filter(|(queue, _)| queue == "prices");
    let bodies: Vec<_> = events
        .map(|(_, event)| event.body.clone().unwrap())
        .collect();
    assert!(bodies.len() > 20, "{bodies:?}");
    for body in &bodies {
        assert_eq!((body.version, body.attempts), (2, 1), "{body:?}");
        assert_eq!(body.late.to_string(), "expire(3d)");
    }
    let program = shared.start(declares()).await;
    program.advance(HOUR).await;
    assert!(ran.load(Ordering::Relaxed) >= bodies.len());
    assert_eq!(program.stats("prices").await.unwrap().dead, 0);
}
