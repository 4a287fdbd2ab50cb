//! Membership of the nodes that share a store.

use std::sync::Arc;

use crate::event::QueueName;
use crate::record::NodeId;

/// What a node reports of itself with each membership poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// The node.
    pub node: NodeId,
    /// The queues that it consumes. A node that only pushes consumes none and is no member.
    pub queues: Arc<[QueueName]>,
    /// Whether this is its last poll: it stops, holds no leases, and is no member from now on.
    pub leaves: bool,
}

/// A consuming node, as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// The number of its last poll. A node whose number stops changing may be dead.
    pub beat: u64,
    /// The queues that it consumes.
    pub queues: Arc<[QueueName]>,
}

/// The reply to a membership poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// All members, ordered by id.
    pub members: Vec<Member>,
    /// Changes whenever the set of buckets does. An equal version means equal buckets, also where
    /// the store has lost its last writes in between.
    pub buckets_version: u64,
    /// The same for the runtime settings.
    pub controls_version: u64,
}

impl Membership {
    /// Returns the membership of a store that no other process uses.
    #[must_use]
    pub fn alone(me: &MemberInfo) -> Self {
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
