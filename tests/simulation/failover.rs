//! Failovers that lose the last writes: the store is as it was some time ago, and whoever was
//! answered meanwhile goes on.

use std::collections::{BTreeMap, VecDeque};

use duly::__internal::Bucket;
use duly::EventId;
use duly::event::State;
use duly::records::NodeId;
use duly::store::operation::{BATCH_MAX, PeekBy, PeekPage, Reply, StoreOp};
use duly_conformance::history::Promise;

use crate::store::Body;
use crate::world::World;

/// How far apart the states are that are remembered, and for how long they are.
const EVERY_US: u64 = 10_000;
const FOR_US: u64 = 2_500_000;

/// For how long a lease may stand that its node does not know of, in a store that can be reached:
/// a look at the bucket, and what a handler takes that runs on a lease which the store has lost.
const ORPHAN_US_MAX: u64 = 10_000_000;

/// What the store was like.
#[derive(Debug, Default)]
pub struct Past {
    states: VecDeque<(u64, Vec<Bucket<Body>>)>,
    /// Leases that their nodes do not know of, and since when.
    orphans: BTreeMap<(EventId, NodeId), u64>,
}

impl World {
    /// Remembers what the store is like, where it may have to go back there.
    pub fn remember_store(&mut self) {
        let states = &mut self.past.states;
        let last_us = states.back().map_or(0, |(at_us, _)| *at_us);
        if self.plan.failovers == 0 || (self.now_us < last_us + EVERY_US && !states.is_empty()) {
            return;
        }
        states.push_back((self.now_us, self.store.buckets.clone()));
        while states
            .front()
            .is_some_and(|(at_us, _)| at_us + FOR_US < self.now_us)
        {
            states.pop_front();
        }
    }

    /// Another server takes over, which lacks what was written last.
    pub fn fail_over(&mut self, back_us: u64) {
        let states = &mut self.past.states;
        let until_us = self.now_us.saturating_sub(back_us);
        while states.back().is_some_and(|(at_us, _)| *at_us > until_us) && states.len() > 1 {
            states.pop_back();
        }
        if let Some((_, buckets)) = states.back() {
            self.store.buckets.clone_from(buckets);
        }
    }

    /// Whether nothing is left to do in the store.
    pub fn is_at_rest(&self) -> bool {
        if self.plan.failovers == 0 {
            return self.checker.is_at_rest();
        }
        let left = |bucket: &Bucket<Body>| {
            let stats = bucket.stats();
            stats.scheduled + stats.ready + stats.leased
        };
        self.store.buckets.iter().all(|bucket| left(bucket) == 0)
    }

    /// A lease whose node lives and does not know of it must not stand for long.
    pub fn look_for_orphans(&mut self) {
        if self.plan.failovers == 0 {
            return;
        }
        let orphans = self.orphans();
        let known = std::mem::take(&mut self.past.orphans);
        for orphan in orphans {
            let since = known.get(&orphan).copied();
            let since = since.filter(|_| !self.store.is_down).unwrap_or(self.now_us);
            if self.now_us > since + ORPHAN_US_MAX {
                let text = "a lease stands for long that its node does not know of";
                self.break_off(Promise::LostWorkers, Some(orphan.0), text);
            }
            self.past.orphans.insert(orphan, since);
        }
    }

    fn orphans(&mut self) -> Vec<(EventId, NodeId)> {
        let clock_us = self.store.clock_us(self.now_us);
        let mut orphans = Vec::new();
        for at in 0..self.store.buckets.len() {
            let (by, from, limit) = (PeekBy::All, None, BATCH_MAX);
            let peek = StoreOp::Peek { by, from, limit };
            let Ok(answer) = self.store.look(clock_us, at, peek) else {
                continue;
            };
            let Reply::Peeked(PeekPage { events, .. }) = answer.reply else {
                continue;
            };
            for event in events {
                let Some(holder) = event.holder.filter(|_| event.state == State::Leased) else {
                    continue;
                };
                let node = self.nodes.iter().find(|node| node.id() == Some(holder));
                let Some(node) = node.filter(|node| node.paused_until_us <= self.now_us) else {
                    continue;
                };
                let place = node.places.iter().position(|of| *of == at);
                let core = node.core.as_ref();
                let is_held = core
                    .zip(place)
                    .is_some_and(|(core, place)| core.holds(place, event.id));
                if !is_held {
                    orphans.push((event.id, holder));
                }
            }
        }
        orphans
    }
}
