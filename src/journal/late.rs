//! A journal that could not be reached yet.

use std::fmt;
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::error::Result;
use crate::journal::{Batch, Found, Journal, JournalFuture, Keep, Pruned};
use crate::record::{Minute, MinuteQuery, Query};
use crate::time::Timestamp;

/// Opens a journal, as often as it is asked to.
type Open = dyn Fn() -> JournalFuture<Arc<dyn Journal>> + Send + Sync;

/// A journal that is opened when it is first used, and tried again until that works.
#[derive(Clone)]
pub(crate) struct LateJournal {
    opened: Arc<OnceCell<Arc<dyn Journal>>>,
    open: Arc<Open>,
}

impl LateJournal {
    pub(crate) fn new(
        open: impl Fn() -> JournalFuture<Arc<dyn Journal>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            opened: Arc::default(),
            open: Arc::new(open),
        }
    }

    async fn opened(&self) -> Result<&Arc<dyn Journal>> {
        self.opened.get_or_try_init(&*self.open).await
    }

    /// Asks the journal, once it is open.
    fn ask<T: 'static>(
        &self,
        ask: impl FnOnce(&dyn Journal) -> JournalFuture<T> + Send + 'static,
    ) -> JournalFuture<T> {
        let late = self.clone();
        Box::pin(async move { ask(&**late.opened().await?).await })
    }
}

impl Journal for LateJournal {
    fn load(&self, batches: Vec<Batch>) -> JournalFuture<()> {
        self.ask(|journal| journal.load(batches))
    }

    fn page(&self, query: Query) -> JournalFuture<Found> {
        self.ask(|journal| journal.page(query))
    }

    fn minutes(&self, query: MinuteQuery) -> JournalFuture<Vec<Minute>> {
        self.ask(|journal| journal.minutes(query))
    }

    fn prune(&self, keep: Keep, now: Timestamp) -> JournalFuture<Pruned> {
        self.ask(move |journal| journal.prune(keep, now))
    }

    fn close(&self) -> JournalFuture<()> {
        match self.opened.get() {
            Some(journal) => journal.close(),
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }
}

impl fmt::Debug for LateJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LateJournal")
            .field(&self.opened.get())
            .finish()
    }
}
