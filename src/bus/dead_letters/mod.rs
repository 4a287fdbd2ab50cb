//! Dead letters: queries, and bulk operations on them.
//!
//! [`source`] reads their pages from the store, [`page`] returns one with the last record of each
//! letter, [`bulk`] revives or drops all that match, and [`dead_letter`] is one of them.

mod bulk;
mod dead_letter;
pub(super) mod display;
mod edit;
mod filter;
mod page;
pub(crate) mod retention;
mod source;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::program_audit::{ActionLine, target_in};
use crate::bus::state::program_actions::{AuditedBy, ProgramAction};
use crate::error::{Error, Result, shown};
use crate::event::{BucketId, BucketKey, EventId, QueueName};
use crate::record::{BY_BYTES_MAX, Cause, NodeId};
use crate::store::RATES;
use crate::time::Timestamp;

pub use self::bulk::BulkResult;
pub use self::dead_letter::{DeadLetter, LastRecord};
pub use self::edit::Edited;
use self::filter::DeadLetterFilter;
pub use self::filter::died_before;

/// The most ids of one query.
const IDS_MAX: usize = 10_000;

/// A builder for a query for dead letters, or for an operation on them.
///
/// Unset filters match everything. The order is by queue, then bucket, then id, and is stable while
/// dead letters are added and removed.
#[derive(Clone)]
#[must_use = "nothing is asked or done before the last step, such as `page` or `revive_all`"]
pub struct DeadLetters {
    inner: Arc<Inner>,
    audited_by: AuditedBy,
    filter: DeadLetterFilter,
    after: Option<DeadLetterCursor>,
    limit: Option<usize>,
    by: Option<String>,
    rate: Option<f64>,
    dry_run: bool,
    wrong: Option<String>,
}

/// A position between two dead letters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeadLetterCursor {
    /// The queue of the dead letter before it.
    pub queue: QueueName,
    /// Its bucket.
    pub bucket: BucketId,
    /// The id of the dead letter before it.
    pub id: EventId,
}

impl Bus {
    /// Starts a query for dead letters, or an operation on them.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// #[delay_event(queue = "mail", attempts = 1, register = false)]
    /// async fn mail(event: Event<String>) -> Result<(), Failure> {
    ///     match event.payload.contains('@') {
    ///         true => Ok(()),
    ///         false => Err(Failure::permanent("that is no address")),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").register(mail {}).start().await?;
    /// let id = bus.queue::<mail>().push("nobody".to_owned(), When::Now).await?.id();
    /// # while bus.stats("mail").await?.dead == 0 { tokio::time::sleep(Duration::from_millis(1)).await }
    ///
    /// let letters = bus.dead_letters().queue("mail").error("no address").page().await?;
    /// assert_eq!(letters.items[0].payload_as::<String>()?, "nobody");
    ///
    /// bus.dead_letters().by("ann").edit(id, &"nobody@example.org").await?;
    /// let revived = bus.dead_letters().by("ann").revive([id]).await?;
    /// assert_eq!(revived.done, 1);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters::new(&self.inner, self.audited_by)
    }
}

impl DeadLetters {
    fn new(inner: &Arc<Inner>, audited_by: AuditedBy) -> Self {
        Self {
            inner: Arc::clone(inner),
            audited_by,
            filter: DeadLetterFilter::default(),
            after: None,
            limit: None,
            by: None,
            rate: None,
            dry_run: false,
            wrong: None,
        }
    }

    /// Selects this queue; repeat for several. The last step fails with
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) for an unknown name that is another
    /// spelling of a known one (`order_close` for `order-close`).
    pub fn queue(mut self, name: &str) -> Self {
        match QueueName::new(name) {
            Ok(name) => drop(self.filter.queues.insert(name)),
            Err(error) => self.is_wrong(error.to_string()),
        }
        self
    }

    /// Selects those that died at this time or later.
    pub fn since(mut self, since: impl Into<Timestamp>) -> Self {
        self.filter.since = Some(since.into());
        self
    }

    /// Selects those that died before this time.
    pub fn until(mut self, until: impl Into<Timestamp>) -> Self {
        self.filter.until = Some(until.into());
        self
    }

    /// Selects those whose last attempt failed for this cause. A dead letter whose record was
    /// pruned does not match.
    pub fn cause(mut self, cause: Cause) -> Self {
        self.filter.cause = Some(cause);
        self
    }

    /// Selects those whose last error contains this text, case-sensitively. A dead letter whose
    /// record was pruned does not match.
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.filter.error = Some(text.into());
        self
    }

    /// Selects those whose last attempt ran on this node. A dead letter whose record was pruned does
    /// not match.
    pub fn node(mut self, node: NodeId) -> Self {
        self.filter.node = Some(node);
        self
    }

    /// Selects those with this key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.filter.key = Some(key.into());
        self
    }

    /// Selects these ids, at most 10,000.
    pub fn ids(mut self, ids: impl IntoIterator<Item = EventId>) -> Self {
        let known = self.filter.ids.take().unwrap_or_default();
        let ids: std::collections::BTreeSet<_> = known.into_iter().chain(ids).collect();
        if ids.len() > IDS_MAX {
            self.is_wrong(format!(
                "{} ids were given, at most {IDS_MAX} are allowed at a time",
                ids.len()
            ));
        }
        self.filter.ids = Some(ids);
        self
    }

    /// Starts after this position: [`Page::next`](crate::records::Page::next) of the page before, or
    /// [`BulkResult::next`] of a stopped operation.
    pub fn after(mut self, cursor: impl Into<Option<DeadLetterCursor>>) -> Self {
        self.after = cursor.into();
        self
    }

    /// Sets the limit: of a page 1 to 1,000, 100 by default; of a bulk operation no limit by
    /// default.
    pub fn limit(mut self, limit: usize) -> Self {
        if limit == 0 {
            self.is_wrong("the limit is 0; it must be at least 1".to_owned());
        }
        self.limit = Some(limit);
        self
    }

    /// Sets the actor, for the record; at most 128 bytes.
    pub fn by(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        if name.len() > BY_BYTES_MAX {
            self.is_wrong(format!(
                "the name of the actor has {} bytes, at most {BY_BYTES_MAX} are allowed",
                name.len()
            ));
        }
        self.by = Some(name);
        self
    }

    /// Limits a bulk operation to `per_second` dead letters, evenly, so that a service that
    /// has just recovered is not overloaded. From 0.001 to 1,000,000. Default: as fast as the store
    /// goes.
    pub fn rate(mut self, per_second: f64) -> Self {
        let (least, most) = RATES;
        if !(least..=most).contains(&per_second) {
            self.is_wrong(format!(
                "the rate is {per_second} per second; it must be {least} to {most}"
            ));
        }
        self.rate = Some(per_second);
        self
    }

    /// Changes nothing: counts what would be changed, and returns the first ten.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Keeps the first error.
    fn is_wrong(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }

    /// Returns the line of the audit of an action on those of some queues; without any it is every queue.
    fn line<'a>(
        &self,
        action: &'static str,
        queues: impl IntoIterator<Item = &'a str>,
    ) -> Arc<ActionLine> {
        let action = ProgramAction {
            by: self.by.clone(),
            ..ProgramAction::new(action, target_in(queues, "dead letters"))
        };
        ActionLine::new(&self.inner, self.audited_by, action)
    }

    fn check(&self) -> Result<()> {
        match &self.wrong {
            Some(why) => Err(Error::invalid(why.clone())),
            None => self.inner.open().map(|_| ()),
        }
    }
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters")
            .field("filter", &self.filter)
            .field("after", &self.after)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

impl DeadLetterCursor {
    fn new(bucket: &BucketKey, id: EventId) -> Self {
        Self {
            queue: bucket.queue.clone(),
            bucket: bucket.bucket,
            id,
        }
    }
}

/// Formats as `queue/id`, with `/bucket` where that is not the one that the id names.
impl fmt::Display for DeadLetterCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.queue, self.id)?;
        if self.bucket == self.id.bucket() {
            Ok(())
        } else {
            write!(f, "/{}", self.bucket)
        }
    }
}

impl FromStr for DeadLetterCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!(
                "`{}` is not a cursor of dead letters; use `next` of a page",
                shown(text)
            ))
        };
        let (queue, place) = text.split_once('/').ok_or_else(wrong)?;
        let (id, bucket) = match place.split_once('/') {
            Some((id, bucket)) => (id, Some(bucket)),
            None => (place, None),
        };
        let id: EventId = id.parse().map_err(|_: Error| wrong())?;
        let bucket = bucket.map_or(Ok(id.bucket().0), str::parse);
        Ok(Self {
            queue: queue.parse().map_err(|_: Error| wrong())?,
            bucket: BucketId(bucket.map_err(|_| wrong())?),
            id,
        })
    }
}
