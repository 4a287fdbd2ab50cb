//! What lies between nodes, clients and the store: delays, losses, repeats and cuts.

use duly::__internal::CallId;
use duly::ErrorKind;
use duly::store::operation::{MoveReport, Reply, Response, StoreOp};
use duly_conformance::history::{EntryKind, Promise};

use crate::bugs::Bug;
use crate::plan::Clog;
use crate::store::{Body, Health};
use crate::world::{Happening, World};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Node {
        node: usize,
        life: u32,
        call: CallId,
        /// The bucket that it asks about, by its place in the world.
        bucket: usize,
    },
    Client(usize),
    Manual {
        at: usize,
        call: u64,
    },
    /// Nobody waits for the answer.
    Nobody,
}

/// A question to the store.
#[derive(Clone, Debug)]
pub struct Request {
    pub from: Caller,
    pub bucket: usize,
    pub op: StoreOp,
    pub sent_us: u64,
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
    /// Membership calls.
    Membership,
    /// Everything else.
    AllButRoll,
    /// All comes through, and every operation on a bucket is answered with such an error.
    Refused(ErrorKind),
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

    /// How what this caller asks is refused.
    fn refuses(&self, from: Caller) -> Option<ErrorKind> {
        match from {
            Caller::Node { node, .. } => match self.cuts[node] {
                Cut::Refused(kind) => Some(kind),
                _ => None,
            },
            _ => None,
        }
    }

    fn carries(&self, request: &Request) -> bool {
        let Caller::Node { node, .. } = request.from else {
            return true;
        };
        let beats = matches!(
            request.op,
            StoreOp::Heartbeat { .. } | StoreOp::Reconcile { .. }
        );
        match self.cuts[node] {
            Cut::Nothing | Cut::Answers | Cut::Membership | Cut::Refused(_) => true,
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
        self.node_calls += u64::from(matches!(from, Caller::Node { .. }));
        if self.calls > 400_000 {
            self.break_off(Promise::Full, None, "the store is asked without end");
        }
        let request = Request {
            from,
            bucket,
            op,
            sent_us: self.now_us,
        };
        if !self.network.carries(&request) || self.happens(self.plan.lose) {
            return self.never_answered(from, self.now_us);
        }
        if self.happens(self.plan.duplicate) {
            let delay = self.delay_us();
            let again = Request {
                from: Caller::Nobody,
                ..request.clone()
            };
            self.after(delay, Happening::Arrives(again));
            self.is_copied(from);
        }
        let delay = self.delay_us() + self.clogged_us(bucket) + self.in_line_us(&request);
        if delay >= self.plan.patience_us {
            self.never_answered(from, self.now_us);
        }
        self.after(delay, Happening::Arrives(request));
    }

    /// Whoever asked then waits as long as his patience lasts. What is answered in time needs no
    /// such end, and most is.
    fn never_answered(&mut self, from: Caller, sent_us: u64) {
        if from != Caller::Nobody {
            let delay = (sent_us + self.plan.patience_us).saturating_sub(self.now_us);
            self.after(delay, Happening::GivenUp(from));
        }
    }

    /// How much longer it takes the store to do something in a bucket of a clogged queue.
    fn clogged_us(&mut self, bucket: usize) -> u64 {
        let is_slow = self.plan.clog == Clog::Slow && self.keys[bucket].0 == 0 && !self.is_healed;
        if is_slow {
            self.rng.within(0..3_000_000)
        } else {
            0
        }
    }

    /// The store takes in a request.
    pub fn arrives(&mut self, request: Request) {
        let Request {
            from,
            bucket,
            op,
            sent_us,
        } = request;
        if self.store.is_down && !self.store.refuses {
            return self.response(from, sent_us, None);
        }
        let is_push = matches!(op, StoreOp::Push(_));
        let response = if self.store.is_down || self.is_refused(bucket) {
            Err(ErrorKind::Unavailable)
        } else if let Some(kind) = self.network.refuses(from) {
            self.is_refused_for_ever(from, bucket);
            Err(kind)
        } else if self.store.health != Health::Well {
            self.in_doubt(from, bucket, op)
        } else if self.store.is_full && is_push {
            self.full(from, bucket, op)
        } else if self.store.is_full && self.bug == Some(Bug::FullStopsAll) {
            Err(ErrorKind::Full)
        } else {
            self.apply(from, bucket, op)
        };
        let is_failed = self.store.health == Health::Failed;
        if is_failed && response.is_ok() {
            let text = "a store that has stopped itself acknowledges something";
            self.break_off(Promise::Doubt, None, text);
        }
        self.response(from, sent_us, Some(response));
    }

    /// Whether the bucket is one of a clogged queue, and the store does not want it.
    fn is_refused(&mut self, bucket: usize) -> bool {
        let refuses = self.plan.clog == Clog::Refusals && self.keys[bucket].0 == 0;
        refuses && self.happens(700)
    }

    /// The store has failed: what it was doing may or may not have happened, and nothing that comes
    /// later does.
    fn in_doubt(
        &mut self,
        from: Caller,
        bucket: usize,
        op: StoreOp,
    ) -> Result<Response<Body>, ErrorKind> {
        if self.store.health == Health::FailureReason {
            self.store.health = Health::Failed;
            if self.rng.chance(500) {
                let _ = self.apply(from, bucket, op);
            }
            return Err(ErrorKind::Unknown);
        }
        self.failed(from, bucket, op)
    }

    /// Applies an operation and writes down what happened.
    pub fn apply_plainly(
        &mut self,
        bucket: usize,
        op: StoreOp,
    ) -> Result<Response<Body>, ErrorKind> {
        self.remember_store();
        let calls = matches!(op, StoreOp::MoveDue { calls: true, .. });
        let before = self.store.buckets[bucket].head();
        let response = self.apply_and_note(bucket, op);
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
        let moved = response.as_ref().map(|response| &response.reply);
        if calls && matches!(moved, Ok(Reply::Moved(MoveReport { ready: 1.., .. }))) {
            self.call_all(bucket);
        }
        response
    }

    /// Applies an operation to a bucket and notes what happened, and nothing else.
    pub fn apply_and_note(
        &mut self,
        bucket: usize,
        op: StoreOp,
    ) -> Result<Response<Body>, ErrorKind> {
        let (response, happened) = self.store.apply(self.now_us, bucket, op);
        let store_us = self.store.buckets[bucket].now_us();
        for (id, what) in self.written(happened) {
            if let EntryKind::Added { payload, .. } = what {
                self.added(id, payload);
            }
            self.note_at(store_us, Some(id), what);
        }
        if let Err(broken) = self.checker.operation_ends() {
            self.broke(broken);
        }
        response
    }

    pub fn wake_all(&mut self, bucket: usize) {
        self.tell_all(|node, life| Happening::Woken { node, life, bucket });
    }

    /// A node has no room for what is ready in a bucket.
    fn call_all(&mut self, bucket: usize) {
        if self.bug != Some(Bug::CallsUnheard) {
            self.tell_all(|node, life| Happening::Called { node, life, bucket });
        }
    }

    fn tell_all(&mut self, what: impl Fn(usize, u32) -> Happening) {
        for node in 0..self.nodes.len() {
            if self.network.cuts[node] == Cut::Nothing && !self.happens(self.plan.wakes_lost) {
                let (life, delay) = (self.nodes[node].life, self.delay_us());
                self.after(delay, what(node, life));
            }
        }
    }

    /// Answers, if there is an answer, whoever asked at `sent_us`.
    fn response(
        &mut self,
        to: Caller,
        sent_us: u64,
        response: Option<Result<Response<Body>, ErrorKind>>,
    ) {
        let is_cut = match to {
            Caller::Nobody => return,
            Caller::Client(_) | Caller::Manual { .. } => false,
            Caller::Node { node, .. } => {
                matches!(self.network.cuts[node], Cut::All | Cut::Answers)
            }
        };
        let end_us = sent_us + self.plan.patience_us;
        let is_awaited = self.now_us < end_us; // otherwise it was given up already
        let Some(response) = response.filter(|_| !is_cut && !self.happens(self.plan.lose)) else {
            if is_awaited {
                self.never_answered(to, sent_us);
            }
            return;
        };
        let delay = self.delay_us();
        if is_awaited && self.now_us + delay > end_us {
            self.never_answered(to, sent_us);
        }
        if self.happens(self.plan.duplicate) {
            let delay = self.delay_us();
            self.after(delay, Happening::Answered(to, response.clone()));
            self.is_copied(to);
        }
        self.after(delay, Happening::Answered(to, response));
    }

    /// Two of a message are on their way.
    fn is_copied(&mut self, caller: Caller) {
        if let Caller::Client(at) = caller {
            self.clients.is_copied(at);
        }
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
