//! Asking for counts and lateness by minute.

use std::fmt;
use std::sync::Arc;

use crate::bus::Inner;
use crate::bus::names::Doubt;
use crate::bus::records::Records;
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::journal::{Journal, counting};
use crate::record::{Minute, MinuteQuery, Page, Query};
use crate::store::Store;
use crate::time::Timestamp;

/// A question about what happened in each minute, put together step by step.
#[derive(Clone)]
#[must_use = "nothing is asked before `page` is called"]
pub struct Minutes {
    store: Arc<dyn Store>,
    journal: Option<Arc<dyn Journal>>,
    query: MinuteQuery,
    wrong: Option<String>,
    inner: Arc<Inner>,
}

impl Records {
    /// Asks for counts and lateness instead, by queue and minute.
    ///
    /// Of what was asked for so far it takes the queue and the times, and nothing else can be: a
    /// minute is the one in which a record finished. A minute counts if any part of it lies within
    /// the times, and then as a whole. The journal keeps minutes for longer than records; without a
    /// journal they are counted from what the store keeps.
    ///
    /// While records are on their way to the journal, one that gets there in this very moment may be
    /// missing; asked again it is not.
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
    pub fn minutes(self) -> Minutes {
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
                "minutes are asked for by queue and time, and by nothing else; ask for records, or \
                 take the rest away"
                    .to_owned()
            })
        });
        let wrong = wrong.or_else(|| {
            super::nonsense(&Query {
                limit: None,
                ..only
            })
        });
        Minutes {
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

impl Minutes {
    /// Only after this minute and queue: [`Page::next`] of the page before.
    pub fn after(mut self, after: impl Into<Option<(Timestamp, QueueName)>>) -> Self {
        self.query.after = after.into();
        self
    }

    /// At most so many on a page, from 1 to 10,000. Default: 1,440, a day of one queue.
    pub fn limit(mut self, limit: u32) -> Self {
        self.query.limit = Some(limit);
        self
    }

    /// Reads a page, in the order of minutes, then of queues.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a question that makes no sense, as
    /// [`Records::page`] has it, or that asks for more than a queue and times. Or what the store or
    /// the journal answers.
    pub async fn page(self) -> Result<Page<Minute, (Timestamp, QueueName)>> {
        let max = MinuteQuery::LIMIT_MAX;
        let wrong = self.wrong.clone().or_else(|| {
            let limit = self
                .query
                .limit
                .filter(|limit| !(1..=max).contains(limit))?;
            Some(format!(
                "the limit of a page of minutes is {limit}, it is 1 to {max}"
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
            self.inner.check_known(queue, Doubt::Spelling).await?;
        }
        Ok(page)
    }
}

impl fmt::Debug for Minutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minutes")
            .field("store", &self.store)
            .field("journal", &self.journal)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

/// When the minute of an instant began.
fn minute_of(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - at.as_millis() % 60_000)
}
