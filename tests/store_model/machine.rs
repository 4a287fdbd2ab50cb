//! The model as a state machine: it turns random steps into operations and says their answers.

mod resolve;

use std::sync::Arc;
use std::time::Duration;

use duly::event::{BucketKey, Envelope, Payload, TRACE_HEADER, UNIQUE_HEADER};
use duly::records::{NodeId, Record};
use duly::store::operation::{FetchReport, NewEvent, Reply, RequestId, StoreOp};
use duly::time::{Timestamp, When};
use duly::{EventId, Unique};
use duly_conformance::store_contract::shapes::{Own, Shape};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest_state_machine::ReferenceStateMachine;

use crate::store_model::model::{Answered, BUCKET, Model};
use crate::store_model::step::{Draft, Step, glitches, steps};

/// A trace that events may belong to.
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub(crate) const QUEUE: &str = "model";
pub(crate) const START_MS: u64 = 1_767_225_600_000;
/// The number of the first event of a shape: no other is so great.
const SHAPED_FROM: u64 = 1 << 30;

/// The model, what it was asked last, and what it has seen so far.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    model: Model,
    /// The wall clock, which may be set back, and glitch.
    pub(crate) wall_us: u64,
    pub(crate) mono_us: u64,
    /// By how much it is wrong for a moment.
    glitch_us: i64,
    /// The store's time when it was opened, and monotonic time then, of a store whose time goes on
    /// by that; otherwise it is the latest that the wall clock has shown.
    opened_us: Option<(u64, u64)>,
    /// What was applied last, and what it must answer.
    pub(crate) op: Option<StoreOp>,
    pub(crate) answer: Answered,
    /// Whether a store looks at its buckets before, and forgets what has reached the greatest age.
    pub(crate) is_swept: bool,
    /// Every event ever pushed.
    pushed: Vec<NewEvent>,
    /// Every lease ever given.
    leases: Vec<(NodeId, EventId, RequestId)>,
    /// The last request number of each node.
    requests: [RequestId; 2],
    /// Every holder ever seen, with its heartbeat.
    seen: Vec<(NodeId, u64)>,
}

impl Machine {
    pub(crate) fn records(&self) -> &[Record] {
        &self.model.records
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.model.now_us
    }

    /// Whether one event has expired, and a fetch may come to it. The order of several differs; and a
    /// lease past its deadline, which a fetch leaves alone, asks for a look before.
    pub(crate) fn leaves_one_to_fetch(&self) -> bool {
        let is_fetch = matches!(self.op, Some(StoreOp::Fetch(_)));
        is_fetch && self.model.expired == 1 && self.model.overdue == 0 && !self.is_swept
    }

    fn store_us(&self) -> u64 {
        match self.opened_us {
            Some((opened_us, since_us)) => opened_us + (self.mono_us - since_us),
            None => self.wall_us,
        }
    }

    fn opened(mut self) -> Self {
        self.model = Model::default();
        self.opened_us = Some((self.wall_us, self.mono_us));
        self
    }

    fn shows(&mut self, wall_us: u64) {
        self.wall_us = wall_us.max(START_MS * 1_000);
    }

    /// One of the ids ever pushed, or one that never was.
    fn id(&self, of: &Index) -> EventId {
        let at = of.index(self.pushed.len() + 1);
        match self.pushed.get(at) {
            Some(pushed) => pushed.envelope.id,
            None => EventId::from_parts(Timestamp::from_millis(START_MS), BUCKET, u64::MAX),
        }
    }

    fn ids(&self, of: &[Index]) -> Vec<EventId> {
        of.iter().map(|of| self.id(of)).collect()
    }

    /// An event that is due at once and has nothing of its own.
    fn plain(&mut self, delay_ms: u64) -> NewEvent {
        let mut envelope = self.envelope();
        envelope.attempts = 16; // as many as need no place in its bytes
        let new = NewEvent {
            envelope: Arc::new(envelope),
            when: When::from(Duration::from_millis(delay_ms)),
            on_taken: Unique::Keep,
        };
        self.pushed.push(new.clone());
        new
    }

    /// Events of a shape, of which a call takes as many as it reads bytes of.
    fn shaped(&mut self, shape: Shape, count: usize) -> Vec<NewEvent> {
        let count = match shape.own {
            Own::Bytes => count.min(20),
            _ => count,
        };
        let bucket = BucketKey::new(QUEUE.parse().expect("a legal name"), BUCKET);
        let created = Timestamp::from_millis(self.store_us() / 1_000);
        let first = SHAPED_FROM + (self.pushed.len() as u64).next_multiple_of(64);
        let events = shape.events(&bucket, created, first, count as u64);
        self.pushed.extend(events.iter().cloned());
        events
    }

    fn envelope(&self) -> Envelope {
        let count = self.pushed.len() as u64;
        // Most are ids of runs, which a store may keep together; those of every second page come in
        // another order.
        let (page, place) = (count / 64, count % 64);
        let entropy = match count % 11 {
            7 => count,
            _ => (page << 8) | (128 + (place ^ ((page % 2) * 20))),
        };
        // Some are of names, which tell no time.
        let created = match count % 5 {
            3 => Timestamp::EPOCH,
            _ => Timestamp::from_millis(self.store_us() / 1_000),
        };
        let id = EventId::from_parts(created, BUCKET, entropy);
        let queue = QUEUE.parse().expect("a legal name");
        Envelope::new(id, queue, Payload::from(b"0".as_slice()))
    }

    fn draft(&mut self, draft: &Draft) -> NewEvent {
        let entropy = self.pushed.len() as u64;
        let mut envelope = self.envelope();
        let created = Timestamp::from_millis(self.store_us() / 1_000);
        envelope.attempts = draft.attempts;
        envelope.unique = draft.unique.map(|key| key.to_string());
        envelope.key = entropy
            .is_multiple_of(2)
            .then(|| format!("order:{}", entropy % 3));
        envelope.expires = draft
            .expires_ms
            .map(|ms| created + Duration::from_millis(ms));
        envelope.late = draft.late;
        envelope.keeps_payload = draft.tells.0;
        if draft.tells.1 {
            envelope.headers = vec![(TRACE_HEADER.to_owned(), TRACE.to_owned())];
        }
        if let Some(ms) = draft.unique_for_ms {
            let header = (UNIQUE_HEADER.to_owned(), ms.to_string());
            envelope.headers.push(header);
        }
        let new = NewEvent {
            envelope: Arc::new(envelope),
            when: When::from(Duration::from_millis(draft.delay_ms)),
            on_taken: if draft.replace {
                Unique::Replace
            } else {
                Unique::Keep
            },
        };
        self.pushed.push(new.clone());
        new
    }

    fn answer(&mut self, op: &StoreOp) -> Answered {
        let store_us = self.store_us();
        let model = &mut self.model;
        // A bucket that does not exist keeps no time.
        model.now_us = if model.exists {
            model.now_us.max(store_us)
        } else {
            store_us
        };
        self.is_swept = model.sweep();
        let tells = !matches!(
            op,
            StoreOp::Push(_)
                | StoreOp::Fetch(_)
                | StoreOp::Settle { .. }
                | StoreOp::Heartbeat { .. }
                | StoreOp::Reconcile { .. }
                | StoreOp::Extend { .. }
                | StoreOp::Reap { .. }
        );
        model.begin(tells);
        if let StoreOp::Push(events) = op {
            model.end_holders(events);
        }
        let reply = Self::reply(model, op);
        model.finish();
        model.end_reaps();
        reply
    }

    fn reply(model: &mut Model, op: &StoreOp) -> Answered {
        let reply = match op {
            StoreOp::Push(events) => model.push(events),
            StoreOp::MoveDue { limit, .. } => model.move_due(*limit),
            StoreOp::Fetch(fetch) => model.fetch(fetch)?,
            StoreOp::Settle {
                node,
                settlements,
                started,
            } => model.settle(*node, settlements, *started),
            StoreOp::Heartbeat { node, started, .. } => model.heartbeat(*node, *started),
            StoreOp::Reconcile {
                node,
                from,
                through,
                held,
                started,
                limit,
            } => {
                model.announce(*node, *started);
                model.reconcile(*node, *from..=*through, held, *limit)
            }
            StoreOp::Extend { node, leases, hold } => model.extend(*node, leases, *hold),
            StoreOp::Reap { silent, limit } => model.reap(silent, *limit),
            StoreOp::Cancel { id } => model.cancel(*id),
            StoreOp::Reschedule { id, when } => model.reschedule(*id, *when),
            StoreOp::Update {
                id,
                payload,
                by,
                dead_only,
            } => model.update(*id, payload, by.as_ref(), *dead_only),
            StoreOp::Rewrite(rewritings) => model.rewrite(rewritings),
            StoreOp::Get { id } => model.get(*id),
            StoreOp::Peek { by, .. } => model.peek(by),
            StoreOp::ReadDead { after, limit } => model.read_dead(*after, *limit),
            StoreOp::Revive { ids, by } => model.revive(ids, by.as_ref()),
            StoreOp::EditAndRevive(edit) => model.edit_and_revive(edit),
            StoreOp::Drop { ids, by } => model.drop_dead(ids, by.as_ref()),
            StoreOp::Stats => model.stats(),
            StoreOp::Forecast { within } => model.forecast(within),
        };
        Ok(reply)
    }
}

/// The machine of a store of servers, which end what has expired by a call of its own.
impl ReferenceStateMachine for Machine {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self {
            model: Model::of_servers(),
            wall_us: START_MS * 1_000,
            mono_us: 0,
            glitch_us: 0,
            opened_us: None,
            op: None,
            is_swept: false,
            answer: Ok(Reply::Counted(0)),
            pushed: Vec::new(),
            leases: Vec::new(),
            requests: [0; 2],
            seen: Vec::new(),
        })
        .boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Step> {
        steps().boxed()
    }

    fn apply(mut state: Self, step: &Step) -> Self {
        state.op = state.resolve(step);
        if let Some(op) = state.op.clone() {
            state.answer = state.answer(&op);
            match (&op, &state.answer) {
                (StoreOp::Fetch(fetch), Ok(Reply::Fetched(FetchReport { deliveries, .. }))) => {
                    let given = deliveries.iter();
                    state
                        .leases
                        .extend(given.map(|d| (fetch.node, d.id, d.request)));
                }
                (_, Ok(Reply::Reaped(reaped))) => state.seen.extend(&reaped.holders),
                _ => {}
            }
        }
        state
    }
}

/// The same machine for a store that outlives its process.
#[derive(Debug)]
pub(crate) struct Durable;

impl ReferenceStateMachine for Durable {
    type State = Machine;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Machine> {
        let machine = <Machine as ReferenceStateMachine>::init_state();
        machine.prop_map(Machine::opened).boxed()
    }

    fn transitions(_: &Machine) -> BoxedStrategy<Step> {
        let steps = prop_oneof![20 => steps(), 2 => Just(Step::Reopen), 2 => glitches()];
        steps.boxed()
    }

    fn apply(state: Machine, step: &Step) -> Machine {
        <Machine as ReferenceStateMachine>::apply(state, step)
    }
}

/// The same machine for a store that lives with its process, on the machine's clock.
#[derive(Debug)]
pub(crate) struct InProcess;

impl ReferenceStateMachine for InProcess {
    type State = Machine;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Machine> {
        Durable::init_state()
    }

    fn transitions(_: &Machine) -> BoxedStrategy<Step> {
        prop_oneof![20 => steps(), 1 => glitches()].boxed()
    }

    fn apply(state: Machine, step: &Step) -> Machine {
        <Machine as ReferenceStateMachine>::apply(state, step)
    }
}
