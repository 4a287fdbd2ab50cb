//! The roll and the orders of a simulated store, and how they reach the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use duly::__internal::Input;
use duly::QueueName;
use duly::records::NodeId;
use duly::store::Member;
use duly_conformance::history::Promise;

use crate::bugs::Bug;
use crate::network::Cut;
use crate::store::Health;
use crate::world::{Happening, World};

/// A member that has not called for so long is taken off the roll.
const FORGOTTEN_US: u64 = 60_000_000;

/// What the store knows of its nodes, and what was set.
#[derive(Debug, Default)]
pub struct Membership {
    members: BTreeMap<NodeId, Entry>,
    pub orders: Arc<Orders>,
    /// Counts changes; it never goes back, as versions are drawn by chance.
    changes: u64,
    /// What a replica has of the orders, which takes over without what came later.
    replica: Option<Arc<Orders>>,
    /// Buckets that were lost with the last writes, and that whoever pushed to them still knows.
    lost: Vec<usize>,
}

/// A member's number, when it called last, and which queues it consumes.
#[derive(Debug)]
struct Entry {
    beat: u64,
    last_us: u64,
    queues: Arc<[QueueName]>,
}

/// What was set, and which buckets were ever used, by their places in the world.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    pub version: u64,
    pub paused: BTreeMap<usize, bool>,
    pub rates: BTreeMap<usize, f64>,
    pub used: Vec<usize>,
}

/// A roll call on its way.
#[derive(Clone, Copy, Debug)]
pub struct RollCall {
    pub node: usize,
    pub life: u32,
    number: u64,
    /// When the node waits for it no longer.
    end_us: u64,
}

/// What comes back from a roll call.
#[derive(Clone, Debug)]
pub struct Called {
    pub members: Vec<Member>,
    pub orders: Arc<Orders>,
}

impl Membership {
    fn call(&mut self, me: NodeId, now_us: u64, queues: &Arc<[QueueName]>) {
        self.members
            .retain(|_, entry| now_us - entry.last_us < FORGOTTEN_US);
        let entry = self.members.entry(me).or_insert_with(|| Entry {
            beat: 0,
            last_us: now_us,
            queues: Arc::clone(queues),
        });
        (entry.beat, entry.last_us) = (entry.beat + 1, now_us);
    }

    fn change(&mut self, bug: Option<Bug>, change: impl FnOnce(&mut Orders)) {
        let orders = Arc::make_mut(&mut self.orders);
        change(orders);
        self.changes += 1;
        orders.version = match bug {
            Some(Bug::VersionsRepeat) => orders.version + 1,
            _ => self.changes,
        };
    }
}

impl World {
    fn called(&mut self) -> Called {
        let forges = matches!(
            self.bug,
            Some(Bug::SuspicionForgotten | Bug::OwnerAloneReads)
        );
        let now_us = self.now_us;
        let members = self.store.roll.members.iter();
        let all = (self.bug == Some(Bug::AllServeAll)).then(|| self.queues_of(0));
        let members = members.map(|(node, entry)| Member {
            node: *node,
            host: Arc::from("a"),
            beat: if forges { now_us } else { entry.beat },
            queues: Arc::clone(all.as_ref().unwrap_or(&entry.queues)),
        });
        Called {
            members: members.collect(),
            orders: Arc::clone(&self.store.roll.orders),
        }
    }

    /// The first call of a process, without which it does not begin.
    pub fn first_call(&mut self, at: usize) -> Called {
        let me = self.nodes[at].id().unwrap_or_default();
        let queues = self.queues_of(at);
        self.store.roll.call(me, self.now_us, &queues);
        self.called()
    }

    /// A node calls the roll.
    pub fn call_roll(&mut self, at: usize) {
        self.node_calls += 1;
        let roll = RollCall {
            node: at,
            life: self.nodes[at].life,
            number: self.nodes[at].rolls,
            end_us: self.now_us + self.plan.patience_us,
        };
        let comes_through = matches!(
            self.network.cuts[at],
            Cut::Nothing | Cut::Heartbeats | Cut::Answers | Cut::AllButRoll | Cut::Refused(_)
        );
        if comes_through && !self.happens(self.plan.lose) {
            let delay = self.delay_us();
            if self.now_us + delay >= roll.end_us {
                self.roll_is_lost(roll);
            }
            self.after(delay, Happening::RollArrives(roll));
        } else {
            self.roll_is_lost(roll);
        }
    }

    /// Nobody answers in time, and the node waits for as long as its patience lasts.
    fn roll_is_lost(&mut self, roll: RollCall) {
        let delay = roll.end_us.saturating_sub(self.now_us);
        self.after(delay, Happening::RollGivenUp(roll));
    }

    /// The store takes in a roll call; the process that sent it may be gone by now.
    pub fn roll_arrives(&mut self, roll: RollCall) {
        let node = &self.nodes[roll.node];
        let Some(me) = node.id().filter(|_| node.life == roll.life) else {
            return; // whether a dead one is heard once more makes no difference
        };
        let is_awaited = self.now_us < roll.end_us; // otherwise it was given up already
        let mut called = None;
        if !self.store.is_down && self.store.health == Health::Well {
            let queues = self.queues_of(roll.node);
            self.store.roll.call(me, self.now_us, &queues);
            let is_lost =
                self.network.cuts[roll.node] == Cut::Answers || self.happens(self.plan.lose);
            called = (!is_lost).then(|| self.called());
        }
        let Some(called) = called else {
            if is_awaited {
                self.roll_is_lost(roll);
            }
            return;
        };
        let delay = self.delay_us();
        if is_awaited && self.now_us + delay > roll.end_us {
            self.roll_is_lost(roll);
        }
        self.after(delay, Happening::RollAnswered(roll, called));
    }

    /// What an answered roll call says to a node: one that comes after it was given up says nothing.
    pub fn roll_answered(&mut self, roll: RollCall, called: Option<Called>) {
        let at = roll.node;
        let node = &mut self.nodes[at];
        if node.rolls != roll.number {
            return;
        }
        node.rolls += 1;
        match called {
            Some(called) => {
                let members = called.members;
                self.drive(at, Some(Input::MembersSeen { members }));
                self.follow(at, &called.orders);
            }
            None => self.drive(at, Some(Input::PollFailed)),
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
        let forgets = self.bug == Some(Bug::UsedBucketsForgotten);
        let (many, most) = (self.plan.buckets_at(self.now_us), self.plan.buckets_max());
        for bucket in &orders.used {
            if !forgets || bucket % most < many {
                self.serve(at, *bucket);
            }
        }
    }

    /// A node hears of a bucket, and serves it.
    pub fn serve(&mut self, at: usize, bucket: usize) {
        let is_known = self.nodes[at].places.contains(&bucket);
        if !self.plan.serves(at, self.keys[bucket].0) {
            return;
        }
        if is_known || self.bug == Some(Bug::NewBucketIgnored) {
            return;
        }
        let (queue, bucket) = self.keys[bucket].clone();
        self.drive(at, Some(Input::Serve { queue, bucket }));
    }

    /// An event was put into a bucket.
    pub fn bucket_used(&mut self, bucket: usize) {
        let roll = &mut self.store.roll;
        if !roll.orders.used.contains(&bucket) {
            roll.change(self.bug, |orders| orders.used.push(bucket));
        }
    }

    /// From now on a replica gets nothing more of the orders.
    pub fn roll_has_replica(&mut self) {
        let roll = &mut self.store.roll;
        roll.replica = Some(Arc::clone(&roll.orders));
    }

    /// It takes over.
    pub fn roll_tail_lost(&mut self) {
        let roll = &mut self.store.roll;
        if let Some(replica) = roll.replica.take() {
            let before = std::mem::replace(&mut roll.orders, replica);
            let used = before.used.iter().copied();
            let lost = used.filter(|bucket| !roll.orders.used.contains(bucket));
            roll.lost.extend(lost);
        }
    }

    /// Whoever knows a bucket that was lost has seen that, and registers it again.
    pub fn roll_tail_found(&mut self) {
        for bucket in std::mem::take(&mut self.store.roll.lost) {
            if self.bug != Some(Bug::VersionsRepeat) {
                self.bucket_used(bucket);
            }
        }
    }

    /// An operator sets something for every node.
    pub fn set_paused(&mut self, queue: usize, paused: bool) {
        let roll = &mut self.store.roll;
        if roll.orders.paused.get(&queue).copied().unwrap_or_default() != paused {
            roll.change(self.bug, |orders| {
                orders.paused.insert(queue, paused);
            });
        }
    }

    pub fn set_rate(&mut self, queue: usize, rate: Option<f64>) {
        let roll = &mut self.store.roll;
        if roll.orders.rates.get(&queue).copied() != rate {
            roll.change(self.bug, |orders| {
                orders.rates.remove(&queue);
                orders.rates.extend(rate.map(|rate| (queue, rate)));
            });
        }
    }

    /// A node says that it has stopped.
    pub fn leave_roll(&mut self, id: NodeId) {
        let is_heard = !self.store.is_down && self.store.health == Health::Well;
        if !self.happens(self.plan.lose) && is_heard {
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

    /// The queues that a node consumes.
    fn queues_of(&self, node: usize) -> Arc<[QueueName]> {
        let places = (0..self.plan.queues).filter(|queue| self.plan.serves(node, *queue));
        places.map(|queue| self.queues[queue].clone()).collect()
    }
}
