//! Reap and reconcile: takes leases back.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::core::engine::bucket::Bucket;
use crate::core::engine::entry::{Entry, RecordDetails};
use crate::core::engine::expire::EXPIRE_MAX;
use crate::core::engine::leases::Lease;
use crate::core::engine::limits::bounded;
use crate::core::op::{self, BATCH_MAX, ChangeSink, ReapReport, Reply, RequestId, StartMark};
use crate::error::Result;
use crate::event::EventId;
use crate::record::{Cause, NodeId, Outcome, Stages};

impl<B: Clone> Bucket<B> {
    /// Takes back the leases of timed-out nodes and those past their own deadline.
    ///
    /// Whether a node is reaped is decided here, by its last heartbeat; what exceeds the limit is
    /// taken back by the reaps that follow, from any node.
    pub(super) fn reap<L: ChangeSink<Body = B>>(
        &mut self,
        silent: &[(NodeId, u64)],
        limit: usize,
        sink: &mut L,
    ) -> Result<ReapReport> {
        bounded("silent nodes", silent.len())?;
        for (node, beat) in silent {
            self.nodes.give_up(*node, *beat);
        }
        let limit = limit.min(BATCH_MAX);
        let (mut reaped, mut unstarted) = (ReapReport::default(), Vec::new());
        while reaped.ready + reaped.dead < limit
            && let Some((node, request, id)) = self.nodes.pop_reaping()
        {
            let entry = self.entries.get(&id);
            if entry.is_some_and(|entry| self.leases.under(entry, node, request).is_some()) {
                self.take_back(id, &mut reaped, &mut unstarted, sink);
            }
        }
        while reaped.ready + reaped.dead < limit
            && let Some(id) = self.next_overdue()
        {
            self.take_back(id, &mut reaped, &mut unstarted, sink);
        }
        self.release_all(unstarted, sink);
        let earlier = std::mem::take(&mut self.taken_back);
        reaped.ready += earlier.ready;
        reaped.dead += earlier.dead;
        reaped.more = self.nodes.has_reaping() || self.next_overdue().is_some();
        reaped.holders = self.nodes.holders();
        reaped.next_deadline = self.nodes.next_deadline().map(|(deadline, _)| deadline);
        Ok(reaped)
    }

    /// Takes back the leases that `node` got by these requests and no longer holds by its own
    /// count.
    pub(super) fn reconcile<L: ChangeSink<Body = B>>(
        &mut self,
        node: NodeId,
        (requests, started): (RangeInclusive<RequestId>, StartMark),
        held: &[(RequestId, Vec<EventId>)],
        limit: usize,
        sink: &mut L,
    ) -> Result<Reply<B>> {
        bounded("fetches", held.len())?;
        bounded("events", held.iter().map(|(_, ids)| ids.len()).sum())?;
        let pairs = held.iter();
        let pairs = pairs.flat_map(|(request, ids)| ids.iter().map(|id| (*request, *id)));
        let held: BTreeSet<_> = pairs.collect();
        self.nodes.announce(node, started);
        let limit = limit.min(BATCH_MAX);
        let (mut reaped, mut unstarted) = (ReapReport::default(), Vec::new());
        if requests.is_empty() {
            return Ok(Reply::Reaped(reaped));
        }
        for (request, id) in self.nodes.kept_by(node, requests) {
            let entry = self.entries.get(&id);
            let lease = entry.and_then(|entry| self.leases.under(entry, node, request));
            let is_kept = lease.is_some_and(|lease| lease.deadline.is_none());
            if !is_kept || held.contains(&(request, id)) {
                continue;
            }
            if reaped.ready + reaped.dead >= limit {
                reaped.more = true;
                break;
            }
            self.take_back(id, &mut reaped, &mut unstarted, sink);
        }
        self.release_all(unstarted, sink);
        Ok(Reply::Reaped(reaped))
    }

    /// Takes back leases that are past their own deadline, the first first, up to [`EXPIRE_MAX`].
    pub(super) fn end_overdue<L: ChangeSink<Body = B>>(&mut self, sink: &mut L) {
        for _ in 0..EXPIRE_MAX {
            let Some(id) = self.next_overdue() else {
                return;
            };
            self.take_back_overdue(id, sink);
        }
    }

    /// Takes back the lease of an event that is past its own deadline. An operation on one event calls
    /// it, as that may be beyond the bound.
    pub(super) fn end_if_overdue<L: ChangeSink<Body = B>>(&mut self, id: EventId, sink: &mut L) {
        let lease = self.entries.get(&id).and_then(|it| self.leases.of(it));
        let deadline = lease.and_then(|lease| lease.deadline);
        if deadline.is_some_and(|deadline| deadline.as_micros() <= self.now_us) {
            self.take_back_overdue(id, sink);
        }
    }

    /// The next reap tells of it, which counts what was taken back.
    fn take_back_overdue<L: ChangeSink<Body = B>>(&mut self, id: EventId, sink: &mut L) {
        let (mut reaped, mut unstarted) = (std::mem::take(&mut self.taken_back), Vec::new());
        self.take_back(id, &mut reaped, &mut unstarted, sink); // its start needs no announcement
        self.taken_back = reaped;
    }

    /// Returns the events whose lease is past its own deadline and that are beyond the bound of an
    /// operation.
    pub(super) fn overdue(&self) -> impl Iterator<Item = (EventId, &Entry<B>)> + '_ {
        let ids = self.nodes.past_deadline(self.now_us);
        ids.filter_map(|id| Some((id, self.entries.get(&id)?)))
    }

    /// Returns the next event whose lease is past its own deadline.
    fn next_overdue(&self) -> Option<EventId> {
        self.nodes.past_deadline(self.now_us).next()
    }

    /// Hands back the events that never started, in order, as their holder would have done.
    fn release_all<L: ChangeSink<Body = B>>(
        &mut self,
        unstarted: Vec<(EventId, Lease)>,
        sink: &mut L,
    ) {
        let mut front = self.waiting.make_room(unstarted.len());
        for (id, lease) in unstarted {
            if let Some(entry) = self.entries.get(&id) {
                let (node, request) = (lease.node, lease.request);
                sink.handed_back(id, &entry.body, op::Lease { node, request });
            }
            self.release(id, &lease, &mut front);
        }
    }

    /// Takes a lease away from its holder. The attempt counts, as its handler may have started;
    /// unless its start was never announced.
    fn take_back<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        reaped: &mut ReapReport,
        unstarted: &mut Vec<(EventId, Lease)>,
        sink: &mut L,
    ) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let Some(lease) = self.leases.remove(entry) else {
            return;
        };
        self.nodes.end(id, &lease);
        if !self.nodes.may_have_started(&lease) {
            unstarted.push((id, lease));
            reaped.ready += 1;
            return;
        }
        entry.set_maybe_running();
        entry.tries = entry.tries.saturating_add(1);
        let tries = entry.tries;
        let ending = RecordDetails {
            outcome: Outcome::LeaseLost,
            cause: Some(Cause::LeaseLost),
            attempt: tries,
            node: lease.node,
            stages: Stages {
                moved_us: lease.moved_us,
                fetched_us: lease.fetched_us,
                started_us: 0,
                finished_us: self.now_us,
            },
            error: None,
            by: None,
            settled: None,
        };
        if tries >= entry.attempts {
            self.bury(id, tries, ending, sink);
            reaped.dead += 1;
        } else {
            entry.record(id, &self.key.queue, ending, sink);
            // A prefetched event is not due yet and waits on.
            let place = Self::wait(&mut self.waiting, self.now_us, id, entry.due);
            entry.go(place);
            self.expiring.add(id, entry);
            sink.changed(id, &entry.body, entry.due, entry.used());
            reaped.ready += 1;
        }
    }
}
