//! What every test here begins with: a clock, a store on it, and a bus on both.

use std::sync::Arc;
use std::time::Duration;

use duly::prelude::*;
use duly::store::{DedupWindow, EmbeddedOptions, EmbeddedStore, MemoryStore, Store};
use duly::testing::{Probe, TestBus, VirtualClock};
use duly::{Annotation, BusBuilder};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// Makes a test of each function for each store, in modules that are named after the stores.
macro_rules! over_every_store {
    ($($promise:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $promise() {
                super::$promise($crate::world::World::memory()).await;
            })+
        }

        mod embedded {
            $(#[tokio::test(start_paused = true)]
            async fn $promise() {
                super::$promise($crate::world::World::embedded()).await;
            })+
        }
    };
}

/// A clock and a store on it.
pub(crate) struct World {
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) store: Arc<dyn Store>,
    /// Where the embedded store lies.
    folder: Option<TempDir>,
}

impl World {
    pub(crate) fn memory() -> Self {
        let clock = Arc::new(VirtualClock::new());
        Self {
            store: Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _)),
            clock,
            folder: None,
        }
    }

    /// A memory store that remembers ten finished events of each bucket, however young they are.
    pub(crate) fn memory_of_ten() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as _).with_window(DedupWindow {
            max: 10,
            cap: 10,
            ..DedupWindow::default()
        });
        Self {
            clock,
            store: Arc::new(store),
            folder: None,
        }
    }

    /// A memory store that keeps ten records.
    #[allow(dead_code)] // of those who take this in, one needs it
    pub(crate) fn memory_of_ten_records() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as _).with_memory(1_000, 10);
        Self {
            clock,
            store: Arc::new(store),
            folder: None,
        }
    }

    /// A memory store that several buses use, each for itself.
    pub(crate) fn shared() -> Self {
        let clock = Arc::new(VirtualClock::new());
        Self {
            store: Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _).shared()),
            clock,
            folder: None,
        }
    }

    pub(crate) fn embedded() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let folder = folder().expect("a temporary folder");
        Self {
            store: open(&folder, &clock),
            clock,
            folder: Some(folder),
        }
    }

    /// Whether its store is a file.
    pub(crate) fn is_embedded(&self) -> bool {
        self.folder.is_some()
    }

    /// The next process: the memory store goes on, the embedded one is opened again.
    pub(crate) fn restart(self) -> Self {
        let Self {
            clock,
            store,
            folder,
        } = self;
        let store = match &folder {
            None => store,
            Some(folder) => {
                close(&store);
                drop(store);
                open(folder, &clock)
            }
        };
        Self {
            clock,
            store,
            folder,
        }
    }

    /// A builder on this world's store, without the handlers that the linker found.
    pub(crate) fn builder(&self) -> BusBuilder {
        Bus::builder()
            .only_registered()
            .shared_store(Arc::clone(&self.store))
    }

    pub(crate) async fn start(&self, builder: BusBuilder) -> TestBus {
        TestBus::start_on(Arc::clone(&self.clock), builder)
            .await
            .expect("the bus starts")
    }

    /// A bus with one handler, and its queue.
    pub(crate) async fn serve<T>(
        &self,
        annotation: Annotation,
        probe: &Probe<T>,
    ) -> (TestBus, Queue<T>)
    where
        T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.serve_by(Arc::clone(&self.store), annotation, probe)
            .await
    }

    /// The same, which goes to the store by a way of its own.
    pub(crate) async fn serve_by<T>(
        &self,
        way: Arc<dyn Store>,
        annotation: Annotation,
        probe: &Probe<T>,
    ) -> (TestBus, Queue<T>)
    where
        T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let builder = Bus::builder().only_registered().shared_store(way);
        let builder = builder.register_as(annotation, probe.clone());
        let bus = self.start(builder).await;
        let queue = bus.queue_named(annotation.queue).expect("a legal name");
        (bus, queue)
    }

    /// A bus that only pushes, and a queue of it.
    pub(crate) async fn push_only<T>(&self, queue: &str) -> (TestBus, Queue<T>)
    where
        T: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let bus = self.start(self.builder().publish_only()).await;
        let queue = bus.queue_named(queue).expect("a legal name");
        (bus, queue)
    }
}

/// In memory where the system offers that: whether a disk keeps what it is given is not asked here.
fn folder() -> std::io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Closes a store, while the time of the test stands still.
fn close(store: &Arc<dyn Store>) {
    let close = || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().expect("a runtime");
        runtime.block_on(store.close()).expect("the store closes");
    };
    std::thread::scope(|scope| scope.spawn(close).join().expect("no panic"));
}

fn open(folder: &TempDir, clock: &Arc<VirtualClock>) -> Arc<dyn Store> {
    let options = EmbeddedOptions::inline().clock(Arc::clone(clock) as _);
    let store = EmbeddedStore::open_with(folder.path().join("duly.db"), options);
    Arc::new(store.expect("the store opens"))
}

/// A queue whose backoff is a second, always.
pub(crate) const ORDERS: Annotation =
    Annotation::new("orders").backoff(RetryPolicy::fixed(Duration::from_secs(1)));

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
