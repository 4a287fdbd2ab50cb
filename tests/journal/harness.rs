//! What the suite needs of a journal: to be made, to be shared, to be opened again.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use duly::journal::{Journal, MemoryJournal};

/// A future of the harness.
pub(crate) type Harnessed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Makes the journals that the suite is run over.
pub(crate) trait JournalHarness: Send + Sync {
    /// A fresh, empty journal.
    fn fresh(&self) -> Harnessed<Arc<dyn Subject>>;
}

/// One journal under test; what it made goes when it is dropped.
pub(crate) trait Subject: Send + Sync {
    /// The journal.
    fn journal(&self) -> Arc<dyn Journal>;

    /// The same records once more, beside it, as another process opens them.
    fn beside(&self) -> Harnessed<Arc<dyn Journal>>;

    /// Closes it and opens the same records again; a journal that survives nothing has no answer.
    fn reopen(&self) -> Harnessed<Arc<dyn Subject>>;
}

/// Plays one promise on a runtime of its own; panics when it is broken.
pub(crate) fn play<F: Future<Output = ()>>(promise: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(promise);
}

/// Makes journals in memory.
pub(crate) struct MemoryHarness;

struct MemorySubject(Arc<MemoryJournal>);

impl JournalHarness for MemoryHarness {
    fn fresh(&self) -> Harnessed<Arc<dyn Subject>> {
        let subject: Arc<dyn Subject> = Arc::new(MemorySubject(Arc::new(MemoryJournal::new())));
        Box::pin(ready(subject))
    }
}

impl Subject for MemorySubject {
    fn journal(&self) -> Arc<dyn Journal> {
        let journal: Arc<MemoryJournal> = Arc::clone(&self.0);
        journal
    }

    fn beside(&self) -> Harnessed<Arc<dyn Journal>> {
        Box::pin(ready(self.journal()))
    }

    fn reopen(&self) -> Harnessed<Arc<dyn Subject>> {
        unreachable!("no promise about a new opening is played over it")
    }
}
