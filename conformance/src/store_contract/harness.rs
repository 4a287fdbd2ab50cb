//! The interface between the suite and a store under test.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use duly::store::{DedupWindow, MemoryStore, Store};
use duly::testing::ManualClock;

/// A future of the harness.
pub type HarnessFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A factory of the stores that the suite tests.
pub trait StoreHarness: Send + Sync {
    /// Creates an empty store with this clock and dedup window; it has one bucket, with the whole
    /// cap.
    fn fresh(
        &self,
        clock: Arc<ManualClock>,
        window: DedupWindow,
    ) -> HarnessFuture<Arc<dyn Subject>>;

    /// Whether the store's time goes on by monotonic time while the wall clock is wrong for some
    /// seconds. Default: yes; not of a store that follows the clock of a server.
    fn is_steady(&self) -> bool {
        true
    }
}

/// One store under test.
pub trait Subject: Send + Sync {
    /// Returns the store.
    fn store(&self) -> Arc<dyn Store>;

    /// Checks all invariants; called after every operation.
    ///
    /// # Errors
    ///
    /// The violation. A store without such a check returns `Ok`.
    fn check(&self) -> HarnessFuture<Result<(), String>>;

    /// Ends the process and opens the store again; `None` if it survives nothing.
    fn reopen(&self) -> Option<HarnessFuture<Arc<dyn Subject>>>;
}

impl fmt::Debug for dyn Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subject")
    }
}

/// A factory of memory stores.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryHarness;

/// A factory of memory stores that several buses may share.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedMemoryHarness;

#[derive(Debug)]
struct MemorySubject(Arc<MemoryStore>);

impl StoreHarness for MemoryHarness {
    fn fresh(
        &self,
        clock: Arc<ManualClock>,
        window: DedupWindow,
    ) -> HarnessFuture<Arc<dyn Subject>> {
        let store = MemoryStore::with_clock(clock).with_window(window);
        let subject: Arc<dyn Subject> = Arc::new(MemorySubject(Arc::new(store)));
        Box::pin(ready(subject))
    }
}

impl StoreHarness for SharedMemoryHarness {
    fn fresh(
        &self,
        clock: Arc<ManualClock>,
        window: DedupWindow,
    ) -> HarnessFuture<Arc<dyn Subject>> {
        let store = MemoryStore::with_clock(clock).with_window(window);
        let subject: Arc<dyn Subject> = Arc::new(MemorySubject(Arc::new(store.shared())));
        Box::pin(ready(subject))
    }
}

impl Subject for MemorySubject {
    fn store(&self) -> Arc<dyn Store> {
        let store: Arc<MemoryStore> = Arc::clone(&self.0);
        store
    }

    fn check(&self) -> HarnessFuture<Result<(), String>> {
        Box::pin(ready(self.0.check()))
    }

    fn reopen(&self) -> Option<HarnessFuture<Arc<dyn Subject>>> {
        None
    }
}
