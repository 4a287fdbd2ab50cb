//! Queries for per-minute statistics.

use std::fmt;
use std::sync::Arc;

use crate::bus::inner::Inner;
use crate::bus::names::MatchLevel;
use crate::bus::records::Records;
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::journal::{Journal, counting};
use crate::record::{MinuteQuery, MinuteStats, Page, Query};
use crate::store::Store;
use crate::time::Timestamp;

/// A builder for a query for per-minute statistics.
#[derive(Clone)]
#[must_use = "nothing is asked before `page` is called"]
pub struct MinuteStatsQuery {
    store: Arc<dyn Store>,
    journal: Option<Arc<dyn Journal>>,
    query: MinuteQuery,
    wrong: Option<String>,
    inner: Arc<Inner>,
}

impl Records {
    /// Queries counts and lateness by queue and minute instead.
    ///
    /// Of the filters so far it uses the queue and the times; others are an error. A record belongs
    /// to the minute in which it finished. A minute that overlaps the time range counts as a whole.
    /// The journal keeps per-minute statistics for longer than records; without a journal they are
    /// counted from the records in the store.
    ///
    /// A record that moves to the journal at this very moment may be missing; the next query has
    /// it.
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
    /// let page = bus.records().queue("order-close").minutes().page().await?;
    /// assert_eq!(page.items[0].outcomes[&Outcome::Cancelled], 1);
    /// let p99 = page.items[0].lateness.percentile(99.0);
    /// assert_eq!(p99, None); // no handler has started
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn minutes(self) -> MinuteStatsQuery {
        let Query {
            queue,
            since,
            until,
            limit,
            ..
        } = self.query.clone();
        let only = Query {
            queue: queue.clone(),
            since,
            until,
            limit,
            ..Query::default()
        };
        let wrong = self.wrong.clone().or_else(|| {
            (only != self.query).then(|| {
                "minutes are filtered by queue and time only; query records, or remove the other \
                 filters"
                    .to_owned()
            })
        });
        let wrong = wrong.or_else(|| {
            super::nonsense(&Query {
                limit: None,
                ..only
            })
        });
        MinuteStatsQuery {
            store: self.store,
            journal: self.journal,
            query: MinuteQuery {
                queue,
                since: since.map(minute_of),
                until,
                after: None,
                limit,
            },
            wrong,
            inner: self.inner,
        }
    }
}

impl MinuteStatsQuery {
    /// Starts after this minute and queue: [`Page::next`] of the page before.
    pub fn after(mut self, after: impl Into<Option<(Timestamp, QueueName)>>) -> Self {
        self.query.after = after.into();
        self
    }

    /// Sets the limit of a page, from 1 to 10,000. Default: 1,440, a day of one queue.
    pub fn limit(mut self, limit: u32) -> Self {
        self.query.limit = Some(limit);
        self
    }

    /// Reads a page, in the order of minutes, then of queues.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid query, as in
    /// [`Records::page`], or one with other filters than queue and times. Or the error of the store
    /// or the journal.
    pub async fn page(self) -> Result<Page<MinuteStats, (Timestamp, QueueName)>> {
        let max = MinuteQuery::LIMIT_MAX;
        let wrong = self.wrong.clone().or_else(|| {
            let limit = self
                .query
                .limit
                .filter(|limit| !(1..=max).contains(limit))?;
            Some(format!(
                "the limit of a page of minutes is {limit}; it must be 1 to {max}"
            ))
        });
        if let Some(wrong) = wrong {
            return Err(Error::invalid(wrong));
        }
        let Self { store, journal, .. } = &self;
        let query = self.query.clone();
        let page = counting::minutes(&**store, journal.as_deref(), query).await?;
        let has_none = page.items.is_empty() && page.next.is_none() && self.query.after.is_none();
        if let Some(queue) = self.query.queue.as_ref().filter(|_| has_none) {
            self.inner.check_known(queue, MatchLevel::Spelling).await?;
        }
        Ok(page)
    }
}

impl fmt::Debug for MinuteStatsQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MinuteStatsQuery")
            .field("store", &self.store)
            .field("journal", &self.journal)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

/// Returns when the minute of an instant began.
fn minute_of(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - at.as_millis() % 60_000)
}
