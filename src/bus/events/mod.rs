//! Queries for events that are not over: by id, key or unique key, or a whole queue.
//!
//! [`page`] reads pages, [`bulk`] changes them, [`list`] reads them in the order of due times,
//! [`filter`] says which events match, and [`stored`] is one event that was found.

mod bulk;
mod cursor;
mod filter;
mod list;
mod page;
mod stored;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use serde::Serialize;

pub use self::bulk::{ChangedPage, EventAction};
use self::filter::EventFilter;
pub use self::list::{EventList, EventListCursor};
pub use self::stored::StoredEvent;
use crate::bus::fan_out::in_order;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::queue::Queue;
use crate::bus::scan::EventCursor;
use crate::bus::state::program_actions::AuditedBy;
use crate::core::op::{CancelOutcome, ChangeOutcome, PeekBy, Snapshot, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EventId, QueueName, State, is_audit};
use crate::time::{Timestamp, When};

/// The most events that one [`Events::cancel`] or [`Events::reschedule`] covers; its results are in
/// memory.
pub const EVENTS_MAX: usize = 1_000_000;

/// A builder for a query for events that are not over (scheduled, ready, leased or dead), or for an
/// operation on them.
///
/// Unset filters match everything. Events are ordered by queue and bucket; those of one key by id.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use duly::prelude::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
/// let queue = bus.queue_named::<String>("mail")?;
/// for days in [1, 3, 7] {
///     let after = Duration::from_secs(days * 86_400);
///     queue.event(format!("day {days}")).after(after).key("customer:8").push().await?;
/// }
///
/// let page = bus.events().queue("mail").key("customer:8").page().await?;
/// assert_eq!(page.items.len(), 3);
/// let texts: Vec<String> = page.items.iter().map(|it| it.payload_as()).collect::<Result<_, _>>()?;
/// assert!(texts.contains(&"day 3".to_owned()));
///
/// let cancelled = queue.events().key("customer:8").cancel().await?;
/// assert!(cancelled.iter().all(|(_, it)| *it == CancelOutcome::Cancelled));
/// # bus.shutdown(Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is asked or done before the last step, such as `page` or `cancel`"]
pub struct Events {
    inner: Arc<Inner>,
    audited_by: AuditedBy,
    /// Empty: every queue.
    queues: BTreeSet<QueueName>,
    by: PeekBy,
    filter: EventFilter,
    after: Option<EventCursor>,
    limit: Option<usize>,
    leaves_payloads_out: bool,
    wrong: Option<String>,
}

impl Bus {
    /// Finds an event by its id alone, in any queue and state, also before its first attempt;
    /// `None` when no queue knows the id, or not any more.
    ///
    /// The id says which buckets may have it, but not the queue, so those of each queue are queried,
    /// 32 at a time; [`Queue::get`] queries one. To learn why an event does not run, call
    /// [`explain`](Self::explain).
    ///
    /// # Errors
    ///
    /// The store's error, unless another queue has the event.
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
    /// let id = queue.push(7, Duration::from_secs(1800)).await?.id();
    ///
    /// let event = bus.event(id).await?.expect("it waits");
    /// assert_eq!((event.queue.as_str(), event.tries), ("order-close", 0));
    /// event.reschedule(Duration::from_secs(60)).await?;
    /// assert_eq!(event.cancel().await?, CancelOutcome::Cancelled);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn event(&self, id: EventId) -> Result<Option<StoredEvent>> {
        page::event(&self.inner, id).await
    }

    /// Finds an event of a queue by its id, in one query of the store; `None` when the queue does not
    /// know it, or not any more.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid name, or the store's error.
    pub async fn event_in(&self, queue: &str, id: EventId) -> Result<Option<StoredEvent>> {
        let (queue, get) = (QueueName::new(queue)?, || StoreOp::get(id));
        let (bucket, found) = self.inner.on_event(&queue, id, get).await?;
        let event = |found| StoredEvent::new(Arc::clone(&self.inner), bucket, &found);
        Ok(found.map(event))
    }

    /// Starts a query for the events that are not over, or an operation on them.
    pub fn events(&self) -> Events {
        Events::new(&self.inner, self.audited_by)
    }
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Starts a query for the events of this queue that are not over, or an operation on them.
    pub fn events(&self) -> Events {
        let mut events = Events::new(&self.handle.inner, self.audited_by);
        events.queues.insert(self.handle.name.clone());
        events
    }

    /// Cancels every event of a key, and returns the result for each: the same as
    /// `events().key(key).cancel()`.
    ///
    /// # Errors
    ///
    /// As [`Events::cancel`].
    pub async fn cancel_by_key(
        &self,
        key: impl Into<String>,
    ) -> Result<Vec<(EventId, CancelOutcome)>> {
        self.events().key(key).cancel().await
    }
}

impl Events {
    fn new(inner: &Arc<Inner>, audited_by: AuditedBy) -> Self {
        Self {
            inner: Arc::clone(inner),
            audited_by,
            queues: BTreeSet::new(),
            by: PeekBy::All,
            filter: EventFilter::default(),
            after: None,
            limit: None,
            leaves_payloads_out: false,
            wrong: None,
        }
    }

    /// Selects this queue; repeat for several.
    pub fn queue(mut self, name: &str) -> Self {
        match QueueName::new(name) {
            Ok(name) => drop(self.queues.insert(name)),
            Err(error) => self.wrong = Some(error.to_string()),
        }
        self
    }

    /// Selects the events with this [key](crate::EventBuilder::key), whatever number of buckets
    /// their queue had when they were pushed, dead letters included.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.by(PeekBy::Key(key.into()))
    }

    /// Selects the event that holds this [unique key](crate::EventBuilder::unique), while it waits
    /// or runs.
    pub fn unique(self, key: impl Into<String>) -> Self {
        self.by(PeekBy::Unique(key.into()))
    }

    fn by(mut self, by: PeekBy) -> Self {
        if self.by != PeekBy::All {
            let wrong = "events are found by one key or one unique key, two were given";
            self.wrong = Some(wrong.to_owned());
        }
        self.by = by;
        self
    }

    /// Selects events in this state.
    pub fn state(mut self, state: State) -> Self {
        self.filter.state = Some(state);
        self
    }

    /// Selects events that are, or were, due at this time or later.
    pub fn since(mut self, due: impl Into<Timestamp>) -> Self {
        self.filter.since = Some(due.into());
        self
    }

    /// Selects events that are, or were, due before this time.
    pub fn until(mut self, due: impl Into<Timestamp>) -> Self {
        self.filter.until = Some(due.into());
        self
    }

    /// Selects events that were pushed at this time or earlier, by the estimate of the store's time
    /// that their pusher had; and those with a time more than a minute ahead of now, which a clock that
    /// was set back since has given.
    pub fn pushed_until(mut self, pushed: impl Into<Timestamp>) -> Self {
        self.filter.pushed_until = Some(pushed.into());
        self
    }

    /// Selects events with this text in their key, their unique key, a value of their headers, or
    /// the first 16 KiB of their payload as text, case-sensitively; spaces of JSON do not matter. It
    /// scans every event, and finds nothing in an encrypted payload.
    pub fn contains(mut self, text: impl Into<String>) -> Self {
        self.filter.contains = Some(text.into());
        self
    }

    /// Starts where a page ended.
    pub fn after(mut self, place: impl Into<Option<EventCursor>>) -> Self {
        self.after = place.into();
        self
    }

    /// Sets the approximate size of a page, 1 to 1,000. Default: 100. A page ends earlier after 16 MiB
    /// of payloads.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Leaves the payloads out of its pages.
    pub(crate) fn without_payloads(mut self) -> Self {
        self.leaves_payloads_out = true;
        self
    }

    /// Whether it is a queue that was chosen; without a choice every one but that of the audit.
    fn selects(&self, queue: &QueueName) -> bool {
        if self.queues.is_empty() {
            !is_audit(queue)
        } else {
            self.queues.contains(queue)
        }
    }

    fn matches(&self, event: &Snapshot) -> bool {
        self.filter.matches(event, || self.inner.now())
    }

    fn check(&self) -> Result<()> {
        match &self.wrong {
            Some(wrong) => Err(Error::invalid(wrong.clone())),
            None => Ok(()),
        }
    }

    /// Cancels the events of a [`key`](Self::key) or [`unique`](Self::unique) key, and returns the
    /// result for each: running events and dead letters stay as they are. An empty result is no
    /// error.
    ///
    /// It scans once, from the first event to the last, in pages.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) without a key or a unique key, or the
    /// store's error: some may have been cancelled then, and calling again is safe.
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) after [`EVENTS_MAX`] events if there are more:
    /// those are done, and calling again cancels the others.
    pub async fn cancel(self) -> Result<Vec<(EventId, CancelOutcome)>> {
        let cancel = |event: StoredEvent| async move { Ok((event.id, event.cancel().await?)) };
        self.each(("cancelled", EVENTS_MAX), move |event| {
            cancel(event).boxed()
        })
        .await
    }

    /// Reschedules the events of a [`key`](Self::key) or [`unique`](Self::unique) key, and returns
    /// the result for each, as [`cancel`](Self::cancel) does.
    ///
    /// # Errors
    ///
    /// As [`cancel`](Self::cancel), and for a delay that is too long.
    pub async fn reschedule(self, when: impl Into<When>) -> Result<Vec<(EventId, ChangeOutcome)>> {
        let when = when.into().checked(self.inner.now())?;
        let change =
            move |event: StoredEvent| async move { Ok((event.id, event.reschedule(when).await?)) };
        self.each(("rescheduled", EVENTS_MAX), move |event| {
            change(event).boxed()
        })
        .await
    }

    async fn each<A: Send>(
        self,
        (done, most): (&str, usize),
        f: impl Fn(StoredEvent) -> BoxFuture<'static, Result<(EventId, A)>>,
    ) -> Result<Vec<(EventId, A)>> {
        if self.by == PeekBy::All {
            return Err(Error::invalid(format!(
                "events are {done} by their key or their unique key, and neither was given; read \
                 other events from a page and change them one by one"
            )));
        }
        let (mut results, mut place) = (Vec::new(), self.after.clone());
        loop {
            let mut page = self.clone().after(place).page().await?;
            // The key of a schedule is its name, as that of its occurrences.
            page.items.retain(|event| !event.queue.is_own());
            let room = most - results.len();
            let is_cut = page.items.len() > room;
            let calls: Vec<_> = page.items.into_iter().take(room).map(&f).collect();
            let mut replies = in_order(calls.into_iter());
            while let Some(reply) = replies.next().await {
                results.push(reply?);
            }
            place = page.next;
            if place.is_none() && !is_cut {
                return Ok(results);
            }
            if results.len() == most {
                return Err(Error::new(
                    ErrorKind::Full,
                    format!(
                        "{most} events were {done}, as many as one call covers, and there are more"
                    ),
                ));
            }
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("queues", &self.queues)
            .field("by", &self.by)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_one_call_does_not_cover_is_told() {
        let builder = Bus::builder().store_url("memory:").only_registered();
        let bus = builder
            .settings(Default::default())
            .publish_only()
            .start()
            .await
            .unwrap();
        let queue = bus.queue_named::<u64>("orders").unwrap();
        let day = std::time::Duration::from_secs(86_400);
        for order in 0..250 {
            let event = queue.event(order).after(day).key("shop:7");
            event.push().await.unwrap();
        }
        let cancel = |most| {
            let cancel = |event: StoredEvent| async move { Ok((event.id, event.cancel().await?)) };
            let events = queue.events().key("shop:7").limit(100);
            events.each(("cancelled", most), move |event| cancel(event).boxed())
        };
        for most in [100, 120] {
            let error = cancel(most).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Full);
            assert!(error.to_string().contains("there are more"), "{error}");
        }
        assert_eq!(
            cancel(30).await.unwrap().len(),
            30,
            "so many are left, and no more"
        );
        assert_eq!(cancel(30).await.unwrap(), []);
    }
}
