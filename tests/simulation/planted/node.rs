//! The seams around a node and its handlers.

use std::ops::Range;
use std::time::Duration;

use duly::__internal::Job;
use duly::ErrorKind;
use duly::config::NodeOptions;
use duly::event::Envelope;
use duly::store::operation::{
    AttemptOutcome, FetchReport, NewEvent, Reply, Response, StartMark, StoreOp,
};
use duly::time::Mono;

use crate::bugs::Bug;
use crate::network::{Caller, Request};
use crate::pool::Pool;
use crate::store::Body;
use crate::world::{Happening, World};

impl World {
    /// The seam between a node and the network.
    pub fn send_from_node(&mut self, from: Caller, bucket: usize, mut op: StoreOp) {
        if let Caller::Node { node, life, .. } = from
            && self.planted.refused.contains(&(node, life, bucket))
        {
            return self.after(self.plan.patience_us, Happening::GivenUp(from));
        }
        match (&mut op, self.bug) {
            (StoreOp::Heartbeat { .. }, Some(Bug::NoHeartbeat)) => {
                return self.after(self.plan.patience_us, Happening::GivenUp(from));
            }
            (StoreOp::Fetch(fetch), Some(Bug::FetchRenumbered)) => {
                let seen = self
                    .planted
                    .fetches
                    .insert((fetch.node, bucket, fetch.request));
                if !seen {
                    self.planted.number += 1;
                    fetch.request += self.planted.number << 32;
                }
            }
            (StoreOp::Fetch(fetch), Some(Bug::FetchedStartsForgotten | Bug::StartsUnannounced)) => {
                fetch.starts = 0;
            }
            (
                StoreOp::Settle { started, .. }
                | StoreOp::Heartbeat { started, .. }
                | StoreOp::Reconcile { started, .. },
                Some(Bug::StartsUnannounced),
            ) => *started = StartMark::default(),
            (StoreOp::Fetch(_), Some(Bug::FetchNotRepeated)) => self.planted.calls.push(from),
            (StoreOp::Settle { settlements, .. }, Some(bug)) => {
                for settlement in settlements.iter_mut() {
                    let verdict = std::mem::replace(&mut settlement.verdict, AttemptOutcome::Ack);
                    settlement.verdict = match (verdict, bug) {
                        (AttemptOutcome::Release, Bug::ReleaseCounts) => {
                            AttemptOutcome::Snooze(Duration::ZERO)
                        }
                        (AttemptOutcome::Retry(_, why), Bug::RetryLosesDelay) => {
                            AttemptOutcome::Retry(Duration::ZERO, why)
                        }
                        (verdict, _) => verdict,
                    };
                }
                if bug == Bug::SettleAnsweredEarly {
                    let reply = Reply::Settled(vec![true; settlements.len()]);
                    let now_us = self.store.buckets[bucket].now_us();
                    self.after(
                        100,
                        Happening::Answered(from, Ok(Response { now_us, reply })),
                    );
                    return self.send(Caller::Nobody, bucket, op);
                }
            }
            _ => {}
        }
        self.send(from, bucket, op);
    }

    /// The seam between a refusal and the node that it is told.
    pub fn is_refused_for_ever(&mut self, from: Caller, bucket: usize) {
        if let (Caller::Node { node, life, .. }, Some(Bug::RefusalsAreForEver)) = (from, self.bug) {
            self.planted.refused.insert((node, life, bucket));
        }
    }

    /// The seam between a client and the network.
    pub fn send_from_client(&mut self, from: Caller, bucket: usize, mut op: StoreOp) {
        if let (StoreOp::Push(events), Some(Bug::AttemptTooMany)) = (&mut op, self.bug) {
            for NewEvent { envelope, .. } in events {
                let mut more = Envelope::clone(envelope);
                more.attempts += 1;
                *envelope = more.into();
            }
        }
        self.send(from, bucket, op);
    }

    /// The seam between a node's machines and its ring.
    pub fn overflow(
        &mut self,
        mut jobs: Vec<Job<Body>>,
        at: usize,
        queue: usize,
    ) -> Vec<Job<Body>> {
        let pool: &Pool = &self.nodes[at].pools[queue];
        match self.bug {
            Some(Bug::RingDrops) => jobs.truncate((pool.workers + 1).saturating_sub(pool.len())),
            Some(Bug::PublishedTwice) if pool.len() + jobs.len() * 2 <= pool.credits => {
                jobs.extend(jobs.clone());
            }
            _ => {}
        }
        jobs
    }

    /// What a node is set to.
    pub fn planted_options(&self) -> NodeOptions {
        let mut options = self.plan.options.clone();
        if self.bug == Some(Bug::NoDriftAllowance) {
            options.drift_ppm = 0;
        }
        if self.bug == Some(Bug::OwnerAloneReads) {
            options.non_owner_delay = Duration::from_secs(86_400);
        }
        options
    }

    /// Until when a node trusts its leases.
    pub fn trusted_until(&self, at: usize, until: Mono) -> Mono {
        match self.bug {
            Some(Bug::FreshFromReceipt) => {
                self.nodes[at].mono(self.now_us) + self.plan.options.lease_timeout
            }
            _ => until,
        }
    }

    /// A call of a node was given up: whether it is told so.
    pub fn tells_unknown(&mut self, from: Caller) -> Result<Response<Body>, ErrorKind> {
        if self.bug == Some(Bug::FetchNotRepeated) && self.planted.calls.contains(&from) {
            let reply = Reply::Fetched(FetchReport::default());
            let now_us = self.store.buckets[0].now_us();
            return Ok(Response { now_us, reply });
        }
        Err(ErrorKind::Unknown)
    }

    /// Whether a worker of the queue is free to start something.
    pub fn has_worker(&self, at: usize, queue: usize) -> bool {
        let pools = &self.nodes[at].pools;
        match self.bug {
            Some(Bug::OneRingBlocksAll) => {
                let is_free = |(of, pool): (usize, &Pool)| of == queue || pool.len() < pool.credits;
                pools.iter().enumerate().all(is_free)
            }
            Some(Bug::SharedWorkers) => {
                let running: usize = pools.iter().map(|pool| pool.running.len()).sum();
                let workers = pools.iter().map(|pool| pool.workers).min();
                workers.is_some_and(|workers| running < workers)
            }
            _ => true,
        }
    }

    /// Whose workers may be free when a handler of this queue has ended.
    pub fn pumped_with(&self, queue: usize) -> Range<usize> {
        match self.bug {
            Some(Bug::OneRingBlocksAll | Bug::SharedWorkers) => 0..self.plan.queues,
            _ => queue..queue + 1,
        }
    }

    /// How much longer a request takes because those before it take long.
    pub fn in_line_us(&mut self, request: &Request) -> u64 {
        let (Some(Bug::OneLine), Caller::Node { node, .. }) = (self.bug, request.from) else {
            return 0;
        };
        let lines = &mut self.planted.lines;
        lines.resize(self.nodes.len(), 0);
        let waits = lines[node].saturating_sub(self.now_us);
        let is_slow = self.plan.is_clogged(self.keys[request.bucket].0) && !self.is_healed;
        lines[node] = self.now_us + waits + if is_slow { 100_000 } else { 0 };
        waits
    }
}
