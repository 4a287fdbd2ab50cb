//! The model as a state machine: it turns random steps into operations and says their answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duly::event::{Envelope, Payload, TRACE_HEADER, UNIQUE_HEADER};
use duly::records::{NodeId, Record};
use duly::store::operation::{
    DeadLetterEdit, Fetch, Fetched, Holding, NewEvent, PeekBy, Reply, RequestId, Rewriting,
    Settlement, StoreOp,
};
use duly::time::{Timestamp, When};
use duly::{EventId, Unique};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest_state_machine::ReferenceStateMachine;

use crate::store_model::model::{Answered, BUCKET, Model};
use crate::store_model::step::{Draft, Step, steps, steps_and_reopenings};

/// A trace that events may belong to.
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub(crate) const QUEUE: &str = "model";
pub(crate) const START_MS: u64 = 1_767_225_600_000;

/// The model, what it was asked last, and what it has seen so far.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    model: Model,
    /// The wall clock, which may be set back.
    pub(crate) wall_us: u64,
    /// What was applied last, and what it must answer.
    pub(crate) op: Option<StoreOp>,
    pub(crate) answer: Answered,
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

    fn envelope(&self) -> Envelope {
        let count = self.pushed.len() as u64;
        // Most are ids of runs, which a store may keep together.
        let entropy = match count % 11 {
            7 => count,
            _ => ((count / 64) << 8) | (128 + count % 64),
        };
        let created = Timestamp::from_millis(self.wall_us / 1_000);
        let id = EventId::from_parts(created, BUCKET, entropy);
        let queue = QUEUE.parse().expect("a legal name");
        Envelope::new(id, queue, Payload::from(b"0".as_slice()))
    }

    fn draft(&mut self, draft: &Draft) -> NewEvent {
        let entropy = self.pushed.len() as u64;
        let mut envelope = self.envelope();
        let created = envelope.id.created();
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

    /// The operation that a step is now; none where it only moves the clock.
    fn resolve(&mut self, step: &Step) -> Option<StoreOp> {
        Some(match step {
            Step::Advance { us } => {
                self.wall_us += us;
                return None;
            }
            Step::SetBack { ms } => {
                self.wall_us = (self.wall_us - ms * 1_000).max(START_MS * 1_000);
                return None;
            }
            Step::Reopen => {
                self.model.reopen();
                self.seen.clear();
                return None;
            }
            Step::PushPlain { count, delay_ms } => {
                let events = (0..*count).map(|_| self.plain(*delay_ms));
                StoreOp::Push(events.collect())
            }
            Step::Push(drafts) => {
                StoreOp::Push(drafts.iter().map(|draft| self.draft(draft)).collect())
            }
            Step::PushAgain(of, same) => {
                let mut new = self.pushed.get(of.index(self.pushed.len().max(1)))?.clone();
                if !same {
                    Arc::make_mut(&mut new.envelope).payload = Payload::from(b"1".as_slice());
                }
                StoreOp::Push(vec![new])
            }
            Step::MoveDue(limit) => StoreOp::MoveDue {
                limit: *limit,
                calls: true,
            },
            Step::Fetch {
                node,
                back,
                limit,
                ahead_ms,
                ahead_limit,
                hold_ms,
                starts,
            } => {
                let last = &mut self.requests[usize::try_from(*node).expect("small")];
                if *back == 0 {
                    *last += 1;
                }
                StoreOp::Fetch(Fetch {
                    node: NodeId(*node + 1),
                    request: last.saturating_sub(back.saturating_sub(1)).max(1),
                    limit: *limit,
                    ahead: Duration::from_millis(*ahead_ms),
                    ahead_limit: *ahead_limit,
                    hold: hold_ms.map(Duration::from_millis),
                    starts: *starts,
                })
            }
            Step::Settle(ends, swap, mark) => {
                let recent = self.leases.len().saturating_sub(8);
                let recent = &self.leases[recent..];
                let pick = |of: &Index| recent.get(of.index(recent.len().max(1)));
                let (node, ..) = *pick(&ends[0].0)?;
                let settlements = ends.iter().filter_map(|(of, verdict)| {
                    let (_, id, request) = *pick(of)?;
                    Some(Settlement {
                        id,
                        request,
                        verdict: verdict.clone(),
                        started_us: self.wall_us,
                        fetched_us: self.wall_us - 7,
                    })
                });
                let started = mark.of(&self.requests, node);
                let node = if *swap && ends.len() == 1 {
                    NodeId(9)
                } else {
                    node
                };
                StoreOp::Settle {
                    node,
                    settlements: settlements.collect(),
                    started,
                }
            }
            Step::Heartbeat(node, mark) => StoreOp::Heartbeat {
                node: NodeId(node + 1),
                holds: Holding::default(),
                started: mark.of(&self.requests, NodeId(node + 1)),
            },
            Step::Reconcile(node, of, back, limit, mark) => {
                let node = NodeId(node + 1);
                let leases = self.leases.iter().filter(|lease| lease.0 == node);
                let leases: Vec<_> = leases.collect();
                let picked = of
                    .iter()
                    .filter_map(|of| leases.get(of.index(leases.len().max(1))));
                let mut held = BTreeMap::<RequestId, Vec<EventId>>::new();
                for (_, id, request) in picked {
                    held.entry(*request).or_default().push(*id);
                }
                let last = self.requests[usize::try_from(node.0 - 1).expect("small")];
                StoreOp::Reconcile {
                    node,
                    from: last.saturating_sub(*back),
                    through: last,
                    held: held.into_iter().collect(),
                    limit: *limit,
                    started: mark.of(&self.requests, node),
                }
            }
            Step::Extend(of, ms) => {
                let picked = of
                    .iter()
                    .filter_map(|of| self.leases.get(of.index(self.leases.len().max(1))));
                let picked: Vec<_> = picked.copied().collect();
                let (node, ..) = *picked.first()?;
                let leases = picked.into_iter().map(|(_, id, request)| (id, request));
                StoreOp::Extend {
                    node,
                    leases: leases.collect(),
                    hold: Duration::from_millis(*ms),
                }
            }
            Step::Reap(of, limit) => {
                let recent = &self.seen[self.seen.len().saturating_sub(5)..];
                let silent = of
                    .as_ref()
                    .and_then(|of| recent.get(of.index(recent.len().max(1))));
                StoreOp::Reap {
                    silent: silent.copied().into_iter().collect(),
                    limit: *limit,
                }
            }
            Step::ReapAll => StoreOp::Reap {
                silent: self.model.holders(),
                limit: 100,
            },
            Step::Cancel(of) => StoreOp::Cancel { id: self.id(of) },
            Step::Reschedule(of, when) => StoreOp::Reschedule {
                id: self.id(of),
                when: *when,
            },
            Step::Update(of, payload) => StoreOp::Update {
                id: self.id(of),
                payload: Payload::from(payload.to_string().into_bytes()),
                by: (*payload == 0).then(|| "ops".to_owned()),
                dead_only: *payload == 2,
            },
            Step::Rewrite(of, payload) => {
                let id = self.id(of);
                let waits = self
                    .pushed
                    .iter()
                    .rev()
                    .find(|event| event.envelope.id == id);
                StoreOp::Rewrite(vec![Rewriting {
                    id,
                    was: waits.map_or(0, |event| event.envelope.fingerprint()),
                    payload: Payload::from(payload.to_string().into_bytes()),
                }])
            }
            Step::Get(of) => StoreOp::Get { id: self.id(of) },
            Step::Peek(limit) => StoreOp::Peek {
                by: PeekBy::All,
                from: None,
                limit: *limit,
            },
            Step::Find(key, unique, limit) => StoreOp::Peek {
                by: match unique {
                    true => PeekBy::Unique(key.to_string()),
                    false => PeekBy::Key(format!("order:{key}")),
                },
                from: None,
                limit: *limit,
            },
            Step::ReadDead(after, limit) => StoreOp::ReadDead {
                after: after.as_ref().map(|after| self.id(after)),
                limit: *limit,
            },
            Step::Revive(of) => StoreOp::Revive {
                ids: self.ids(of),
                by: (of.len() % 2 == 1).then(|| "ops".to_owned()),
            },
            Step::EditAndRevive(of, payload) => {
                let id = self.id(of);
                let read = self.model.payload_of(id);
                StoreOp::EditAndRevive(DeadLetterEdit {
                    id,
                    was: read.map_or(0, |fingerprint| {
                        fingerprint.wrapping_add(u64::from(*payload == 2))
                    }),
                    payload: Payload::from(payload.to_string().into_bytes()),
                    by: (*payload == 0).then(|| "ops".to_owned()),
                })
            }
            Step::Drop(of) => StoreOp::Drop {
                ids: self.ids(of),
                by: (of.len() % 2 == 1).then(|| "ops".to_owned()),
            },
            Step::Stats => StoreOp::Stats,
            Step::Forecast(spans) => StoreOp::Forecast {
                within: spans.iter().map(|ms| Duration::from_millis(*ms)).collect(),
            },
        })
    }

    fn answer(&mut self, op: &StoreOp) -> Answered {
        let model = &mut self.model;
        model.now_us = model.now_us.max(self.wall_us);
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
        model.end_reaps();
        Ok(reply)
    }
}

impl ReferenceStateMachine for Machine {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self {
            model: Model::default(),
            wall_us: START_MS * 1_000,
            op: None,
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
                (StoreOp::Fetch(fetch), Ok(Reply::Fetched(Fetched { deliveries, .. }))) => {
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
        Machine::init_state()
    }

    fn transitions(_: &Machine) -> BoxedStrategy<Step> {
        steps_and_reopenings().boxed()
    }

    fn apply(state: Machine, step: &Step) -> Machine {
        <Machine as ReferenceStateMachine>::apply(state, step)
    }
}
