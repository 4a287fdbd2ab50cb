//! The filter of a query for dead letters.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::bus::dead_letters::dead_letter::LastRecord;
use crate::core::op::Snapshot;
use crate::event::{BucketKey, EventId, QueueName, State};
use crate::record::{Cause, NodeId};
use crate::time::Timestamp;

/// The filter of a query for dead letters; an unset field matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadLetterFilter {
    /// Empty: every queue.
    pub(super) queues: BTreeSet<QueueName>,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) cause: Option<Cause>,
    pub(super) error: Option<String>,
    pub(super) node: Option<NodeId>,
    pub(super) key: Option<String>,
    pub(super) ids: Option<BTreeSet<EventId>>,
    /// When an operation on all that match began: later dead letters are left alone. Named ones are
    /// not, whatever the clock said when they died.
    pub(super) began: Option<Timestamp>,
}

/// This process may take the store's time for earlier than it is, by less than this.
const CLOCK_LAG: Duration = Duration::from_secs(1);

/// Returns whether a dead letter may have died before a bulk operation began, by the store's time:
/// others are left alone, so that it ends.
pub fn died_before(died: Option<Timestamp>, began: Timestamp) -> bool {
    died.is_none_or(|died| died < began + CLOCK_LAG)
}

impl DeadLetterFilter {
    /// Returns whether a bucket may have matches.
    pub(super) fn may_match(&self, bucket: &BucketKey) -> bool {
        let is_of = |ids: &BTreeSet<EventId>| ids.iter().any(|id| id.may_lie_in(bucket.bucket));
        (self.queues.is_empty() || self.queues.contains(&bucket.queue))
            && self.ids.as_ref().is_none_or(is_of)
    }

    /// Returns whether a dead letter matches, as far as the store alone can tell.
    pub(super) fn matches(&self, letter: &Snapshot) -> bool {
        let key = || letter.body.as_ref().and_then(|body| body.key.as_ref());
        letter.state == State::Dead
            && self.matches_time(letter.since)
            && (self.key.is_none() || self.key.as_ref() == key())
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&letter.id))
    }

    /// A dead letter with an unknown time of death matches no time range.
    fn matches_time(&self, died: Option<Timestamp>) -> bool {
        let Some(died) = died else {
            return self.since.is_none() && self.until.is_none();
        };
        self.since.is_none_or(|since| died >= since)
            && self.until.is_none_or(|until| died < until)
            && self
                .began
                .is_none_or(|began| died_before(Some(died), began))
    }

    /// Returns whether matching needs the records.
    pub(super) fn reads_records(&self) -> bool {
        self.cause.is_some() || self.error.is_some() || self.node.is_some()
    }

    /// Returns whether a dead letter matches by its last record.
    pub(super) fn matches_last(&self, last: &LastRecord) -> bool {
        let says = |text: &String| last.error().is_some_and(|error| error.contains(text));
        let ran_on = |node| last.record().is_some_and(|record| record.node == node);
        (self.cause.is_none() || self.cause == last.cause())
            && self.error.as_ref().is_none_or(says)
            && self.node.is_none_or(ran_on)
    }
}
