//! Collection: reads the facts from the store and this process.

use std::time::Duration;

use futures_util::StreamExt;

use crate::bus::explain::facts::{Facts, ObservedNode};
use crate::bus::explain::{Explanation, Reason, diagnose, history};
use crate::bus::fan_out::{as_they_come_past_slow, operator_call};
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::locate::{Located, Location};
use crate::core::op::{Stats, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, EventId, QueueName, State};
use crate::flow::host;
use crate::record::NodeId;
use crate::store::{Member, MemberInfo, clock_ahead_us, differs};
use crate::time::Timestamp;

/// How long to observe other nodes: two of their polls, plus the time of a query.
const LISTEN: Duration = Duration::from_millis(600);

/// Explains an event of a queue, or of whichever has it.
pub(super) async fn explain(bus: &Bus, queue: Option<QueueName>, id: EventId) -> Explanation {
    let inner = &*bus.inner;
    let mut facts = Facts::default();
    let (membership, found) = tokio::join!(
        poll_members(inner),
        find(inner, queue.clone(), id, &mut facts)
    );
    facts.found = found;
    let Some(Located { bucket, .. }) = &facts.found else {
        return conclude(inner, (queue, id), facts).await;
    };
    let queue = Some(bucket.queue.clone());
    let bucket = bucket.clone();
    let why_not_served = {
        let flow = inner.flow();
        flow.as_ref().and_then(|flow| flow.why_not_served(&bucket))
    };
    facts.away = facts.away.or(why_not_served);
    let load = bus.load();
    facts.here = load.into_iter().find(|load| load.queue == bucket.queue);
    if let Some(first) = facts.miss(membership) {
        facts.nodes = listen(inner, first, &bucket, &mut facts).await;
    }
    let control = operator_call(inner.store.control_of(&bucket.queue)).await;
    facts.control = facts.miss(control).flatten().unwrap_or_default();
    facts.declared_rate = inner.controls.declared_rate(&bucket.queue);
    facts.stats = count(inner, &bucket.queue, &mut facts).await;
    conclude(inner, (queue, id), facts).await
}

/// Records are read last: they include what happened to the event meanwhile.
async fn conclude(
    inner: &Inner,
    (queue, id): (Option<QueueName>, EventId),
    facts: Facts,
) -> Explanation {
    let attempts = history::read(&*inner.store, inner.journal(), (queue.as_ref(), id)).await;
    let now = Timestamp::from_millis(inner.store.now_us() / 1_000);
    let ahead_us = clock_ahead_us(&*inner.store, &*inner.clock);
    let mut explanation = diagnose::explanation(id, inner.id, now, facts, attempts);
    if differs(ahead_us) && explanation.state.is_some_and(|state| !state.is_final()) {
        explanation.reasons.push(Reason::ClockDiffers {
            by: Duration::from_micros(ahead_us.unsigned_abs()),
            is_ahead: ahead_us > 0,
        });
    }
    explanation
}

/// Looks for the event in its queue, or in every one; notes how many there are, and what failed.
async fn find(
    inner: &Inner,
    queue: Option<QueueName>,
    id: EventId,
    facts: &mut Facts,
) -> Option<Located> {
    if let Some(queue) = queue {
        facts.queried = 1;
        let found = inner.locate_in(queue, id).await;
        return facts.miss(found)?;
    }
    let location = inner.locate(id).await;
    let Location {
        event,
        queues,
        failed,
    } = facts.miss(location)?;
    facts.queried = queues;
    facts.away = facts.away.take().or(failed);
    event
}

/// Returns the known buckets; notes that there may be others.
async fn known_buckets(inner: &Inner, facts: &mut Facts) -> Option<Vec<BucketKey>> {
    let known = operator_call(inner.store.known_buckets()).await;
    let known = facts.miss(known)?;
    facts.away = facts.away.take().or(known.away);
    Some(known.buckets)
}

/// Reads the members, without becoming one.
async fn poll_members(inner: &Inner) -> Result<Vec<Member>> {
    let listener = MemberInfo {
        node: NodeId(fastrand::u64(1..)),
        queues: [].into(),
        host: "".into(),
        leaves: true,
    };
    let membership = operator_call(inner.store.poll_members(listener)).await?;
    Ok(membership.members)
}

/// Observes which members are alive: a dead node stays a member for a minute, but its poll counter
/// stops. What was found before is read again afterwards.
async fn listen(
    inner: &Inner,
    first: Vec<Member>,
    bucket: &BucketKey,
    facts: &mut Facts,
) -> Option<Vec<ObservedNode>> {
    let me = this_node(inner);
    if !inner.store.is_shared() {
        return Some(me.into_iter().collect());
    }
    let found = facts.found.as_ref()?;
    let is_other = |member: &Member| member.node != inner.id;
    let matters = match found.snapshot.state {
        State::Scheduled | State::Ready => first.iter().any(is_other),
        State::Leased => found.snapshot.holder != Some(inner.id),
        _ => false,
    };
    let mut second = Vec::new();
    if matters {
        tokio::time::sleep(LISTEN).await;
        let called = poll_members(inner).await;
        second = facts.miss(called)?;
        let again = inner.look_up(bucket.clone(), found_id(facts)?).await;
        if let Some(again) = facts.miss(again) {
            facts.found = again.or(facts.found.take());
        }
    }
    let others = second.into_iter().filter(is_other).map(|member| {
        let before = first.iter().find(|before| before.node == member.node);
        ObservedNode {
            polls: before.is_none_or(|before| before.beat != member.beat),
            member,
        }
    });
    Some(me.into_iter().chain(others).collect())
}

fn found_id(facts: &Facts) -> Option<EventId> {
    facts.found.as_ref().map(|found| found.snapshot.id)
}

/// Returns this process as a node, if it consumes anything.
fn this_node(inner: &Inner) -> Option<ObservedNode> {
    let flow = inner.flow();
    let queues = flow.as_ref()?.load().map(|(queue, ..)| queue.clone());
    Some(ObservedNode {
        member: Member {
            node: inner.id,
            beat: 0,
            queues: queues.collect(),
            host: host(),
        },
        polls: true,
    })
}

/// Counts the events of a queue by state, in the buckets that respond.
async fn count(inner: &Inner, queue: &QueueName, facts: &mut Facts) -> Stats {
    let mut buckets = known_buckets(inner, facts).await.unwrap_or_default();
    buckets.retain(|key| key.queue == *queue);
    let mut replies = as_they_come_past_slow(buckets.into_iter().map(|key| stats(inner, key)));
    let mut sum = Stats::default();
    while let Some(reply) = replies.next().await {
        if let Some(stats) = facts.miss(reply) {
            sum += stats;
        }
    }
    sum
}

async fn stats(inner: &Inner, bucket: BucketKey) -> Result<Stats> {
    operator_call(StoreOp::stats().apply(&*inner.store, &bucket)).await
}
