//! Leases: fetch, settle, heartbeat, extend and reap.

use std::sync::Arc;
use std::time::Duration;

use duly::event::State;
use duly::records::{Cause, NodeId, Outcome};
use duly::store::operation::{
    AttemptOutcome, Delivery, Fetch, FetchReport, HeartbeatReport, Holding, ReapReport, Reply,
    RequestId, Settlement, StartMark,
};
use duly::{ErrorKind, EventId};

use crate::store_model::model::{Answered, Event, Lease, Model};

impl Model {
    pub(crate) fn fetch(&mut self, fetch: &Fetch) -> Answered {
        let node = self.node(fetch.node);
        let before = node.last;
        if node.reaping || node.lost {
            node.lost = false;
            node.refused = node.refused.max(fetch.request);
            node.last = node.last.max(fetch.request);
        }
        if node.reaping || fetch.request <= node.refused {
            return Err(ErrorKind::LeaseLost);
        }
        let is_new = fetch.request > node.last;
        if is_new {
            node.last = fetch.request;
            self.lease(fetch);
        }
        let of = |lease: &Lease| lease.node == fetch.node && lease.request == fetch.request;
        let mut held: Vec<_> = self
            .events
            .iter()
            .filter(|e| e.lease.as_ref().is_some_and(of))
            .collect();
        held.sort_by_key(|event| event.lease.as_ref().map(|lease| lease.place));
        let is_heard = !is_new && !held.is_empty() && self.holds(fetch.node);
        let deliveries = held.iter().map(|event| Delivery {
            id: event.envelope.id,
            body: Arc::clone(&event.envelope),
            due: event.due,
            attempt: event.tries + 1,
            request: fetch.request,
            place: event.lease.as_ref().map_or(0, |lease| lease.place),
            moved_us: event.moved_us,
        });
        let deliveries = deliveries.collect();
        if is_heard {
            self.node(fetch.node).beat += 1;
        }
        if !self.exists {
            self.nodes.clear();
        }
        Ok(Reply::Fetched(FetchReport {
            deliveries,
            ready: self.ids(|event| event.state == State::Ready).len(),
            next_due: self.next_due(),
            crowd_due: self.due_of_crowd(),
            full: false,
            holding: Holding {
                leases: self.kept(fetch.node),
                last: before,
            },
            aside: std::mem::take(&mut self.aside),
        }))
    }

    fn lease(&mut self, fetch: &Fetch) {
        let mut place = 0;
        let mut ready: Vec<_> = self
            .events
            .iter()
            .filter(|e| e.state == State::Ready)
            .collect();
        ready.sort_by_key(|event| event.position);
        let ready: Vec<_> = ready.iter().map(|event| event.envelope.id).collect();
        for id in ready {
            if place < fetch.limit && self.is_of_use(id) {
                self.lease_one(id, fetch, place);
                place += 1;
            }
        }
        let ahead_us = u64::try_from(fetch.ahead.as_micros()).expect("short");
        let limit = place + fetch.ahead_limit;
        for id in self.scheduled(self.now_us + ahead_us) {
            if place < limit {
                let now_us = self.now_us;
                self.event(id).expect("just found").moved_us = now_us;
                if self.is_of_use(id) {
                    self.lease_one(id, fetch, place);
                    place += 1;
                }
            }
        }
        if place > 0 && fetch.starts > 0 {
            let (request, leases) = (fetch.request, fetch.starts);
            self.announce(fetch.node, StartMark { request, leases });
        }
        if place > 0 && fetch.hold.is_none() {
            self.node(fetch.node).beat += 1;
        }
    }

    fn lease_one(&mut self, id: EventId, fetch: &Fetch, place: usize) {
        let lease = Lease {
            node: fetch.node,
            request: fetch.request,
            fetched_us: self.now_us,
            place,
            deadline: fetch.hold.map(|hold| self.after(hold)),
        };
        let event = self.event(id).expect("it is there");
        (event.state, event.lease) = (State::Leased, Some(lease));
    }

    pub(crate) fn settle(
        &mut self,
        node: NodeId,
        settlements: &[Settlement],
        started: StartMark,
    ) -> Reply {
        self.announce(node, started);
        let is_release = |settlement: &&Settlement| settlement.verdict == AttemptOutcome::Release;
        let releases = settlements.iter().filter(is_release).count();
        self.first -= i64::try_from(releases).expect("few");
        let mut front = self.first;
        let over = self.over.len();
        self.is_settling = true;
        let settled = settlements
            .iter()
            .map(|s| self.settle_one(node, s, &mut front))
            .collect();
        self.is_settling = false;
        if self.over.len() > over {
            self.forget();
        }
        Reply::Settled(settled)
    }

    fn settle_one(&mut self, node: NodeId, settlement: &Settlement, front: &mut i64) -> bool {
        let id = settlement.id;
        let token = (
            node,
            settlement.request,
            std::mem::discriminant(&settlement.verdict),
        );
        let Some(event) = self.event(id) else {
            return false;
        };
        let lease = event.lease.as_ref();
        if !lease.is_some_and(|l| l.node == node && l.request == settlement.request) {
            return event.settled == Some(token);
        }
        event.settled = Some(token);
        let (tries, attempts, due) = (event.tries + 1, event.envelope.attempts, event.due);
        let is_free = match settlement.verdict {
            AttemptOutcome::Interrupt { free } if event.interruptions < free => {
                event.interruptions += 1;
                true
            }
            AttemptOutcome::Interrupt { .. } | AttemptOutcome::Release => false,
            _ => {
                event.interruptions = 0;
                false
            }
        };
        match &settlement.verdict {
            AttemptOutcome::Interrupt { .. } if is_free => {
                self.record(id, tries, Outcome::Interrupted, Some(Cause::Interrupted));
                self.wait(id, self.again(Duration::ZERO));
            }
            AttemptOutcome::Ack => self.conclude(id, tries, Outcome::Acked, State::Done),
            AttemptOutcome::Discard(_) => {
                self.conclude(id, tries, Outcome::Discarded, State::Discarded);
            }
            AttemptOutcome::Expire => self.conclude(id, 0, Outcome::Expired, State::Expired),
            AttemptOutcome::Bury(why) => self.bury(id, tries, why.cause),
            AttemptOutcome::Retry(..) | AttemptOutcome::Interrupt { .. } if tries >= attempts => {
                self.conclude(id, tries, Outcome::Buried, State::Dead);
            }
            AttemptOutcome::Interrupt { .. } => {
                self.record(id, tries, Outcome::Retried, None);
                self.event(id).expect("it is there").tries = tries;
                self.wait(id, self.again(Duration::ZERO));
            }
            AttemptOutcome::Retry(delay, _) => {
                self.record(id, tries, Outcome::Retried, None);
                self.event(id).expect("it is there").tries = tries;
                self.wait(id, self.again(*delay));
            }
            AttemptOutcome::Snooze(delay) => {
                self.record(id, tries, Outcome::Snoozed, None);
                self.wait(id, self.again(*delay));
            }
            AttemptOutcome::Release => {
                let (moved_us, is_due) = (event.moved_us, self.is_due(due));
                self.wait(id, due);
                let event = self.event(id).expect("it is there");
                if is_due {
                    (event.position, event.moved_us) = (*front, moved_us);
                }
                *front += 1;
                return true;
            }
        }
        let record = self.records.last_mut().expect("just recorded");
        (record.stages.started_us, record.stages.fetched_us) =
            (settlement.started_us, settlement.fetched_us);
        match &settlement.verdict {
            AttemptOutcome::Retry(_, why) | AttemptOutcome::Bury(why) => {
                (record.cause, record.error) = (Some(why.cause), why.error.clone());
            }
            AttemptOutcome::Interrupt { .. } => record.cause = Some(Cause::Interrupted),
            AttemptOutcome::Discard(error) => record.error = error.clone(),
            _ => {}
        }
        true
    }

    pub(super) fn conclude(&mut self, id: EventId, attempt: u16, outcome: Outcome, state: State) {
        self.record(id, attempt, outcome, None);
        if state == State::Dead {
            self.event(id).expect("it is there").tries = attempt;
        }
        self.end(id, state);
    }

    pub(crate) fn heartbeat(&mut self, node: NodeId, started: StartMark) -> Reply {
        self.announce(node, started);
        let (holds, leases) = (self.holds(node), self.kept(node));
        // One that has not fetched is not known, and does not become so.
        let (kept, last) = self.known(node).map_or((false, 0), |known| {
            let kept = holds && !known.reaping;
            known.beat += u64::from(kept);
            (kept, known.last)
        });
        Reply::Heartbeat(HeartbeatReport {
            stands: kept,
            holding: Holding { leases, last },
        })
    }

    fn kept(&self, node: NodeId) -> usize {
        let leases = self.events.iter().filter_map(|event| event.lease.as_ref());
        let kept = leases.filter(|lease| lease.node == node && lease.deadline.is_none());
        kept.count()
    }

    pub(crate) fn reconcile(
        &mut self,
        node: NodeId,
        requests: std::ops::RangeInclusive<RequestId>,
        held: &[(RequestId, Vec<EventId>)],
        limit: usize,
    ) -> Reply {
        let is_held = |request, id| {
            let of = held.iter().find(|(of, _)| *of == request);
            of.is_some_and(|(_, ids)| ids.contains(&id))
        };
        let mut orphans = Vec::new();
        for event in &self.events {
            let (id, lease) = (event.envelope.id, event.lease.as_ref());
            let of = |l: &&Lease| l.node == node && requests.contains(&l.request);
            let lease = lease.filter(|lease| of(lease) && lease.deadline.is_none());
            if let Some(lease) = lease.filter(|lease| !is_held(lease.request, id)) {
                orphans.push((lease.request, lease.place, id));
            }
        }
        orphans.sort_unstable();
        let mut reaped = ReapReport {
            more: orphans.len() > limit,
            ..ReapReport::default()
        };
        let mut unstarted = Vec::new();
        for (_, _, id) in orphans.into_iter().take(limit) {
            self.take_back(id, &mut reaped, &mut unstarted);
        }
        self.put_first(&unstarted);
        Reply::Reaped(reaped)
    }

    /// What was taken back without having started, in its order before all others.
    fn put_first(&mut self, unstarted: &[(EventId, u64)]) {
        self.first -= i64::try_from(unstarted.len()).expect("few");
        for (position, (id, moved_us)) in (self.first..).zip(unstarted) {
            let event = self.event(*id).expect("just taken back");
            if event.state == State::Ready {
                (event.position, event.moved_us) = (position, *moved_us);
            }
        }
    }

    pub(super) fn take_back(
        &mut self,
        id: EventId,
        reaped: &mut ReapReport,
        unstarted: &mut Vec<(EventId, u64)>,
    ) {
        let event = self.event(id).expect("just found").clone();
        let lease = event.lease.expect("it was leased");
        let started = self.node(lease.node).started;
        if lease.deadline.is_none()
            && (lease.request, lease.place) >= (started.request, started.leases)
        {
            self.wait(id, event.due);
            unstarted.push((id, event.moved_us));
            reaped.ready += 1;
            return;
        }
        let event = self.event(id).expect("just found");
        (event.tries, event.maybe_running) = (event.tries + 1, true);
        let (tries, attempts, due) = (event.tries, event.envelope.attempts, event.due);
        self.record(id, tries, Outcome::LeaseLost, Some(Cause::LeaseLost));
        if tries >= attempts {
            self.end(id, State::Dead);
            reaped.dead += 1;
        } else {
            self.wait(id, due);
            reaped.ready += 1;
        }
    }

    pub(crate) fn extend(
        &mut self,
        node: NodeId,
        of: &[(EventId, RequestId)],
        hold: Duration,
    ) -> Reply {
        let after = self.after(hold);
        let reaping = self.known(node).is_some_and(|node| node.reaping);
        let extended = of.iter().map(|(id, request)| {
            let lease = self.event(*id).and_then(|event| event.lease.as_mut());
            let lease = lease.filter(|l| l.node == node && l.request == *request);
            lease.is_some_and(|lease| match &mut lease.deadline {
                None => !reaping,
                Some(deadline) => {
                    *deadline = after;
                    true
                }
            })
        });
        Reply::Extended(extended.collect())
    }

    /// The next thing that a reap takes back.
    fn next_lost(&mut self) -> Option<EventId> {
        let reaping: Vec<_> = self
            .nodes
            .iter()
            .filter(|n| n.reaping)
            .map(|n| n.id)
            .collect();
        let key = |event: &Event| {
            let lease = event.lease.clone()?;
            match lease.deadline {
                None if !reaping.contains(&lease.node) => None,
                None => Some((0, lease.node, lease.request, lease.place, event.envelope.id)),
                Some(at) if !self.is_due(at) => None,
                Some(at) => Some((1, NodeId(at.as_millis()), 0, 0, event.envelope.id)),
            }
        };
        let lost = self.events.iter().filter_map(key).min();
        lost.map(|(_, _, _, _, id)| id)
    }

    pub(crate) fn reap(&mut self, silent: &[(NodeId, u64)], limit: usize) -> Reply {
        for (node, beat) in silent {
            let holds = self.holds(*node);
            let known = self.known(*node);
            if let Some(node) = known.filter(|it| holds && !it.reaping && it.beat == *beat) {
                (node.reaping, node.lost) = (true, true);
            }
        }
        let (mut reaped, mut unstarted) = (ReapReport::default(), Vec::new());
        while reaped.ready + reaped.dead < limit
            && let Some(id) = self.next_lost()
        {
            self.take_back(id, &mut reaped, &mut unstarted);
        }
        self.put_first(&unstarted);
        let ReapReport { ready, dead, .. } = std::mem::take(&mut self.taken_back);
        (reaped.ready, reaped.dead) = (reaped.ready + ready, reaped.dead + dead);
        self.end_reaps();
        self.free_holds();
        reaped.more = self.next_lost().is_some();
        reaped.holders = self.holders();
        let leases = self.events.iter().filter_map(|it| it.lease.as_ref());
        let deadlines = leases.filter_map(|lease| lease.deadline);
        reaped.next_deadline = deadlines.min();
        Reply::Reaped(reaped)
    }
}
