//! Dead letters: which there are, and what an operator does about them.
//!
//! [`walk`] goes through the buckets in a stable order, [`page`] answers what was asked for,
//! [`sweep`] does something to all of it at a [`pace`], and [`letter`] is one of them.

mod edit;
mod filter;
mod letter;
pub(super) mod pace;
mod page;
mod shown;
mod sweep;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::bus::{Bus, Inner};
use crate::error::{Error, Result, shown};
use crate::event::{EventId, QueueName};
use crate::record::{BY_BYTES_MAX, Cause};
use crate::store::RATES;
use crate::time::Timestamp;

pub use self::edit::Edited;
use self::filter::Filter;
pub use self::letter::{DeadLetter, Last};
pub use self::sweep::Sweep;

/// The most ids that one question names.
const IDS_MAX: usize = 10_000;

/// A question about dead letters, or something to be done about them, put together step by step.
///
/// What is not asked for matches. The order is that of queues, then of buckets, then of ids, and
/// stays as it is while letters come and go.
#[derive(Clone)]
#[must_use = "nothing is asked or done before the last step, such as `page` or `revive_all`"]
pub struct DeadLetters {
    inner: Arc<Inner>,
    filter: Filter,
    after: Option<LetterCursor>,
    limit: Option<usize>,
    by: Option<String>,
    rate: Option<f64>,
    dry_run: bool,
    wrong: Option<String>,
}

/// A place between two dead letters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LetterCursor {
    /// The queue of the letter before it.
    pub queue: QueueName,
    /// That letter.
    pub id: EventId,
}

impl Bus {
    /// Asks for dead letters, or does something about them.
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
    /// let id = bus.queue::<mail>().push_now("nobody".to_owned()).await?.id();
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
        DeadLetters::new(&self.inner)
    }
}

impl DeadLetters {
    pub(super) fn new(inner: &Arc<Inner>) -> Self {
        Self {
            inner: Arc::clone(inner),
            filter: Filter::default(),
            after: None,
            limit: None,
            by: None,
            rate: None,
            dry_run: false,
            wrong: None,
        }
    }

    /// Only of this queue; called again, of that one as well. The last step fails with
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) for a name that is unknown and a known
    /// one spelled otherwise (`order_close` for `order-close`).
    pub fn queue(mut self, name: &str) -> Self {
        match QueueName::new(name) {
            Ok(name) => drop(self.filter.queues.insert(name)),
            Err(error) => self.is_wrong(error.to_string()),
        }
        self
    }

    /// Only those that died then or later.
    pub fn since(mut self, since: impl Into<Timestamp>) -> Self {
        self.filter.since = Some(since.into());
        self
    }

    /// Only those that died before then.
    pub fn until(mut self, until: impl Into<Timestamp>) -> Self {
        self.filter.until = Some(until.into());
        self
    }

    /// Only those whose last attempt failed for this cause. A letter whose record was pruned is
    /// none of them.
    pub fn cause(mut self, cause: Cause) -> Self {
        self.filter.cause = Some(cause);
        self
    }

    /// Only those with this text somewhere in the error of the last attempt, as it is written. A
    /// letter whose record was pruned is none of them.
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.filter.error = Some(text.into());
        self
    }

    /// Only those with this key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.filter.key = Some(key.into());
        self
    }

    /// Only these, at most 10,000.
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

    /// Only what comes after this place: [`Page::next`](crate::records::Page::next) of the page
    /// before, or [`Sweep::next`] of what was stopped.
    pub fn after(mut self, cursor: impl Into<Option<LetterCursor>>) -> Self {
        self.after = cursor.into();
        self
    }

    /// At most so many. A page has 1 to 1,000, 100 unless this says otherwise; what is done to
    /// letters is done to all that match unless this says otherwise.
    pub fn limit(mut self, limit: usize) -> Self {
        if limit == 0 {
            self.is_wrong("a limit of 0 asks for nothing, it is at least 1".to_owned());
        }
        self.limit = Some(limit);
        self
    }

    /// Who does it, for the record; at most 128 bytes.
    pub fn by(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        if name.len() > BY_BYTES_MAX {
            self.is_wrong(format!(
                "the name of who does it has {} bytes, at most {BY_BYTES_MAX} are allowed",
                name.len()
            ));
        }
        self.by = Some(name);
        self
    }

    /// Does it to at most so many letters in a second, evenly: a partner that has just come back is
    /// not crushed by everything that waited for it. From 0.001 to 1,000,000. Default: as fast as
    /// the store goes.
    pub fn rate(mut self, per_second: f64) -> Self {
        let (least, most) = RATES;
        if !(least..=most).contains(&per_second) {
            self.is_wrong(format!(
                "a rate of {per_second} a second is not possible, it is {least} to {most}"
            ));
        }
        self.rate = Some(per_second);
        self
    }

    /// Changes nothing: counts what would be changed, and shows the first ten of it.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Keeps the first thing that is wrong.
    fn is_wrong(&mut self, why: String) {
        self.wrong.get_or_insert(why);
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

/// As `queue/id`.
impl fmt::Display for LetterCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.queue, self.id)
    }
}

impl FromStr for LetterCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!(
                "`{}` is no cursor of dead letters: take the one that a page answered",
                shown(text)
            ))
        };
        let (queue, id) = text.split_once('/').ok_or_else(wrong)?;
        Ok(Self {
            queue: queue.parse().map_err(|_: Error| wrong())?,
            id: id.parse().map_err(|_: Error| wrong())?,
        })
    }
}
