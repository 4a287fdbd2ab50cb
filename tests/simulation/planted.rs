//! The seams, and what a planted bug does at each.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::ErrorKind;
use duly::core::op::{Answer, Cancelled, NewEvent, Reply, StoreOp, Verdict};
use duly::core::options::NodeOptions;
use duly::core::step::Job;
use duly::event::{Envelope, State};
use duly::time::{Mono, When};

use crate::bugs::Bug;
use crate::network::Caller;
use crate::pool::Pool;
use crate::store::{Body, Notes};
use crate::world::{Happening, World};

impl World {
    /// The seam between a node and the network.
    pub fn send_from_node(&mut self, from: Caller, bucket: usize, mut op: StoreOp) {
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
            (StoreOp::Fetch(_), Some(Bug::FetchNotRepeated)) => self.planted.calls.push(from),
            (StoreOp::Settle { settlements, .. }, Some(bug)) => {
                for settlement in settlements.iter_mut() {
                    let verdict = std::mem::replace(&mut settlement.verdict, Verdict::Ack);
                    settlement.verdict = match (verdict, bug) {
                        (Verdict::Release, Bug::ReleaseCounts) => Verdict::Snooze(Duration::ZERO),
                        (Verdict::Retry(_, why), Bug::RetryLosesDelay) => {
                            Verdict::Retry(Duration::ZERO, why)
                        }
                        (verdict, _) => verdict,
                    };
                }
                if bug == Bug::SettleAnsweredEarly {
                    let reply = Reply::Settled(vec![true; settlements.len()]);
                    let now_us = self.store.buckets[bucket].now_us();
                    self.after(100, Happening::Answered(from, Ok(Answer { now_us, reply })));
                    return self.send(Caller::Nobody, bucket, op);
                }
            }
            _ => {}
        }
        self.send(from, bucket, op);
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

    /// The seam between the network and the store.
    pub fn apply(
        &mut self,
        from: Caller,
        bucket: usize,
        mut op: StoreOp,
    ) -> Result<Answer<Body>, ErrorKind> {
        match (&mut op, self.bug) {
            (StoreOp::MoveDue { .. } | StoreOp::Fetch(_), Some(Bug::DueByNodeClock)) => {
                self.skew_store(from, bucket);
            }
            (StoreOp::MoveDue { .. }, Some(Bug::SplitMove)) => self.take_out_due(bucket),
            (StoreOp::Settle { settlements, .. }, Some(Bug::SettleWithoutToken)) => {
                let id = settlements[0].id;
                if let Some(token) = self.checker.lease_of(id)
                    && settlements.len() == 1
                {
                    settlements[0].request = token.request;
                    let settlements = std::mem::take(settlements);
                    op = StoreOp::Settle {
                        node: token.node,
                        settlements,
                    };
                }
            }
            (StoreOp::Reap { silent, .. }, Some(Bug::OneLookReaper)) => {
                let look = StoreOp::Reap {
                    silent: Vec::new(),
                    limit: 1,
                };
                if let Ok(Answer {
                    reply: Reply::Reaped(reaped),
                    ..
                }) = self.apply_plainly(bucket, look)
                {
                    let me = self.node_of(from);
                    silent.extend(
                        reaped
                            .holders
                            .into_iter()
                            .filter(|(node, _)| Some(*node) != me),
                    );
                }
            }
            _ => {}
        }
        let mut answer = self.apply_plainly(bucket, op);
        if let Ok(answer) = &mut answer {
            match (&mut answer.reply, self.bug) {
                (Reply::Cancelled(truth), Some(Bug::CancelOfLeasedIsDone))
                    if *truth == Cancelled::TooLate(State::Leased) =>
                {
                    *truth = Cancelled::Cancelled;
                }
                (Reply::Cancelled(truth), Some(Bug::CancelHidesLostLease))
                    if *truth == Cancelled::CancelledAfterAttempt =>
                {
                    *truth = Cancelled::Cancelled;
                }
                _ => {}
            }
        }
        answer
    }

    fn node_of(&self, from: Caller) -> Option<duly::record::NodeId> {
        match from {
            Caller::Node { node, .. } => self.nodes[node].id(),
            _ => None,
        }
    }

    fn skew_store(&mut self, from: Caller, bucket: usize) {
        if let Caller::Node { node, .. } = from {
            let ahead_us = 40_000 * node as u64;
            let clock_us = self.store.clock_us(self.now_us) + ahead_us;
            let _ =
                self.store.buckets[bucket].apply(clock_us, StoreOp::Stats, &mut Notes::default());
        }
    }

    /// First step of a move in two: ids leave the delay set, and nobody has them.
    fn take_out_due(&mut self, bucket: usize) {
        let clock_us = self.store.clock_us(self.now_us);
        let peek = StoreOp::Peek {
            state: State::Scheduled,
            after: None,
            limit: 100,
        };
        let mut notes = Notes::default();
        let store = &mut self.store.buckets[bucket];
        let Ok(Answer {
            reply: Reply::Peeked(scheduled),
            ..
        }) = store.apply(clock_us, peek, &mut notes)
        else {
            return;
        };
        for snapshot in scheduled {
            if snapshot.due.as_micros() <= clock_us {
                let id = snapshot.id;
                let away = StoreOp::Reschedule {
                    id,
                    when: When::After(Duration::from_secs(86_400)),
                };
                let _ = self.store.buckets[bucket].apply(clock_us, away, &mut notes);
                let back = StoreOp::Reschedule {
                    id,
                    when: When::Now,
                };
                self.send(Caller::Nobody, bucket, back);
            }
        }
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
            options.other_delay = Duration::from_secs(86_400);
        }
        options
    }

    /// Until when a node trusts its leases.
    pub fn trusted_until(&self, at: usize, until: Mono) -> Mono {
        match self.bug {
            Some(Bug::FreshFromReceipt) => {
                self.nodes[at].mono(self.now_us) + self.plan.options.silence
            }
            _ => until,
        }
    }

    /// A call of a node was given up: whether it is told so.
    pub fn tells_unknown(&mut self, from: Caller) -> Result<Answer<Body>, ErrorKind> {
        if self.bug == Some(Bug::FetchNotRepeated) && self.planted.calls.contains(&from) {
            let reply = Reply::Fetched {
                deliveries: Vec::new(),
                ready: 0,
                next_due: None,
            };
            let now_us = self.store.buckets[0].now_us();
            return Ok(Answer { now_us, reply });
        }
        Err(ErrorKind::Unknown)
    }

    /// The store dies: what it has not written is gone.
    pub fn store_dies(&mut self) {
        if self.bug == Some(Bug::StoreForgets)
            && let Some(buckets) = self.planted.written.take()
        {
            self.store.buckets = buckets;
        }
    }

    /// The store writes, once a second.
    pub fn store_writes(&mut self) {
        if self.bug == Some(Bug::StoreForgets) {
            self.planted.written = Some(self.store.buckets.clone());
        }
    }
}

/// What planted bugs have to remember.
#[derive(Debug, Default)]
pub struct Planted {
    fetches: BTreeSet<(duly::record::NodeId, usize, u64)>,
    calls: Vec<Caller>,
    number: u64,
    written: Option<Vec<duly::core::reference::Bucket<Body>>>,
}
