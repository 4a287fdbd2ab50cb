//! Everything together: one agenda, one time, one history.

use std::borrow::Cow;
use std::collections::VecDeque;

use duly::__internal::Action;
use duly::event::{BucketId, BucketKey};
use duly::store::operation::{Reply, StoreOp};
use duly::{EventId, QueueName};
use duly_conformance::history;
use duly_conformance::history::{Checker, ClientChecker, Entry, EntryKind, Promise};

use crate::agenda::Agenda;
use crate::bugs::Bug;
use crate::clients::Clients;
use crate::failover::Past;
use crate::faults::Fault;
use crate::manual::Manual;
use crate::network::{Caller, Network, Request};
use crate::node::SimNode;
use crate::plan::{Class, Plan};
use crate::planted::{Planted, remembers};
use crate::rng::Rng;
use crate::roll::{Called, RollCall};
use crate::store::{Body, SimStore};
use crate::trace::Trace;

/// What is going to happen.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A request reaches the store.
    Arrives(Request),
    /// An answer reaches whoever asked.
    Answered(
        Caller,
        Result<duly::store::operation::Response<Body>, duly::ErrorKind>,
    ),
    /// Whoever asked waits no longer.
    GivenUp(Caller),
    /// The store's word that there is earlier work reaches a node.
    Woken {
        node: usize,
        life: u32,
        bucket: usize,
    },
    /// The store's word that another node has no room for what is ready in a bucket.
    Called {
        node: usize,
        life: u32,
        bucket: usize,
    },
    /// A node's timer.
    Turn { node: usize, life: u32 },
    /// A handler ends.
    HandlerEnds {
        node: usize,
        life: u32,
        queue: usize,
        number: u64,
    },
    /// A node's roll call reaches the store.
    RollArrives(RollCall),
    /// And its answer the node.
    RollAnswered(RollCall, Called),
    /// A node waits for it no longer.
    RollGivenUp(RollCall),
    /// A stop has waited long enough for running handlers.
    GraceOver { node: usize, life: u32 },
    /// A client begins an operation.
    Asks(usize),
    /// A consumer that is no node fetches.
    ManualFetches(usize),
    /// And goes on with what it works at.
    ManualWorks { at: usize, number: u64 },
    /// Something breaks, or is mended.
    Breaks(Fault),
    /// A look at what should have happened by now.
    Look,
}

/// A world from a seed.
pub struct World {
    pub now_us: u64,
    pub rng: Rng,
    pub plan: Plan,
    pub bug: Option<Bug>,
    pub planted: Planted,
    pub store: SimStore,
    pub past: Past,
    pub network: Network,
    pub nodes: Vec<SimNode>,
    pub clients: Clients,
    pub manuals: Vec<Manual>,
    pub checker: Checker,
    pub account: ClientChecker,
    pub trace: Trace,
    pub is_healed: bool,
    pub queues: Vec<QueueName>,
    /// Every bucket that ever is, queue by queue, each with its queue's place. No two have one
    /// number.
    pub keys: Vec<(usize, BucketKey)>,
    /// What the node at work wants to be done; kept for its room.
    pub actions: Vec<Action<Body>>,
    /// When handlers of each queue started in the last second.
    pub starts: Vec<VecDeque<u64>>,
    pub steps: u64,
    pub calls: u64,
    /// The calls of nodes, roll calls among them.
    pub node_calls: u64,
    agenda: Agenda<Happening>,
    broken: Option<BrokenPromise>,
}

/// A promise that did not hold.
#[derive(Clone, Debug)]
pub struct BrokenPromise {
    pub at_us: u64,
    pub broken: history::BrokenPromise,
}

impl World {
    pub fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(&mut rng);
        Self::of(rng, plan, bug)
    }

    /// The world of a plan.
    pub fn of(rng: Rng, plan: Plan, bug: Option<Bug>) -> Self {
        let mut keys = Vec::new();
        let name = |queue| QueueName::new(&format!("q{queue}")).expect("a legal name");
        let queues: Vec<_> = (0..plan.queues).map(name).collect();
        for (queue, name) in queues.iter().enumerate() {
            for _ in 0..plan.buckets_max() {
                let bucket = BucketId(u16::try_from(keys.len()).expect("few buckets"));
                keys.push((queue, BucketKey::new(name.clone(), bucket)));
            }
        }
        let clogged = keys.iter().filter(|(queue, _)| plan.is_clogged(*queue));
        let clogged: Vec<_> = clogged.map(|(_, key)| key.bucket).collect();
        let expect = plan.expect();
        let remembers = remembers(&plan, bug);
        let mut world = Self {
            now_us: 0,
            store: SimStore::new(keys.iter().map(|(_, key)| key.clone()), remembers),
            past: Past::default(),
            network: Network::new(plan.nodes),
            nodes: (0..plan.nodes).map(SimNode::new).collect(),
            clients: Clients::default(),
            manuals: Vec::new(),
            checker: Checker::new(expect).may_be_late(clogged),
            account: match plan.failovers {
                0 => ClientChecker::new(),
                _ => ClientChecker::new().allow_lost_tail(),
            }
            .early_us_max(expect.early_us_max),
            trace: Trace::default(),
            is_healed: false,
            steps: 0,
            calls: 0,
            node_calls: 0,
            agenda: Agenda::default(),
            planted: Planted::default(),
            starts: vec![VecDeque::new(); plan.queues],
            broken: None,
            rng,
            plan,
            bug,
            queues,
            keys,
            actions: Vec::new(),
        };
        world.plan_clients();
        world.plan_faults();
        world.plan_manuals();
        if let Some(rate) = world.plan.rate {
            (0..world.plan.queues).for_each(|queue| world.set_rate(queue, Some(rate)));
        }
        for node in 0..world.plan.nodes {
            let joins_late = node > 0 && world.plan.late_joins > node as u64;
            if !joins_late {
                world.start_node(node);
            } else {
                world.join_late(node);
            }
        }
        let is_looked_at = matches!(world.plan.class, Class::Crashes | Class::Failovers);
        if is_looked_at || bug.is_some() {
            world.after(100_000, Happening::Look);
        }
        world
    }

    /// Lets it run to its end; answers the promise that was broken, if one was.
    pub fn run(&mut self) -> Option<BrokenPromise> {
        let end_us = self.plan.heal_us + self.plan.patience_after_heal_us();
        while self.broken.is_none() {
            let Some((at_us, happening)) = self.agenda.next() else {
                self.break_off(
                    Promise::Accepted,
                    None,
                    "nothing is going to happen any more",
                );
                break;
            };
            self.now_us = at_us;
            self.steps += 1;
            self.happen(happening);
            if self.is_time_to_look()
                && self.clients.are_answered()
                && self.is_at_rest()
                && self.rests()
            {
                break;
            }
            if self.now_us > end_us && self.broken.is_none() {
                self.end();
                break;
            }
        }
        self.check_store();
        if self.broken.is_none() {
            self.settle_accounts();
        }
        self.broken.take()
    }

    /// Whether to look for the end: at every sixteenth step or so, at another one each time, as the
    /// calls of a node that rests repeat themselves.
    fn is_time_to_look(&self) -> bool {
        self.is_healed && self.steps % 16 == self.steps / 16 % 16
    }

    /// What clients saw, the records and the last states must tell one story.
    fn settle_accounts(&mut self) {
        let ids: Vec<_> = self.account.ids().collect();
        for id in ids {
            let Some(bucket) = self.clients.bucket_of(id) else {
                continue;
            };
            let response = self.apply_and_note(bucket, StoreOp::Get { id });
            if let Ok(Reply::Snapshot(found)) = response.map(|response| response.reply) {
                let store_us = self.store.time_us(self.now_us, Some(bucket));
                if found.is_none() && self.checker.is_forgotten(id, store_us) {
                    continue; // which says nothing of how it ended
                }
                let state = found.map(|found| found.state);
                self.note(Some(id), EntryKind::LastState { state });
            }
        }
        let report = std::mem::take(&mut self.account).close();
        if let Some(broken) = report.broken.into_iter().next() {
            self.broke(broken);
        }
    }

    /// Time is up, and something has not come to its end.
    fn end(&mut self) {
        if self.plan.failovers > 0 && !self.is_at_rest() {
            let text = "an event in a store that failed over never came to its end";
            return self.break_off(Promise::Accepted, None, text);
        }
        match self.checker.end() {
            Err(broken) => self.broke(broken),
            Ok(()) if !self.clients.are_answered() => {
                self.break_off(Promise::Accepted, None, "a client was never answered");
            }
            Ok(()) => {
                let text = "credits: nothing is left to do, and a node accounts for something";
                self.break_off(Promise::Full, None, text);
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrives(request) => self.arrives(request),
            Happening::Answered(Caller::Client(op), response) => self.client_answered(op, response),
            Happening::GivenUp(Caller::Client(op)) => self.client_gives_up(op),
            Happening::Asks(op) => self.client_asks(op),
            Happening::Answered(Caller::Manual { at, call }, response) => {
                self.manual_answered(at, call, response);
            }
            Happening::GivenUp(Caller::Manual { at, call }) => self.manual_gives_up(at, call),
            Happening::ManualFetches(at) => self.manual_fetches(at),
            Happening::ManualWorks { at, number } => self.manual_works(at, number),
            Happening::Breaks(fault) => self.breaks(fault),
            Happening::RollArrives(roll) => self.roll_arrives(roll),
            Happening::Look => {
                if self.now_us.is_multiple_of(1_000_000) {
                    self.store_writes();
                }
                if let Err(broken) = self.checker.look(self.now_us) {
                    self.broke(broken);
                }
                self.look_for_orphans();
                self.after(100_000, Happening::Look);
            }
            happening => self.node_happens(happening),
        }
    }

    /// Plans something for `delay_us` from now.
    pub fn after(&mut self, delay_us: u64, happening: Happening) {
        self.agenda.plan(self.now_us + delay_us, happening);
    }

    /// Writes a line of history, as the nodes see time.
    pub fn note(&mut self, id: Option<EventId>, what: EntryKind) {
        let bucket = id.and_then(|id| self.clients.bucket_of(id));
        self.note_at(self.store.time_us(self.now_us, bucket), id, what);
    }

    pub fn note_at(&mut self, store_us: u64, id: Option<EventId>, what: EntryKind) {
        let entry = Entry {
            at_us: self.now_us,
            store_us,
            id,
            what,
        };
        self.account.read(&entry);
        self.trace.write(entry);
        if self.plan.failovers > 0 {
            return; // what the store did is not so any more when it has failed over
        }
        if let Err(broken) = self.checker.read(&entry) {
            self.broke(broken);
        }
    }

    /// The first promise that does not hold ends the world.
    pub fn break_off(
        &mut self,
        promise: Promise,
        id: Option<EventId>,
        text: impl Into<Cow<'static, str>>,
    ) {
        self.broke(history::BrokenPromise::new(promise, id, text));
    }

    pub fn broke(&mut self, broken: history::BrokenPromise) {
        let at_us = self.now_us;
        self.broken.get_or_insert(BrokenPromise { at_us, broken });
    }

    /// I6: every event is in exactly one place.
    pub fn check_store(&mut self) {
        let wrong = self
            .store
            .buckets
            .iter()
            .find_map(|bucket| bucket.check().err());
        if let Some(text) = wrong {
            self.break_off(Promise::Accepted, None, format!("store: {text}"));
        }
    }

    /// Whether no node accounts for anything any more.
    fn rests(&self) -> bool {
        self.nodes.iter().all(SimNode::rests)
    }
}
