//! Facts about an event, of which an explanation is made.

use crate::bus::admin::QueueLoad;
use crate::bus::locate::Located;
use crate::core::op::Stats;
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::store::{Control, Member};

/// The facts about an event.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Its stored state, if a queue knows it.
    pub(super) found: Option<Located>,
    /// How many queues were queried for it.
    pub(super) queried: usize,
    /// The runtime settings of its queue.
    pub(super) control: Control,
    /// The rate that this process declares for its queue.
    pub(super) declared_rate: Option<f64>,
    /// The number of events of its queue by state.
    pub(super) stats: Stats,
    /// The members; `None` if the membership could not be read.
    pub(super) nodes: Option<Vec<ObservedNode>>,
    /// The load of its queue in this process, if it has a handler here.
    pub(super) here: Option<QueueLoad>,
    /// The first error of the store, for this query or for the node of this process.
    pub(super) away: Option<Error>,
}

/// A member.
#[derive(Debug)]
pub(super) struct ObservedNode {
    pub(super) member: Member,
    /// Whether it polled while it was observed.
    pub(super) polls: bool,
}

impl Facts {
    /// Notes the error of a reply.
    pub(super) fn miss<T>(&mut self, reply: Result<T>) -> Option<T> {
        match reply {
            Ok(reply) => Some(reply),
            Err(error) => {
                self.away.get_or_insert(error);
                None
            }
        }
    }

    /// Returns the rate that holds for its queue, and whether this process declares it.
    pub(super) fn rate(&self) -> Option<(f64, bool)> {
        let set = self.control.rate.map(|rate| (rate, false));
        set.or(self.declared_rate.map(|rate| (rate, true)))
    }

    /// Returns how many live nodes consume a queue.
    pub(super) fn consumers(&self, queue: &QueueName) -> usize {
        let nodes = self.nodes.iter().flatten();
        nodes
            .filter(|node| node.polls && node.member.queues.contains(queue))
            .count()
    }
}
