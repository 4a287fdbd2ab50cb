//! Membership as one node sees it: failure suspicion and bucket ownership.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::core::membership::Member;
use crate::core::options::NodeOptions;
use crate::event::{BucketKey, QueueName};
use crate::record::NodeId;
use crate::time::Mono;

/// The other members, as this node's membership polls report them.
///
/// Nothing here ends a lease. Suspicion only decides which leases to check, and ownership only
/// decides which node polls first; events are decided by the heartbeats in their bucket, by
/// [`Reaper`](crate::core::reaper::Reaper).
#[derive(Debug)]
pub(crate) struct Members {
    me: NodeId,
    others: BTreeMap<NodeId, Other>,
    /// When to poll next.
    next: Mono,
    /// When the poll in flight was sent.
    sent: Option<Mono>,
    /// When the last poll got its reply.
    answered: Option<Mono>,
    /// Polls have failed for so long that the membership is unknown.
    is_blind: bool,
}

#[derive(Clone, Debug)]
struct Other {
    beat: u64,
    /// Since when its number has not changed.
    since: Mono,
    status: MemberStatus,
    queues: Arc<[QueueName]>,
}

/// A member's status, by the age of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MemberStatus {
    /// Its number changes.
    Present,
    /// It has missed a poll.
    Suspect,
    /// It has missed so many that it owns nothing.
    Absent,
}

/// What a membership poll has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MembershipChange {
    /// A member timed out or left: its leases have to be checked.
    pub(crate) suspicion: bool,
    /// The set of counted members changed.
    pub(crate) is_new: bool,
    /// A member is no longer counted.
    pub(crate) is_fewer: bool,
    /// The others may not have counted this node: it is new, or was away for long.
    pub(crate) was_away: bool,
}

impl Members {
    pub(crate) fn new(me: NodeId) -> Self {
        Self {
            me,
            others: BTreeMap::new(),
            next: Mono::default(),
            sent: None,
            answered: None,
            is_blind: false,
        }
    }

    /// Returns when to poll; a node that shares its store with no other never does.
    pub(crate) fn wakes(&self, options: &NodeOptions) -> Mono {
        if self.sent.is_some() || options.poll_every.is_zero() {
            Mono::MAX
        } else {
            self.next
        }
    }

    /// Notes that it is time to poll; `may` says whether this node does.
    pub(crate) fn call(&mut self, now: Mono, may: bool, options: &NodeOptions) {
        self.next = now + options.poll_every;
        self.sent = may.then_some(now);
    }

    /// Handles the reply to a poll.
    ///
    /// The reply may have been slow, so ages count up to when the poll was *sent*. A span without
    /// replies proves nothing: a member that this node could not read may have been unable to
    /// report.
    pub(crate) fn handle_reply(
        &mut self,
        now: Mono,
        members: &[Member],
        options: &NodeOptions,
    ) -> MembershipChange {
        let sent = self.sent.take().unwrap_or(now);
        self.next = self.next.max(sent + options.poll_every);
        let unheard = self
            .answered
            .map_or(Duration::ZERO, |last| sent.since(last));
        let excused = if unheard >= options.suspect_after {
            unheard
        } else {
            Duration::ZERO
        };
        let was_away = self.answered.is_none() || unheard >= options.absent_after;
        let mut change = MembershipChange {
            was_away: was_away && members.iter().any(|member| member.node != self.me),
            ..MembershipChange::default()
        };
        let mut before = std::mem::take(&mut self.others);
        for member in members.iter().filter(|member| member.node != self.me) {
            let known = before.remove(&member.node);
            let unchanged = known.as_ref().filter(|known| known.beat == member.beat);
            let since = unchanged.map_or(now, |known| known.since + excused);
            let status = MemberStatus::after(sent.since(since), options);
            match &known {
                Some(known) => {
                    change.suspicion |= status > known.status;
                    change.is_new |= status.counts() != known.status.counts();
                    change.is_fewer |= known.status.counts() && !status.counts();
                    change.is_new |= member.queues != known.queues;
                }
                None => change.is_new = true,
            }
            let other = Other {
                beat: member.beat,
                since,
                status,
                queues: Arc::clone(&member.queues),
            };
            self.others.insert(member.node, other);
        }
        change.suspicion |= !before.is_empty();
        change.is_new |= !before.is_empty();
        change.is_fewer |= before.values().any(|gone| gone.status.counts());
        self.answered = Some(now);
        self.is_blind = false;
        change
    }

    /// Handles a failed poll; returns whether the membership is unknown from now on.
    ///
    /// That suspects no member. But a node that dies now goes unnoticed here, so the buckets are
    /// scanned.
    pub(crate) fn handle_failure(&mut self, now: Mono, options: &NodeOptions) -> bool {
        self.sent = None;
        let last = self.answered.unwrap_or_default();
        let is_blind = now.since(last) >= options.absent_after;
        let is_news = is_blind && !self.is_blind;
        self.is_blind = is_blind;
        is_news
    }

    /// Returns whether polls have failed for so long that the membership is unknown.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Returns whether a node is known to be alive, so that its leases need no watching.
    pub(crate) fn is_alive(&self, node: NodeId) -> bool {
        let present = |other: &Other| other.status == MemberStatus::Present;
        !self.is_blind && self.others.get(&node).is_some_and(present)
    }

    /// Returns how many nodes rank before this one in a bucket. Rendezvous hashing: of the nodes
    /// that consume the queue the one with the highest hash of node and bucket is first, so that a
    /// node that joins or leaves only changes the owner of its own share of the buckets.
    pub(crate) fn rank(&self, key: &BucketKey) -> usize {
        let mine = number(key, self.me);
        let others = self.consumers(&key.queue);
        others.filter(|other| number(key, *other) > mine).count()
    }

    /// Returns how many nodes consume a queue, this one included.
    pub(crate) fn count(&self, queue: &QueueName) -> usize {
        1 + self.consumers(queue).count()
    }

    fn consumers<'a>(&'a self, queue: &'a QueueName) -> impl Iterator<Item = NodeId> + 'a {
        let counted = self.others.iter();
        let counted = counted.filter(|(_, other)| other.status.counts());
        counted
            .filter(|(_, other)| other.queues.contains(queue))
            .map(|(node, _)| *node)
    }
}

/// Returns a node's hash for a bucket; the highest wins.
fn number(key: &BucketKey, node: NodeId) -> (u64, NodeId) {
    let bucket = xxh3_64_with_seed(key.queue.as_bytes(), u64::from(key.bucket.0));
    (xxh3_64_with_seed(&bucket.to_le_bytes(), node.0), node)
}

impl MemberStatus {
    fn after(silence: Duration, options: &NodeOptions) -> Self {
        if silence >= options.absent_after {
            Self::Absent
        } else if silence >= options.suspect_after {
            Self::Suspect
        } else {
            Self::Present
        }
    }

    /// Returns whether such a member owns buckets.
    fn counts(self) -> bool {
        self < Self::Absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::BucketId;

    fn queue() -> QueueName {
        QueueName::new("orders").unwrap()
    }

    fn member(node: u64, beat: u64) -> Member {
        Member {
            node: NodeId(node),
            host: "a".into(),
            beat,
            queues: Arc::from([queue()]),
        }
    }

    fn at(ms: u64) -> Mono {
        Mono::default() + Duration::from_millis(1_000 + ms)
    }

    fn owned(members: &Members) -> Vec<u16> {
        let all = 0..64;
        all.filter(|bucket| members.rank(&BucketKey::new(queue(), BucketId(*bucket))) == 0)
            .collect()
    }

    #[test]
    fn who_is_alone_owns_everything() {
        assert_eq!(owned(&Members::new(NodeId(1))).len(), 64);
    }

    #[test]
    fn each_bucket_has_one_owner_and_a_newcomer_takes_only_its_share() {
        let options = NodeOptions::default();
        let membership: Vec<_> = (1..=4).map(|node| member(node, 1)).collect();
        let seen_by = |me: u64, membership: &[Member]| {
            let mut members = Members::new(NodeId(me));
            members.handle_reply(at(0), membership, &options);
            owned(&members)
        };
        let before: Vec<_> = (1..=3).map(|me| seen_by(me, &membership[..3])).collect();
        let after: Vec<_> = (1..=4).map(|me| seen_by(me, &membership)).collect();
        for owners in [&before, &after] {
            let mut all: Vec<_> = owners.concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..64));
        }
        for (before, after) in before.iter().zip(&after) {
            assert!(after.iter().all(|bucket| before.contains(bucket)));
            assert!(!after.is_empty());
        }
    }

    #[test]
    fn a_member_that_stops_calling_is_suspected_once_and_then_not_counted() {
        let options = NodeOptions::default();
        let mut members = Members::new(NodeId(1));
        let membership = [member(1, 1), member(2, 7)];
        let mut known_counts = Vec::new();
        for ms in (0..3_000).step_by(250) {
            if members
                .handle_reply(at(ms), &membership, &options)
                .suspicion
            {
                known_counts.push((ms, members.count(&queue())));
            }
        }
        assert_eq!(known_counts, [(500, 2), (1_500, 1)]);
        let gone = members.handle_reply(at(3_000), &membership[..1], &options);
        assert!(gone.suspicion && gone.is_new);
    }

    #[test]
    fn calls_that_were_not_answered_are_evidence_against_nobody() {
        let options = NodeOptions::default();
        let mut members = Members::new(NodeId(1));
        let membership = [member(2, 7)];
        members.handle_reply(at(0), &membership, &options);
        assert!(!members.handle_failure(at(1_000), &options));
        assert!(members.handle_failure(at(2_000), &options));
        assert!(!members.is_alive(NodeId(2)), "nothing is known of it");
        let change = members.handle_reply(at(9_000), &membership, &options);
        assert!(!change.suspicion && !change.is_new && change.was_away);
        assert!(members.is_alive(NodeId(2)));
    }

    #[test]
    fn an_answer_that_was_long_on_its_way_shows_what_was_so_when_it_was_asked_for() {
        let options = NodeOptions::default();
        let mut members = Members::new(NodeId(1));
        members.handle_reply(at(0), &[member(2, 7)], &options);
        members.call(at(250), true, &options);
        let change = members.handle_reply(at(5_000), &[member(2, 7)], &options);
        assert_eq!(change, MembershipChange::default());
    }
}
