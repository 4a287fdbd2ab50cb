//! What a store must answer, said once more in the plainest way: a list of events that is
//! searched from its start for everything.

use std::sync::Arc;
use std::time::Duration;

use duly::core::op::{
    Cancelled, Changed, Delivery, Fetch, NewEvent, PushVerdict, Pushed, Reaped, Reply, RequestId,
    Settlement, Snapshot, Stats, Unique, Verdict,
};
use duly::event::{Envelope, EventId, Late, Payload, State};
use duly::record::{Cause, NodeId, Outcome, Record, Stages};
use duly::time::{Timestamp, When};
use duly::{BucketId, ErrorKind};

/// How many finished ids are remembered; few, so that forgetting happens.
pub(crate) const FINISHED_MAX: usize = 5;
pub(crate) const BUCKET: BucketId = BucketId(3);

#[derive(Clone, Debug)]
struct Event {
    envelope: Arc<Envelope>,
    state: State,
    due: Timestamp,
    tries: u16,
    haunted: bool,
    has_key: bool,
    /// Where it stands in the publish list, and since when.
    position: i64,
    moved_us: u64,
    lease: Option<Lease>,
    settled: Option<(NodeId, RequestId, std::mem::Discriminant<Verdict>)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Lease {
    node: NodeId,
    request: RequestId,
    fetched_us: u64,
    /// The order within the batch.
    place: usize,
    deadline: Option<Timestamp>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    id: NodeId,
    last: RequestId,
    refused: RequestId,
    beat: u64,
    lost: bool,
    reaping: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) now_us: u64,
    events: Vec<Event>,
    /// Those that are over, the first that ended in front.
    over: Vec<EventId>,
    forgotten: Option<Timestamp>,
    nodes: Vec<Node>,
    pub(crate) records: Vec<Record>,
    /// Positions at both ends of the publish list.
    first: i64,
    last: i64,
}

pub(crate) type Answered = Result<Reply, ErrorKind>;

impl Model {
    fn event(&mut self, id: EventId) -> Option<&mut Event> {
        self.events.iter_mut().find(|event| event.envelope.id == id)
    }

    fn node(&mut self, id: NodeId) -> &mut Node {
        if let Some(at) = self.nodes.iter().position(|node| node.id == id) {
            return &mut self.nodes[at];
        }
        self.nodes.push(Node {
            id,
            ..Node::default()
        });
        self.nodes.last_mut().expect("just pushed")
    }

    fn holds(&self, node: NodeId) -> bool {
        let leases = self.events.iter().filter_map(|event| event.lease.as_ref());
        leases
            .into_iter()
            .any(|lease| lease.node == node && lease.deadline.is_none())
    }

    fn ids(&self, of: impl Fn(&Event) -> bool) -> Vec<EventId> {
        let events = self.events.iter().filter(|event| of(event));
        events.map(|event| event.envelope.id).collect()
    }

    fn is_due(&self, at: Timestamp) -> bool {
        at.as_millis() * 1_000 <= self.now_us
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_us / 1_000)
    }

    /// The millisecond that is `delay` from now, rounded up.
    fn after(&self, delay: Duration) -> Timestamp {
        let us = self.now_us + u64::try_from(delay.as_micros()).expect("short");
        Timestamp::from_millis(us.div_ceil(1_000))
    }

    /// When an attempt that ended is due again.
    fn again(&self, delay: Duration) -> Timestamp {
        if delay.is_zero() {
            self.now()
        } else {
            self.after(delay)
        }
    }

    fn due(&self, when: When) -> Timestamp {
        match when {
            When::Now => self.now(),
            When::After(delay) => self.after(delay),
            When::At(at) => at,
        }
    }

    /// Lets an event wait, at the end of the list if it is due.
    fn wait(&mut self, id: EventId, due: Timestamp) {
        let (is_due, now_us, last) = (self.is_due(due), self.now_us, self.last);
        self.last += 1;
        let event = self.event(id).expect("it is there");
        (event.due, event.lease) = (due, None);
        if is_due {
            (event.state, event.position, event.moved_us) = (State::Ready, last, now_us);
        } else {
            (event.state, event.moved_us) = (State::Scheduled, 0);
        }
    }

    /// Ends the life of an event, or buries it.
    fn end(&mut self, id: EventId, state: State) {
        let event = self.event(id).expect("it is there");
        (event.state, event.lease, event.has_key) = (state, None, false);
        if state == State::Dead {
            return;
        }
        self.over.push(id);
        if self.over.len() > FINISHED_MAX {
            let gone = self.over.remove(0);
            self.events.retain(|event| event.envelope.id != gone);
            self.forgotten = self.forgotten.max(Some(gone.created()));
        }
    }

    fn record(&mut self, id: EventId, attempt: u16, outcome: Outcome, cause: Option<Cause>) {
        let finished_us = self.now_us;
        let event = self.event(id).expect("it is there");
        let lease = event.lease.clone();
        let record = Record {
            id,
            queue: event.envelope.queue.clone(),
            key: event.envelope.key.clone(),
            attempt,
            outcome,
            cause,
            due: event.due,
            stages: Stages {
                moved_us: event.moved_us,
                fetched_us: lease.as_ref().map_or(0, |lease| lease.fetched_us),
                started_us: 0,
                finished_us,
            },
            node: lease.map_or(NodeId(0), |lease| lease.node),
            error: None,
        };
        self.records.push(record);
    }

    pub(crate) fn push(&mut self, new: &[NewEvent]) -> Reply {
        Reply::Pushed(new.iter().map(|new| self.push_one(new)).collect())
    }

    fn push_one(&mut self, new: &NewEvent) -> Pushed {
        let (id, mut due) = (new.envelope.id, self.due(new.when));
        let mut verdict = PushVerdict::Accepted;
        if let Some(known) = self.event(id) {
            due = known.due;
            verdict = match known.envelope.payload == new.envelope.payload {
                true => PushVerdict::Duplicate(id),
                false => PushVerdict::Conflict,
            };
            return Pushed { due, verdict };
        }
        if self.forgotten.is_some_and(|until| id.created() <= until) {
            verdict = PushVerdict::TooOld;
            return Pushed { due, verdict };
        }
        let unique = &new.envelope.unique;
        let taken = self.ids(|event| event.has_key && event.envelope.unique == *unique);
        if let Some(taken) = taken.first().copied() {
            let holder = self.event(taken).expect("just found");
            if new.on_taken == Unique::Keep {
                due = holder.due;
                verdict = PushVerdict::Duplicate(taken);
                return Pushed { due, verdict };
            }
            holder.has_key = false;
            if holder.lease.is_none() {
                self.record(taken, 0, Outcome::Cancelled, None);
                self.end(taken, State::Cancelled);
                verdict = PushVerdict::Replaced(taken);
            }
        }
        self.events.push(Event {
            envelope: Arc::clone(&new.envelope),
            state: State::Scheduled,
            due,
            tries: 0,
            haunted: false,
            has_key: unique.is_some(),
            position: 0,
            moved_us: 0,
            lease: None,
            settled: None,
        });
        self.wait(id, due);
        Pushed { due, verdict }
    }

    /// The scheduled ones that are due until `until_us`, the next in front.
    fn scheduled(&self, until_us: u64) -> Vec<EventId> {
        let due = |event: &Event| event.due.as_millis() * 1_000 <= until_us;
        let scheduled = |event: &&Event| event.state == State::Scheduled && due(event);
        let mut found: Vec<_> = self.events.iter().filter(scheduled).collect();
        found.sort_by_key(|event| (event.due, event.envelope.id));
        found.iter().map(|event| event.envelope.id).collect()
    }

    fn next_due(&self) -> Option<Timestamp> {
        let scheduled = self
            .events
            .iter()
            .filter(|event| event.state == State::Scheduled);
        scheduled.map(|event| event.due).min()
    }

    pub(crate) fn move_due(&mut self, limit: usize) -> Reply {
        let mut moved = self.scheduled(self.now_us);
        moved.truncate(limit);
        for id in &moved {
            let due = self.event(*id).expect("just found").due;
            self.wait(*id, due);
        }
        Reply::Moved {
            moved: moved.len(),
            next_due: self.next_due(),
        }
    }

    pub(crate) fn fetch(&mut self, fetch: &Fetch) -> Answered {
        let node = self.node(fetch.node);
        if node.reaping || node.lost {
            node.lost = false;
            node.refused = node.refused.max(fetch.request);
            node.last = node.last.max(fetch.request);
        }
        if node.reaping || fetch.request <= node.refused {
            return Err(ErrorKind::LeaseLost);
        }
        if fetch.request > node.last {
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
        let deliveries = held.iter().map(|event| Delivery {
            id: event.envelope.id,
            body: Arc::clone(&event.envelope),
            due: event.due,
            attempt: event.tries + 1,
            request: fetch.request,
            moved_us: event.moved_us,
        });
        Ok(Reply::Fetched {
            deliveries: deliveries.collect(),
            ready: self.ids(|event| event.state == State::Ready).len(),
            next_due: self.next_due(),
        })
    }

    fn lease(&mut self, fetch: &Fetch) {
        let was_holder = self.holds(fetch.node);
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
        if !was_holder && self.holds(fetch.node) {
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

    /// Sets an event aside that has expired or is too late.
    fn is_of_use(&mut self, id: EventId) -> bool {
        let now_us = self.now_us;
        let event = self.event(id).expect("it is there");
        let late = Duration::from_micros(now_us.saturating_sub(event.due.as_millis() * 1_000));
        let (policy, expires) = (event.envelope.late, event.envelope.expires);
        let expired = expires.is_some_and(|at| at.as_millis() * 1_000 <= now_us);
        let expired = expired || matches!(policy, Late::Expire(limit) if late > limit);
        if expired {
            self.record(id, 0, Outcome::Expired, None);
            self.end(id, State::Expired);
        } else if matches!(policy, Late::Bury(limit) if late > limit) {
            self.record(id, 0, Outcome::Buried, Some(Cause::TooLate));
            self.end(id, State::Dead);
        } else {
            return true;
        }
        false
    }

    pub(crate) fn settle(&mut self, node: NodeId, settlements: &[Settlement]) -> Reply {
        let is_release = |settlement: &&Settlement| settlement.verdict == Verdict::Release;
        let releases = settlements.iter().filter(is_release).count();
        self.first -= i64::try_from(releases).expect("few");
        let mut front = self.first;
        let settled = settlements
            .iter()
            .map(|s| self.settle_one(node, s, &mut front));
        Reply::Settled(settled.collect())
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
        match &settlement.verdict {
            Verdict::Ack => self.conclude(id, tries, Outcome::Acked, State::Done),
            Verdict::Discard(_) => self.conclude(id, tries, Outcome::Discarded, State::Done),
            Verdict::Expire => self.conclude(id, 0, Outcome::Expired, State::Expired),
            Verdict::Bury(_) => self.conclude(id, tries, Outcome::Buried, State::Dead),
            Verdict::Retry(..) if tries >= attempts => {
                self.conclude(id, tries, Outcome::Buried, State::Dead);
            }
            Verdict::Retry(delay, _) => {
                self.record(id, tries, Outcome::Retried, None);
                self.event(id).expect("it is there").tries = tries;
                self.wait(id, self.again(*delay));
            }
            Verdict::Snooze(delay) => {
                self.record(id, tries, Outcome::Snoozed, None);
                self.wait(id, self.again(*delay));
            }
            Verdict::Release => {
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
            Verdict::Retry(_, why) | Verdict::Bury(why) => {
                (record.cause, record.error) = (Some(why.cause), why.error.clone());
            }
            Verdict::Discard(error) => record.error = error.clone(),
            _ => {}
        }
        true
    }

    fn conclude(&mut self, id: EventId, attempt: u16, outcome: Outcome, state: State) {
        self.record(id, attempt, outcome, None);
        if state == State::Dead {
            self.event(id).expect("it is there").tries = attempt;
        }
        self.end(id, state);
    }

    pub(crate) fn heartbeat(&mut self, node: NodeId) -> Reply {
        let holds = self.holds(node);
        let known = self.node(node);
        let kept = holds && !known.reaping;
        known.beat += u64::from(kept);
        Reply::Kept(kept)
    }

    pub(crate) fn extend(
        &mut self,
        node: NodeId,
        of: &[(EventId, RequestId)],
        hold: Duration,
    ) -> Reply {
        let after = self.after(hold);
        let reaping = self.node(node).reaping;
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
            let node = self.node(*node);
            if holds && !node.reaping && node.beat == *beat {
                (node.reaping, node.lost) = (true, true);
            }
        }
        let mut reaped = Reaped::default();
        while reaped.ready + reaped.dead < limit
            && let Some(id) = self.next_lost()
        {
            let event = self.event(id).expect("just found");
            (event.tries, event.haunted) = (event.tries + 1, true);
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
        self.end_reaps();
        reaped.more = self.next_lost().is_some();
        reaped.holders = self.holders();
        let deadlines = self
            .events
            .iter()
            .filter_map(|event| event.lease.as_ref()?.deadline);
        reaped.next_deadline = deadlines.min();
        Reply::Reaped(reaped)
    }

    pub(crate) fn holders(&self) -> Vec<(NodeId, u64)> {
        let holders = self.nodes.iter().filter(|node| self.holds(node.id));
        let mut holders: Vec<_> = holders.map(|node| (node.id, node.beat)).collect();
        holders.sort_unstable();
        holders
    }

    /// A node of which all is taken back, or that has settled the rest, is not reaped any more.
    pub(crate) fn end_reaps(&mut self) {
        for at in 0..self.nodes.len() {
            self.nodes[at].reaping &= self.holds(self.nodes[at].id);
        }
    }

    pub(crate) fn cancel(&mut self, id: EventId) -> Reply {
        let Some(event) = self.event(id) else {
            return Reply::Cancelled(Cancelled::NotFound);
        };
        let (state, haunted) = (event.state, event.haunted);
        match state {
            State::Scheduled | State::Ready => {
                self.record(id, 0, Outcome::Cancelled, None);
                self.end(id, State::Cancelled);
            }
            State::Cancelled => {}
            _ => return Reply::Cancelled(Cancelled::TooLate(state)),
        }
        Reply::Cancelled(match haunted {
            true => Cancelled::CancelledAfterAttempt,
            false => Cancelled::Cancelled,
        })
    }

    fn changed(event: &Event) -> Changed {
        match event.haunted {
            true => Changed::ChangedAfterAttempt(event.due),
            false => Changed::Changed(event.due),
        }
    }

    pub(crate) fn reschedule(&mut self, id: EventId, when: When) -> Reply {
        let due = self.due(when);
        let is_due = self.is_due(due);
        Reply::Rescheduled(match self.event(id) {
            None => Changed::NotFound,
            Some(event) if event.state == State::Ready && is_due => {
                event.due = due;
                Self::changed(event)
            }
            Some(event) if matches!(event.state, State::Scheduled | State::Ready) => {
                self.wait(id, due);
                Self::changed(self.event(id).expect("it is there"))
            }
            Some(event) => Changed::TooLate(event.state),
        })
    }

    pub(crate) fn update(&mut self, id: EventId, payload: &Payload) -> Reply {
        Reply::Updated(match self.event(id) {
            None => Changed::NotFound,
            Some(event) if event.state.is_final() || event.state == State::Leased => {
                Changed::TooLate(event.state)
            }
            Some(event) => {
                let mut envelope = (*event.envelope).clone();
                envelope.payload = payload.clone();
                event.envelope = Arc::new(envelope);
                Self::changed(event)
            }
        })
    }

    fn snapshot(event: &Event) -> Snapshot {
        let is_over = event.state.is_final();
        Snapshot {
            id: event.envelope.id,
            state: event.state,
            due: event.due,
            tries: event.tries,
            holder: event.lease.as_ref().map(|lease| lease.node),
            body: (!is_over).then(|| Arc::clone(&event.envelope)),
        }
    }

    pub(crate) fn get(&mut self, id: EventId) -> Reply {
        Reply::Found(self.event(id).map(|event| Self::snapshot(event)))
    }

    pub(crate) fn peek(&self, state: State, after: Option<EventId>, limit: usize) -> Reply {
        let events = self.events.iter().filter(|event| event.state == state);
        let mut found: Vec<_> = events.map(Self::snapshot).collect();
        found.retain(|found| after.is_none_or(|after| found.id > after));
        found.sort_by_key(|found| found.id);
        found.truncate(limit);
        Reply::Peeked(found)
    }

    pub(crate) fn revive(&mut self, ids: &[EventId]) -> Reply {
        let mut count = 0;
        for id in ids {
            let dead = |event: &Event| event.envelope.id == *id && event.state == State::Dead;
            if self.ids(dead).is_empty() {
                continue;
            }
            self.wait(*id, self.now());
            let event = self.event(*id).expect("it is there");
            event.tries = 0;
            let unique = event.envelope.unique.clone();
            let taken = |event: &Event| event.has_key && event.envelope.unique == unique;
            let free = unique.is_some() && self.ids(taken).is_empty();
            self.event(*id).expect("it is there").has_key = free;
            count += 1;
        }
        Reply::Counted(count)
    }

    pub(crate) fn drop_dead(&mut self, ids: &[EventId]) -> Reply {
        let mut count = 0;
        for id in ids {
            let dead = |event: &Event| event.envelope.id == *id && event.state == State::Dead;
            if !self.ids(dead).is_empty() {
                self.event(*id).expect("it is there").moved_us = 0;
                self.record(*id, 0, Outcome::Discarded, None);
                self.end(*id, State::Cancelled);
                count += 1;
            }
        }
        Reply::Counted(count)
    }

    pub(crate) fn stats(&self) -> Reply {
        let count = |state| self.ids(|event| event.state == state).len();
        Reply::Stats(Stats {
            scheduled: count(State::Scheduled),
            ready: count(State::Ready),
            leased: count(State::Leased),
            dead: count(State::Dead),
        })
    }

    pub(crate) fn forecast(&self, within: &[Duration]) -> Reply {
        let spans = within
            .iter()
            .map(|span| u64::try_from(span.as_micros()).expect("short"));
        Reply::Forecast(
            spans
                .map(|us| self.scheduled(self.now_us + us).len())
                .collect(),
        )
    }
}
