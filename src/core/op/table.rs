//! The table of store operations: what each carries, replies and is called.
//!
//! [`operations!`](super::operation) has a row for each: the name of its calls in metrics, its
//! effect, and its constructors with their type of reply. All else that depends on the operation alone comes from
//! there.

use std::sync::Arc;
use std::time::Duration;

use crate::core::op::operation::operations;
use crate::core::op::reply::each_body;
use crate::core::op::{
    CancelOutcome, ChangeOutcome, DeadLetterEdit, DeadPage, Fetch, FetchReport, HeartbeatReport,
    Holding, MoveReport, NewEvent, PeekBy, PeekCursor, PeekPage, PushReport, ReapReport, RequestId,
    Rewriting, Settlement, Snapshot, StartMark, Stats,
};
use crate::event::{Envelope, EventId, Payload};
use crate::record::NodeId;
use crate::time::When;

/// One operation on one bucket.
#[derive(Clone, Debug)]
pub enum StoreOp {
    /// Adds events: due ones become ready, others scheduled. An id that exists changes nothing.
    /// More than one event must stay within [`BATCH_BYTES`](super::BATCH_BYTES).
    Push(Vec<NewEvent>),
    /// Moves due scheduled events to the ready list, at most `limit`.
    MoveDue {
        /// The most events to move.
        limit: usize,
        /// Whether to call other nodes if events are ready then: this node has no room for them.
        calls: bool,
    },
    /// Leases events to a node.
    Fetch(Fetch),
    /// Ends attempts, each only under its own lease, and writes their records.
    Settle {
        /// The node that holds the leases.
        node: NodeId,
        /// The outcomes. May be empty, to announce starts only.
        settlements: Vec<Settlement>,
        /// The leases on which handlers may start after the reply.
        started: StartMark,
    },
    /// Renews all leases of `node` in the bucket.
    Heartbeat {
        /// The node.
        node: NodeId,
        /// The node's own count of its leases. A store only keeps it for its audit; the node
        /// compares the two counts.
        holds: Holding,
        /// The leases on which handlers may have started, for a store that has forgotten it.
        started: StartMark,
    },
    /// States which leases of some fetches a node still holds. All others that the store has from
    /// these fetches are taken back, at most `limit` events: after a failover that lost the last
    /// writes these are leases whose settlement the store has forgotten.
    Reconcile {
        /// The node.
        node: NodeId,
        /// The first fetch concerned.
        from: RequestId,
        /// The last fetch concerned. All of them got a reply.
        through: RequestId,
        /// The leases held, by fetch, ascending; at most [`BATCH_MAX`](super::BATCH_MAX) events.
        /// Leases with their own deadline are not concerned.
        held: Vec<(RequestId, Vec<EventId>)>,
        /// The leases on which handlers may have started, for a store that has forgotten it.
        started: StartMark,
        /// The most events to take back.
        limit: usize,
    },
    /// Moves the deadlines of leases that have their own.
    Extend {
        /// The node that holds them.
        node: NodeId,
        /// The leases: the event and the request that fetched it.
        leases: Vec<(EventId, RequestId)>,
        /// The new deadline, from now.
        hold: Duration,
    },
    /// Takes back the leases of timed-out nodes and those past their own deadline, at most `limit`.
    Reap {
        /// Timed-out nodes, each with its last known heartbeat number. A node with a newer
        /// heartbeat is spared.
        silent: Vec<(NodeId, u64)>,
        /// The most events to take back.
        limit: usize,
    },
    /// Cancels an event.
    Cancel {
        /// The event.
        id: EventId,
    },
    /// Changes the due time of an event.
    Reschedule {
        /// The event.
        id: EventId,
        /// The new due time.
        when: When,
    },
    /// Changes the payload of an event. For a dead one it writes a record.
    Update {
        /// The event.
        id: EventId,
        /// The new payload.
        payload: Payload,
        /// The actor, for the record.
        by: Option<String>,
        /// Only change a dead event, so that every change has a record; for any other the reply is
        /// its state.
        dead_only: bool,
    },
    /// Re-encodes payloads, for example under a new key. Each only if its payload is still the one
    /// that was read, and the event is not leased. Writes no records. More than one must stay
    /// within [`BATCH_BYTES`](super::BATCH_BYTES).
    Rewrite(Vec<Rewriting>),
    /// Reads one event.
    Get {
        /// The event.
        id: EventId,
    },
    /// Reads live events, in any state, page by page, in an order of the store's choice; those of
    /// one key in the order of their ids.
    ///
    /// An event that exists from the first page to the last is on at least one of them. One that
    /// comes or ends meanwhile may be, and on a store of many nodes an event may appear twice. A
    /// page costs what it holds, however many events there are.
    Peek {
        /// Selects the events.
        by: PeekBy,
        /// Where the previous page ended; `None` for the first.
        from: Option<PeekCursor>,
        /// The approximate page size, at least one. A page may have fewer events, above all where
        /// [`BATCH_BYTES`](super::BATCH_BYTES) end it, or a few more; only its cursor tells whether
        /// it is the last.
        limit: usize,
    },
    /// Reads dead letters, ordered by id, page by page.
    ReadDead {
        /// Only ids greater than this.
        after: Option<EventId>,
        /// The page size, at least one; [`BATCH_BYTES`](super::BATCH_BYTES) may end the page
        /// earlier.
        limit: usize,
    },
    /// Makes dead letters ready again, with all their attempts; each gets a record.
    Revive {
        /// The events; those that are not dead, and dead ones whose expiry has passed, are skipped.
        ids: Vec<EventId>,
        /// The actor, for the record.
        by: Option<String>,
    },
    /// Replaces the payload of a dead letter and makes it ready again, in one step, with a record of
    /// each. Any other event is left alone, and so is a dead letter with another payload than the
    /// one that was read: then the reply is `TooLate`, and so it is, with `Expired`, for a dead letter
    /// whose expiry has passed.
    EditAndRevive(DeadLetterEdit),
    /// Removes dead letters for good; each gets a record.
    Drop {
        /// The events; those that are not dead are skipped.
        ids: Vec<EventId>,
        /// The actor, for the record.
        by: Option<String>,
    },
    /// Counts events by state.
    Stats,
    /// Counts scheduled events that fall due within each of the spans.
    Forecast {
        /// The spans, from now, in ascending order; at most [`BATCH_MAX`](super::BATCH_MAX).
        within: Vec<Duration>,
    },
}

/// The reply to each kind of operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<B = Arc<Envelope>> {
    /// To a push: the result for each event, in order.
    Pushed(Vec<PushReport>),
    /// To a move.
    Moved(MoveReport),
    /// To a fetch.
    Fetched(FetchReport<B>),
    /// To a settle: for each settlement whether it was accepted; `false` means that the lease was
    /// lost.
    Settled(Vec<bool>),
    /// To a heartbeat.
    Heartbeat(HeartbeatReport),
    /// To an extend: for each lease whether it still stood.
    Extended(Vec<bool>),
    /// To a reap; and to a reconcile, then without holders and deadline.
    Reaped(ReapReport),
    /// To a cancel.
    Cancelled(CancelOutcome),
    /// To a reschedule.
    Rescheduled(ChangeOutcome),
    /// To an update.
    Updated(ChangeOutcome),
    /// To a get.
    Snapshot(Option<Snapshot<B>>),
    /// To a peek.
    Peeked(PeekPage<B>),
    /// To a read of dead letters.
    Dead(DeadPage<B>),
    /// To a revive, drop or rewrite: how many.
    Counted(usize),
    /// To stats.
    Stats(Stats),
    /// To a forecast: how many for each span.
    Forecast(Vec<usize>),
}

impl<B> Reply<B> {
    /// Maps each body with `f`.
    pub fn try_map<C, E>(
        self,
        mut f: impl FnMut(EventId, B) -> Result<C, E>,
    ) -> Result<Reply<C>, E> {
        Ok(match self {
            Self::Fetched(fetched) => Reply::Fetched(fetched.try_map(f)?),
            Self::Snapshot(found) => Reply::Snapshot(match found {
                Some(snapshot) => Some(snapshot.try_map(&mut f)?),
                None => None,
            }),
            Self::Peeked(PeekPage { events, next }) => Reply::Peeked(PeekPage {
                events: each_body(events, f)?,
                next,
            }),
            Self::Dead(DeadPage { letters, next }) => Reply::Dead(DeadPage {
                letters: each_body(letters, f)?,
                next,
            }),
            Self::Pushed(pushed) => Reply::Pushed(pushed),
            Self::Moved(moved) => Reply::Moved(moved),
            Self::Settled(settled) => Reply::Settled(settled),
            Self::Heartbeat(kept) => Reply::Heartbeat(kept),
            Self::Extended(extended) => Reply::Extended(extended),
            Self::Reaped(reaped) => Reply::Reaped(reaped),
            Self::Cancelled(cancelled) => Reply::Cancelled(cancelled),
            Self::Rescheduled(changed) => Reply::Rescheduled(changed),
            Self::Updated(changed) => Reply::Updated(changed),
            Self::Counted(counted) => Reply::Counted(counted),
            Self::Stats(stats) => Reply::Stats(stats),
            Self::Forecast(forecast) => Reply::Forecast(forecast),
        })
    }
}

operations! {
    Push = "push", Changes {
        /// Adds events. Replies with the result for each, in order.
        fn push(events: Vec<NewEvent>) -> Pushed(Vec<PushReport>) = Self::Push(events);
    }
    MoveDue = "move", Moves {
        /// Moves due events to the ready list.
        fn move_due(limit: usize, calls: bool) -> Moved(MoveReport) = Self::MoveDue { limit, calls };
    }
    Fetch = "fetch", Moves {
        /// Leases events to a node.
        fn fetch(fetch: Fetch) -> Fetched(FetchReport) = Self::Fetch(fetch);
    }
    Settle = "settle", Changes {
        /// Ends attempts. Replies for each whether its lease still stood.
        fn settle(
            node: NodeId, settlements: Vec<Settlement>, started: StartMark
        ) -> Settled(Vec<bool>) = Self::Settle { node, settlements, started };
    }
    Heartbeat = "heartbeat", Moves {
        /// Renews the leases of a node.
        fn heartbeat(node: NodeId, holds: Holding, started: StartMark) -> Heartbeat(HeartbeatReport)
            = Self::Heartbeat { node, holds, started };
    }
    Reconcile = "reconcile", Moves {
        /// States which leases of these fetches, from the first to the last, a node still holds. Replies
        /// what was taken back.
        fn reconcile(
            node: NodeId,
            fetches: (RequestId, RequestId),
            held: Vec<(RequestId, Vec<EventId>)>,
            started: StartMark,
            limit: usize
        ) -> Reaped(ReapReport)
            = Self::Reconcile { node, from: fetches.0, through: fetches.1, held, started, limit };
    }
    Extend = "extend", Moves {
        /// Moves the deadlines of leases. Replies for each whether it still stood.
        fn extend(
            node: NodeId, leases: Vec<(EventId, RequestId)>, hold: Duration
        ) -> Extended(Vec<bool>) = Self::Extend { node, leases, hold };
    }
    Reap = "reap", Moves {
        /// Takes back the leases of timed-out nodes, and those past their deadline.
        fn reap(silent: Vec<(NodeId, u64)>, limit: usize) -> Reaped(ReapReport)
            = Self::Reap { silent, limit };
    }
    Cancel = "cancel", Changes {
        /// Cancels an event.
        fn cancel(id: EventId) -> Cancelled(CancelOutcome) = Self::Cancel { id };
    }
    Reschedule = "reschedule", Changes {
        /// Changes the due time of a waiting event.
        fn reschedule(id: EventId, when: When) -> Rescheduled(ChangeOutcome)
            = Self::Reschedule { id, when };
    }
    Update = "update", Changes {
        /// Replaces the payload of a waiting event.
        fn update(id: EventId, payload: Payload) -> Updated(ChangeOutcome)
            = Self::Update { id, payload, by: None, dead_only: false };
        /// Replaces the payload of a dead letter.
        fn edit(id: EventId, payload: Payload, by: Option<String>) -> Updated(ChangeOutcome)
            = Self::Update { id, payload, by, dead_only: true };
    }
    EditAndRevive = "revive", Changes {
        /// Replaces the payload of a dead letter that is still as it was read, and revives it.
        fn edit_and_revive(edit: DeadLetterEdit) -> Updated(ChangeOutcome) = Self::EditAndRevive(edit);
    }
    Rewrite = "rewrite", Changes {
        /// Re-encodes payloads. Replies how many.
        fn rewrite(rewritings: Vec<Rewriting>) -> Counted(usize) = Self::Rewrite(rewritings);
    }
    Get = "get", Reads {
        /// Reads one event.
        fn get(id: EventId) -> Snapshot(Option<Snapshot>) = Self::Get { id };
    }
    Peek = "peek", Reads {
        /// Reads a page of live events.
        fn peek(by: PeekBy, from: Option<PeekCursor>, limit: usize) -> Peeked(PeekPage)
            = Self::Peek { by, from, limit };
    }
    ReadDead = "read_dead", Reads {
        /// Reads a page of dead letters.
        fn read_dead(after: Option<EventId>, limit: usize) -> Dead(DeadPage)
            = Self::ReadDead { after, limit };
    }
    Revive = "revive", Changes {
        /// Makes dead letters ready again. Replies how many.
        fn revive(ids: Vec<EventId>, by: Option<String>) -> Counted(usize)
            = Self::Revive { ids, by };
    }
    Drop = "drop", Changes {
        /// Removes dead letters for good. Replies how many.
        fn drop_dead(ids: Vec<EventId>, by: Option<String>) -> Counted(usize)
            = Self::Drop { ids, by };
    }
    Stats = "stats", Reads {
        /// Counts events by state.
        fn stats() -> Stats(Stats) = Self::Stats;
    }
    Forecast = "forecast", Reads {
        /// Counts the events that are due within each of these spans.
        fn forecast(within: Vec<Duration>) -> Forecast(Vec<usize>) = Self::Forecast { within };
    }
}
