//! Publishing: moves due events from the prefetch buffers into the rings, and what has lost its
//! room back to the store.

use std::collections::BTreeSet;

use crate::core::node::Node;
use crate::core::queue_state::QueueState;
use crate::core::step::{Action, Job};
use crate::time::Mono;

impl QueueState {
    /// Publishes prefetched events; there must be room for them.
    pub(super) fn publish<B>(&mut self, queue: usize, jobs: Vec<Job<B>>, out: &mut Vec<Action<B>>) {
        if !jobs.is_empty() {
            self.outstanding += jobs.len();
            self.ahead -= jobs.len();
            out.push(Action::Publish { queue, jobs });
        }
    }
}

impl<B> Node<B> {
    /// Publishes the due events of all touched buckets, before anything is fetched: prefetched
    /// events come first.
    pub(super) fn publish(&mut self, now: Mono, out: &mut Vec<Action<B>>) {
        for at in &self.touched {
            let state = &mut self.buckets[*at];
            let queue = &mut self.queues[state.queue];
            if queue.rate.is_none() && !state.failed {
                let jobs = state.take_due(now, queue.free().min(self.options.batch));
                queue.publish(state.queue, jobs, out);
                state.grow_window(now, queue);
                if state.is_overdue(now) {
                    self.starved = now;
                }
            }
        }
        self.publish_paced(now, out);
    }

    /// Hands back what has no room in a queue any more: other nodes may take it.
    pub(super) fn hand_back_excess(&mut self, now: Mono, queue: usize, out: &mut Vec<Action<B>>) {
        self.roomy.insert(queue);
        let state = &self.queues[queue];
        if state.outstanding > state.capacity {
            out.push(Action::Withdraw { queue });
        }
        if state.is_beyond_need() {
            self.hand_back_prefetched(now, |state| state.queue == queue);
        }
    }

    /// Publishes as much of each rate-limited queue as may start now, the longest due first, from
    /// any bucket.
    fn publish_paced(&mut self, now: Mono, out: &mut Vec<Action<B>>) {
        let touched = self.touched.iter();
        let queues: BTreeSet<usize> = touched.map(|at| self.buckets[*at].queue).collect();
        for place in queues {
            let queue = &mut self.queues[place];
            let Some(rate) = &queue.rate else {
                continue;
            };
            let most = rate.allows(now).min(queue.free());
            let mut jobs = Vec::new();
            while jobs.len() < most {
                let due = |at: &usize| Some((self.buckets[*at].first_due(now)?, *at));
                let Some((_, at)) = queue.buckets.iter().filter_map(due).min() else {
                    break;
                };
                jobs.extend(self.buckets[at].take_due(now, 1));
            }
            for at in queue.buckets.clone() {
                self.buckets[at].grow_window(now, queue);
            }
            if jobs.is_empty() {
                continue;
            }
            if let Some(rate) = &mut queue.rate {
                rate.took(now, jobs.len());
            }
            // A start makes room for the next one, from any of the buckets.
            self.touched.extend(&queue.buckets);
            queue.publish(place, jobs, out);
        }
    }
}
