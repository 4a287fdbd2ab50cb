//! Queries for consumption records.

mod minute_stats;
mod replay;
mod stream;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use self::minute_stats::MinuteStatsQuery;
pub use self::replay::{Replay, ReplayReport};
pub use self::stream::RecordStream;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::names::MatchLevel;
use crate::error::{Error, Result};
use crate::event::{EventId, QueueName, TEXT_BYTES_MAX, TraceId};
use crate::journal::waiting::WAITING_MAX;
use crate::journal::{Journal, reading};
use crate::record::{Cause, Cursor, ERROR_BYTES_MAX, NodeId, Order, Outcome, Page, Query, Record};
use crate::store::Store;
use crate::time::Timestamp;

/// A builder for a query for consumption records.
///
/// All filters must match. Records of a store in a file are read from that file. Those of any other
/// store are read from the journal, and from the outboxes of the store if they are not in the
/// journal yet. Every page scans a bounded number of records, so it is quick, and may be short:
/// where more than 100,000 wait for the journal, it ends before what it did not look at, and the
/// next one goes on from there.
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
///     let sent = queue.event(order).after(Duration::from_secs(60)).key("shop:7").push().await?;
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
    /// How many records that wait are looked at for a page.
    waiting_max: u64,
    inner: Arc<Inner>,
}

impl Bus {
    /// Starts a query for consumption records.
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

    /// Returns whether a query for records without a queue costs the same however many queues there
    /// are: the store keeps its records in one place. Of a store that is shared, such as Redis, each
    /// bucket is asked for the records that are not in the journal yet.
    #[must_use]
    pub fn keeps_records_together(&self) -> bool {
        self.inner.store.records().is_some() || !self.inner.store.is_shared()
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
            waiting_max: WAITING_MAX,
            inner: Arc::clone(inner),
        }
    }

    /// Selects this queue.
    pub fn queue(mut self, name: &str) -> Self {
        match QueueName::new(name) {
            Ok(name) => self.query.queue = Some(name),
            Err(error) => self.wrong = Some(error.to_string()),
        }
        self
    }

    /// Selects this event: its whole history.
    pub fn id(mut self, id: EventId) -> Self {
        self.query.id = Some(id);
        self
    }

    /// Selects this outcome; repeat for several.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        if !self.query.outcomes.contains(&outcome) {
            self.query.outcomes.push(outcome);
        }
        self
    }

    /// Selects failed attempts: retried, buried, or lost with their lease.
    ///
    /// An event that [expired](Outcome::Expired) did not fail; select it by its outcome.
    pub fn failed(self) -> Self {
        self.outcome(Outcome::Retried)
            .outcome(Outcome::Buried)
            .outcome(Outcome::LeaseLost)
    }

    /// Selects attempts that failed for this cause.
    pub fn cause(mut self, cause: Cause) -> Self {
        self.query.cause = Some(cause);
        self
    }

    /// Selects what finished at this time or later, by the store's clock.
    pub fn since(mut self, since: impl Into<Timestamp>) -> Self {
        self.query.since = Some(since.into());
        self
    }

    /// Selects what finished before this time, by the store's clock.
    pub fn until(mut self, until: impl Into<Timestamp>) -> Self {
        self.query.until = Some(until.into());
        self
    }

    /// Selects events that were pushed with this [key](crate::EventBuilder::key).
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.query.key = Some(key.into());
        self
    }

    /// Selects attempts of this node.
    pub fn node(mut self, node: NodeId) -> Self {
        self.query.node = Some(node);
        self
    }

    /// Selects this trace: events that were pushed with it in their header `traceparent`.
    pub fn trace(mut self, trace: TraceId) -> Self {
        self.query.trace = Some(trace);
        self
    }

    /// Selects errors that contain this text, case-sensitively.
    pub fn error_contains(mut self, text: impl Into<String>) -> Self {
        self.query.error = Some(text.into());
        self
    }

    /// Selects records that wait in the store for the journal: readable while the journal is
    /// unavailable. Without a journal these are all records; a store in a file always has all of
    /// them.
    pub fn only_waiting(mut self) -> Self {
        self.journal = None;
        self
    }

    /// Orders by newest first. Default: oldest first.
    pub fn newest_first(mut self) -> Self {
        self.query.order = Order::Newest;
        self
    }

    /// Starts after this cursor: [`Page::next`] of the page before, of the same query.
    pub fn after(mut self, cursor: impl Into<Option<Cursor>>) -> Self {
        self.query.after = cursor.into();
        self
    }

    /// Sets the limit of a page, from 1 to 1,000. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.query.limit = Some(limit);
        self
    }

    /// Looks at no more than about so many records that wait.
    #[cfg(test)]
    fn waiting_max(mut self, most: u64) -> Self {
        self.waiting_max = most;
        self
    }

    /// Reads a page.
    ///
    /// It may have fewer records than the limit, or none, although [`Page::next`] is set and there
    /// are more.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid query: an invalid queue
    /// name, a limit out of bounds, a time range that ends before it begins, a text that is empty
    /// or too long. [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) where nothing was found of
    /// an unknown queue whose name is another spelling of a known one (`order_close` for
    /// `order-close`). [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) while the journal
    /// is unavailable, also after a timeout of 30 seconds: a page without its records would look
    /// complete. Then [`only_waiting`](Self::only_waiting) reads the rest. Or the store's error.
    pub async fn page(self) -> Result<Page<Record>> {
        self.checked()?.read().await
    }

    /// Returns the first record, however many pages without one come before it.
    pub(in crate::bus) async fn first(self) -> Result<Option<Record>> {
        let mut records = self.limit(1).checked()?;
        loop {
            let mut page = records.read().await?;
            match (page.items.pop(), page.next) {
                (None, Some(next)) => records = records.after(next),
                (first, _) => return Ok(first),
            }
        }
    }

    /// Reads a page of a valid query.
    async fn read(&self) -> Result<Page<Record>> {
        let (store, journal) = (&*self.store, self.journal.as_deref());
        let page = reading::page(store, journal, self.query.clone(), self.waiting_max).await?;
        let has_none = page.items.is_empty() && page.next.is_none() && self.query.after.is_none();
        if let Some(queue) = self.query.queue.as_ref().filter(|_| has_none) {
            self.inner.check_known(queue, MatchLevel::Spelling).await?;
        }
        Ok(page)
    }

    /// Validates the query.
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

/// Returns what is invalid in a query.
fn nonsense(query: &Query) -> Option<String> {
    let max = Query::LIMIT_MAX;
    if let Some(limit) = query.limit.filter(|limit| !(1..=max).contains(limit)) {
        return Some(format!(
            "the limit of a page is {limit}; it must be 1 to {max}"
        ));
    }
    if let (Some(since), Some(until)) = (query.since, query.until)
        && since >= until
    {
        return Some(format!(
            "the time range from {since} until {until} is empty"
        ));
    }
    let texts = [
        ("key", &query.key, TEXT_BYTES_MAX),
        ("text of the error", &query.error, ERROR_BYTES_MAX),
    ];
    texts.into_iter().find_map(|(name, text, max)| {
        let bytes = text.as_ref()?.len();
        (bytes == 0 || bytes > max)
            .then(|| format!("the {name} has {bytes} bytes; it must have 1 to {max}"))
    })
}
