//! Pushing staged events, with a result for each.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};

use crate::bus::fan_out::in_order;
use crate::bus::handle::Bus;
use crate::bus::payloads::EncodedValue;
use crate::bus::push::prepare::PreparedEvent;
use crate::bus::push::staged::StagedEvent;
use crate::bus::queue_handle::QueueHandle;
use crate::core::op::{PushOutcome, PushReport, StoreOp, fitting};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, EventId, QueueName};
use crate::store::{Durability, KEEP_FOR, KnownBuckets};

/// The concurrent calls of one push of staged events.
const CALLS_AT_ONCE: usize = 8;

/// An event that was staged so lately is remembered by the store if it was pushed: a push takes less
/// than the rest of the time for which each end is remembered.
const STAGED_LATELY: Duration = Duration::from_secs(KEEP_FOR.as_secs() / 2);

/// The result of pushing one staged event.
#[derive(Debug)]
pub enum StagedPush {
    /// The store has it, or has had it: by this push or by an earlier one.
    Accepted {
        /// Whether this push made it.
        is_new: bool,
    },
    /// The store may have forgotten an event of its id: that is not within the time that it accepts, or
    /// has none and the event may have been pushed a while ago. It was not accepted now; whether it was
    /// by an earlier push is not known.
    OutOfTime,
    /// It can never be accepted.
    Refused(Error),
    /// The store has an event of its id with another payload, and this one was surely never pushed.
    Conflict(Error),
    /// It was not accepted, and may be later; after [`ErrorKind::Unknown`] it may have been.
    Failed(Error),
}

/// The keys of events that were not accepted: none that follows one of them is pushed before it.
#[derive(Debug, Default)]
struct FailedKeys(HashSet<String>);

impl FailedKeys {
    fn note(&mut self, staged: &StagedEvent, pushed: &StagedPush) {
        if matches!(pushed, StagedPush::Failed(_) | StagedPush::OutOfTime) {
            self.0.extend(staged.order_key());
        }
    }

    fn has(&self, staged: &StagedEvent) -> bool {
        !self.0.is_empty() && staged.order_key().is_some_and(|key| self.0.contains(&key))
    }
}

/// Returns the result of an event that is not pushed before an earlier one of its key.
fn behind_another() -> StagedPush {
    let waits = "an earlier event of its unique key or its id was not accepted";
    StagedPush::Failed(Error::new(ErrorKind::Unavailable, waits))
}

/// What events have in common that go to the store together.
type Group = (QueueName, BucketId, bool, Option<Durability>);

impl Bus {
    /// Pushes staged events, each for itself, and returns a result for each in their order.
    ///
    /// Events of one bucket keep their order.
    pub(crate) async fn push_staged(&self, events: &[StagedEvent]) -> Vec<StagedPush> {
        let mut groups = BTreeMap::<Group, Vec<usize>>::new();
        for (place, staged) in events.iter().enumerate() {
            let envelope = &staged.event.envelope;
            let (queue, bucket) = (envelope.queue.clone(), envelope.bucket());
            let group = (queue, bucket, staged.is_given, staged.durability);
            groups.entry(group).or_default().push(place);
        }
        let push = |((queue, bucket, is_given, durability), places): (Group, Vec<usize>)| {
            let handle = QueueHandle::new(self.inner.clone(), queue);
            async move {
                if is_given {
                    push_given(&handle, events, places).await
                } else {
                    let call = (bucket, durability);
                    push_made(&handle, call, events, places).await
                }
            }
        };
        let pushes: Vec<_> = groups.into_iter().map(push).collect();
        let pushed = stream::iter(pushes).buffer_unordered(CALLS_AT_ONCE);
        let mut pushed: Vec<(usize, StagedPush)> = pushed.concat().await;
        pushed.sort_unstable_by_key(|(place, _)| *place);
        pushed.into_iter().map(|(_, pushed)| pushed).collect()
    }
}

/// Pushes events of one bucket under ids that the bus has made.
async fn push_made(
    handle: &QueueHandle,
    (bucket, durability): (BucketId, Option<Durability>),
    events: &[StagedEvent],
    places: Vec<usize>,
) -> Vec<(usize, StagedPush)> {
    let (places, mut results) = look_elsewhere(handle, events, places).await;
    let mut failed = FailedKeys::default();
    for (place, pushed) in &results {
        failed.note(&events[*place], pushed);
    }
    let bytes = |place: &usize| events[*place].event.envelope.payload.len();
    let mut calls = vec![places]; // the next one is the last
    while let Some(places) = calls.pop() {
        let is_behind = |place: &usize| failed.has(&events[*place]);
        let (behind, mut call): (Vec<_>, Vec<_>) = places.into_iter().partition(is_behind);
        results.extend(behind.into_iter().map(|place| (place, behind_another())));
        if call.is_empty() {
            continue;
        }
        let rest = call.split_off(fitting(&call, bytes).min(call.len()));
        if !rest.is_empty() {
            calls.push(rest);
        }
        let batch = call.iter().map(|place| events[*place].event.clone());
        let pushed = handle.apply_push(bucket, batch.collect(), durability).await;
        let judged: Vec<_> = match pushed {
            Ok((pushed, _)) => {
                let replies = pushed.into_iter().map(Some).chain(std::iter::repeat(None));
                let judge = |(place, reply): (usize, Option<PushReport>)| match reply {
                    Some(reply) => (place, of_outcome(handle, &events[place], reply.verdict)),
                    None => (place, StagedPush::Failed(crate::store::unexpected())),
                };
                call.into_iter().zip(replies).map(judge).collect()
            }
            // One of them is to blame, and nothing was accepted: each by itself.
            Err(error) if error.kind() == ErrorKind::Invalid && call.len() > 1 => {
                calls.extend(call.into_iter().rev().map(|place| vec![place]));
                continue;
            }
            Err(error) => {
                let each = |place| (place, of_error(handle, again(&error)));
                call.into_iter().map(each).collect()
            }
        };
        for (place, pushed) in &judged {
            failed.note(&events[*place], pushed);
        }
        results.extend(judged);
    }
    results
}

fn of_outcome(handle: &QueueHandle, staged: &StagedEvent, outcome: PushOutcome) -> StagedPush {
    let id = staged.id();
    match outcome {
        PushOutcome::Accepted | PushOutcome::Replaced(_) => {
            handle.pushes.accepted(1, 0);
            StagedPush::Accepted { is_new: true }
        }
        // A row of plain SQL may have an id that its writer has given to another, too.
        PushOutcome::Conflict if staged.is_derived && !staged.is_repeated => {
            handle.pushes.rejected(ErrorKind::Conflict, 1);
            StagedPush::Conflict(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the id {id} belongs to an event with another payload, unless an update has changed \
                     the payload of this one since. Put the row back under a new id if it is another \
                     event"
                ),
            ))
        }
        // A conflict of an id that no other event has: an update has changed its payload since.
        PushOutcome::Duplicate(_) | PushOutcome::Conflict => {
            handle.pushes.accepted(0, 1);
            StagedPush::Accepted { is_new: false }
        }
        PushOutcome::TooOld | PushOutcome::TooNew => StagedPush::OutOfTime,
        PushOutcome::Unknown => StagedPush::Failed(Error::new(
            ErrorKind::Unknown,
            format!("the event {id} may have been accepted: a call of this push got no response"),
        )),
    }
}

fn of_error(handle: &QueueHandle, error: Error) -> StagedPush {
    match error.kind() {
        ErrorKind::Invalid | ErrorKind::Conflict => {
            handle.pushes.rejected(error.kind(), 1);
            StagedPush::Refused(error)
        }
        _ => StagedPush::Failed(error),
    }
}

/// Pushes events under ids of their callers.
async fn push_given(
    handle: &QueueHandle,
    events: &[StagedEvent],
    places: Vec<usize>,
) -> Vec<(usize, StagedPush)> {
    let (mut results, mut failed) = (Vec::with_capacity(places.len()), FailedKeys::default());
    for place in places {
        let pushed = if failed.has(&events[place]) {
            behind_another()
        } else {
            let pushed = push_one_given(handle, &events[place]).await;
            pushed.unwrap_or_else(|error| of_error(handle, error))
        };
        failed.note(&events[place], &pushed);
        results.push((place, pushed));
    }
    results
}

async fn push_one_given(handle: &QueueHandle, staged: &StagedEvent) -> Result<StagedPush> {
    if may_be_forgotten(handle, staged).await? {
        return Ok(StagedPush::OutOfTime);
    }
    let envelope = &staged.event.envelope;
    let opened = handle
        .inner
        .keys
        .open(envelope.id, &handle.name, &envelope.payload);
    // With its value a repeat is recognised that was encrypted under another key.
    let value = opened.ok().map(|opened| EncodedValue {
        codec: opened.codec,
        bytes: opened.value.into_owned(),
    });
    let mut prepared = PreparedEvent {
        event: staged.event.clone(),
        given: value,
        durability: staged.durability,
    };
    handle.follow_earlier_push(&mut prepared).await?;
    let (event, durability) = (prepared.event.clone(), prepared.durability);
    let bucket = event.envelope.bucket();
    let (pushed, _) = handle.apply_push(bucket, vec![event], durability).await?;
    match pushed.first().map(|pushed| pushed.verdict) {
        // It may be there in another form, and the error says what is wrong otherwise.
        None | Some(PushOutcome::Conflict | PushOutcome::TooNew) => {
            let receipt = handle.push_again(prepared).await?;
            let is_new = receipt.is_accepted();
            handle.pushes.accepted(is_new.into(), (!is_new).into());
            Ok(StagedPush::Accepted { is_new })
        }
        Some(outcome) => Ok(of_outcome(handle, staged, outcome)),
    }
}

/// Looks events up in other buckets; returns the places of those that are to be pushed, and results for
/// the others.
async fn look_elsewhere(
    handle: &QueueHandle,
    events: &[StagedEvent],
    places: Vec<usize>,
) -> (Vec<usize>, Vec<(usize, StagedPush)>) {
    // A row that was committed lately and says that it is new is none of a backup.
    let may_be = |place: &usize| {
        let staged = &events[*place];
        staged.is_derived && (staged.is_repeated || !is_staged_lately(handle, staged))
    };
    let (looked_up, mut rest): (Vec<usize>, Vec<usize>) = places.into_iter().partition(may_be);
    let mut results = Vec::new();
    if looked_up.is_empty() {
        return (rest, results);
    }
    let known = async { handle.inner.open()?.buckets_of(&handle.name).await };
    let known = match known.await {
        Ok(known) => known,
        Err(error) => {
            let each = |place| (place, of_error(handle, again(&error)));
            results.extend(looked_up.into_iter().map(each));
            return (rest, results);
        }
    };
    let known = &known;
    let found = looked_up.into_iter().map(|place| async move {
        let found = is_elsewhere(handle, &events[place], known).await;
        (place, found)
    });
    let found: Vec<_> = in_order(found).collect().await;
    for (place, found) in found {
        match found {
            Ok(false) => rest.push(place),
            Ok(true) => {
                handle.pushes.accepted(0, 1);
                results.push((place, StagedPush::Accepted { is_new: false }));
            }
            Err(error) => results.push((place, of_error(handle, error))),
        }
    }
    rest.sort_unstable(); // events of one bucket keep their order
    (rest, results)
}

/// Returns whether the store has an event whose bucket follows from the number of buckets: that may have
/// changed since an earlier push.
async fn is_elsewhere(
    handle: &QueueHandle,
    staged: &StagedEvent,
    known: &KnownBuckets,
) -> Result<bool> {
    let (id, own, envelope) = (staged.id(), staged.bucket(), &staged.event.envelope);
    let has_key = envelope.key.is_some() || envelope.unique.is_some();
    let others = known.buckets.iter().map(|key| key.bucket);
    let others = others.filter(|it| *it != own && (has_key || id.may_lie_in(*it)));
    let others: Vec<_> = others.collect();
    // Where it would be now it nearly always is.
    let own = (!others.is_empty()).then_some(own);
    for bucket in own.into_iter().chain(others) {
        // The id of an event with a key names its bucket.
        let id = if has_key {
            EventId::from_parts(id.created(), bucket, id.entropy())
        } else {
            id
        };
        let bucket = handle.bucket(bucket);
        let found = handle.inner.apply(&bucket, StoreOp::get(id)).await?;
        if found.is_some() {
            return Ok(true);
        }
    }
    match &known.away {
        Some(error) => Err(again(error)),
        None => Ok(false),
    }
}

/// Returns whether an event was staged so lately that the store remembers it if it was pushed.
fn is_staged_lately(handle: &QueueHandle, staged: &StagedEvent) -> bool {
    let (staged_at, now) = (staged.staged_at(), handle.inner.now());
    now.since(staged_at).max(staged_at.since(now)) < STAGED_LATELY
}

/// Returns whether an event may have been accepted before and be over and forgotten, where its id does
/// not tell that to the store: as it has no time, the store would accept it as new.
async fn may_be_forgotten(handle: &QueueHandle, staged: &StagedEvent) -> Result<bool> {
    let (id, inner) = (staged.id(), &handle.inner);
    if !staged.is_repeated || id.tells_time() || is_staged_lately(handle, staged) {
        return Ok(false);
    }
    let found = inner.on_event(&handle.name, id, || StoreOp::get(id));
    Ok(found.await?.1.is_none())
}

/// Returns an error for each event of a call that failed.
fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}
