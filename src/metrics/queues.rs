//! The label of each queue.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use ::metrics::SharedString;

use crate::event::QueueName;

/// The label shared by all queues without their own.
///
/// A queue of this very name has none of its own either: this label is always the sum of the queues
/// that share it.
pub const OTHER: &str = "other";

/// The labels of the queues of a process: each its name, up to a limit, and [`OTHER`] beyond it.
///
/// First come, first served, and a label is kept. A bus registers its own queues at start, the
/// consumed ones first and each group in the order of the names, so that the same program has the
/// same labels on every node.
///
/// Counters and histograms of queues that share a label add up by themselves. Gauges do not: add up
/// the queues of a label before setting one.
#[derive(Debug)]
pub(crate) struct QueueLabels {
    max: usize,
    own: RwLock<HashMap<QueueName, SharedString>>,
}

impl QueueLabels {
    /// Creates labels for at most `max` queues besides [`OTHER`].
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            own: RwLock::default(),
        }
    }

    /// Returns the value of the label `queue` for a queue.
    pub(crate) fn label(&self, queue: &QueueName) -> SharedString {
        let other = SharedString::const_str(OTHER);
        if queue.as_str() == OTHER {
            return other;
        }
        {
            let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
            match own.get(queue) {
                Some(label) => return label.clone(),
                None if own.len() >= self.max => return other,
                None => {}
            }
        }
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        if own.len() >= self.max && !own.contains_key(queue) {
            return other; // another queue has taken the last label meanwhile
        }
        let label = || SharedString::from_shared(queue.as_str().into());
        own.entry(queue.clone()).or_insert_with(label).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(queues: &QueueLabels, name: &str) -> String {
        let queue = QueueName::new(name).expect("a legal name");
        queues.label(&queue).to_string()
    }

    #[test]
    fn the_first_queues_have_their_names_and_the_rest_share_one() {
        let queues = QueueLabels::new(2);
        let mut seen = Vec::new();
        for name in ["b", "a", "c", "b", "d", "a"] {
            seen.push(label(&queues, name));
        }
        assert_eq!(seen, ["b", "a", OTHER, "b", OTHER, "a"]);
    }

    #[test]
    fn a_queue_that_is_named_other_takes_no_place_and_has_no_label_of_its_own() {
        let queues = QueueLabels::new(1);
        assert_eq!(label(&queues, OTHER), OTHER);
        assert_eq!(label(&queues, "orders"), "orders");
        assert_eq!(label(&queues, "parcels"), OTHER);
    }

    #[test]
    fn many_threads_never_make_more_labels_than_there_may_be() {
        let queues = QueueLabels::new(10);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let queues = &queues;
                scope.spawn(move || {
                    for number in 0..1_000 {
                        label(queues, &format!("queue-{}", (number * 7 + thread) % 50));
                    }
                });
            }
        });
        assert_eq!(queues.own.into_inner().expect("nobody panicked").len(), 10);
    }
}
