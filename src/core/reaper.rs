//! Finds nodes that fell silent.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::members::Members;
use crate::core::op::Reaped;
use crate::core::options::NodeOptions;
use crate::record::NodeId;
use crate::time::Mono;

/// The heartbeats of a bucket's other holders, as seen from this node.
///
/// A node is silent when its heartbeat *number* has not changed for long enough by this node's own
/// monotonic time. No wall clock takes part, so a clock that steps ends no lease and keeps none
/// alive. (The lock client of Amazon's DynamoDB observes versions in the same way.)
///
/// A bucket is looked at when there is a reason to: somebody is suspected, or one of its holders
/// is not known to be alive. Beside that it is glanced at now and then, so that a holder that was
/// never on any roll is found as well, and one that is alive and does not keep what it holds here.
/// While this node knows of nobody, the numbers in the bucket tell: who has another one than at the
/// last look is alive.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    /// Each holder's number, and since when it has not changed.
    seen: BTreeMap<NodeId, (u64, Mono)>,
    /// When the last look was answered.
    last: Mono,
    next: Mono,
    in_flight: bool,
    /// A suspicion came while a look was on its way, which may not have seen what it is about.
    again: bool,
}

impl Reaper {
    /// When the bucket has to be looked at.
    pub(crate) fn wakes(&self) -> Mono {
        if self.in_flight { Mono::MAX } else { self.next }
    }

    /// Somebody may be dead, and hold something here: look at once.
    pub(crate) fn suspects(&mut self) {
        self.next = Mono::default();
        self.again = self.in_flight;
    }

    /// A look is sent now: the nodes to take from.
    pub(crate) fn send(&mut self, now: Mono, options: &NodeOptions) -> Vec<(NodeId, u64)> {
        self.in_flight = true;
        // A store that could not be looked at could not be told of heartbeats either: what was seen
        // before says nothing about the nodes. A single lost look is no reason to begin anew.
        if now.since(self.last) > options.silence / 3 {
            self.seen.values_mut().for_each(|(_, since)| *since = now);
        }
        self.seen
            .iter()
            .filter(|(_, (_, since))| now.since(*since) >= options.silence)
            .map(|(node, (beat, _))| (*node, *beat))
            .collect()
    }

    /// A look was answered, to the node `me`; while it knows of nobody, it looks `blind_every`.
    pub(crate) fn looked(
        &mut self,
        now: Mono,
        me: NodeId,
        reaped: &Reaped,
        members: &Members,
        (options, blind_every): (&NodeOptions, Duration),
    ) {
        self.in_flight = false;
        let was_long = now.since(self.last) >= options.silence;
        self.last = now;
        let before = std::mem::take(&mut self.seen);
        let mut is_watched = false;
        for (node, beat) in reaped.holders.iter().filter(|(node, _)| *node != me) {
            let (since, is_still) = match before.get(node) {
                Some((known, since)) if known == beat => (*since, true),
                _ => (now, false),
            };
            self.seen.insert(*node, (*beat, since));
            is_watched |= match members.vouch_for(*node) {
                true => is_still && was_long,
                false => is_still || !members.is_blind(),
            };
        }
        self.next = match (reaped.more || self.again, is_watched) {
            (true, _) => now,
            (false, true) => now + options.reap_every,
            (false, false) if members.is_blind() => now + blind_every,
            (false, false) => now + options.glance_every,
        };
        self.again = false;
    }

    /// The answer is lost; the next look follows at its pace.
    pub(crate) fn unanswered(&mut self, now: Mono, options: &NodeOptions) {
        self.in_flight = false;
        self.again = false;
        self.next = now + options.reap_every;
    }

    /// A lease with a deadline of its own ends then.
    pub(crate) fn deadline(&mut self, deadline: Mono) {
        self.next = self.next.min(deadline);
    }
}
