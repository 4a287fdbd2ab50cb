//! Fetch, heartbeat and extend: grants and renews leases.

use std::collections::VecDeque;
use std::time::Duration;

use crate::core::engine::bucket::Bucket;
use crate::core::engine::entry::{Budget, Entry, Place};
use crate::core::engine::leases::Lease;
use crate::core::engine::limits::bounded;
use crate::core::op::{
    BATCH_MAX, ChangeSink, Delivery, Fetch, FetchReport, HeartbeatReport, Holding, Reply,
    RequestId, StartMark,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventId;
use crate::record::NodeId;
use crate::time::{Timestamp, When};

/// A fetch in progress.
struct FetchInProgress<B> {
    deadline: Option<Timestamp>,
    deliveries: Vec<Delivery<B>>,
    /// How many stale events it may still remove; the rest is for the next fetch.
    room_aside: usize,
    budget: Budget,
}

impl<B> FetchInProgress<B> {
    /// Returns whether it may take more, up to `limit` deliveries.
    fn has_room(&self, limit: usize) -> bool {
        self.deliveries.len() < limit && self.room_aside > 0 && !self.budget.is_spent()
    }
}

impl<B: Clone> Bucket<B> {
    pub(super) fn fetch<L: ChangeSink<Body = B>>(
        &mut self,
        fetch: &Fetch,
        sink: &mut L,
    ) -> Result<Reply<B>> {
        let last = self.nodes.holding(fetch.node).last;
        let (deliveries, full) = if self.is_new_request(fetch)? {
            self.lease_batch(fetch, sink)
        } else {
            let again = self.batch_again(fetch);
            if !again.is_empty() {
                self.heartbeat(fetch.node);
            }
            (again, false)
        };
        Ok(Reply::Fetched(FetchReport {
            deliveries,
            ready: self.waiting.ready_len(),
            next_due: self.waiting.next_due(),
            crowd_due: self.waiting.due_of_crowd(),
            full,
            holding: Holding {
                last,
                ..self.nodes.holding(fetch.node)
            },
            aside: std::mem::take(&mut self.aside),
        }))
    }

    /// Returns whether the request is new. One that is not above the last is a repeat, or arrives
    /// too late: its node has moved on to a greater number, so its leases would have no holder.
    fn is_new_request(&mut self, fetch: &Fetch) -> Result<bool> {
        let reaping = self.nodes.is_reaping(fetch.node);
        let node = self.nodes.fetching(fetch.node);
        if reaping || node.lost {
            node.lost = false;
            node.refused = node.refused.max(Some(fetch.request));
            node.last_request = node.last_request.max(Some(fetch.request));
        }
        if node.refused.is_some_and(|refused| fetch.request <= refused) {
            return Err(Error::new(
                ErrorKind::LeaseLost,
                format!(
                    "node {} was reaped and its leases went to other nodes; drop them and fetch \
                     again",
                    fetch.node
                ),
            ));
        }
        let is_new = node.last_request.is_none_or(|last| fetch.request > last);
        if is_new {
            node.last_request = Some(fetch.request);
        }
        Ok(is_new)
    }

    fn batch_again(&self, fetch: &Fetch) -> Vec<Delivery<B>> {
        let node = self.nodes.get(fetch.node).into_iter();
        let ids = node.flat_map(|node| node.batch(fetch.request));
        let leased = ids.filter_map(|id| {
            let entry = self.entries.get(&id)?;
            let lease = self.leases.under(entry, fetch.node, fetch.request)?;
            Some(delivery(id, entry, lease))
        });
        leased.collect()
    }

    fn lease_batch<L: ChangeSink<Body = B>>(
        &mut self,
        fetch: &Fetch,
        sink: &mut L,
    ) -> (Vec<Delivery<B>>, bool) {
        let hold = fetch.hold.map(|hold| When::After(hold).due(self.now_us));
        let mut batch = FetchInProgress {
            deadline: hold,
            deliveries: Vec::new(),
            room_aside: BATCH_MAX,
            budget: Budget::new(),
        };
        let limit = fetch.limit.min(BATCH_MAX);
        while batch.has_room(limit) {
            let Some(ready) = self.waiting.pop_ready() else {
                break;
            };
            self.take(fetch, ready.id, ready.moved_us, &mut batch, sink);
        }
        let limit = batch.deliveries.len().saturating_add(fetch.ahead_limit);
        let limit = limit.min(BATCH_MAX);
        let ahead_us = u64::try_from(fetch.ahead.as_micros()).unwrap_or(u64::MAX);
        let until_us = self.now_us.saturating_add(ahead_us);
        while batch.has_room(limit) {
            let Some((due, id)) = self.waiting.due_until(until_us) else {
                break;
            };
            self.waiting.unschedule(id, due);
            self.take(fetch, id, self.now_us, &mut batch, sink);
        }
        let ids = batch.deliveries.iter().map(|delivery| delivery.id);
        let ids: VecDeque<EventId> = ids.collect();
        let mark = StartMark {
            request: fetch.request,
            leases: fetch.starts,
        };
        if !ids.is_empty() && fetch.starts > 0 {
            self.nodes.announce(fetch.node, mark);
        }
        self.nodes.lease(fetch.node, fetch.request, hold, ids);
        (batch.deliveries, batch.budget.is_spent())
    }

    /// Leases one event that has left its index, or ends it if it is stale.
    fn take<L: ChangeSink<Body = B>>(
        &mut self,
        fetch: &Fetch,
        id: EventId,
        moved_us: u64,
        batch: &mut FetchInProgress<B>,
        sink: &mut L,
    ) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        batch.budget.spend(entry);
        self.expiring.remove(id, entry);
        if let Some(stale) = entry.stale(self.now_us) {
            let tries = entry.tries;
            batch.room_aside -= 1;
            self.set_aside(id, stale, tries, moved_us, sink);
            return;
        }
        let lease = Lease {
            node: fetch.node,
            request: fetch.request,
            place: batch.deliveries.len(),
            moved_us,
            fetched_us: self.now_us,
            deadline: batch.deadline,
        };
        batch.deliveries.push(delivery(id, entry, &lease));
        entry.go(Place::Leased(self.leases.add(lease)));
    }

    /// Renews the leases of a node and raises its start mark.
    pub(super) fn keep(&mut self, node: NodeId, started: StartMark) -> Reply<B> {
        self.nodes.announce(node, started);
        Reply::Heartbeat(HeartbeatReport {
            stands: self.heartbeat(node),
            holding: self.nodes.holding(node),
        })
    }

    fn heartbeat(&mut self, node: NodeId) -> bool {
        let stands = !self.nodes.is_reaping(node);
        match self.nodes.get_mut(node) {
            Some(node) if stands && node.is_holder() => {
                node.beat += 1;
                true
            }
            _ => false,
        }
    }

    pub(super) fn extend(
        &mut self,
        node: NodeId,
        leases: &[(EventId, RequestId)],
        hold: Duration,
    ) -> Result<Vec<bool>> {
        bounded("leases", leases.len())?;
        let after = When::After(hold).due(self.now_us);
        let stood = leases.iter().map(|(id, request)| {
            let Some(entry) = self.entries.get(id) else {
                return false;
            };
            let lease = self.leases.of_mut(entry);
            let its = |lease: &&mut Lease| lease.node == node && lease.request == *request;
            let Some(lease) = lease.filter(its) else {
                return false;
            };
            match &mut lease.deadline {
                // It lasts as long as the heartbeat and needs no extension.
                None => !self.nodes.is_reaping(node),
                Some(deadline) => {
                    self.nodes.extend(*id, *deadline, after);
                    *deadline = after;
                    true
                }
            }
        });
        Ok(stood.collect())
    }
}

fn delivery<B: Clone>(id: EventId, entry: &Entry<B>, lease: &Lease) -> Delivery<B> {
    Delivery {
        id,
        body: entry.body.clone(),
        due: entry.due,
        attempt: entry.tries.saturating_add(1),
        request: lease.request,
        place: lease.place,
        moved_us: lease.moved_us,
    }
}
