//! A trait for persisting the decisions of the engine.

use std::sync::Arc;

use crate::core::op::{ForgottenIds, Lease, Tombstone, UsedAttempts};
use crate::event::{BucketKey, Envelope, EventId, Payload};
use crate::record::Record;
use crate::time::Timestamp;

/// A sink for the state changes of a store that outlives its process.
///
/// The engine calls it in the order of its decisions; a sink cannot refuse.
/// [`Body`](Self::Body) is what the engine keeps of an envelope: the envelope itself in
/// memory, a row number where it is in a file.
pub trait ChangeSink {
    /// The in-memory representation of an envelope.
    type Body: Clone;

    /// Whether a push takes effect only once it is confirmed.
    ///
    /// If `true`, a pushed event stays *unconfirmed* in [`Bucket`](crate::core::engine::Bucket)
    /// until `confirm`: it cannot be leased or read, and `forget` undoes it.
    const CONFIRMS: bool = false;

    /// An event was accepted; returns its body.
    fn added(&mut self, envelope: &Arc<Envelope>, due: Timestamp) -> Self::Body;

    /// An event has another due time or number of attempts used up.
    fn changed(&mut self, id: EventId, body: &Self::Body, due: Timestamp, used: UsedAttempts);

    /// An event has another payload.
    fn updated(&mut self, id: EventId, body: &mut Self::Body, payload: &Payload);

    /// An event became a dead letter at `at`.
    fn buried(&mut self, id: EventId, body: &Self::Body, at: Timestamp, tries: u16);

    /// A dead letter is ready again, due at `due`, with all its attempts.
    fn revived(&mut self, id: EventId, body: &Self::Body, due: Timestamp);

    /// An event has ended, and its id is remembered: any push of it is a duplicate or a conflict.
    fn ended(&mut self, bucket: &BucketKey, tombstone: Tombstone) {
        let _ = (bucket, tombstone);
    }

    /// The `many` oldest tombstones of a bucket were dropped; `ids` may be among them. With none
    /// dropped, the watermark of `ids` is lower than before: a clock was ahead.
    fn forgot(&mut self, bucket: &BucketKey, many: usize, ids: ForgottenIds) {
        let _ = (bucket, many, ids);
    }

    /// An event has ended.
    fn removed(&mut self, id: EventId, body: &Self::Body);

    /// The unique key of an event that is done stays taken until the given time; `None`: it is
    /// free.
    fn unique_held(&mut self, bucket: &BucketKey, key: &str, held: Option<(EventId, Timestamp)>) {
        let _ = (bucket, key, held);
    }

    /// A dead node's lease ended without an announced start: there is nothing to persist.
    fn handed_back(&mut self, id: EventId, body: &Self::Body, lease: Lease) {
        let _ = (id, body, lease);
    }

    /// An attempt or an event ended, or an administrative operation changed it; written in the same
    /// step as the change.
    ///
    /// `telling`: the body of the envelope, where the record needs data from it
    /// ([`Record::telling`]).
    fn recorded(&mut self, record: Record, telling: Option<&Self::Body>);
}
