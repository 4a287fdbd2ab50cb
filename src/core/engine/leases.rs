//! The leases that stand, by an index that the entry of each event has.

use crate::core::engine::entry::{Entry, LeaseIndex, Place};
use crate::core::op::RequestId;
use crate::record::NodeId;
use crate::time::Timestamp;

/// How many slots are kept when nothing is leased.
const SLOTS_KEPT: usize = 8;

/// The lease of an event.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) node: NodeId,
    pub(super) request: RequestId,
    /// Its index among the leases of that fetch.
    pub(super) place: usize,
    pub(super) moved_us: u64,
    pub(super) fetched_us: u64,
    /// Its own deadline; without one it lasts as long as the node's heartbeat.
    pub(super) deadline: Option<Timestamp>,
}

/// All leases of a bucket, in slots that are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    slots: Vec<Option<Lease>>,
    free: Vec<LeaseIndex>,
}

impl Leases {
    pub(super) fn add(&mut self, lease: Lease) -> LeaseIndex {
        if let Some(index) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(position(index))
        {
            *slot = Some(lease);
            return index;
        }
        self.slots.push(Some(lease));
        LeaseIndex(self.slots.len() as u64 - 1)
    }

    /// Removes the lease of an event, which then goes to another place or ends.
    pub(super) fn remove<B>(&mut self, entry: &Entry<B>) -> Option<Lease> {
        let index = index_of(entry)?;
        let lease = self.slots.get_mut(position(index))?.take()?;
        self.free.push(index);
        if self.free.len() == self.slots.len() && self.slots.len() > SLOTS_KEPT {
            // Nothing is leased: the room of a burst is given back.
            *self = Self::default();
        }
        Some(lease)
    }

    /// Returns the lease of an event.
    pub(super) fn of<B>(&self, entry: &Entry<B>) -> Option<&Lease> {
        self.slots.get(position(index_of(entry)?))?.as_ref()
    }

    pub(super) fn of_mut<B>(&mut self, entry: &Entry<B>) -> Option<&mut Lease> {
        self.slots.get_mut(position(index_of(entry)?))?.as_mut()
    }

    /// Returns the lease of an event that `node` got by `request`, if it still stands.
    pub(super) fn under<B>(
        &self,
        entry: &Entry<B>,
        node: NodeId,
        request: RequestId,
    ) -> Option<&Lease> {
        let lease = self.of(entry);
        lease.filter(|lease| lease.node == node && lease.request == request)
    }

    /// Checks that there are as many as events that are leased.
    pub(super) fn check(&self, leased: usize) -> Result<(), String> {
        let standing = self.slots.iter().flatten().count();
        if standing == leased && standing + self.free.len() == self.slots.len() {
            Ok(())
        } else {
            Err(format!("{leased} events are leased, by {standing} leases"))
        }
    }
}

fn index_of<B>(entry: &Entry<B>) -> Option<LeaseIndex> {
    match entry.place() {
        Place::Leased(index) => Some(index),
        _ => None,
    }
}

fn position(index: LeaseIndex) -> usize {
    usize::try_from(index.0).unwrap_or(usize::MAX)
}
