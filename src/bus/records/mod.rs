//! Asking for consumption records.

mod minutes;
mod stream;

use std::fmt;
use std::sync::Arc;

pub use self::minutes::Minutes;
pub use self::stream::RecordStream;
use crate::bus::names::Doubt;
use crate::bus::{Bus, Inner};
use crate::error::{Error, Result};
use crate::event::{EventId, QueueName, TEXT_BYTES_MAX, TraceId};
use crate::journal::{Journal, reading};
use crate::record::{Cause, Cursor, ERROR_BYTES_MAX, NodeId, Order, Outcome, Page, Query, Record};
use crate::store::Store;
use crate::time::Timestamp;

/// A question about consumption records, put together step by step.
///
/// Everything that is asked for has to hold at once. Records are read out of the journal, and out of
/// the outboxes of the store where they are not in the journal yet; of what waits there, the newest
/// 100,000. Every page looks at a bounded number of records, so it is quick, and may be short.
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
/// for order in 0..250 {
///     let sent = queue.event(order).after(Duration::from_secs(60)).key("shop:7").send().await?;
///     queue.cancel(sent.id()).await?;
/// }
///
/// let mut after = None;
/// let mut found = 0;
/// loop {
///     let page = bus.records().key("shop:7").newest_first().after(after).page().await?;
///     found += page.items.len();
///     match page.next {
///         Some(next) => after = Some(next),
///         None => break,
///     }
/// }
/// assert_eq!(found, 250);
/// # bus.shutdown(Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is asked before `page`, `stream`, `minutes` or `export` is called"]
pub struct Records {
    store: Arc<dyn Store>,
    journal: Option<Arc<dyn Journal>>,
    query: Query,
    wrong: Option<String>,
    inner: Arc<Inner>,
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
    fn new(inner: &Arc<Inner>) -> Self {
        let journal = inner.recorded.as_ref();
        Self {
            store: Arc::clone(&inner.store),
            journal: journal.map(|it| Arc::clone(&it.journal)),
            query: Query::default(),
            wrong: None,
            inner: Arc::clone(inner),
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

    /// Only of this event: its whole history.
    pub fn id(mut self, id: EventId) -> Self {
        self.query.id = Some(id);
        self
    }

    /// Only with this outcome; a second call asks for either.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        if !self.query.outcomes.contains(&outcome) {
            self.query.outcomes.push(outcome);
        }
        self
    }

    /// Only attempts that failed: retried, buried, or lost with their lease.
    ///
    /// An event that [expired](Outcome::Expired) did not fail but was of no use any more; it is
    /// asked for by its outcome.
    pub fn failed(self) -> Self {
        self.outcome(Outcome::Retried)
            .outcome(Outcome::Buried)
            .outcome(Outcome::LeaseLost)
    }

    /// Only attempts that failed of this.
    pub fn cause(mut self, cause: Cause) -> Self {
        self.query.cause = Some(cause);
        self
    }

    /// Only finished then or later, by the store's clock.
    pub fn since(mut self, since: impl Into<Timestamp>) -> Self {
        self.query.since = Some(since.into());
        self
    }

    /// Only finished before then, by the store's clock.
    pub fn until(mut self, until: impl Into<Timestamp>) -> Self {
        self.query.until = Some(until.into());
        self
    }

    /// Only of events that were pushed with this [key](crate::EventBuilder::key).
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.query.key = Some(key.into());
        self
    }

    /// Only of attempts that this node held.
    pub fn node(mut self, node: NodeId) -> Self {
        self.query.node = Some(node);
        self
    }

    /// Only of this trace: of events that were pushed with it in their header `traceparent`.
    pub fn trace(mut self, trace: TraceId) -> Self {
        self.query.trace = Some(trace);
        self
    }

    /// Only with this text somewhere in the error, letter for letter.
    pub fn error_contains(mut self, text: impl Into<String>) -> Self {
        self.query.error = Some(text.into());
        self
    }

    /// Only those that wait in the store for the journal, the newest 100,000: what can be read while
    /// the journal is away. Without a journal there are no others.
    pub fn only_waiting(mut self) -> Self {
        self.journal = None;
        self
    }

    /// The newest first. Default: the oldest first.
    pub fn newest_first(mut self) -> Self {
        self.query.order = Order::Newest;
        self
    }

    /// Only after this cursor: [`Page::next`] of the page before, of the same question.
    pub fn after(mut self, cursor: impl Into<Option<Cursor>>) -> Self {
        self.query.after = cursor.into();
        self
    }

    /// At most so many on a page, from 1 to 1,000. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.query.limit = Some(limit);
        self
    }

    /// Reads a page.
    ///
    /// It may have fewer records than the limit, or none, while [`Page::next`] says that there is
    /// more.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a question that makes no sense: a queue
    /// name that is not legal, a limit out of its bounds, a time range that ends before it begins, a
    /// text that is empty or longer than what is looked for can be.
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) where nothing was found of a queue that is
    /// unknown, and its name is a known one spelled otherwise (`order_close` for `order-close`).
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) while the journal is away, also when
    /// it has not answered for 30 seconds: a page without what it holds would look like all there is.
    /// Then [`only_waiting`](Self::only_waiting) reads the rest. Or what the store answers.
    pub async fn page(self) -> Result<Page<Record>> {
        self.checked()?.read().await
    }

    /// Reads a page of what is known to make sense.
    async fn read(&self) -> Result<Page<Record>> {
        let Self { store, journal, .. } = self;
        let page = reading::page(&**store, journal.as_deref(), self.query.clone()).await?;
        let has_none = page.items.is_empty() && page.next.is_none() && self.query.after.is_none();
        if let Some(queue) = self.query.queue.as_ref().filter(|_| has_none) {
            self.inner.check_known(queue, Doubt::Spelling).await?;
        }
        Ok(page)
    }

    /// The same, once it is known to make sense.
    fn checked(self) -> Result<Self> {
        match self.wrong.clone().or_else(|| nonsense(&self.query)) {
            Some(wrong) => Err(Error::invalid(wrong)),
            None => Ok(self),
        }
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("store", &self.store)
            .field("journal", &self.journal)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

/// What makes no sense in a question.
fn nonsense(query: &Query) -> Option<String> {
    let max = Query::LIMIT_MAX;
    if let Some(limit) = query.limit.filter(|limit| !(1..=max).contains(limit)) {
        return Some(format!("the limit of a page is {limit}, it is 1 to {max}"));
    }
    if let (Some(since), Some(until)) = (query.since, query.until)
        && since >= until
    {
        return Some(format!(
            "the records are asked for since {since} and until {until}, and no time lies between"
        ));
    }
    let texts = [
        ("key", &query.key, TEXT_BYTES_MAX),
        ("text of the error", &query.error, ERROR_BYTES_MAX),
    ];
    texts.into_iter().find_map(|(name, text, max)| {
        let bytes = text.as_ref()?.len();
        (bytes == 0 || bytes > max)
            .then(|| format!("the {name} has {bytes} bytes, it has 1 to {max}"))
    })
}
