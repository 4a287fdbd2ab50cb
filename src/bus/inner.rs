//! The parts of a running bus, which its handles share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tokio::runtime::Handle;

use crate::bus::journal::JournalRecorder;
use crate::bus::own_queues::OWN_BUCKETS;
use crate::bus::state::forecasts::ForecastPacer;
use crate::bus::state::ids::NewIds;
use crate::bus::state::leases::Leases;
use crate::bus::state::names::CheckedNames;
use crate::bus::state::outboxes::Outboxes;
use crate::bus::state::program_actions::ProgramActions;
use crate::bus::state::round_trips::RoundTrips;
use crate::bus::state::stop::BusStop;
use crate::codec::KeyRing;
use crate::core::op::{NewEvent, Response, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BucketKey, Payload, QueueName, has_schedules};
use crate::flow::{Check, Flow, QueueChoices, QueueOptions, Replies, RuntimeSettings};
use crate::handler::Annotation;
use crate::journal::Journal;
use crate::metrics::{PullMeters, PushMeters};
use crate::record::NodeId;
use crate::store::{Durability, Operation, Store, StoreFuture};
use crate::time::{Clock, Timestamp};

/// The parts of a running bus.
pub(crate) struct Inner {
    /// The id of this node.
    pub(super) id: NodeId,
    pub(super) store: Arc<dyn Store>,
    /// The clock of this machine.
    pub(super) clock: Arc<dyn Clock>,
    /// The journal; without one records stay in the store's outboxes.
    pub(super) recorded: Option<JournalRecorder>,
    pub(super) replies: Arc<Replies>,
    /// Taken out at the end.
    pub(super) flow: RwLock<Option<Flow>>,
    /// The queues that have a handler here, or their own options.
    pub(super) queues: BTreeMap<QueueName, Arc<QueueOptions>>,
    /// What was chosen, by settings and builder, for those of them whose handler is not known here.
    pub(super) chosen: BTreeMap<QueueName, QueueChoices>,
    /// The options of any other queue.
    pub(super) defaults: Arc<QueueOptions>,
    /// The runtime settings of queues.
    pub(super) controls: Arc<RuntimeSettings>,
    /// The keys of encrypted payloads.
    pub(super) keys: KeyRing,
    /// The payload checks of all handlers of this program, whether they run here or not.
    pub(super) checks: BTreeMap<QueueName, Check>,
    pub(super) round_trips: RoundTrips,
    pub(super) push_meters: PushMeters,
    pub(super) pull_meters: PullMeters,
    /// Counts the events that were pushed one by one, from a random start.
    pub(super) ids: NewIds,
    pub(super) payload_bytes_max: usize,
    /// The default durability of pushes; `None`: the store's own.
    pub(super) durability: Option<Durability>,
    pub(super) forecasts: ForecastPacer,
    pub(super) leases: Leases,
    /// The unknown names that were pushed to; `None` where no name is taken for a mistake.
    pub(super) checked_names: Option<CheckedNames>,
    /// The most schedules of a namespace.
    #[cfg(feature = "schedules")]
    pub(super) schedules_max: usize,
    /// What its program did lately that others see.
    pub(super) program_actions: ProgramActions,
    /// What waits in outboxes.
    pub(super) outboxes: Outboxes,
    pub(super) stop: BusStop,
    /// The store is not called any more.
    pub(super) is_closed: AtomicBool,
    /// Whether the store is shared, so that the bus must not close it when it is dropped.
    pub(super) is_lent: bool,
    /// The runtime of the bus.
    pub(super) runtime: Handle,
    /// Whether time is virtual, which threads do not see.
    pub(super) virtual_time: bool,
}

impl Inner {
    pub(super) fn flow(&self) -> RwLockReadGuard<'_, Option<Flow>> {
        self.flow.read()
    }

    /// Applies an operation to a bucket, if the bus is open.
    pub(super) async fn apply<R>(&self, bucket: &BucketKey, operation: Operation<R>) -> Result<R> {
        operation.apply(&**self.open()?, bucket).await
    }

    /// Pushes with the given durability.
    pub(super) fn push(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Option<Durability>,
    ) -> StoreFuture<Response> {
        match (self.open(), wanted) {
            (Ok(store), Some(wanted)) => store.push_durably(bucket, events, wanted),
            (Ok(store), None) => store.apply(bucket, StoreOp::Push(events)),
            (Err(error), _) => StoreFuture::ready(Err(error)),
        }
    }

    /// Returns the store, if the bus is open.
    pub(super) fn open(&self) -> Result<&Arc<dyn Store>> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::closed(
                "the bus was shut down or dropped, so its queues are closed; keep the bus while its \
                 queues are used, or start another one",
            ));
        }
        Ok(&self.store)
    }

    /// A pause between two looks at what nobody tells of; on virtual time, which jumps from pause to
    /// pause, a day.
    pub(super) fn real_pause(&self, pause: std::time::Duration) -> std::time::Duration {
        if self.virtual_time {
            return std::time::Duration::from_secs(86_400);
        }
        pause
    }

    /// Returns the store's time. Nothing that is stored depends on a pusher's own clock.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.store.now_us() / 1_000)
    }

    /// Returns the current number of buckets for new events of a queue.
    pub(super) fn buckets(&self, queue: &QueueName, options: &QueueOptions) -> u16 {
        let usual = if queue.is_own() {
            OWN_BUCKETS
        } else {
            options.buckets
        };
        self.controls.of(queue).buckets.unwrap_or(usual)
    }

    /// The most bytes of a payload in a queue. A stored schedule is none that a user gave: it has the
    /// payload of its occurrences, perhaps an earlier one, and more.
    pub(super) fn payload_max(&self, queue: &QueueName) -> usize {
        if has_schedules(queue) {
            usize::MAX
        } else {
            self.payload_bytes_max
        }
    }

    /// Returns the payload, if it is not too large for its queue.
    pub(super) fn checked(&self, queue: &QueueName, payload: Payload) -> Result<Payload> {
        let (len, max) = (payload.len(), self.payload_max(queue));
        if len > max {
            return Err(Error::invalid(format!(
                "the payload has {len} bytes, at most {max} are allowed"
            )));
        }
        Ok(payload)
    }

    /// Returns the options of a queue. Nothing that is said of queues is meant for the bus's own: a
    /// payload that is encrypted or kept in records is one that a user gave.
    pub(super) fn options(&self, queue: &QueueName) -> Arc<QueueOptions> {
        if queue.is_own() {
            return Arc::default();
        }
        Arc::clone(self.queues.get(queue).unwrap_or(&self.defaults))
    }

    /// Returns the options of a queue of this annotation, which need not be known here: settings and
    /// builder override it option by option.
    pub(super) fn annotated_options(
        &self,
        queue: &QueueName,
        annotation: &Annotation,
    ) -> Arc<QueueOptions> {
        let chosen = match (self.queues.get(queue), self.chosen.get(queue)) {
            (Some(known), None) => return Arc::clone(known),
            (_, chosen) => chosen.cloned().unwrap_or_default(),
        };
        let options = QueueOptions::clone(&self.defaults).with(&annotation.into());
        Arc::new(options.with(&chosen))
    }

    /// Whether this process knows the version of a queue's payloads: by its annotation, settings or
    /// builder.
    pub(super) fn knows_version(&self, queue: &QueueName) -> bool {
        match self.chosen.get(queue) {
            Some(chosen) => chosen.version.is_some(),
            None => self.queues.contains_key(queue),
        }
    }

    /// Returns the journal; without one the store keeps the last records.
    pub(super) fn journal(&self) -> Option<&dyn Journal> {
        let recorded = self.recorded.as_ref()?;
        Some(&*recorded.journal)
    }

    /// Closes the store, unless others may use it.
    pub(super) fn close_unless_shared(&self) -> StoreFuture<()> {
        if self.is_lent {
            StoreFuture::ready(Ok(()))
        } else {
            self.store.close()
        }
    }
}
