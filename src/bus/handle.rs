//! The handle of a running bus.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bus::inner::Inner;
use crate::bus::owner::BusOwner;
use crate::bus::state::program_actions::AuditedBy;
use crate::codec::KeyRing;
use crate::error::{Error, Result};
#[cfg(feature = "testing")]
use crate::event::QueueName;
#[cfg(feature = "testing")]
use crate::flow::Flow;
use crate::handler::Context;
use crate::journal::JournalStatus;
use crate::record::NodeId;
use crate::store::Durability;
#[cfg(feature = "testing")]
use crate::store::Store;

/// A running event bus.
///
/// Cloning is cheap, and every clone is the same bus. It runs until [`shutdown`](Self::shutdown),
/// or until the last clone outside of handlers is dropped: then it stops at once without waiting,
/// logs a warning, and its leased events are delivered again when the leases expire or at the next
/// start. Queues do not keep it running: their calls return [`Closed`](crate::ErrorKind::Closed) from then
/// on.
///
/// # Examples
///
/// ```standalone_crate
/// use std::time::Duration;
/// use duly::prelude::*;
///
/// #[delay_event(queue = "greet", register = false)]
/// async fn greet(event: Event<String>) -> Result<(), Failure> {
///     assert_eq!(event.payload, "hello");
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// let bus = Bus::builder().store_url("memory:").register(greet {}).start().await?;
/// let queue = bus.queue::<greet>();
/// let receipt = queue.push("hello".to_owned(), Duration::from_millis(10)).await?;
/// assert!(receipt.is_accepted());
/// bus.shutdown(Duration::from_secs(1)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a bus stops when it is dropped: keep it, and call `shutdown` at the end"]
pub struct Bus {
    pub(super) inner: Arc<Inner>,
    /// Who adds the lines of what is done by this handle to the audit.
    pub(super) audited_by: AuditedBy,
    /// `None` in the handle of handlers, so that they do not keep the bus running.
    pub(super) _owner: Option<Arc<BusOwner>>,
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("store", &self.inner.store)
            .finish_non_exhaustive()
    }
}

impl Bus {
    /// Returns the id of this node, which its records and leases name. Each start of a program is
    /// another node.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        self.inner.id
    }

    /// Returns the keys of this bus: keys can be added, chosen and removed while it runs.
    #[must_use]
    pub fn keys(&self) -> &KeyRing {
        &self.inner.keys
    }

    /// Returns the status of the journal, and what this bus has recorded since it started; `None`
    /// without a journal, as with a store that keeps its records itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// use duly::journal::MemoryJournal;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder()
    ///     .store_url("memory:")
    ///     .journal(MemoryJournal::new())
    ///     .publish_only()
    ///     .start()
    ///     .await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let receipt = queue.push(7, Duration::from_secs(60)).await?;
    /// queue.cancel(receipt.id()).await?;
    /// bus.shutdown(Duration::from_secs(1)).await?; // records what is left
    ///
    /// let status = bus.journal_status().expect("there is a journal");
    /// assert_eq!((status.recorded, status.waiting), (1, 0));
    /// assert_eq!(status.away_since, None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn journal_status(&self) -> Option<JournalStatus> {
        let recorded = self.inner.recorded.as_ref()?;
        Some(recorded.recorder.status())
    }

    /// Returns the durability of an accepted push.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.inner.store.durability()
    }

    /// Shuts down: stops fetching, lets handlers finish within `grace`, releases what never
    /// started, settles everything that ended, records what waits for the journal within two
    /// seconds, and closes the store unless it is [shared](crate::BusBuilder::shared_store).
    ///
    /// When the grace period begins, handlers [are told](Context::stopping). One that still runs
    /// after it is [cancelled](Context::cancellation) and then dropped, and its event is ready
    /// again; whether that counts as an attempt, `free_interruptions` of its queue says.
    ///
    /// The stop takes at most the grace period and about ten seconds, of which a store and a journal
    /// that respond need few milliseconds; a handler that blocks its thread needs two seconds of
    /// them. It goes on if this future is dropped. Later calls, on any runtime, wait for the same
    /// stop, whatever their grace period, and return its result.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on the bus of a handler ([`Context::bus`]): the bus would wait for
    /// the handler, and the handler for the bus. [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) when outcomes could not be
    /// settled in time (a handler that blocks its thread, an unresponsive store): these events are
    /// handled again. Or the store's error on closing.
    pub async fn shutdown(&self, grace: Duration) -> Result<()> {
        if self._owner.is_none() {
            return Err(Error::invalid(
                "a handler cannot shut its bus down, which waits for the handler; signal the owner \
                 of the bus instead, for example by a channel",
            ));
        }
        self.inner.stop(grace).await
    }

    /// Returns the store, for tests that look underneath.
    #[cfg(feature = "testing")]
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Returns whether this process has a handler for `queue`.
    #[cfg(feature = "testing")]
    pub(crate) fn serves(&self, queue: &QueueName) -> bool {
        let flow = self.inner.flow();
        flow.as_ref().is_some_and(|flow| flow.serves(queue))
    }

    /// Returns whether a handler runs that blocks its thread, or waits for the outside world.
    #[cfg(feature = "testing")]
    pub(crate) fn is_blocking(&self) -> bool {
        let flow = self.inner.flow();
        flow.as_ref().is_some_and(Flow::is_blocking)
    }

    /// Returns a handle whose caller adds the lines of its actions by itself, as it knows for whom they
    /// are: by this one, and by whatever it returns, such as queues, the bus adds none.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let for_admins = bus.clone().with_own_audit();
    /// for_admins.pause("order-close").await?;
    /// for_admins.add_to_audit("ann", "queue paused", "order-close").await?;
    ///
    /// assert_eq!(bus.audit(None, 10).await?.items.len(), 1);
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn with_own_audit(mut self) -> Self {
        self.audited_by = AuditedBy::Caller;
        self
    }

    /// Returns a handle for handlers, which does not keep the bus running.
    pub(super) fn from_inside(inner: Arc<Inner>) -> Self {
        Self {
            inner,
            // What the bus does for itself is none of its program's actions.
            audited_by: AuditedBy::Caller,
            _owner: None,
        }
    }
}

impl Context {
    /// Returns the bus, to push from a handler.
    ///
    /// # Examples
    ///
    /// ```
    /// use duly::prelude::*;
    ///
    /// #[delay_event(queue = "order-closed", register = false)]
    /// async fn closed(event: Event<u64>) -> Result<(), Failure> {
    ///     Ok(())
    /// }
    ///
    /// #[delay_event(queue = "order-close", register = false)]
    /// async fn close(event: Event<u64>, cx: &Context) -> Result<(), Failure> {
    ///     cx.bus().queue::<closed>().push(event.payload, When::Now).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// Never in a handler that a bus runs: the bus is always there.
    pub fn bus(&self) -> &Bus {
        self.state()
    }
}
