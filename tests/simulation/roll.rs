//! The roll and the orders of a simulated store, and how they reach the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use duly::QueueName;
use duly::core::roll::Member;
use duly::core::step::Input;
use duly::history::Promise;
use duly::record::NodeId;

use crate::bugs::Bug;
use crate::network::Cut;
use crate::world::{Happening, World};

/// A member that has not called for so long is taken off the roll.
const FORGOTTEN_US: u64 = 60_000_000;

/// What the store knows of its nodes, and what was set.
#[derive(Debug, Default)]
pub struct Roll {
    /// Each member's number, and when it called last.
    members: BTreeMap<NodeId, (u64, u64)>,
    pub orders: Orders,
}

/// What was set, and which buckets were ever used, by their places in the world.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    pub version: u64,
    pub paused: BTreeMap<usize, bool>,
    pub rates: BTreeMap<usize, f64>,
    pub used: Vec<usize>,
}

/// What comes back from a roll call.
#[derive(Clone, Debug)]
pub struct Called {
    pub members: Vec<Member>,
    pub orders: Orders,
}

impl Roll {
    fn call(&mut self, me: NodeId, now_us: u64) {
        self.members
            .retain(|_, (_, last_us)| now_us - *last_us < FORGOTTEN_US);
        let (beat, last_us) = self.members.entry(me).or_default();
        (*beat, *last_us) = (*beat + 1, now_us);
    }
}

impl Orders {
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        self.version += 1;
    }
}

impl World {
    fn called(&mut self) -> Called {
        let queues: Arc<[QueueName]> = self.queue_names().into();
        let forges = matches!(
            self.bug,
            Some(Bug::SuspicionForgotten | Bug::OwnerAloneReads)
        );
        let now_us = self.now_us;
        let members = self.store.roll.members.iter();
        let members = members.map(|(node, (beat, _))| Member {
            node: *node,
            beat: if forges { now_us } else { *beat },
            queues: Arc::clone(&queues),
        });
        Called {
            members: members.collect(),
            orders: self.store.roll.orders.clone(),
        }
    }

    /// The first call of a process, without which it does not begin.
    pub fn first_call(&mut self, at: usize) -> Called {
        let me = self.nodes[at].id().unwrap_or_default();
        self.store.roll.call(me, self.now_us);
        self.called()
    }

    /// A node calls the roll.
    pub fn call_roll(&mut self, at: usize) {
        let (node, life) = (at, self.nodes[at].life);
        self.after(
            self.plan.patience_us,
            Happening::RollGivenUp {
                node,
                life,
                number: self.nodes[at].rolls,
            },
        );
        let comes_through = matches!(
            self.network.cuts[at],
            Cut::Nothing | Cut::Heartbeats | Cut::Answers | Cut::AllButRoll
        );
        if comes_through && !self.happens(self.plan.lose) {
            let delay = self.delay_us();
            let number = self.nodes[at].rolls;
            self.after(delay, Happening::RollArrives { node, life, number });
        }
    }

    /// The store takes in a roll call; the process that sent it may be gone by now.
    pub fn roll_arrives(&mut self, node: usize, life: u32, number: u64) {
        let Some(me) = self.nodes[node]
            .id()
            .filter(|_| self.nodes[node].life == life)
        else {
            return; // whether a dead one is heard once more makes no difference
        };
        if self.store.is_down {
            return;
        }
        self.store.roll.call(me, self.now_us);
        let called = self.called();
        if self.network.cuts[node] == Cut::Answers || self.happens(self.plan.lose) {
            return;
        }
        let delay = self.delay_us();
        let answered = Happening::RollAnswered {
            node,
            life,
            number,
            called,
        };
        self.after(delay, answered);
    }

    /// What an answered roll call says to a node: one that comes after it was given up says nothing.
    pub fn roll_answered(&mut self, at: usize, number: u64, called: Option<Called>) {
        let node = &mut self.nodes[at];
        if node.rolls != number {
            return;
        }
        node.rolls += 1;
        match called {
            Some(called) => {
                let members = called.members;
                self.drive(at, Some(Input::Rolled { members }));
                self.follow(at, &called.orders);
            }
            None => self.drive(at, Some(Input::NotRolled)),
        }
    }

    /// A node does as the orders say, if they are others than before.
    pub fn follow(&mut self, at: usize, orders: &Orders) {
        if self.nodes[at].version == Some(orders.version) {
            return;
        }
        self.nodes[at].version = Some(orders.version);
        for queue in 0..self.plan.queues {
            let rate = orders.rates.get(&queue).copied();
            if self.bug != Some(Bug::RateIgnored) {
                self.drive(at, Some(Input::Rated { queue, rate }));
            }
            let paused = orders.paused.get(&queue).copied().unwrap_or_default();
            self.nodes[at].told[queue] = (paused, rate.is_some());
            let capacity = self.nodes[at].chosen[queue];
            self.resize(at, queue, capacity);
        }
        for bucket in &orders.used {
            self.serve(at, *bucket);
        }
    }

    /// A node hears of a bucket, and serves it.
    pub fn serve(&mut self, at: usize, bucket: usize) {
        let is_known = self.nodes[at].places.contains(&bucket);
        if is_known || self.bug == Some(Bug::NewBucketIgnored) {
            return;
        }
        let (queue, bucket) = self.keys[bucket].clone();
        self.drive(at, Some(Input::Serve { queue, bucket }));
    }

    /// An event was put into a bucket.
    pub fn bucket_used(&mut self, bucket: usize) {
        let orders = &mut self.store.roll.orders;
        if !orders.used.contains(&bucket) {
            orders.change(|orders| orders.used.push(bucket));
        }
    }

    /// An operator sets something for every node.
    pub fn set_paused(&mut self, queue: usize, paused: bool) {
        let orders = &mut self.store.roll.orders;
        orders.change(|orders| {
            orders.paused.insert(queue, paused);
        });
    }

    pub fn set_rate(&mut self, queue: usize, rate: Option<f64>) {
        self.store.roll.orders.change(|orders| {
            orders.rates.remove(&queue);
            orders.rates.extend(rate.map(|rate| (queue, rate)));
        });
    }

    /// A node says that it has stopped.
    pub fn leave_roll(&mut self, id: NodeId) {
        if !self.happens(self.plan.lose) && !self.store.is_down {
            self.store.roll.members.remove(&id);
        }
    }

    /// A handler of a queue starts: where the rate is the same all the time, no second has more.
    pub fn started_at_rate(&mut self, queue: usize) {
        let Some(rate) = self.plan.rate else {
            return;
        };
        if self.now_us < 500_000 {
            return; // the first nodes do not know of the others yet
        }
        let starts = &mut self.starts[queue];
        starts.push_back(self.now_us);
        while starts
            .front()
            .is_some_and(|at| at + 1_000_000 <= self.now_us)
        {
            starts.pop_front();
        }
        // A start each 10 ms more than its share, or one, is what a node may be ahead.
        let nodes = self.plan.nodes as f64;
        let most = rate * 1.01 + nodes * (rate / nodes * 0.01 + 1.0);
        if starts.len() as f64 > most + 1.0 {
            let text = format!("rate: {} starts in a second of {rate}", starts.len());
            self.break_off(Promise::Apart, None, text);
        }
    }

    fn queue_names(&self) -> Vec<QueueName> {
        let mut names: Vec<_> = self.keys.iter().map(|(_, key)| key.queue.clone()).collect();
        names.dedup();
        names
    }
}
