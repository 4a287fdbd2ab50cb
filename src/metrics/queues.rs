//! The label of each queue.

use std::collections::HashMap;

use parking_lot::RwLock;

use ::metrics::SharedString;

use crate::event::QueueName;

/// The label shared by all queues without their own.
///
/// A queue of this very name has none of its own either: this label is always the sum of the queues
/// that share it.
pub const OTHER: &str = "other";

/// The labels of the queues of a bus: each its name, up to a limit, and [`OTHER`] beyond it.
///
/// First come, first served, and a label is kept. A bus registers its own queues at start, the
/// consumed ones first and each group in the order of the names, so that the same program has the
/// same labels on every node.
///
/// Where names are made while the program runs, half of the labels are for the first two names of each
/// beginning, up to a dot, and of the other half those with the same beginning have at most as many as
/// they leave to others: whoever makes up names takes a part of what is left, and not all.
///
/// Counters and histograms of queues that share a label add up by themselves. Gauges do not: add up
/// the queues of a label before setting one.
#[derive(Debug)]
pub(crate) struct QueueLabels {
    max: usize,
    /// Whether names are made while the program runs.
    dynamic: bool,
    own: RwLock<OwnLabels>,
}

#[derive(Debug, Default)]
struct OwnLabels {
    of: HashMap<QueueName, SharedString>,
    /// How many there are of each beginning of names, where names are made at run time.
    with_prefix: HashMap<String, LabelCounts>,
    taken: LabelCounts,
}

/// How many labels are taken of each half.
#[derive(Clone, Copy, Debug, Default)]
struct LabelCounts {
    /// By the first names of each beginning.
    first: usize,
    more: usize,
}

/// The names of each beginning that have a label whatever the others do.
const FIRST_OF_EACH: usize = 2;

impl QueueLabels {
    /// Creates labels for at most `max` queues besides [`OTHER`]; `dynamic` where names are made while
    /// the program runs.
    pub(crate) fn new(max: usize, dynamic: bool) -> Self {
        Self {
            max,
            dynamic,
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
            let own = self.own.read();
            match own.of.get(queue) {
                Some(label) => return label.clone(),
                None if !self.has_room(&own, queue) => return other,
                None => {}
            }
        }
        let mut own = self.own.write();
        if let Some(label) = own.of.get(queue) {
            return label.clone();
        }
        if !self.has_room(&own, queue) {
            return other; // another queue has taken the last label meanwhile
        }
        if self.dynamic {
            let is_first = self.is_first(&own, queue);
            let with_prefix = own.with_prefix.entry(prefix(queue).to_owned()).or_default();
            with_prefix.add(is_first);
            own.taken.add(is_first);
        }
        let label = SharedString::from_shared(queue.as_str().into());
        own.of.insert(queue.clone(), label.clone());
        label
    }

    fn has_room(&self, own: &OwnLabels, queue: &QueueName) -> bool {
        if !self.dynamic {
            return own.of.len() < self.max;
        }
        let left = (self.max - self.max / 2).saturating_sub(own.taken.more);
        let with_prefix = own.with_prefix.get(prefix(queue));
        self.is_first(own, queue) || left > with_prefix.map_or(0, |taken| taken.more)
    }

    /// Whether a name is one of the first of its beginning, for which there is room.
    fn is_first(&self, own: &OwnLabels, queue: &QueueName) -> bool {
        let with_prefix = own.with_prefix.get(prefix(queue));
        let is_early = with_prefix.is_none_or(|taken| taken.first < FIRST_OF_EACH);
        is_early && own.taken.first < self.max / 2
    }
}

impl LabelCounts {
    fn add(&mut self, is_first: bool) {
        if is_first {
            self.first += 1;
        } else {
            self.more += 1;
        }
    }
}

/// Returns the beginning of a name, up to its first dot.
fn prefix(queue: &QueueName) -> &str {
    queue.split_once('.').map_or("", |(prefix, _)| prefix)
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
        let queues = QueueLabels::new(2, false);
        let mut seen = Vec::new();
        for name in ["b", "a", "c", "b", "d", "a"] {
            seen.push(label(&queues, name));
        }
        assert_eq!(seen, ["b", "a", OTHER, "b", OTHER, "a"]);
    }

    #[test]
    fn a_queue_that_is_named_other_takes_no_place_and_has_no_label_of_its_own() {
        let queues = QueueLabels::new(1, false);
        assert_eq!(label(&queues, OTHER), OTHER);
        assert_eq!(label(&queues, "orders"), "orders");
        assert_eq!(label(&queues, "parcels"), OTHER);
    }

    #[test]
    fn many_threads_never_make_more_labels_than_there_may_be() {
        let queues = QueueLabels::new(10, false);
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
        let own = queues.own.into_inner();
        assert_eq!(own.of.len(), 10);
    }

    #[test]
    fn whoever_makes_up_names_leaves_labels_to_others() {
        let queues = QueueLabels::new(100, true);
        let mut own = Vec::new();
        for prefix in ["a", "b", "c", "d", "e"] {
            let names = (0..1_000).map(|number| format!("{prefix}.{number}"));
            let labels: Vec<_> = names.map(|name| label(&queues, &name) == name).collect();
            own.push(labels.into_iter().filter(|is_own| *is_own).count());
        }
        assert_eq!(own, [27, 15, 8, 5, 4]);
        for prefix in 5..25 {
            for name in [format!("p{prefix}.one"), format!("p{prefix}.two")] {
                assert_eq!(label(&queues, &name), name);
            }
        }
        assert!(queues.own.read().of.len() <= 100);
        assert_eq!(label(&queues, "a.1"), "a.1", "a label is kept");
        assert_eq!(label(&queues, "a.999"), OTHER);
        // A program that names its queues itself has as many as it wants.
        let queues = QueueLabels::new(100, false);
        let all = (0..100).map(|number| format!("a.{number}"));
        assert!(all.into_iter().all(|name| label(&queues, &name) == name));
    }
}
