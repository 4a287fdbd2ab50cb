//! What a store must answer, said once more in the plainest way: a list of events that is
//! searched from its start for everything.

mod change;
mod expired;
mod forgetting;
mod lease;
mod reopen;

use std::sync::Arc;
use std::time::Duration;

use duly::event::{BucketId, Envelope, State};
use duly::records::{Cause, NodeId, Outcome, Record, Stages};
use duly::store::operation::{
    AttemptOutcome, CROWD, CROWD_SPAN, MoveReport, NewEvent, PushOutcome, PushReport, ReapReport,
    Reply, RequestId, SetAside, StartMark,
};
use duly::time::{Timestamp, When};
use duly::{ErrorKind, EventId, Unique};

pub(crate) use self::forgetting::WINDOW;

pub(crate) const BUCKET: BucketId = BucketId(3);

#[derive(Clone, Debug)]
struct Event {
    envelope: Arc<Envelope>,
    state: State,
    due: Timestamp,
    tries: u16,
    interruptions: u8,
    maybe_running: bool,
    has_key: bool,
    /// Where it stands in the publish list, and since when.
    position: i64,
    moved_us: u64,
    died_us: u64,
    lease: Option<Lease>,
    settled: Option<(NodeId, RequestId, std::mem::Discriminant<AttemptOutcome>)>,
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
    started: StartMark,
    beat: u64,
    lost: bool,
    reaping: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) now_us: u64,
    events: Vec<Event>,
    /// Those that are over and when they ended, us; the first in front.
    over: Vec<(EventId, u64)>,
    /// A settle is under way, and forgets when it is done.
    is_settling: bool,
    /// What has expired since the last move or fetch, or in it.
    aside: SetAside,
    /// What was taken back since the last reap, which tells of it.
    taken_back: ReapReport,
    /// How many have expired before the operation, and wait no more.
    pub(crate) expired: usize,
    /// How many leases past their deadline were over before the operation.
    pub(crate) overdue: usize,
    /// How many were over before the operation.
    before: usize,
    /// Whether what has expired makes a bucket forget before the operation, and not when that is done.
    /// Such a store has no push forget what has reached the greatest age either.
    forgets_first: bool,
    forgotten: Option<Timestamp>,
    forgotten_ahead: Option<Timestamp>,
    nodes: Vec<Node>,
    /// Whether anything was ever pushed: a bucket that does not exist remembers no node.
    pub(crate) exists: bool,
    pub(crate) records: Vec<Record>,
    /// Unique keys that stay taken, until when and by whom.
    holds: Vec<(Timestamp, String, EventId)>,
    /// Positions at both ends of the publish list.
    first: i64,
    last: i64,
}

pub(crate) type Answered = Result<Reply, ErrorKind>;

impl Model {
    /// Of a store that ends what has expired by a call of its own.
    pub(crate) fn of_servers() -> Self {
        Self {
            forgets_first: true,
            ..Self::default()
        }
    }

    fn event(&mut self, id: EventId) -> Option<&mut Event> {
        self.events.iter_mut().find(|event| event.envelope.id == id)
    }

    /// A node that has fetched: nothing else makes a store know it.
    fn known(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|node| node.id == id)
    }

    /// A node that fetches.
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

    /// Handlers of a node may have started so far.
    pub(crate) fn announce(&mut self, node: NodeId, mark: StartMark) {
        if let Some(node) = self.known(node) {
            node.started = node.started.max(mark);
        }
    }

    fn holds(&self, node: NodeId) -> bool {
        let leases = self.events.iter().filter_map(|event| event.lease.as_ref());
        leases
            .into_iter()
            .any(|lease| lease.node == node && lease.deadline.is_none())
    }

    pub(crate) fn holders(&self) -> Vec<(NodeId, u64)> {
        let holders = self.nodes.iter().filter(|node| self.holds(node.id));
        let mut holders: Vec<_> = holders.map(|node| (node.id, node.beat)).collect();
        holders.sort_unstable();
        holders
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
        let now = self.now();
        let event = self.event(id).expect("it is there");
        let period = event.envelope.unique_for();
        if let (true, State::Done | State::Discarded, Some(period)) = (event.has_key, state, period)
        {
            let key = event.envelope.unique.clone().expect("it has one");
            self.holds.sort();
            let free = self.holds.iter().take_while(|hold| hold.0 <= now);
            let free = free.take(2).count();
            self.holds.drain(..free);
            self.holds.push((now + period, key, id));
        }
        let event = self.event(id).expect("it is there");
        (event.state, event.lease, event.has_key) = (state, None, false);
        if state == State::Dead {
            self.event(id).expect("it is there").died_us = self.now_us;
            return;
        }
        self.over.push((id, self.now_us));
        if !self.is_settling {
            self.forget();
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
            trace: None,
            payload: None,
            by: None,
        };
        let record = record.telling(&event.envelope);
        self.records.push(record);
    }

    /// What somebody did to a dead event: nothing else is known of it.
    fn record_by_hand(&mut self, id: EventId, outcome: Outcome, by: Option<&String>) {
        let moved_us = std::mem::take(&mut self.event(id).expect("it is there").moved_us);
        self.record(id, 0, outcome, None);
        self.event(id).expect("it is there").moved_us = moved_us;
        self.records.last_mut().expect("just written").by = by.cloned();
    }

    pub(crate) fn push(&mut self, new: &[NewEvent]) -> Reply {
        self.exists = true;
        self.heal();
        if !self.forgets_first {
            self.forget_while(|_, age| age >= WINDOW.max_age);
        }
        Reply::Pushed(new.iter().map(|new| self.push_one(new)).collect())
    }

    fn push_one(&mut self, new: &NewEvent) -> PushReport {
        let (id, mut due) = (new.envelope.id, self.due(new.when));
        let mut verdict = PushOutcome::Accepted;
        if let Some(known) = self.event(id) {
            due = known.due;
            verdict = if known.envelope.payload == new.envelope.payload {
                PushOutcome::Duplicate(id)
            } else {
                PushOutcome::Conflict
            };
            return PushReport { due, verdict };
        }
        if self.is_ahead(id.created()) {
            verdict = PushOutcome::TooNew;
            return PushReport { due, verdict };
        }
        let tells_time = id.created() > Timestamp::EPOCH;
        if tells_time && self.may_be_over(id) {
            verdict = PushOutcome::TooOld;
            return PushReport { due, verdict };
        }
        let unique = &new.envelope.unique;
        let taken = self.ids(|event| event.has_key && event.envelope.unique == *unique);
        if let Some(taken) = taken.first().copied() {
            let holder = self.event(taken).expect("just found");
            if new.on_taken == Unique::Keep {
                due = holder.due;
                verdict = PushOutcome::Duplicate(taken);
                return PushReport { due, verdict };
            }
            holder.has_key = false;
            if holder.lease.is_none() {
                self.record(taken, 0, Outcome::Cancelled, None);
                self.end(taken, State::Cancelled);
                verdict = PushOutcome::Replaced(taken);
            }
        }
        if let Some(holder) = self.hold(unique.as_ref())
            && new.on_taken == Unique::Keep
        {
            verdict = PushOutcome::Duplicate(holder);
            return PushReport { due, verdict };
        }
        self.holds.retain(|hold| Some(&hold.1) != unique.as_ref());
        self.events.push(Event {
            envelope: Arc::clone(&new.envelope),
            state: State::Scheduled,
            due,
            tries: 0,
            interruptions: 0,
            maybe_running: false,
            has_key: unique.is_some(),
            position: 0,
            moved_us: 0,
            died_us: 0,
            lease: None,
            settled: None,
        });
        self.wait(id, due);
        PushReport { due, verdict }
    }

    /// Which event that is done has a unique key.
    fn hold(&self, unique: Option<&String>) -> Option<EventId> {
        let now = self.now();
        let mut holds = self.holds.iter();
        let found = holds.find(|hold| Some(&hold.1) == unique && hold.0 > now);
        found.map(|hold| hold.2)
    }

    /// The scheduled ones that are due until `until_us`, the next in front.
    fn scheduled(&self, until_us: u64) -> Vec<EventId> {
        let due = |event: &Event| event.due.as_millis() * 1_000 <= until_us;
        let scheduled = |event: &&Event| event.state == State::Scheduled && due(event);
        let mut found: Vec<_> = self.events.iter().filter(scheduled).collect();
        found.sort_by_key(|event| (event.due, event.envelope.id));
        found.iter().map(|event| event.envelope.id).collect()
    }

    fn due_of_crowd(&self) -> Option<Timestamp> {
        let last = self.scheduled(u64::MAX).into_iter().nth(CROWD - 1)?;
        let mut events = self.events.iter();
        let last = events.find(|event| event.envelope.id == last)?;
        let is_near = last.due.since(self.next_due()?) <= CROWD_SPAN;
        is_near.then_some(last.due)
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
        Reply::Moved(MoveReport {
            moved: moved.len(),
            ready: self.ids(|event| event.state == State::Ready).len(),
            next_due: self.next_due(),
            aside: std::mem::take(&mut self.aside),
        })
    }
}
