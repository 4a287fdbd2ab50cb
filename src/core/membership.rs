//! Membership of the nodes that share a store.

use std::sync::Arc;

use crate::event::QueueName;
use crate::record::NodeId;

/// The most characters of a host's name, as in the domain name system.
const HOST_MAX: usize = 253;

/// What a node reports of itself with each membership poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// The node.
    pub node: NodeId,
    /// The queues that it consumes. A node that only pushes consumes none and is no member.
    pub queues: Arc<[QueueName]>,
    /// The name of its machine, for people; empty if it is unknown.
    pub host: Arc<str>,
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
    /// The name of its machine; empty if the node has not said it, as older versions do not.
    pub host: Arc<str>,
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
            host: Arc::clone(&me.host),
        };
        let is_member = !me.leaves && !me.queues.is_empty();
        Self {
            members: is_member.then_some(member).into_iter().collect(),
            buckets_version: 0,
            controls_version: 0,
        }
    }
}

/// Makes of any text a host's name that is safe to print, and bounded.
pub(crate) fn host_name(text: &str) -> Arc<str> {
    let printed = text.trim().chars().filter(|c| !c.is_control());
    printed.take(HOST_MAX).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_host_is_printed_as_it_is_but_for_what_steers_a_terminal() {
        assert_eq!(&*host_name("web-3.example.org\n"), "web-3.example.org");
        assert_eq!(&*host_name("\u{1b}[2Jweb\n3"), "[2Jweb3");
        assert_eq!(host_name(&"é".repeat(1_000)).chars().count(), HOST_MAX);
        assert_eq!(&*host_name(""), "");
    }
}
