//! Asking for consumption records.

use std::sync::Arc;

use crate::bus::{Bus, Inner};
use crate::error::Result;
use crate::event::{EventId, QueueName};
use crate::journal::{Journal, reading};
use crate::record::{Cursor, Outcome, Page, Query, Record};

/// A question about consumption records, put together step by step.
#[derive(Debug, Clone)]
#[must_use = "nothing is asked before `page` is called"]
pub struct Records {
    store: Arc<dyn crate::store::Store>,
    journal: Option<Arc<dyn Journal>>,
    query: Query,
    wrong: Option<String>,
}

impl Bus {
    /// Asks for consumption records.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let receipt = queue.push(7, Duration::from_secs(60)).await?;
    /// queue.cancel(receipt.id()).await?;
    ///
    /// let page = bus.records().queue("order-close").outcome(Outcome::Cancelled).page().await?;
    /// assert_eq!(page.items[0].id, receipt.id());
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn records(&self) -> Records {
        Records::new(&self.inner)
    }
}

impl Records {
    fn new(inner: &Inner) -> Self {
        Self {
            store: Arc::clone(&inner.store),
            journal: inner.recorded.as_ref().map(|it| Arc::clone(&it.journal)),
            query: Query::default(),
            wrong: None,
        }
    }

    /// Only of this queue.
    pub fn queue(mut self, name: &str) -> Self {
        match QueueName::new(name) {
            Ok(name) => self.query.queue = Some(name),
            Err(error) => self.wrong = Some(error.to_string()),
        }
        self
    }

    /// Only of this event.
    pub fn id(mut self, id: EventId) -> Self {
        self.query.id = Some(id);
        self
    }

    /// Only with this outcome.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.query.outcomes = vec![outcome];
        self
    }

    /// Only after this cursor: [`Page::next`] of the page before.
    pub fn after(mut self, cursor: impl Into<Option<Cursor>>) -> Self {
        self.query.after = cursor.into();
        self
    }

    /// At most so many, from 1 to 1,000. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.query.limit = Some(limit);
        self
    }

    /// Reads a page, the oldest records first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a queue name that is not legal, or what
    /// the store answers.
    pub async fn page(self) -> Result<Page<Record>> {
        match self.wrong {
            Some(wrong) => Err(crate::error::Error::invalid(wrong)),
            None => reading::page(&*self.store, self.journal.as_deref(), self.query).await,
        }
    }
}
