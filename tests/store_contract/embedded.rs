//! Embedded stores for the suite, each in a directory of its own.

use std::future::ready;
use std::sync::Arc;

use duly::store::{DedupWindow, EmbeddedOptions, EmbeddedStore, Store};
use duly::testing::ManualClock;
use duly_conformance::store_contract::{HarnessFuture, StoreHarness, Subject};

/// Makes embedded stores with these options.
pub(crate) struct EmbeddedHarness(pub(crate) fn() -> EmbeddedOptions);

struct EmbeddedSubject {
    store: Arc<EmbeddedStore>,
    options: EmbeddedOptions,
    /// Goes when the last store in it has gone.
    directory: Arc<tempfile::TempDir>,
}

impl EmbeddedSubject {
    fn open(options: EmbeddedOptions, directory: Arc<tempfile::TempDir>) -> Arc<dyn Subject> {
        let path = directory.path().join("duly.db");
        let store = EmbeddedStore::open_with(path, options.clone()).expect("a store");
        Arc::new(Self {
            store: Arc::new(store),
            options,
            directory,
        })
    }
}

impl StoreHarness for EmbeddedHarness {
    fn fresh(
        &self,
        clock: Arc<ManualClock>,
        window: DedupWindow,
    ) -> HarnessFuture<Arc<dyn Subject>> {
        let options = self.0().clock(clock).window(window).reserve_bytes(4_096);
        let directory = Arc::new(tempfile::tempdir().expect("a directory"));
        Box::pin(ready(EmbeddedSubject::open(options, directory)))
    }
}

impl Subject for EmbeddedSubject {
    fn store(&self) -> Arc<dyn Store> {
        let store: Arc<EmbeddedStore> = Arc::clone(&self.store);
        store
    }

    fn check(&self) -> HarnessFuture<Result<(), String>> {
        Box::pin(ready(self.store.check()))
    }

    fn reopen(&self) -> Option<HarnessFuture<Arc<dyn Subject>>> {
        let (store, options) = (Arc::clone(&self.store), self.options.clone());
        let directory = Arc::clone(&self.directory);
        Some(Box::pin(async move {
            store.close().await.expect("a close");
            Self::open(options, directory)
        }))
    }
}
