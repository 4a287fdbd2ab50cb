//! Who is there: what the nodes that share a store say of themselves, and learn of each other.

use std::sync::Arc;

use crate::event::QueueName;
use crate::record::NodeId;

/// A node that answers the roll call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// The node.
    pub node: NodeId,
    /// The queues that it consumes. A node that only pushes consumes none and is no member.
    pub queues: Arc<[QueueName]>,
    /// Whether this is its last call: it stops, holds nothing any more, and is no member from now
    /// on.
    pub leaves: bool,
}

/// A node that consumes something, as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// The number of its last call. One that does not change any more is the first sign of a node
    /// that is dead.
    pub beat: u64,
    /// The queues that it consumes.
    pub queues: Arc<[QueueName]>,
}

/// What a roll call answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    /// Every member, in the order of their ids.
    pub members: Vec<Member>,
    /// Another number than the last time means that there are other buckets. An equal one means
    /// that there are the same, also where the store has lost its last writes in between.
    pub buckets_version: u64,
    /// The same of the controls.
    pub controls_version: u64,
}

impl Roll {
    /// The roll of a store that no other process uses.
    #[must_use]
    pub fn alone(me: &Presence) -> Self {
        let member = Member {
            node: me.node,
            beat: 0,
            queues: Arc::clone(&me.queues),
        };
        let is_member = !me.leaves && !me.queues.is_empty();
        Self {
            members: is_member.then_some(member).into_iter().collect(),
            buckets_version: 0,
            controls_version: 0,
        }
    }
}
