//! The leases of each node in a bucket.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use crate::core::engine::leases::Lease;
use crate::core::op::{Holding, RequestId, StartMark};
use crate::event::EventId;
use crate::record::NodeId;
use crate::time::Timestamp;

/// The most idle nodes that are remembered, for late repeats of their fetches.
const IDLE_NODES_MAX: usize = 1_024;

/// The leases of a bucket, by node and by deadline.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeLeases {
    nodes: BTreeMap<NodeId, NodeEntry>,
    /// Nodes that are being reaped and still have leases.
    reaping: BTreeSet<NodeId>,
    /// Leases with their own deadline.
    deadlines: BTreeSet<(Timestamp, EventId)>,
    leased: usize,
    /// Counts fetches, to find the least recently active node.
    fetches: u64,
}

/// A node, from its first fetch on.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeEntry {
    /// Its last heartbeat. A fetch that leases events, and its repeat, counts as one: the node
    /// relies on its leases from then on, so an older number must not get it reaped.
    pub(super) beat: u64,
    /// Its greatest request number.
    pub(super) last_request: Option<RequestId>,
    /// It was reaped, and no fetch of it has been refused since.
    pub(super) lost: bool,
    /// The refused fetch; repeats of it are refused again.
    pub(super) refused: Option<RequestId>,
    /// Its announced starts.
    started: StartMark,
    /// Leases that its heartbeat keeps.
    kept: Batches,
    /// Leases with their own deadline.
    timed: Batches,
    last_fetch: u64,
}

/// Leases by the request that made them.
#[derive(Clone, Debug, Default)]
struct Batches {
    batches: BTreeMap<RequestId, RequestBatch>,
    leased: usize,
}

#[derive(Clone, Debug, Default)]
struct RequestBatch {
    /// The events that the request returned; leases that have ended are still in it.
    ids: VecDeque<EventId>,
    leased: usize,
}

impl Batches {
    fn end(&mut self, request: RequestId) {
        let Some(batch) = self.batches.get_mut(&request) else {
            return;
        };
        self.leased -= 1;
        batch.leased -= 1;
        if batch.leased == 0 {
            self.batches.remove(&request);
        }
    }

    fn count(&self) -> usize {
        self.batches.values().map(|batch| batch.leased).sum()
    }
}

impl NodeEntry {
    /// Returns whether it has leases that its heartbeat keeps.
    pub(super) fn is_holder(&self) -> bool {
        self.kept.leased > 0
    }

    /// Returns the events that `request` returned.
    pub(super) fn batch(&self, request: RequestId) -> impl Iterator<Item = EventId> + '_ {
        let batches = [&self.kept, &self.timed].into_iter();
        let batches = batches.filter_map(move |batches| batches.batches.get(&request));
        batches.flat_map(|batch| batch.ids.iter().copied())
    }

    fn is_idle(&self) -> bool {
        self.kept.leased == 0 && self.timed.leased == 0
    }
}

impl NodeLeases {
    pub(super) fn get(&self, node: NodeId) -> Option<&NodeEntry> {
        self.nodes.get(&node)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut NodeEntry> {
        self.nodes.get_mut(&node)
    }

    /// Returns the node that fetches now, adding it if it is new.
    pub(super) fn fetching(&mut self, node: NodeId) -> &mut NodeEntry {
        if !self.nodes.contains_key(&node) && self.nodes.len() >= IDLE_NODES_MAX {
            let idle = self.nodes.iter().filter(|(_, node)| node.is_idle());
            let oldest = idle.min_by_key(|(_, node)| node.last_fetch);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.nodes.remove(&oldest);
            }
        }
        self.fetches += 1;
        let known = self.nodes.entry(node).or_default();
        known.last_fetch = self.fetches;
        known
    }

    /// Raises the start mark of a node; ignored for an unknown one.
    pub(super) fn announce(&mut self, node: NodeId, mark: StartMark) {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.started = known.started.max(mark);
        }
    }

    /// Returns whether a handler may have started on a lease.
    pub(super) fn may_have_started(&self, lease: &Lease) -> bool {
        let node = self.nodes.get(&lease.node);
        let started = node.is_none_or(|node| node.started.covers(lease.request, lease.place));
        started || lease.deadline.is_some()
    }

    /// Adds the leases that `node` got by `request`.
    pub(super) fn lease(
        &mut self,
        node: NodeId,
        request: RequestId,
        deadline: Option<Timestamp>,
        ids: VecDeque<EventId>,
    ) {
        if ids.is_empty() {
            return;
        }
        let known = self.nodes.entry(node).or_default();
        if deadline.is_none() {
            known.beat += 1;
        }
        if let Some(deadline) = deadline {
            self.deadlines.extend(ids.iter().map(|id| (deadline, *id)));
        }
        let batches = match deadline {
            None => &mut known.kept,
            Some(_) => &mut known.timed,
        };
        let leased = ids.len();
        self.leased += leased;
        batches.leased += leased;
        batches
            .batches
            .insert(request, RequestBatch { ids, leased });
    }

    /// Removes a lease that ended for any reason.
    pub(super) fn end(&mut self, id: EventId, lease: &Lease) {
        self.leased -= 1;
        let Some(node) = self.nodes.get_mut(&lease.node) else {
            return;
        };
        match lease.deadline {
            None => node.kept.end(lease.request),
            Some(deadline) => {
                self.deadlines.remove(&(deadline, id));
                node.timed.end(lease.request);
            }
        }
        if !node.is_holder() {
            self.reaping.remove(&lease.node);
        }
    }

    /// Changes the deadline of a lease.
    pub(super) fn extend(&mut self, id: EventId, before: Timestamp, after: Timestamp) {
        self.deadlines.remove(&(before, id));
        self.deadlines.insert((after, id));
    }

    /// Starts to reap `node` if its heartbeat is still `beat`; this is final.
    pub(super) fn give_up(&mut self, node: NodeId, beat: u64) {
        let Some(known) = self.nodes.get_mut(&node) else {
            return;
        };
        if known.is_holder() && known.beat == beat && self.reaping.insert(node) {
            known.lost = true;
        }
    }

    pub(super) fn is_reaping(&self, node: NodeId) -> bool {
        self.reaping.contains(&node)
    }

    /// Removes one lease of a node that is being reaped. It may have ended already.
    pub(super) fn pop_reaping(&mut self) -> Option<(NodeId, RequestId, EventId)> {
        let node = *self.reaping.first()?;
        let kept = &mut self.nodes.get_mut(&node)?.kept;
        let mut first = kept.batches.first_entry()?;
        let id = first.get_mut().ids.pop_front()?;
        Some((node, *first.key(), id))
    }

    pub(super) fn has_reaping(&self) -> bool {
        !self.reaping.is_empty()
    }

    /// Returns the next lease to reach its own deadline.
    pub(super) fn next_deadline(&self) -> Option<(Timestamp, EventId)> {
        self.deadlines.first().copied()
    }

    /// Returns the events whose lease has reached its own deadline, the first first.
    pub(super) fn past_deadline(&self, now_us: u64) -> impl Iterator<Item = EventId> + '_ {
        let deadlines = self.deadlines.iter();
        let past = deadlines.take_while(move |(deadline, _)| deadline.as_micros() <= now_us);
        past.map(|(_, id)| *id)
    }

    /// Returns every node with leases that its heartbeat keeps, and its last heartbeat.
    pub(super) fn holders(&self) -> Vec<(NodeId, u64)> {
        let holders = self.nodes.iter().filter(|(_, node)| node.is_holder());
        holders.map(|(id, node)| (*id, node.beat)).collect()
    }

    /// Returns the count of leases that a node's heartbeat keeps, and its last request.
    pub(super) fn holding(&self, node: NodeId) -> Holding {
        let known = self.nodes.get(&node);
        known.map_or_else(Holding::default, |known| Holding {
            leases: known.kept.leased,
            last: known.last_request.unwrap_or(0),
        })
    }

    /// Returns the events that some requests of a node returned and its heartbeat keeps; leases
    /// that have ended are included.
    pub(super) fn kept_by(
        &self,
        node: NodeId,
        requests: RangeInclusive<RequestId>,
    ) -> Vec<(RequestId, EventId)> {
        let known = self.nodes.get(&node).into_iter();
        let batches = known.flat_map(|known| known.kept.batches.range(requests.clone()));
        let ids = |(request, batch): (&RequestId, &RequestBatch)| {
            let request = *request;
            let ids: Vec<_> = batch.ids.iter().map(|id| (request, *id)).collect();
            ids
        };
        batches.flat_map(ids).collect()
    }

    pub(super) fn leased(&self) -> usize {
        self.leased
    }

    /// Checks the counters; `leases` are all leases that stand.
    pub(super) fn check<'a>(
        &self,
        leases: impl Iterator<Item = (EventId, &'a Lease)>,
    ) -> Result<(), String> {
        let (mut standing, mut timed) = (BTreeMap::<(NodeId, RequestId, bool), usize>::new(), 0);
        for (id, lease) in leases {
            let key = (lease.node, lease.request, lease.deadline.is_some());
            *standing.entry(key).or_default() += 1;
            let known = self.get(lease.node);
            if !known.is_some_and(|node| node.batch(lease.request).any(|held| held == id)) {
                return Err(format!("{id} is leased but not in the leases of its node"));
            }
            if let Some(deadline) = lease.deadline {
                timed += 1;
                if !self.deadlines.contains(&(deadline, id)) {
                    return Err(format!("{id} has a deadline that is not indexed"));
                }
            }
        }
        if timed != self.deadlines.len() {
            return Err("the deadline index has an entry without a lease".into());
        }
        if standing.values().sum::<usize>() != self.leased {
            return Err("the counter of leases differs from the leases".into());
        }
        for (id, node) in &self.nodes {
            for (batches, timed) in [(&node.kept, false), (&node.timed, true)] {
                let counted = batches.batches.iter();
                for (request, batch) in counted {
                    let standing = standing.get(&(*id, *request, timed));
                    if standing.copied().unwrap_or(0) != batch.leased || batch.leased == 0 {
                        return Err(format!(
                            "the lease counter of node {id}, request {request} is wrong"
                        ));
                    }
                }
                if batches.count() != batches.leased {
                    return Err(format!("the lease counter of node {id} is wrong"));
                }
            }
            if self.is_reaping(*id) && !node.is_holder() {
                return Err(format!("node {id} is being reaped but has no leases"));
            }
        }
        Ok(())
    }
}
