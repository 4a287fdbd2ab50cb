//! What lies between nodes, clients and the store: delays, losses, repeats and cuts.

use duly::ErrorKind;
use duly::core::op::{Answer, StoreOp};
use duly::core::step::CallId;
use duly::history::{Promise, What};

use crate::store::Body;
use crate::world::{Happening, World};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Node {
        node: usize,
        life: u32,
        call: CallId,
    },
    Client(usize),
    /// Nobody waits for the answer.
    Nobody,
}

/// A question to the store.
#[derive(Clone, Debug)]
pub struct Request {
    pub from: Caller,
    pub bucket: usize,
    pub op: StoreOp,
}

/// What does not come through between a node and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Nothing,
    All,
    Requests,
    Answers,
    /// Heartbeats go over a connection of their own.
    Heartbeats,
    /// Everything else does not.
    AllButHeartbeats,
    /// Roll calls.
    Roll,
    /// Everything else.
    AllButRoll,
}

#[derive(Debug)]
pub struct Network {
    /// For each node.
    pub cuts: Vec<Cut>,
}

impl Network {
    pub fn new(nodes: usize) -> Self {
        Self {
            cuts: vec![Cut::Nothing; nodes],
        }
    }

    fn carries(&self, request: &Request) -> bool {
        let Caller::Node { node, .. } = request.from else {
            return true;
        };
        let beats = matches!(request.op, StoreOp::Heartbeat { .. });
        match self.cuts[node] {
            Cut::Nothing | Cut::Answers | Cut::Roll => true,
            Cut::All | Cut::Requests | Cut::AllButRoll => false,
            Cut::Heartbeats => !beats,
            Cut::AllButHeartbeats => beats,
        }
    }
}

impl World {
    /// Sends an operation to the store.
    pub fn send(&mut self, from: Caller, bucket: usize, op: StoreOp) {
        self.calls += 1;
        if self.calls > 400_000 {
            self.break_off(Promise::Full, None, "the store is asked without end");
        }
        if from != Caller::Nobody {
            self.after(self.plan.patience_us, Happening::GivenUp(from));
        }
        let request = Request { from, bucket, op };
        if !self.network.carries(&request) || self.happens(self.plan.lose) {
            return;
        }
        if self.happens(self.plan.duplicate) {
            let delay = self.delay_us();
            let again = Request {
                from: Caller::Nobody,
                ..request.clone()
            };
            self.after(delay, Happening::Arrives(again));
        }
        let delay = self.delay_us();
        self.after(delay, Happening::Arrives(request));
    }

    /// The store takes in a request.
    pub fn arrives(&mut self, request: Request) {
        if self.store.is_down {
            if self.store.refuses {
                self.answer(request.from, Err(ErrorKind::Unavailable));
            }
            return;
        }
        let Request { from, bucket, op } = request;
        let answer = self.apply(from, bucket, op);
        self.answer(from, answer);
    }

    /// Applies an operation and writes down what happened.
    pub fn apply_plainly(&mut self, bucket: usize, op: StoreOp) -> Result<Answer<Body>, ErrorKind> {
        let before = self.store.buckets[bucket].head();
        let (answer, happened) = self.store.apply(self.now_us, bucket, op);
        let store_us = self.store.buckets[bucket].now_us();
        for (id, what) in happened {
            if let What::Added { payload, .. } = what {
                self.added(id, payload);
            }
            self.note_at(store_us, Some(id), what);
        }
        if let Err(broken) = self.checker.operation_ends() {
            self.broke(broken);
        }
        if self.steps.is_multiple_of(self.plan.check_every)
            && let Err(text) = self.store.buckets[bucket].check()
        {
            self.break_off(Promise::Accepted, None, format!("store: {text}"));
        }
        if !self.store.buckets[bucket].is_empty() {
            self.bucket_used(bucket);
        }
        if self.store.buckets[bucket].head().is_earlier_than(before) {
            self.wake_all(bucket);
        }
        answer
    }

    fn wake_all(&mut self, bucket: usize) {
        for node in 0..self.nodes.len() {
            if self.network.cuts[node] == Cut::Nothing && !self.happens(self.plan.wakes_lost) {
                let (life, delay) = (self.nodes[node].life, self.delay_us());
                self.after(delay, Happening::Woken { node, life, bucket });
            }
        }
    }

    fn answer(&mut self, to: Caller, answer: Result<Answer<Body>, ErrorKind>) {
        let is_cut = match to {
            Caller::Nobody => return,
            Caller::Client(_) => false,
            Caller::Node { node, .. } => {
                matches!(self.network.cuts[node], Cut::All | Cut::Answers)
            }
        };
        if is_cut || self.happens(self.plan.lose) {
            return;
        }
        let delay = self.delay_us();
        self.after(delay, Happening::Answered(to, answer));
    }

    /// How long the next message takes.
    pub fn delay_us(&mut self) -> u64 {
        let (least, most) = self.plan.latency_us;
        let usual = self.rng.within(least..most);
        if self.happens(self.plan.slow) {
            usual + self.rng.within(0..self.plan.slow_us)
        } else {
            usual
        }
    }

    /// Whether a fault of this chance strikes now.
    pub fn happens(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && !self.is_healed && self.rng.chance(per_mille)
    }
}
