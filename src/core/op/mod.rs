//! The operations of a store as values, and their replies.
//!
//! An operation is atomic on one bucket and idempotent: after an [`Unknown`] error it can be resent
//! unchanged. A push carries its ids, a fetch its request number, a settle its leases; a heartbeat
//! and a reap only state facts.
//!
//! [`Unknown`]: crate::ErrorKind::Unknown

mod attempt;
mod operation;
mod reply;
mod sink;
mod sweep;
mod table;
mod tombstone;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::attempt::{AttemptOutcome, FREE_INTERRUPTIONS_MAX, FailureReason, UsedAttempts};
pub use self::operation::Operation;
pub use self::reply::{
    CancelOutcome, ChangeOutcome, DeadPage, Delivery, FetchReport, HeartbeatReport, MoveReport,
    PeekCursor, PeekPage, PushOutcome, PushReport, ReapReport, Response, SetAside, Snapshot, Stats,
};
pub use self::sink::ChangeSink;
pub use self::table::{Reply, StoreOp};
pub use self::tombstone::{ForgottenIds, LastSettlement, Tombstone};
use crate::event::{Envelope, EventId, Payload};
use crate::record::NodeId;
use crate::time::When;

/// The most events that one operation may carry or return.
pub const BATCH_MAX: usize = 1_000;

/// The payload limit of one operation: 4 MiB.
///
/// A fetch and a page end with the event that reaches it, so they return at least one event of any
/// size; a push or a rewrite of more than one event must stay within it. Without the limit a batch
/// of large payloads keeps a server busy for seconds.
pub const BATCH_BYTES: usize = 4 << 20;

/// So many scheduled events are a crowd if they are due at about the same time: a fetch reports
/// when the last of the next ones is due, so that a node can prefetch a crowd earlier.
pub const CROWD: usize = 128;

/// Within what span of the first one they must be due.
pub const CROWD_SPAN: Duration = Duration::from_millis(25);

/// Returns how many of `items` fit into one operation, given the size of their payloads; at least
/// 1.
pub(crate) fn fitting<T>(items: &[T], bytes: impl Fn(&T) -> usize) -> usize {
    let mut sum = 0;
    let fits = items.iter().take(BATCH_MAX).take_while(|item| {
        sum += bytes(item);
        sum <= BATCH_BYTES
    });
    fits.count().max(1)
}

/// The most unique keys of a bucket that stay taken after their event is done; beyond it the one
/// that expires first is freed.
pub const HOLDS_MAX: usize = 100_000;

/// A selection of events for [`StoreOp::Peek`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PeekBy {
    /// All events.
    #[default]
    All,
    /// Events with this key.
    Key(String),
    /// The waiting or running event with this unique key.
    Unique(String),
}

/// The payload of one event in another encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewriting {
    /// The event.
    pub id: EventId,
    /// The [fingerprint](Envelope::fingerprint) of the event that was read.
    pub was: u64,
    /// The re-encoded payload.
    pub payload: Payload,
}

/// A new payload for a dead letter that is revived with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterEdit {
    /// The dead letter.
    pub id: EventId,
    /// The [fingerprint](Envelope::fingerprint) of the event that was read.
    pub was: u64,
    /// The new payload.
    pub payload: Payload,
    /// The actor, for the records.
    pub by: Option<String>,
}

/// The number of a fetch, chosen by the node; a repeat of the fetch carries the same one.
pub type RequestId = u64;

/// The leases of a node in a bucket that its heartbeat keeps, as counted by the node or by the
/// store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The number of leases.
    pub leases: usize,
    /// The last known fetch; leases of later ones are not counted.
    pub last: RequestId,
}

/// A watermark of announced handler starts of a node in a bucket: every lease of its fetches before
/// `request`, and the first `leases` of that one.
///
/// A node announces a start before it happens, and starts nothing beyond what the store has
/// acknowledged. So when it dies, the store knows which other leases were never started, and hands
/// those events back without using up an attempt. The mark is one number for each node and only
/// grows; an operation with a smaller one changes nothing, so an announcement costs the same
/// however many events it covers. Leases with their own deadline are not concerned: they count as
/// started.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct StartMark {
    /// The fetch.
    pub request: RequestId,
    /// How many of its leases, from the first one.
    pub leases: usize,
}

impl StartMark {
    /// Returns whether a handler may have started on the lease at `place` of the fetch `request`.
    #[must_use]
    pub fn covers(self, request: RequestId, place: usize) -> bool {
        (request, place) < (self.request, self.leases)
    }
}

/// The identity of a lease: the node and its fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The node that holds it.
    pub node: NodeId,
    /// The number of its fetch.
    pub request: RequestId,
}

/// One event of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The event.
    pub envelope: Arc<Envelope>,
    /// When it is due.
    pub when: When,
    /// What to do if its unique key is taken.
    pub on_taken: Unique,
}

/// The policy of a push whose unique key is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unique {
    /// Keep the existing event; the push returns it as a *duplicate*. The default.
    #[default]
    Keep,
    /// Cancel the existing event in the same step. One whose handler may have started is left
    /// alone, and the new one is accepted beside it.
    Replace,
}

/// A fetch: leases events to a node, as many as fit into [`BATCH_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The node.
    pub node: NodeId,
    /// The number of this fetch; its repeat returns the same batch.
    pub request: RequestId,
    /// The most ready events.
    pub limit: usize,
    /// Also lease scheduled events that are due within this span.
    pub ahead: Duration,
    /// The most events to prefetch in this way.
    pub ahead_limit: usize,
    /// The duration of the leases; `None`: as long as the node's heartbeat lasts.
    pub hold: Option<Duration>,
    /// Announces starts: on the first `starts` of the new leases and on every earlier lease of the
    /// node. 0 announces nothing, and so does a fetch that leases nothing.
    pub starts: usize,
}

/// The end of one attempt, as sent to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The event.
    pub id: EventId,
    /// The fetch that leased it.
    pub request: RequestId,
    /// The outcome.
    pub verdict: AttemptOutcome,
    /// When its handler started, in microseconds since the epoch; 0 if it did not.
    pub started_us: u64,
    /// When it was leased, in microseconds since the epoch.
    pub fetched_us: u64,
}
