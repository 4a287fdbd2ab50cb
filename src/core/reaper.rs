//! Finds nodes that fell silent.

use std::collections::BTreeMap;

use crate::core::op::Reaped;
use crate::core::options::NodeOptions;
use crate::record::NodeId;
use crate::time::Mono;

/// The heartbeats of a bucket's other holders, as seen from this node.
///
/// A node is silent when its heartbeat *number* has not changed for long enough by this node's own
/// monotonic time. No wall clock takes part, so a clock that steps ends no lease and keeps none
/// alive. (The lock client of Amazon's DynamoDB observes versions in the same way.)
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    /// Each holder's number, and since when it has not changed.
    seen: BTreeMap<NodeId, (u64, Mono)>,
    /// When the last look was answered.
    last: Mono,
    next: Mono,
    in_flight: bool,
}

impl Reaper {
    /// When the bucket has to be looked at.
    pub(crate) fn wakes(&self) -> Mono {
        if self.in_flight { Mono::MAX } else { self.next }
    }

    /// A look is sent now: the nodes to take from.
    pub(crate) fn send(&mut self, now: Mono, options: &NodeOptions) -> Vec<(NodeId, u64)> {
        self.in_flight = true;
        // A store that could not be looked at could not be told of heartbeats either: what was seen
        // before says nothing about the nodes. A single lost look is no reason to begin anew.
        if now.since(self.last) > options.silence / 3 {
            self.seen.clear();
        }
        self.seen
            .iter()
            .filter(|(_, (_, since))| now.since(*since) >= options.silence)
            .map(|(node, (beat, _))| (*node, *beat))
            .collect()
    }

    /// A look was answered.
    pub(crate) fn looked(&mut self, now: Mono, me: NodeId, reaped: &Reaped, o: &NodeOptions) {
        self.in_flight = false;
        self.last = now;
        let before = std::mem::take(&mut self.seen);
        for (node, beat) in reaped.holders.iter().filter(|(node, _)| *node != me) {
            let since = match before.get(node) {
                Some((known, since)) if known == beat => *since,
                _ => now,
            };
            self.seen.insert(*node, (*beat, since));
        }
        self.next = match (reaped.more, self.seen.is_empty()) {
            (true, _) => now,
            (false, true) => now + o.glance_every,
            (false, false) => now + o.reap_every,
        };
    }

    /// The answer is lost; the next look follows at its pace.
    pub(crate) fn unanswered(&mut self, now: Mono, options: &NodeOptions) {
        self.in_flight = false;
        self.next = now + options.reap_every;
    }

    /// A lease with a deadline of its own ends then.
    pub(crate) fn deadline(&mut self, deadline: Mono) {
        self.next = self.next.min(deadline);
    }
}
