//! Batching of pushes: one call for all that arrive while the previous one is in flight.
//!
//! The timeout of a push counts from its call. A push that is cancelled or timed out is dropped
//! before it is sent; a batch that was sent is retried for its remaining callers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::backoff::Backoff;
use crate::core::op::{BATCH_MAX, NewEvent, PushReport, Reply, Response};
use crate::core::push::Attempts;
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::store::redis::hub::registry;
use crate::store::redis::link::call_queues::{CallQueues, Driver};
use crate::store::redis::link::managed::ScriptReply;
use crate::store::redis::op::admit::check_push;
use crate::store::redis::op::capacity::Reservation;
use crate::store::redis::op::push_script::{self, Pushed};
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::{Call, CallContext};
use crate::store::redis::script::reader::{ReplyReader, unreadable};
use crate::time::{DELAY_MAX, Timestamp, When};

/// The limit of payload bytes in a batch; a larger push goes alone.
const BYTES_MAX: usize = 1024 * 1024;
/// The weight of a unique key, by the commands that the script needs. What it has to read of other
/// events is counted there, and ends it early.
const UNIQUE_BYTES: usize = 4 * 1024;
/// What an attempt has for the registration of its bucket, whether it is the last one or not.
const REGISTERING: Duration = Duration::from_millis(500);
/// The delay before a push is retried.
pub(super) const PAUSES: Backoff =
    Backoff::new(Duration::from_millis(10), Duration::from_millis(500));

/// The pushes in flight, by bucket.
pub(in crate::store::redis) type Pushes = CallQueues<BucketKey, PendingPush>;

/// A push that waits for its reply.
pub(in crate::store::redis) struct PendingPush {
    events: Vec<NewEvent>,
    /// Those of its first events, which are decided.
    reports: Vec<PushReport>,
    bytes: usize,
    /// It must not share a batch.
    alone: bool,
    /// The end of its retries.
    until: Instant,
    response: oneshot::Sender<Result<Response>>,
    _reserved: Reservation,
}

impl PendingPush {
    fn undecided(&self) -> &[NewEvent] {
        self.events.get(self.reports.len()..).unwrap_or_default()
    }

    /// Tells its caller that all is decided, or that it was given up.
    fn reply(self, outcome: Result<u64>) {
        let response = outcome.map(|now_us| Response {
            now_us,
            reply: Reply::Pushed(self.reports),
        });
        let _ = self.response.send(response); // unless it was cancelled
    }
}

/// Pushes events in a batch with other pushes to this bucket; in several calls where one would
/// block the server too long.
///
/// Each event is decided on its own, in order, so the split is not observable. A part that fails
/// after another has succeeded leaves the whole unknown; pushing the same ids again does the rest.
pub(in crate::store::redis) async fn push(
    pushes: &Arc<Pushes>,
    shared: &Arc<Shared>,
    bucket: BucketKey,
    events: Vec<NewEvent>,
) -> Result<Response> {
    check_push(&bucket, &events)?;
    let mut whole = CombinedReply::default();
    for part in parts_of(events) {
        whole.add(push_part(pushes, shared, bucket.clone(), part).await)?;
    }
    Ok(whole.response())
}

/// Splits events into parts that fit into one call each.
pub(super) fn parts_of(events: Vec<NewEvent>) -> Vec<Vec<NewEvent>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for event in events {
        bytes += weight(&event);
        let is_full = bytes > BYTES_MAX && event.envelope.unique.is_some();
        if is_full && parts.last().is_some_and(|part| !part.is_empty()) {
            bytes = weight(&event);
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(event);
        }
    }
    parts
}

/// The combined result of the parts of a push, in order.
#[derive(Default)]
pub(super) struct CombinedReply {
    pushed: Vec<PushReport>,
    now_us: u64,
}

impl CombinedReply {
    /// Adds the reply of the next events. Returns how many they are.
    pub(super) fn add(&mut self, response: Result<Response>) -> Result<usize> {
        let response = response.map_err(|error| {
            if self.pushed.is_empty() {
                error
            } else {
                half_way().because(error)
            }
        })?;
        let Reply::Pushed(pushed) = response.reply else {
            return Err(unreadable("push"));
        };
        let count = pushed.len();
        self.pushed.extend(pushed);
        self.now_us = response.now_us.max(self.now_us);
        Ok(count)
    }

    pub(super) fn response(self) -> Response {
        Response {
            now_us: self.now_us,
            reply: Reply::Pushed(self.pushed),
        }
    }
}

/// Returns the error of a push of which some events are decided.
fn half_way() -> Error {
    Error::new(
        ErrorKind::Unknown,
        "a part of the events was pushed and the rest may not be; pushing the same ids again is safe",
    )
}

/// Pushes a part that fits into one call.
async fn push_part(
    pushes: &Arc<Pushes>,
    shared: &Arc<Shared>,
    bucket: BucketKey,
    events: Vec<NewEvent>,
) -> Result<Response> {
    let reserved = shared.capacity.reserve(&bucket, &events)?;
    let now = Instant::now();
    let deadline = now + shared.push_timeout();
    let (response, answered) = oneshot::channel();
    let waiting = PendingPush {
        bytes: events.iter().map(weight).sum(),
        alone: events
            .iter()
            .any(|event| may_be_refused(event, shared.now_us())),
        events,
        reports: Vec::new(),
        until: now + shared.options.retry_for,
        response,
        _reserved: reserved,
    };
    let (mut place, is_first) = pushes.join(&bucket, waiting);
    if is_first {
        // A task of its own: its caller may be cancelled while others rely on it.
        tokio::spawn(drive(Arc::clone(shared), pushes.drive(bucket)));
    }
    match timeout_at(deadline, answered).await {
        Ok(Ok(response)) => {
            place.answered();
            response
        }
        Ok(Err(_)) => Err(Error::new(
            ErrorKind::Unknown,
            "the runtime stopped while the push was in flight",
        )),
        Err(_) => Err(late(place.leave().is_some(), shared.push_timeout())),
    }
}

/// Returns the error of a push that timed out before or after it was sent.
fn late(is_unsent: bool, timeout: Duration) -> Error {
    if is_unsent {
        Error::new(
            ErrorKind::Unavailable,
            format!("the push could not be sent within {timeout:?}; nothing was pushed"),
        )
    } else {
        Error::new(
            ErrorKind::Unknown,
            format!(
                "the push was not answered within {timeout:?}; it may have happened, and pushing \
             the same id again is safe"
            ),
        )
    }
}

/// Returns the weight of an event in a batch.
fn weight(event: &NewEvent) -> usize {
    let has_unique = event.envelope.unique.is_some();
    event.envelope.payload.len() + if has_unique { UNIQUE_BYTES } else { 0 }
}

/// Returns whether the server's clock decides if the event can be accepted: its due time is so far
/// away that it may exceed the limit.
fn may_be_refused(event: &NewEvent, now_us: u64) -> bool {
    let now = Timestamp::from_millis(now_us / 1_000);
    matches!(event.when, When::At(due) if due.since(now) > DELAY_MAX / 2)
}

/// Sends the waiting pushes of a bucket, batch by batch, until there are none.
async fn drive(shared: Arc<Shared>, mut driver: Driver<BucketKey, PendingPush>) {
    loop {
        let (mut many, mut bytes, mut is_alone) = (0, 0, false);
        let batch = driver.take(|waiting| {
            let is_first = many == 0;
            many += waiting.events.len();
            bytes += waiting.bytes;
            let meets = many <= BATCH_MAX && bytes <= BYTES_MAX && !waiting.alone && !is_alone;
            is_alone |= waiting.alone;
            is_first || meets
        });
        let Some(mut batch) = batch else {
            return;
        };
        put_runs_together(&mut batch);
        deliver(&shared, driver.key(), batch).await;
    }
}

/// Puts pushes whose ids are of one run behind its first one, in the order of their ids, so that they
/// may share a part.
fn put_runs_together(batch: &mut Vec<PendingPush>) {
    let (mut runs, mut order) = (HashMap::new(), Vec::with_capacity(batch.len()));
    for (at, waiting) in batch.drain(..).enumerate() {
        let id = waiting.events.first().map(|event| event.envelope.id);
        let place = id.and_then(|id| Some((id.run(), id.place_in_run()?)));
        let key = place.map_or((at, 0), |(run, place)| {
            (*runs.entry(run).or_insert(at), place)
        });
        order.push((key, waiting));
    }
    order.sort_by_key(|(key, _)| *key);
    batch.extend(order.into_iter().map(|(_, waiting)| waiting));
}

/// Sends a batch, and retries it for its remaining callers while the servers do not respond; the
/// ids make that safe.
async fn deliver(shared: &Arc<Shared>, bucket: &BucketKey, mut batch: Vec<PendingPush>) {
    let (mut failures, mut attempts) = (0, Attempts::default());
    loop {
        batch.retain(|waiting| !waiting.response.is_closed());
        if batch.is_empty() {
            return;
        }
        let until = batch.iter().map(|waiting| waiting.until).max();
        let until = until.unwrap_or_else(Instant::now); // it is not empty
        let Err(error) = attempt(shared, bucket, until, &mut batch, &mut attempts).await else {
            return;
        };
        let may_pass = attempts.failed(error.kind());
        let error = Arc::new(error);
        failures += 1;
        let next = Instant::now() + PAUSES.after(failures);
        let (again, over): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|waiting| may_pass && next <= waiting.until);
        for waiting in over {
            let error = if waiting.reports.is_empty() {
                given_up(&attempts, &error)
            } else {
                half_way().because(Arc::clone(&error))
            };
            waiting.reply(Err(error));
        }
        batch = again;
        if batch.is_empty() {
            return;
        }
        tokio::time::sleep(PAUSES.jittered(failures)).await;
    }
}

/// Returns the error of a push that is not retried after `last`.
pub(super) fn given_up(attempts: &Attempts, last: &Arc<Error>) -> Error {
    let kind = attempts.given_up(last.kind());
    let own = if kind == last.kind() {
        Error::new(kind, last.to_string())
    } else {
        Error::new(
            kind,
            "the push may have happened; pushing the same id again is safe",
        )
    };
    own.because(Arc::clone(last))
}

/// Makes one attempt: registers the bucket if needed, and calls the script until every event is
/// decided. Whose events are, gets its reply and leaves the batch before the next call.
async fn attempt(
    shared: &Arc<Shared>,
    bucket: &BucketKey,
    until: Instant,
    batch: &mut Vec<PendingPush>,
    attempts: &mut Attempts,
) -> Result<()> {
    register(shared, bucket, until).await?;
    while !batch.is_empty() {
        let events = batch.iter().flat_map(PendingPush::undecided);
        let pushed = call(shared, bucket, events, attempts).await?;
        let mut reports = pushed.reports.into_iter();
        for mut waiting in std::mem::take(batch) {
            let left = waiting.undecided().len();
            waiting.reports.extend(reports.by_ref().take(left));
            if waiting.undecided().is_empty() {
                waiting.reply(Ok(pushed.now_us));
            } else {
                batch.push(waiting);
            }
        }
    }
    Ok(())
}

/// Calls the script; returns what it has decided of the first events.
async fn call<'e>(
    shared: &Arc<Shared>,
    bucket: &BucketKey,
    events: impl Iterator<Item = &'e NewEvent> + Clone,
    attempts: &mut Attempts,
) -> Result<Pushed> {
    let terms = shared.terms(bucket);
    let call = push_script::call(&terms, events.clone());
    let link = shared.links.for_pushes(bucket);
    let reply = shared.run_script(bucket, link, &call).await?;
    decided(shared, (&terms, &call), reply, events, attempts).await
}

/// Decodes the reply of the script; notes its time, and notifies of earlier work and of records. Where
/// leases are to be ended before anything can be decided, it ends them.
///
/// A call that has decided something is told first, as its reply must not be lost if they cannot be
/// ended: the next call begins with what is left.
pub(super) async fn decided<'e>(
    shared: &Shared,
    (terms, call): (&CallContext<'_>, &Call),
    ScriptReply { value, is_repeat }: ScriptReply,
    events: impl Iterator<Item = &'e NewEvent>,
    attempts: &mut Attempts,
) -> Result<Pushed> {
    if is_repeat {
        attempts.may_have_happened();
    }
    let bucket = terms.bucket;
    let parts = ReplyReader::of(call.script.name, value)?;
    let pushed = push_script::read(parts, events, attempts)?;
    shared.learn(terms, pushed.now_us);
    if pushed.is_earlier {
        shared.tell(bucket);
    }
    if pushed.has_recorded {
        shared.outboxes.tell(bucket);
    }
    if pushed.reports.is_empty() {
        let link = shared.links.for_pushes(bucket);
        shared.end_overdue(bucket, link).await?;
    }
    Ok(pushed)
}

/// Registers the bucket; if that fails, nothing of the push has happened.
pub(super) async fn register(
    shared: &Arc<Shared>,
    bucket: &BucketKey,
    until: Instant,
) -> Result<()> {
    // Within the time of a push that is not retried, or nobody would know that it was not sent.
    let least = REGISTERING.min(shared.call_timeout() / 2);
    let until = until.max(Instant::now() + least);
    registry::ensure(&shared.registry, bucket, until)
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::Unknown => {
                let words = format!("bucket {bucket} could not be registered; nothing was pushed");
                Error::new(ErrorKind::Unavailable, words).because(error)
            }
            _ => error,
        })
}
