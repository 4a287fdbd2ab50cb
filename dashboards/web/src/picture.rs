//! The picture of all queues that pages are rendered from.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use duly::QueueName;
use duly::admin::{NodeInfo, OutboxBacklog, QueueStats};
use duly::store::Control;
use duly::time::Timestamp;

use crate::minutes::Minutes;

/// A queue, as it was counted last.
#[derive(Clone, Debug)]
pub(crate) struct QueueNow {
    pub(crate) stats: QueueStats,
}

/// All queues at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) ready: usize,
    pub(crate) leased: usize,
}

/// A node, and whether it polled since the round before.
#[derive(Clone, Debug)]
pub(crate) struct NodeNow {
    pub(crate) node: NodeInfo,
    pub(crate) is_alive: bool,
    pub(crate) last_beat: Timestamp,
}

/// What a dead letter of a queue says, most often.
#[derive(Clone, Debug)]
pub(crate) struct DeadReason {
    pub(crate) error: String,
    pub(crate) count: usize,
    pub(crate) of: usize,
}

/// All that is known now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub(crate) round: u64,
    pub(crate) queues: BTreeMap<QueueName, QueueNow>,
    /// Queues that could not be counted when they should have been, and why: their counts are old.
    pub(crate) uncounted: BTreeMap<QueueName, String>,
    /// Whether every queue was counted once.
    pub(crate) is_whole: bool,
    /// The settings of queues in the last round; pages read those of now.
    pub(crate) controls: BTreeMap<QueueName, Control>,
    pub(crate) nodes: Vec<NodeNow>,
    pub(crate) history: VecDeque<Point>,
    /// Of each queue and minute.
    pub(crate) minutes: Minutes,
    /// Of the queues with most scheduled events, what is due in each step of the next hour.
    pub(crate) coming: Vec<(QueueName, Vec<usize>)>,
    /// Why it could not be read of more of them, if that is so.
    pub(crate) coming_error: Option<String>,
    pub(crate) dead: BTreeMap<QueueName, DeadReason>,
    /// What waits in outboxes; `None` without a relay in this process.
    pub(crate) outbox: Option<OutboxBacklog>,
    /// Why the store could not be asked, if that is so.
    pub(crate) error: Option<String>,
}

impl Picture {
    /// Sets the counts of a queue.
    pub(crate) fn count(&mut self, queue: QueueName, stats: QueueStats) {
        self.uncounted.remove(&queue);
        self.queues.insert(queue, QueueNow { stats });
    }

    /// Returns how late a queue is: how long its oldest ready event waits, or how late its handlers
    /// have just started, since events may also wait in the ring of a node. Of a queue that could not
    /// be counted it is unknown: what waited when it was counted last may have been handled.
    pub(crate) fn late(&self, queue: &str, now: Timestamp) -> Duration {
        let is_counted = self.error.is_none() && !self.uncounted.contains_key(queue);
        let stats = self.queues.get(queue).filter(|_| is_counted);
        let stats = stats.map(|queue| queue.stats);
        let ready = stats.filter(|stats| stats.ready > 0);
        let oldest = ready.and_then(|stats| stats.oldest_ready);
        let waits = oldest.map_or(Duration::ZERO, |since| now.since(since));
        let is_idle = stats.is_none_or(|stats| stats.ready + stats.leased == 0);
        let since = now - Duration::from_secs(120);
        let minutes = self.minutes.iter();
        let newest = minutes
            .rev()
            .find(|it| it.start >= since && it.queue.as_str() == queue);
        let started = newest.and_then(|minute| minute.lateness.percentile(50.0));
        if is_idle {
            waits
        } else {
            waits.max(started.unwrap_or_default())
        }
    }

    /// Returns the counted queues with the most of something, none that has nothing of it.
    pub(crate) fn largest(&self, max: usize, of: fn(&QueueStats) -> usize) -> Vec<QueueName> {
        let queues = self.queues.iter();
        let queues = queues.filter(|(name, _)| !self.uncounted.contains_key(*name));
        let queues = queues.map(|(name, queue)| (of(&queue.stats), name));
        let mut queues: Vec<_> = queues.collect();
        queues.retain(|(many, _)| *many > 0);
        queues.sort_unstable_by(|a, b| b.cmp(a));
        queues.truncate(max);
        queues.into_iter().map(|(_, name)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_queue_that_was_counted_is_late() {
        let name = QueueName::new("mail").expect("a name");
        let stats = QueueStats {
            ready: 1,
            oldest_ready: Some(Timestamp::from_millis(1_000)),
            ..QueueStats::default()
        };
        let now = Timestamp::from_millis(301_000);
        let mut picture = Picture::default();
        picture.count(name.clone(), stats);
        assert_eq!(picture.late("mail", now), Duration::from_secs(300));
        picture.uncounted.insert(name.clone(), "away".to_owned());
        assert_eq!(picture.late("mail", now), Duration::ZERO);
        assert_eq!(picture.largest(8, |stats| stats.ready), []);
        picture.count(name.clone(), stats);
        assert_eq!(picture.largest(8, |stats| stats.ready), [name]);
        picture.error = Some("away".to_owned());
        assert_eq!(picture.late("mail", now), Duration::ZERO);
    }
}
