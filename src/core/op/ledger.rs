//! What a store that outlives its process has to remember.

use std::sync::Arc;

use crate::core::op::Lease;
use crate::event::{BucketKey, Envelope, EventId, Payload};
use crate::record::Record;
use crate::time::Timestamp;

/// Told what a store that outlives its process has to remember of each decision.
///
/// The reference store decides and calls this in the order of its decisions; a ledger never says
/// no. [`Body`](Self::Body) is what the reference store keeps of an envelope: the envelope itself
/// in memory, a row number where it lies in a file.
pub trait Ledger {
    /// What is kept in memory of an envelope.
    type Body: Clone;

    /// Whether a push takes effect only once it was confirmed.
    ///
    /// When `true`, a pushed event is *held* by [`Bucket`](crate::core::reference::Bucket) until
    /// `confirm`: nobody can lease or see it, and `forget` undoes it.
    const CONFIRMS: bool = false;

    /// An event was accepted; answers what to keep of it.
    fn added(&mut self, envelope: &Arc<Envelope>, due: Timestamp) -> Self::Body;

    /// An event waits for another due time, or has used up so many attempts.
    fn changed(&mut self, body: &Self::Body, due: Timestamp, tries: u16);

    /// An event has another payload.
    fn updated(&mut self, body: &mut Self::Body, payload: &Payload);

    /// An event became a dead letter, at `at`.
    fn buried(&mut self, body: &Self::Body, at: Timestamp, tries: u16);

    /// A dead event is ready again, due at `due`, with all its attempts.
    fn revived(&mut self, body: &Self::Body, due: Timestamp);

    /// An event is over.
    fn removed(&mut self, body: &Self::Body);

    /// A unique key stays taken by an event that is done, until then; or not any more.
    fn unique_held(&mut self, bucket: &BucketKey, key: &str, held: Option<(EventId, Timestamp)>) {
        let _ = (bucket, key, held);
    }

    /// A silent node's lease ended on which it had announced no start: there is nothing to remember.
    fn handed_back(&mut self, body: &Self::Body, lease: Lease) {
        let _ = (body, lease);
    }

    /// An attempt, or an event, ended, or something was done to it by hand; written in the same step
    /// as what it tells of.
    ///
    /// `telling`: where the envelope has something that the record shall tell as well
    /// ([`Record::telling`]), what is kept of it.
    fn recorded(&mut self, record: Record, telling: Option<&Self::Body>);
}
