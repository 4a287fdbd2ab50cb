//! What the suite needs of a store: to be made, to be checked, to be opened again.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use duly::store::{DedupWindow, MemoryStore, Store};
use duly::testing::ManualClock;

/// A future of the harness.
pub type Harnessed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Makes the stores that the suite is run over.
pub trait StoreHarness: Send + Sync {
    /// A fresh, empty store that tells the time by `clock` and remembers finished ids as `window`
    /// says; it has one bucket, whose cap is the whole one.
    fn fresh(&self, clock: Arc<ManualClock>, window: DedupWindow) -> Harnessed<Arc<dyn Subject>>;
}

/// One store under test.
pub trait Subject: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Checks everything that must be so at any time; it is called after every operation.
    ///
    /// # Errors
    ///
    /// What is not so. A store without such a check answers `Ok`.
    fn check(&self) -> Harnessed<Result<(), String>>;

    /// Lets the process end and opens the store again; `None` if it survives nothing.
    fn reopen(&self) -> Option<Harnessed<Arc<dyn Subject>>>;
}

impl fmt::Debug for dyn Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subject")
    }
}

/// Makes memory stores.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryHarness;

/// Makes memory stores that several buses may share.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedMemoryHarness;

#[derive(Debug)]
struct MemorySubject(Arc<MemoryStore>);

impl StoreHarness for MemoryHarness {
    fn fresh(&self, clock: Arc<ManualClock>, window: DedupWindow) -> Harnessed<Arc<dyn Subject>> {
        let store = MemoryStore::with_clock(clock).with_window(window);
        let subject: Arc<dyn Subject> = Arc::new(MemorySubject(Arc::new(store)));
        Box::pin(ready(subject))
    }
}

impl StoreHarness for SharedMemoryHarness {
    fn fresh(&self, clock: Arc<ManualClock>, window: DedupWindow) -> Harnessed<Arc<dyn Subject>> {
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

    fn check(&self) -> Harnessed<Result<(), String>> {
        Box::pin(ready(self.0.check()))
    }

    fn reopen(&self) -> Option<Harnessed<Arc<dyn Subject>>> {
        None
    }
}
