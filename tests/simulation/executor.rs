//! The executor of a simulated node: publishing, starting, ending and handing back.

use std::collections::VecDeque;

use duly::__internal::{Input, Job};
use duly::store::operation::{AttemptOutcome, Settlement};
use duly_conformance::history::{EntryKind, Lease, Promise};

use crate::bugs::Bug;
use crate::pool::{self, Running};
use crate::store::{Body, ending_of};
use crate::world::{Happening, World};

impl World {
    pub fn publish(
        &mut self,
        at: usize,
        queue: usize,
        jobs: Vec<Job<Body>>,
        inputs: &mut VecDeque<Input<Body>>,
    ) {
        let jobs = self.overflow(jobs, at, queue);
        let pool = &mut self.nodes[at].pools[queue];
        pool.ring.extend(jobs);
        if pool.len() > pool.credits {
            self.break_off(
                Promise::Full,
                None,
                "more was published than there are credits",
            );
        }
        self.pump(at, queue, inputs);
    }

    /// Free workers take what the gate lets through; the rest is handed back.
    pub fn pump(&mut self, at: usize, queue: usize, inputs: &mut VecDeque<Input<Body>>) {
        while self.has_worker(at, queue)
            && let Some(job) = self.nodes[at].pools[queue].next()
        {
            let node = &self.nodes[at];
            let is_open = node.gates[job.bucket].lets_through(node.mono(self.now_us), &job);
            let may_start = !node.is_stopping || self.bug == Some(Bug::StartsWhileStopping);
            if (is_open || self.bug == Some(Bug::GateIgnored)) && may_start {
                self.start_handler(at, queue, job);
            } else {
                inputs.push_back(self.hand_back(&job));
            }
        }
    }

    /// What waits in a ring is handed back.
    pub fn withdraw(&mut self, at: usize, queue: usize, inputs: &mut VecDeque<Input<Body>>) {
        for job in std::mem::take(&mut self.nodes[at].pools[queue].ring) {
            inputs.push_back(self.hand_back(&job));
        }
    }

    /// A delivery whose handler never starts.
    pub fn hand_back(&mut self, job: &Job<Body>) -> Input<Body> {
        Input::Ended {
            bucket: job.bucket,
            settlement: job.release(),
        }
    }

    fn start_handler(&mut self, at: usize, queue: usize, job: Job<Body>) {
        let bucket = self.nodes[at].places[job.bucket];
        self.started_at_rate(queue);
        let lease = Lease {
            node: self.nodes[at].id().unwrap_or_default(),
            request: job.delivery.request,
        };
        let what = EntryKind::Started {
            lease,
            attempt: job.delivery.attempt,
            due: job.delivery.due,
            payload: crate::store::value_of(&job.delivery.body.payload),
        };
        let known_us = self.checker.known_at_us(job.delivery.id);
        let paced_us = self.store.paced_us(self.now_us, bucket, known_us);
        self.note_at(paced_us, Some(job.delivery.id), what);
        let handlers = self.plan.handler_of(queue);
        let (mut takes, verdict) = pool::handle(&mut self.rng, handlers, self.is_healed);
        if takes >= handlers.timeout_us && self.bug == Some(Bug::NeverTimedOut) {
            takes = 86_400_000_000;
        }
        let node = &mut self.nodes[at];
        node.handlers += 1;
        let (number, life) = (node.handlers, node.life);
        let settlement = Settlement {
            id: job.delivery.id,
            request: job.delivery.request,
            verdict,
            started_us: self.store.time_us(self.now_us, Some(bucket)),
            fetched_us: job.fetched_us,
        };
        let running = Running {
            number,
            job,
            settlement,
        };
        node.pools[queue].running.push(running);
        let ends = Happening::HandlerEnds {
            node: at,
            life,
            queue,
            number,
        };
        self.after(takes, ends);
    }

    pub fn handler_ends(&mut self, at: usize, queue: usize, number: u64) {
        let Some(running) = self.nodes[at].pools[queue].take_running(number) else {
            return; // it was interrupted
        };
        let failed = matches!(running.settlement.verdict, AttemptOutcome::Retry(..));
        if failed && self.bug == Some(Bug::FailureSwallowed) {
            return;
        }
        let mut inputs = VecDeque::new();
        // A worker takes its next event before the machines hear of the end of the last one.
        for queue in self.pumped_with(queue) {
            self.pump(at, queue, &mut inputs);
        }
        inputs.push_front(self.ended(at, running));
        while let Some(input) = inputs.pop_front() {
            self.drive(at, Some(input));
        }
    }

    /// Writes down how a handler ended, and what is to be settled.
    fn ended(&mut self, at: usize, running: Running) -> Input<Body> {
        let Running {
            job, settlement, ..
        } = running;
        let what = EntryKind::Ended {
            lease: Lease {
                node: self.nodes[at].id().unwrap_or_default(),
                request: settlement.request,
            },
            ending: ending_of(&settlement.verdict),
            delay_us: pool::delay_of(&settlement.verdict),
        };
        self.note(Some(settlement.id), what);
        Input::Ended {
            bucket: job.bucket,
            settlement,
        }
    }

    /// A node is told to stop: it hands back its ring, and running handlers get a moment.
    pub fn stop_node(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let Some(id) = node.id().filter(|_| !node.is_stopping) else {
            return;
        };
        node.is_stopping = true;
        let life = node.life;
        self.note(None, EntryKind::Stopping { node: id });
        self.drive(at, Some(Input::Stop));
        for queue in 0..self.plan.queues {
            while let Some(job) = self.nodes[at]
                .pools
                .get_mut(queue)
                .and_then(|pool| pool.ring.pop_front())
            {
                if self.bug != Some(Bug::StopForgetsRing) {
                    let input = self.hand_back(&job);
                    self.drive(at, Some(input));
                }
            }
        }
        let grace = self.rng.pick(&[0, 50_000, 1_000_000]);
        self.after(grace, Happening::GraceOver { node: at, life });
    }

    pub fn interrupt(&mut self, at: usize) {
        let free = at as u8 % 3; // each node as its options say
        for queue in 0..self.plan.queues {
            while let Some(mut running) = self.nodes[at]
                .pools
                .get_mut(queue)
                .and_then(|pool| pool.running.pop())
            {
                running.settlement.verdict = AttemptOutcome::Interrupt { free };
                let input = self.ended(at, running);
                self.drive(at, Some(input));
            }
        }
    }
}
