//! A bucket: its state, and what each operation goes through.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::core::engine::dedup::DedupState;
use crate::core::engine::dense::DenseMap;
use crate::core::engine::entry::{Entry, Place, RecordDetails};
use crate::core::engine::expiry::Expiring;
use crate::core::engine::leases::Leases;
use crate::core::engine::node::NodeLeases;
use crate::core::engine::unique::Uniques;
use crate::core::engine::waiting::WaitingEvents;
use crate::core::engine::window::DedupWindow;
use crate::core::op::{
    BATCH_MAX, ChangeSink, MoveReport, ReapReport, Reply, Response, SetAside, StoreOp, Tombstone,
};
use crate::error::Result;
use crate::event::{BucketKey, EventId, State};
use crate::time::Timestamp;

/// One bucket of the engine; `B` is the kept form of an envelope.
///
/// # Examples
///
/// ```
/// use duly::__internal::Bucket;
/// use duly::store::operation::{Reply, StoreOp};
/// # use std::sync::Arc;
/// # use duly::EventId;
/// # use duly::__internal::ChangeSink;
/// # use duly::event::{BucketId, BucketKey, Envelope, Payload};
/// # use duly::store::operation::Response;
/// # struct Forgetful;
/// # impl ChangeSink for Forgetful {
/// #     type Body = Arc<Envelope>;
/// #     fn added(&mut self, envelope: &Arc<Envelope>, _: duly::time::Timestamp) -> Arc<Envelope> {
/// #         Arc::clone(envelope)
/// #     }
/// #     fn changed(&mut self, _: EventId, _: &Self::Body, _: duly::time::Timestamp, _: duly::__internal::UsedAttempts) {}
/// #     fn updated(&mut self, _: EventId, _: &mut Self::Body, _: &Payload) {}
/// #     fn buried(&mut self, _: EventId, _: &Self::Body, _: duly::time::Timestamp, _: u16) {}
/// #     fn revived(&mut self, _: EventId, _: &Self::Body, _: duly::time::Timestamp) {}
/// #     fn removed(&mut self, _: EventId, _: &Self::Body) {}
/// #     fn recorded(&mut self, _: duly::records::Record, _: Option<&Self::Body>) {}
/// # }
///
/// let mut bucket = Bucket::new(BucketKey::new("orders".parse()?, BucketId(0)));
/// let Response { now_us, reply } = bucket.apply(1_000, StoreOp::Stats, &mut Forgetful)?;
/// assert_eq!((now_us, reply), (1_000, Reply::Stats(Default::default())));
/// // Time does not go back within a bucket.
/// assert_eq!(bucket.apply(999, StoreOp::Stats, &mut Forgetful)?.now_us, 1_000);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bucket<B> {
    pub(super) key: BucketKey,
    /// The latest time seen.
    pub(super) now_us: u64,
    pub(super) entries: DenseMap<EventId, Entry<B>>,
    /// How many of them are unconfirmed.
    pub(super) unconfirmed: usize,
    pub(super) waiting: WaitingEvents,
    /// Those of them that expire.
    pub(super) expiring: Expiring,
    /// What has expired since the last move or fetch, which told of it.
    pub(super) aside: SetAside,
    /// What was taken back since the last reap, which told of it.
    pub(super) taken_back: ReapReport,
    pub(super) leases: Leases,
    pub(super) nodes: NodeLeases,
    pub(super) dead: BTreeSet<EventId>,
    /// Ids by key, of every event that has one.
    pub(super) keys: BTreeSet<(Arc<str>, EventId)>,
    /// Events by unique key.
    pub(super) uniques: Uniques,
    pub(super) dedup: DedupState,
}

/// A summary of a bucket's next work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Whether the bucket has ready events.
    pub ready: bool,
    /// When its next scheduled event is due.
    pub next_due: Option<Timestamp>,
}

impl Head {
    /// Returns whether there is work sooner than in `other`.
    #[must_use]
    pub fn is_earlier_than(self, other: Self) -> bool {
        let sooner = match (self.next_due, other.next_due) {
            (Some(this), Some(that)) => this < that,
            (this, _) => this.is_some(),
        };
        (self.ready && !other.ready) || sooner
    }
}

impl<B: Clone> Bucket<B> {
    /// Creates an empty bucket with the default [`DedupWindow`].
    #[must_use]
    pub fn new(key: BucketKey) -> Self {
        Self {
            key,
            now_us: 0,
            entries: DenseMap::default(),
            unconfirmed: 0,
            waiting: WaitingEvents::default(),
            expiring: Expiring::default(),
            aside: SetAside::default(),
            taken_back: ReapReport::default(),
            leases: Leases::default(),
            nodes: NodeLeases::default(),
            dead: BTreeSet::new(),
            keys: BTreeSet::new(),
            uniques: Uniques::default(),
            dedup: DedupState::new(DedupWindow::default()),
        }
    }

    /// The identity of this bucket.
    #[must_use]
    pub fn key(&self) -> &BucketKey {
        &self.key
    }

    /// The latest time seen, in microseconds since the epoch.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Applies one operation at `now_us`, or at the latest time seen if that is later, and reports
    /// the changes to `sink`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): the operation can never be accepted.
    /// [`LeaseLost`](crate::ErrorKind::LeaseLost), for a fetch: the node was reaped. No event was
    /// changed.
    pub fn apply<L: ChangeSink<Body = B>>(
        &mut self,
        now_us: u64,
        op: StoreOp,
        sink: &mut L,
    ) -> Result<Response<B>> {
        self.now_us = self.now_us.max(now_us);
        self.dedup.begin();
        let is_look = matches!(op, StoreOp::Reap { .. });
        // Before anything else: a lease that is over decides nothing, and what has expired is over
        // for every operation.
        if op.tells() {
            self.end_overdue(sink);
        }
        self.end_expired(sink);
        let reply = self.reply(op, sink);
        if self.dedup.has_new() {
            self.forget_surplus(sink);
        } else if is_look {
            self.dedup.forget_old(self.now_us);
            self.note_kept(sink);
        }
        if is_look {
            self.free_expired(sink);
        }
        if let Some((dropped, ids)) = self.dedup.dropped() {
            sink.forgot(&self.key, dropped, ids);
        }
        Ok(Response {
            now_us: self.now_us,
            reply: reply?,
        })
    }

    fn reply<L: ChangeSink<Body = B>>(&mut self, op: StoreOp, sink: &mut L) -> Result<Reply<B>> {
        Ok(match op {
            StoreOp::Push(events) => Reply::Pushed(self.push(&events, sink)?),
            StoreOp::MoveDue { limit, .. } => self.move_due(limit),
            StoreOp::Fetch(fetch) => self.fetch(&fetch, sink)?,
            StoreOp::Settle {
                node,
                settlements,
                started,
            } => Reply::Settled(self.settle(node, settlements, started, sink)?),
            StoreOp::Heartbeat { node, started, .. } => self.keep(node, started),
            StoreOp::Reconcile {
                node,
                from,
                through,
                held,
                started,
                limit,
            } => self.reconcile(node, (from..=through, started), &held, limit, sink)?,
            StoreOp::Extend { node, leases, hold } => {
                Reply::Extended(self.extend(node, &leases, hold)?)
            }
            StoreOp::Reap { silent, limit } => Reply::Reaped(self.reap(&silent, limit, sink)?),
            StoreOp::Cancel { id } => Reply::Cancelled(self.cancel(id, sink)),
            StoreOp::Reschedule { id, when } => {
                Reply::Rescheduled(self.reschedule(id, when, sink)?)
            }
            StoreOp::Update {
                id,
                payload,
                by,
                dead_only,
            } => Reply::Updated(self.update(id, &payload, by, dead_only, sink)?),
            StoreOp::Rewrite(rewritings) => Reply::Counted(self.rewrite(&rewritings, sink)?),
            StoreOp::Get { id } => {
                self.end_if_over(id, sink);
                Reply::Snapshot(self.get(id))
            }
            StoreOp::Peek { by, from, limit } => self.peek(&by, from.as_ref(), limit, sink)?,
            StoreOp::ReadDead { after, limit } => self.read_dead(after, limit, sink),
            StoreOp::Revive { ids, by } => {
                Reply::Counted(self.revive(&ids, by.as_deref(), sink)?)
            }
            StoreOp::EditAndRevive(edit) => Reply::Updated(self.edit_and_revive(edit, sink)?),
            StoreOp::Drop { ids, by } => {
                Reply::Counted(self.drop_dead(&ids, by.as_deref(), sink)?)
            }
            StoreOp::Stats => Reply::Stats(self.stats()),
            StoreOp::Forecast { within } => Reply::Forecast(self.forecast(&within)?),
        })
    }

    /// Returns the bucket's next work.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            ready: self.waiting.ready_len() > 0,
            next_due: self.waiting.next_due(),
        }
    }

    /// Returns whether it has no live events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn move_due(&mut self, limit: usize) -> Reply<B> {
        let mut moved = 0;
        while moved < limit.min(BATCH_MAX)
            && let Some((due, id)) = self.waiting.due_until(self.now_us)
        {
            self.waiting.unschedule(id, due);
            let at = self.waiting.append(id, self.now_us);
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.go(Place::Ready(at));
            }
            moved += 1;
        }
        Reply::Moved(MoveReport {
            moved,
            ready: self.waiting.ready_len(),
            next_due: self.waiting.next_due(),
            aside: std::mem::take(&mut self.aside),
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_us / 1_000)
    }

    /// Ends an event: removes it from the map and adds a tombstone. It must have left its place
    /// before.
    pub(super) fn finish<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        state: State,
        ending: RecordDetails,
        sink: &mut L,
    ) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        debug_assert!(entry.state().may_become(state));
        self.free_key(id, &entry);
        let keeps_key = matches!(state, State::Done | State::Discarded);
        match entry.unique_for().filter(|_| keeps_key) {
            Some(period) => self.hold_unique(id, entry.unique(), period, sink),
            None => self.free_unique(id, entry.unique()),
        }
        let settled = ending.settled.or(entry.settled());
        entry.record(id, &self.key.queue, ending, sink);
        sink.removed(id, &entry.body);
        let finished = Tombstone {
            id,
            state,
            fingerprint: Some(entry.fingerprint),
            due: entry.due,
            tries: entry.tries,
            maybe_running: entry.maybe_running(),
            settled,
            ended_us: self.now_us,
        };
        if self.dedup.remember(finished) {
            sink.ended(&self.key, finished);
        }
    }

    /// Makes an event a dead letter, with `tries` attempts used up. It must have left its place
    /// before.
    pub(super) fn bury<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        tries: u16,
        ending: RecordDetails,
        sink: &mut L,
    ) {
        let now = self.now();
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.go(Place::Dead(now));
        entry.tries = tries;
        if let Some(settled) = ending.settled {
            entry.settle(settled);
        }
        entry.record(id, &self.key.queue, ending, sink);
        sink.buried(id, &entry.body, now, tries);
        let unique = entry.unique().cloned();
        self.dead.insert(id);
        self.free_unique(id, unique.as_ref());
    }

    /// Puts a waiting event where its due time requires; returns the place.
    pub(super) fn wait(
        waiting: &mut WaitingEvents,
        now_us: u64,
        id: EventId,
        due: Timestamp,
    ) -> Place {
        if due.as_micros() <= now_us {
            Place::Ready(waiting.append(id, now_us))
        } else {
            waiting.schedule(id, due);
            Place::Scheduled
        }
    }

    /// Takes a waiting event out of its index; returns when it was moved to the ready list.
    pub(super) fn unwait(&mut self, id: EventId) -> u64 {
        let Some(entry) = self.entries.get(&id) else {
            return 0;
        };
        self.expiring.remove(id, entry);
        match entry.place() {
            Place::Scheduled => self.waiting.unschedule(id, entry.due),
            Place::Ready(at) => {
                let ready = self.waiting.remove_ready(at);
                return ready.map_or(0, |ready| ready.moved_us);
            }
            Place::Unconfirmed => _ = self.end_unconfirmed(id),
            Place::Leased(_) | Place::Dead(_) => {}
        }
        0
    }
}
