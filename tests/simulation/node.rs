//! A node: the real machines of core, and a driver that does what they say.

use std::collections::VecDeque;

use duly::__internal::{Action, CallId, Input, Load, Node};
use duly::ErrorKind;
use duly::records::NodeId;
use duly::time::Mono;
use duly_conformance::history::{EntryKind, Promise};

use crate::bugs::Bug;
use crate::network::Caller;
use crate::pool::{Gate, Pool};
use crate::roll::RollCall;
use crate::store::Body;
use crate::world::{Happening, World};

/// A process that may die, pause and come back.
#[derive(Debug)]
pub struct SimNode {
    /// How often it was started or died; messages to an earlier life go astray.
    pub life: u32,
    pub core: Option<Node<Body>>,
    pub pools: Vec<Pool>,
    pub gates: Vec<Gate>,
    /// The bucket of the world at each place of the node.
    pub places: Vec<usize>,
    /// For each queue the room that was chosen here.
    pub chosen: Vec<usize>,
    /// For each queue whether it is paused everywhere, and whether its starts are paced.
    pub told: Vec<(bool, bool)>,
    /// The version of the orders that it follows.
    pub version: Option<u64>,
    /// How many of its roll calls have ended.
    pub rolls: u64,
    pub is_stopping: bool,
    /// Buckets of the world of which it was told that the store has failed.
    pub doubted: Vec<usize>,
    /// Calls that it waits for no longer, where that matters.
    given_up: Vec<CallId>,
    /// It stands still until then, and what reaches it waits.
    pub paused_until_us: u64,
    pub backlog: Vec<(Mono, Happening)>,
    /// It takes things in and decides nothing yet.
    holds_on: bool,
    born_us: u64,
    base_ns: u64,
    drift_ppm: i64,
    pub turn_at_us: u64,
    pub handlers: u64,
}

impl SimNode {
    pub fn new(at: usize) -> Self {
        Self {
            life: 0,
            core: None,
            pools: Vec::new(),
            gates: Vec::new(),
            places: Vec::new(),
            chosen: Vec::new(),
            told: Vec::new(),
            version: None,
            rolls: 0,
            is_stopping: false,
            doubted: Vec::new(),
            given_up: Vec::new(),
            paused_until_us: 0,
            backlog: Vec::new(),
            holds_on: false,
            born_us: 0,
            base_ns: 60_000_000_000 + 1_000_000 * at as u64,
            drift_ppm: 0,
            turn_at_us: u64::MAX,
            handlers: 0,
        }
    }

    pub fn id(&self) -> Option<NodeId> {
        self.core.as_ref().map(Node::id)
    }

    /// This process's own time.
    pub fn mono(&self, now_us: u64) -> Mono {
        let lived = now_us - self.born_us;
        let rate = 1_000_000_i64.saturating_add(self.drift_ppm).unsigned_abs();
        Mono::from_nanos(self.base_ns + lived * rate / 1_000)
    }

    /// The first moment at which this process's own time has reached `at`.
    fn when(&self, at: Mono) -> u64 {
        let rate = 1_000_000_i64.saturating_add(self.drift_ppm).unsigned_abs();
        let ahead = at.as_nanos().saturating_sub(self.base_ns);
        self.born_us + ahead.saturating_mul(1_000).div_ceil(rate)
    }

    /// What each queue accounts for.
    pub fn loads(&self) -> impl Iterator<Item = Load> {
        let core = self.core.iter();
        core.flat_map(|core| (0..self.pools.len()).map(|queue| core.load(queue)))
    }

    pub fn rests(&self) -> bool {
        self.loads().all(|load| load.is_none())
    }
}

impl World {
    /// Starts a process, which is another node than the one before.
    pub fn start_node(&mut self, at: usize) {
        let drift = i64::try_from(self.plan.drift_ppm).unwrap_or(0);
        let id = NodeId(self.rng.next());
        let drift_ppm = if drift == 0 {
            0
        } else {
            i64::try_from(self.rng.within(0..self.plan.drift_ppm * 2)).unwrap_or(0) - drift
        };
        let mut core = Node::new(id, self.planted_options());
        let mut places = Vec::new();
        let plan = &self.plan;
        for queue in 0..plan.queues {
            let (capacity, workers) = (plan.capacity_of(queue), plan.workers_of(queue));
            core.add_queue(self.queues[queue].clone(), capacity, workers);
        }
        let (buckets, buckets_max) = (plan.buckets_at(self.now_us), plan.buckets_max());
        for (place, (queue, key)) in self.keys.iter().enumerate() {
            if place % buckets_max < buckets && plan.serves(at, *queue) {
                core.add_bucket(*queue, key.clone());
                places.push(place);
            }
        }
        let pool = |queue| Pool::new(plan.workers_of(queue), plan.capacity_of(queue));
        let pools = (0..plan.queues).map(pool);
        let capacities = (0..plan.queues).map(|queue| plan.capacity_of(queue));
        let node = &mut self.nodes[at];
        *node = SimNode {
            life: node.life + 1,
            core: Some(core),
            pools: pools.collect(),
            gates: vec![Gate::default(); self.keys.len()],
            places,
            chosen: capacities.collect(),
            told: vec![(false, false); plan.queues],
            born_us: self.now_us,
            base_ns: node.base_ns,
            drift_ppm,
            ..SimNode::new(at)
        };
        let called = self.first_call(at);
        let members = called.members;
        // What is set is known before anything is fetched.
        self.nodes[at].holds_on = true;
        self.drive(at, Some(Input::MembersSeen { members }));
        self.follow(at, &called.orders);
        self.nodes[at].holds_on = false;
        self.drive(at, None);
    }

    /// A process dies, with its ring and its handlers.
    pub fn kill_node(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let Some(core) = node.core.take() else {
            return;
        };
        node.life += 1;
        node.pools.clear();
        node.backlog.clear();
        node.paused_until_us = 0;
        self.note(None, EntryKind::Died { node: core.id() });
    }

    /// Something reaches a node, unless it stands still or is another one by now.
    pub fn node_happens(&mut self, happening: Happening) {
        self.node_hears(None, happening);
    }

    /// The same; a node that stood still reads later what had `arrived`.
    fn node_hears(&mut self, arrived: Option<Mono>, happening: Happening) {
        let (at, life) = match &happening {
            Happening::Answered(Caller::Node { node, life, .. }, _)
            | Happening::GivenUp(Caller::Node { node, life, .. })
            | Happening::Woken { node, life, .. }
            | Happening::Called { node, life, .. }
            | Happening::Turn { node, life }
            | Happening::HandlerEnds { node, life, .. }
            | Happening::RollAnswered(RollCall { node, life, .. }, _)
            | Happening::RollGivenUp(RollCall { node, life, .. })
            | Happening::GraceOver { node, life } => (*node, *life),
            _ => return,
        };
        let node = &mut self.nodes[at];
        if node.core.is_none() || node.life != life {
            return;
        }
        let arrived = arrived.unwrap_or_else(|| node.mono(self.now_us));
        if node.paused_until_us > self.now_us {
            if !matches!(happening, Happening::Turn { .. }) {
                node.backlog.push((arrived, happening));
            }
            return;
        }
        let input = match happening {
            Happening::Answered(Caller::Node { call, bucket, .. }, mut response) => {
                if matches!(response, Err(ErrorKind::Closed)) && !node.given_up.contains(&call) {
                    node.doubted.push(bucket);
                    if self.bug == Some(Bug::DoubtIgnored) {
                        response = Err(ErrorKind::Unavailable);
                    }
                }
                Input::Answered {
                    call,
                    arrived,
                    response,
                }
            }
            Happening::GivenUp(from @ Caller::Node { call, .. }) => {
                if self.plan.failures > 0 {
                    node.given_up.push(call);
                }
                let response = self.tells_unknown(from);
                Input::Answered {
                    call,
                    arrived,
                    response,
                }
            }
            Happening::Woken { bucket, .. } => {
                if self.bug == Some(Bug::WakesIgnored) {
                    return;
                }
                match self.nodes[at].places.iter().position(|of| *of == bucket) {
                    Some(bucket) => Input::Woken { bucket },
                    None => return self.serve(at, bucket),
                }
            }
            Happening::Called { bucket, .. } => {
                match self.nodes[at].places.iter().position(|of| *of == bucket) {
                    Some(bucket) => Input::Called { bucket },
                    None => return,
                }
            }
            Happening::RollAnswered(roll, called) => {
                return self.roll_answered(roll, Some(called));
            }
            Happening::RollGivenUp(roll) => return self.roll_answered(roll, None),
            Happening::HandlerEnds { queue, number, .. } => {
                return self.handler_ends(at, queue, number);
            }
            Happening::GraceOver { .. } => return self.interrupt(at),
            // A timer that was set anew since is of no use.
            _ if node.turn_at_us > self.now_us => return,
            _ => {
                node.turn_at_us = u64::MAX;
                return self.drive(at, None);
            }
        };
        self.drive(at, Some(input));
    }

    /// A node goes on where it stood still, and finds everything that has come meanwhile.
    pub fn resume_node(&mut self, at: usize) {
        self.read_backlog(at);
        self.drive(at, None);
    }

    pub fn read_backlog(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.paused_until_us = 0;
        node.turn_at_us = u64::MAX; // its timer may have passed unheard
        for (arrived, happening) in std::mem::take(&mut node.backlog) {
            self.node_hears(Some(arrived), happening);
        }
    }

    /// Lets the machines decide until they have nothing more to say, and does it.
    pub fn drive(&mut self, at: usize, input: Option<Input<Body>>) {
        let (mut first, mut inputs) = (input, VecDeque::new());
        let mut actions = std::mem::take(&mut self.actions);
        let mut turns = 0;
        loop {
            let node = &mut self.nodes[at];
            let now = node.mono(self.now_us);
            let Some(core) = &mut node.core else {
                break;
            };
            match first.take().or_else(|| inputs.pop_front()) {
                Some(input) => core.handle(now, input, &mut actions),
                None if core.wakes() <= now && !node.holds_on => {
                    core.turn(now, &mut actions);
                    turns += 1;
                }
                None => break,
            }
            if turns > 1_000 {
                self.break_off(Promise::Full, None, "a node turns without end");
                break;
            }
            for action in actions.drain(..) {
                self.act(at, action, &mut inputs);
            }
        }
        self.actions = actions;
        let node = &mut self.nodes[at];
        let wakes = node.core.as_ref().map_or(Mono::MAX, Node::wakes);
        if wakes < Mono::MAX && node.when(wakes) < node.turn_at_us {
            node.turn_at_us = node.when(wakes);
            let (life, delay) = (node.life, node.turn_at_us - self.now_us);
            self.after(delay, Happening::Turn { node: at, life });
        }
    }

    fn act(&mut self, at: usize, action: Action<Body>, inputs: &mut VecDeque<Input<Body>>) {
        let node = &mut self.nodes[at];
        match action {
            Action::Call { call, bucket, op } => {
                let bucket = node.places[bucket];
                let from = Caller::Node {
                    node: at,
                    life: node.life,
                    call,
                    bucket,
                };
                if node.doubted.contains(&bucket) {
                    let text = "a store that says that it has failed is asked again";
                    self.break_off(Promise::Doubt, None, text);
                }
                self.send_from_node(from, bucket, op);
            }
            Action::PollMembers => self.call_roll(at),
            Action::MemberLost => {} // only records are looked after then, and they have no recorder here
            Action::Served { bucket } => {
                let key = node.core.as_ref().map(|core| core.bucket(bucket).clone());
                let of = self
                    .keys
                    .iter()
                    .position(|(_, of)| Some(of) == key.as_ref());
                self.nodes[at]
                    .places
                    .push(of.expect("it is a bucket of the world"));
            }
            Action::Publish { queue, jobs } => self.publish(at, queue, jobs, inputs),
            Action::Withdraw { queue } => self.withdraw(at, queue, inputs),
            Action::Fresh { bucket, until } => {
                let until = self.trusted_until(at, until);
                let gate = &mut self.nodes[at].gates[bucket];
                gate.fresh_until = gate.fresh_until.max(until);
            }
            Action::Lost {
                bucket,
                through,
                is_certain,
            } => {
                let is_certain = is_certain || self.bug == Some(Bug::LapseIsCalledLoss);
                let was_any = self.checker.leases_lost() > 0 || self.plan.failovers > 0;
                let node = &mut self.nodes[at];
                let gate = &mut node.gates[bucket];
                gate.lost_through = gate.lost_through.max(through);
                if is_certain && !was_any {
                    let text = "a node says that it has lost leases, and nobody took any";
                    self.break_off(Promise::LostWorkers, None, text);
                }
            }
            Action::Refused { lost, .. } => {
                if self.plan.expect().exact {
                    let text = format!("{lost} settles were refused, and there was no fault");
                    self.break_off(Promise::LostWorkers, None, text);
                }
            }
            Action::StoreFailed { bucket, kind } => {
                let bucket = node.places[bucket];
                if kind != ErrorKind::Closed || !node.doubted.contains(&bucket) {
                    let text = format!("a node gave up a bucket: {kind:?}");
                    self.break_off(Promise::Doubt, None, text);
                }
            }
            Action::Stopped => {
                let id = node.id().unwrap_or_default();
                let left: usize = node.pools.iter().map(Pool::len).sum();
                if left > 0 {
                    let text = format!("{left} events are still in the ring after a stop");
                    self.break_off(Promise::Stopping, None, text);
                }
                // What it could not hand back to a store that has failed it leaves as the dead do.
                let what = if self.nodes[at].doubted.is_empty() {
                    EntryKind::Stopped { node: id }
                } else {
                    EntryKind::Died { node: id }
                };
                self.note(None, what);
                self.leave_roll(id);
                self.node_stopped(at);
            }
        }
    }
}
