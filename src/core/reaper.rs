//! A failure detector: finds nodes whose leases have timed out.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::members::Members;
use crate::core::op::ReapReport;
use crate::core::options::NodeOptions;
use crate::record::NodeId;
use crate::time::Mono;

/// The heartbeats of a bucket's other holders, as this node sees them.
///
/// A node has timed out when its heartbeat *number* has not changed for long enough by this node's
/// own monotonic time. No wall clock takes part, so a clock that steps neither ends a lease nor
/// keeps one alive. (The lock client of Amazon's DynamoDB observes versions in the same way.)
///
/// A bucket is scanned when a node is suspected or one of its holders is not known to be alive. A
/// rare fallback scan finds a holder that was never a member, and one that is alive and does not
/// renew its leases here. While membership is unknown, the numbers in the bucket count: a holder
/// whose number changed since the last scan is alive.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    /// Each holder's number, and since when it has not changed.
    seen: BTreeMap<NodeId, (u64, Mono)>,
    /// When the last scan got its reply.
    last: Mono,
    next: Mono,
    in_flight: bool,
    /// A suspicion came while a scan was in flight, which may have missed its cause.
    again: bool,
}

impl Reaper {
    /// Returns when the bucket has to be scanned.
    pub(crate) fn wakes(&self) -> Mono {
        if self.in_flight { Mono::MAX } else { self.next }
    }

    /// A holder may be dead: scans at once.
    pub(crate) fn suspects(&mut self) {
        self.next = Mono::default();
        self.again = self.in_flight;
    }

    /// Starts a scan; returns the nodes to take leases from.
    pub(crate) fn send(&mut self, now: Mono, options: &NodeOptions) -> Vec<(NodeId, u64)> {
        self.in_flight = true;
        // While scans fail, heartbeats fail as well, so the numbers seen before prove nothing. A
        // single failed scan is no reason to start over.
        if now.since(self.last) > options.lease_timeout / 3 {
            self.seen.values_mut().for_each(|(_, since)| *since = now);
        }
        self.seen
            .iter()
            .filter(|(_, (_, since))| now.since(*since) >= options.lease_timeout)
            .map(|(node, (beat, _))| (*node, *beat))
            .collect()
    }

    /// Handles the reply to a scan by node `me`; while membership is unknown it scans every
    /// `blind_every`.
    pub(crate) fn finish_scan(
        &mut self,
        now: Mono,
        me: NodeId,
        reaped: &ReapReport,
        members: &Members,
        (options, blind_every): (&NodeOptions, Duration),
    ) {
        self.in_flight = false;
        let was_long = now.since(self.last) >= options.lease_timeout;
        self.last = now;
        let before = std::mem::take(&mut self.seen);
        let mut is_watched = false;
        for (node, beat) in reaped.holders.iter().filter(|(node, _)| *node != me) {
            let (since, is_still) = match before.get(node) {
                Some((known, since)) if known == beat => (*since, true),
                _ => (now, false),
            };
            self.seen.insert(*node, (*beat, since));
            is_watched |= if members.is_alive(*node) {
                is_still && was_long
            } else {
                is_still || !members.is_blind()
            };
        }
        self.next = match (reaped.more || self.again, is_watched) {
            (true, _) => now,
            (false, true) => now + options.reap_every,
            (false, false) if members.is_blind() => now + blind_every,
            (false, false) => now + options.fallback_scan_every,
        };
        self.again = false;
    }

    /// Handles a failed scan.
    pub(crate) fn fail_scan(&mut self, now: Mono, options: &NodeOptions) {
        self.in_flight = false;
        self.again = false;
        self.next = now + options.reap_every;
    }

    /// Scans no later than `deadline`, when a lease with its own deadline ends.
    pub(crate) fn deadline(&mut self, deadline: Mono) {
        self.next = self.next.min(deadline);
    }
}
