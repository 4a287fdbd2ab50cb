//! Diagnosis: derives reasons from the collected facts.

use std::time::Duration;

use crate::bus::admin::QueueLoad;
use crate::bus::explain::facts::Facts;
use crate::bus::explain::{Attempts, Explanation, HolderStatus, Reason, Spread};
use crate::bus::locate::Located;
use crate::event::{EventId, Occurrence, State, spread_part};
use crate::record::{NodeId, Outcome, Record};
use crate::time::{Timestamp, When};

/// Explains the facts. `me` is this process, `now` the store's time as far as it is known.
pub(super) fn explanation(
    id: EventId,
    me: NodeId,
    now: Timestamp,
    facts: Facts,
    attempts: Attempts,
) -> Explanation {
    let body = facts
        .found
        .as_ref()
        .and_then(|it| it.snapshot.body.as_ref());
    let pushed = body.map(|body| body.pushed);
    // The id of a name may have had an event before this one.
    let is_of_it = |at: Timestamp| pushed.is_none_or(|pushed| at + CLOCKS_DIFFER >= pushed);
    let mut records = attempts.records.iter();
    let last = records.rfind(|record| record.is_final() && is_of_it(finished(record)));
    let mut explanation = Explanation {
        id,
        at: now,
        queue: attempts.records.last().map(|record| record.queue.clone()),
        state: None,
        since: None,
        due: None,
        tries: 0,
        tries_max: None,
        key: attempts
            .records
            .last()
            .and_then(|record| record.key.clone()),
        occurrence: None,
        reasons: Vec::new(),
        attempts: Attempts::default(),
    };
    if let Some(Located {
        bucket,
        now,
        snapshot,
    }) = &facts.found
    {
        explanation.at = *now;
        explanation.queue = Some(bucket.queue.clone());
        explanation.state = Some(snapshot.state);
        explanation.since = snapshot.since;
        explanation.due = Some(snapshot.due);
        explanation.tries = snapshot.tries;
        let envelope = snapshot.body.as_ref();
        explanation.tries_max = envelope.map(|envelope| envelope.attempts);
        if let Some(envelope) = envelope {
            explanation.key.clone_from(&envelope.key);
            explanation.occurrence = Occurrence::of_headers(&envelope.headers);
        }
    }
    match (&facts.found, last) {
        // Whatever state was read before: a final record takes precedence.
        (_, Some(last)) => {
            let (state, at) = (ended_as(last), finished(last));
            explanation.state = Some(state);
            explanation.since = Some(at);
            explanation.tries_max = None;
            let at = Some(at);
            explanation.reasons.push(Reason::Over { state, at });
        }
        (Some(found), None) if found.snapshot.state.is_final() => {
            let state = found.snapshot.state;
            explanation.reasons.push(Reason::Over { state, at: None });
        }
        (Some(found), None) => explanation.reasons = standing(found, me, &facts, &attempts),
        (None, None) if facts.away.is_none() => explanation.reasons.push(Reason::NotKnown {
            created: id.created(),
            is_of_the_future: id.created() > now + CLOCKS_DIFFER,
            bucket: id.bucket(),
            queues: facts.queried,
        }),
        (None, None) => {}
    }
    if let Some(error) = facts.away {
        explanation.reasons.push(Reason::StoreAway {
            kind: error.kind(),
            error: error.to_string(),
        });
    }
    explanation.attempts = attempts;
    explanation
}

/// The clock of the process that made an id or pushed an event may be this far ahead.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

/// Returns why an event that is not over is where it is.
fn standing(found: &Located, me: NodeId, facts: &Facts, attempts: &Attempts) -> Vec<Reason> {
    let Located { snapshot, now, .. } = found;
    match snapshot.state {
        State::Scheduled => {
            let first = if snapshot.due > *now {
                not_due(found)
            } else {
                Reason::NotMoved {
                    late: now.since(snapshot.due),
                }
            };
            let mut reasons = vec![first];
            reasons.extend(blocked(found, facts));
            reasons
        }
        State::Ready => ready(found, facts),
        State::Leased => held(found, me, facts),
        _ => {
            let deaths = [Outcome::Buried, Outcome::LeaseLost];
            let mut records = attempts.records.iter();
            let last = records.rfind(|record| deaths.contains(&record.outcome));
            vec![Reason::Dead {
                cause: last.and_then(|last| last.cause),
                error: last.and_then(|last| last.error.clone()),
            }]
        }
    }
}

fn not_due(found: &Located) -> Reason {
    let due = found.snapshot.due;
    Reason::NotDue {
        due,
        left: due.since(found.now),
        spread: spread(found),
    }
}

/// Returns the jitter of its push, while its due time still comes from there.
fn spread(found: &Located) -> Option<Spread> {
    let envelope = found.snapshot.body.as_ref();
    let envelope = envelope.filter(|_| found.snapshot.tries == 0)?;
    let window = envelope.spread()?;
    let part = spread_part(envelope.id, window);
    let (requested_due, pushed) = (envelope.requested_due(), envelope.pushed);
    let due = found.snapshot.due;
    let rescheduled = matches!(requested_due, Some(When::At(at)) if at.max(pushed) + part != due);
    Some(Spread {
        window,
        part,
        requested_due,
        pushed,
        rescheduled,
    })
}

/// Returns what prevents any handler of the queue from starting.
fn blocked(found: &Located, facts: &Facts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if facts.control.paused {
        reasons.push(Reason::Paused);
    }
    if facts.control.workers == Some(0) {
        reasons.push(Reason::NoWorkers { everywhere: true });
    } else if !facts.control.paused && facts.here.as_ref().is_some_and(|here| here.workers == 0) {
        reasons.push(Reason::NoWorkers { everywhere: false });
    }
    let is_consumed = facts.consumers(&found.bucket.queue) > 0;
    if let Some(nodes) = &facts.nodes
        && !is_consumed
    {
        let others = nodes.iter();
        let others = others.filter(|node| node.polls && !node.member.queues.is_empty());
        reasons.push(Reason::NoConsumer {
            others: others.count(),
        });
    }
    reasons
}

fn ready(found: &Located, facts: &Facts) -> Vec<Reason> {
    let mut reasons = blocked(found, facts);
    let consumers = facts.consumers(&found.bucket.queue);
    let only_here = [Reason::NoWorkers { everywhere: false }];
    // Another node may start events although this process does not.
    let may_start = reasons.is_empty() || (reasons == only_here && consumers > 1);
    if !may_start {
        return reasons;
    }
    let ready = facts.stats.ready.max(1);
    if let Some((per_second, is_declared)) = facts.rate() {
        let turn = Duration::try_from_secs_f64(ready as f64 / per_second);
        reasons.push(Reason::RateLimited {
            per_second,
            is_declared,
            ready,
            turn: turn.unwrap_or(Duration::MAX),
        });
    }
    let is_busy = facts.here.as_ref().is_some_and(|here| here.is_busy());
    if facts.rate().is_none() || is_busy {
        reasons.push(Reason::Behind {
            ready,
            leased: facts.stats.leased,
            consumers,
            here: facts.here.clone(),
        });
    }
    reasons
}

fn held(found: &Located, me: NodeId, facts: &Facts) -> Vec<Reason> {
    let node = found.snapshot.holder.unwrap_or_default();
    let is_due = found.snapshot.due <= found.now;
    let load = facts.here.clone();
    // Under a rate limit, a leased event may wait for its turn besides the ring.
    let is_paced = facts.rate().is_some();
    let is_started = |load: &QueueLoad| load.queued == 0 && load.active > 0;
    let runs = is_due && !is_paced && load.as_ref().is_some_and(is_started);
    let known = facts.nodes.as_ref();
    let known = known.map(|nodes| nodes.iter().find(|it| it.member.node == node));
    let standing = match known {
        _ if node == me => HolderStatus::Here { runs, load },
        Some(Some(known)) if known.polls => HolderStatus::Answers,
        Some(Some(_)) => HolderStatus::Silent,
        Some(None) => HolderStatus::Gone,
        None => HolderStatus::NotKnown,
    };
    let tries = found.snapshot.tries.saturating_add(1);
    let body = found.snapshot.body.as_ref();
    let mut reasons = vec![Reason::Held {
        node,
        until: found.snapshot.until,
        standing,
        consumers: facts.consumers(&found.bucket.queue),
        is_last: body.is_some_and(|body| tries >= body.attempts),
    }];
    if !is_due {
        reasons.push(not_due(found));
    }
    // Whatever prevents a ready event from starting also applies to one in this process's ring.
    let waits = facts.here.as_ref().is_some_and(|here| here.queued > 0);
    if node == me && waits {
        reasons.extend(blocked(found, facts));
    }
    reasons
}

/// Returns the state of a final record.
fn ended_as(record: &Record) -> State {
    match record.outcome {
        Outcome::Acked => State::Done,
        Outcome::Discarded => State::Discarded,
        Outcome::Expired => State::Expired,
        _ => State::Cancelled,
    }
}

fn finished(record: &Record) -> Timestamp {
    Timestamp::from_millis(record.stages.finished_us / 1_000)
}
