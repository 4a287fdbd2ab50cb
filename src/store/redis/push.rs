//! Pushes that meet go together: one call for all that came while the one before was on its way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::core::op::{Answer, BATCH_MAX, NewEvent, PushVerdict, Pushed, Reply, Unique};
use crate::core::push::Attempts;
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::store::redis::admit::check_push;
use crate::store::redis::answer::{Parts, unreadable};
use crate::store::redis::registry;
use crate::store::redis::shared::Shared;
use crate::time::{DELAY_MAX, Timestamp, When};

/// The most bytes of payload that pushes bring together; a larger one goes alone.
const BYTES_MAX: usize = 1024 * 1024;
/// What an event that may take the place of another counts for: the script reads that other one too.
const REPLACED_BYTES: usize = 128 * 1024;
/// What any other with a unique key counts for: so many commands of a script as it takes.
const UNIQUE_BYTES: usize = 4 * 1024;
/// The first wait before a push is sent again; it doubles, up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The pushes on their way, by bucket.
#[derive(Default)]
pub(super) struct Pushes {
    lanes: Mutex<HashMap<BucketKey, Lane>>,
    /// A lane has ended.
    ended: Notify,
}

/// The pushes to one bucket. It exists while a call is on its way, and one is at a time.
type Lane = Vec<Waiting>;

struct Waiting {
    events: Vec<NewEvent>,
    bytes: usize,
    /// It must not share its fate with others.
    alone: bool,
    answer: oneshot::Sender<Result<Answer>>,
}

impl Pushes {
    /// Pushes, together with whoever else pushes to this bucket.
    pub(super) async fn push(
        this: &Arc<Self>,
        shared: &Arc<Shared>,
        bucket: BucketKey,
        events: Vec<NewEvent>,
    ) -> Result<Answer> {
        check_push(&bucket, &events)?;
        let until = tokio::time::Instant::now() + shared.options.retry_for;
        registry::ensure(shared, &bucket, until).await?;
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            bytes: events.iter().map(weight).sum(),
            alone: events
                .iter()
                .any(|event| may_be_refused(event, shared.now_us())),
            events,
            answer,
        };
        let is_first = {
            let mut lanes = this.lanes();
            match lanes.get_mut(&bucket) {
                Some(lane) => {
                    lane.push(waiting);
                    false
                }
                None => {
                    lanes.insert(bucket.clone(), vec![waiting]);
                    true
                }
            }
        };
        if is_first {
            // A task of its own: the pusher may go away, and others rely on it.
            tokio::spawn(drive(Arc::clone(this), Arc::clone(shared), bucket));
        }
        answered.await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Unknown,
                "the runtime stopped while the push was on its way",
            ))
        })
    }

    /// Waits until nothing is on its way.
    pub(super) async fn ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.lanes().is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<BucketKey, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What goes with the next call; `None` ends the lane.
    fn take(&self, bucket: &BucketKey) -> Option<Vec<Waiting>> {
        let mut lanes = self.lanes();
        let lane = lanes.get_mut(bucket)?;
        if lane.is_empty() {
            lanes.remove(bucket);
            self.ended.notify_waiters();
            return None;
        }
        let (mut many, mut bytes) = (0, 0);
        let fits = lane.iter().enumerate().take_while(|(at, waiting)| {
            many += waiting.events.len();
            bytes += waiting.bytes;
            let meets = many <= BATCH_MAX && bytes <= BYTES_MAX && !waiting.alone;
            *at == 0 || (meets && !lane[0].alone)
        });
        let fits = fits.count();
        Some(lane.drain(..fits).collect())
    }
}

/// What an event counts for when pushes are brought together.
fn weight(event: &NewEvent) -> usize {
    let more = match (event.on_taken, &event.envelope.unique) {
        (_, None) => 0,
        (Unique::Keep, Some(_)) => UNIQUE_BYTES,
        (Unique::Replace, Some(_)) => REPLACED_BYTES,
    };
    event.envelope.payload.len() + more
}

/// Whether the server's clock decides if the event can be accepted: an instant so far away that it
/// may be too far.
fn may_be_refused(event: &NewEvent, now_us: u64) -> bool {
    let now = Timestamp::from_millis(now_us / 1_000);
    matches!(event.when, When::At(due) if due.since(now) > DELAY_MAX / 2)
}

/// Sends what waits in a lane, batch by batch, until nothing does.
async fn drive(pushes: Arc<Pushes>, shared: Arc<Shared>, bucket: BucketKey) {
    let mut lane = Driven {
        pushes: &pushes,
        bucket: &bucket,
        is_over: false,
    };
    while let Some(batch) = lane.take() {
        let events = || batch.iter().flat_map(|waiting| &waiting.events);
        match send(&shared, &bucket, events).await {
            Ok((now_us, pushed)) => {
                let mut pushed = pushed.into_iter();
                for waiting in batch {
                    let own = pushed.by_ref().take(waiting.events.len()).collect();
                    let reply = Reply::Pushed(own);
                    let _ = waiting.answer.send(Ok(Answer { now_us, reply })); // or it went away
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for waiting in batch {
                    let own = Error::new(error.kind(), error.to_string());
                    let _ = waiting.answer.send(Err(own.because(Arc::clone(&error))));
                }
            }
        }
    }
}

/// A lane under way. Where its task is dropped, as with its runtime, the lane goes with it: whoever
/// waits in it hears that nobody knows, and the next push to the bucket begins another.
struct Driven<'a> {
    pushes: &'a Pushes,
    bucket: &'a BucketKey,
    is_over: bool,
}

impl Driven<'_> {
    fn take(&mut self) -> Option<Vec<Waiting>> {
        let batch = self.pushes.take(self.bucket);
        self.is_over = batch.is_none();
        batch
    }
}

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.pushes.lanes().remove(self.bucket);
            self.pushes.ended.notify_waiters();
        }
    }
}

/// Calls the script, and again while the servers do not answer: the ids make that safe.
async fn send<'e, I: Iterator<Item = &'e NewEvent> + Clone>(
    shared: &Shared,
    bucket: &BucketKey,
    events: impl Fn() -> I,
) -> Result<(u64, Vec<Pushed>)> {
    let keys = shared.keys(bucket);
    let until = tokio::time::Instant::now() + shared.options.retry_for;
    let (mut pause, mut attempts) = (PAUSE_MIN, Attempts::default());
    loop {
        let call = shared.terms().push(&keys, events());
        let error = match shared.call(shared.links.for_pushes(bucket), &call).await {
            Ok(parts) => {
                let (now_us, is_earlier, pushed) = read(parts, events(), &attempts)?;
                shared.learn(now_us);
                if is_earlier {
                    shared.tell(bucket);
                }
                tell_of_replaced(shared, bucket, &pushed);
                return Ok((now_us, pushed));
            }
            Err(error) => error,
        };
        let may_pass = attempts.failed(error.kind());
        if !may_pass || tokio::time::Instant::now() + pause > until {
            return Err(match attempts.given_up(error.kind()) {
                kind if kind == error.kind() => error,
                kind => Error::new(
                    kind,
                    "the push may have happened; pushing the same id again is safe",
                )
                .because(error),
            });
        }
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What was replaced has left records.
pub(super) fn tell_of_replaced(shared: &Shared, bucket: &BucketKey, pushed: &[Pushed]) {
    let is_replaced = |it: &Pushed| matches!(it.verdict, PushVerdict::Replaced(_));
    if pushed.iter().any(is_replaced) {
        shared.outboxes.tell(bucket);
    }
}

/// What became of each event, after the attempts before.
pub(super) fn read<'e>(
    mut parts: Parts,
    events: impl Iterator<Item = &'e NewEvent>,
    attempts: &Attempts,
) -> Result<(u64, bool, Vec<Pushed>)> {
    let now_us = parts.number()?;
    let is_earlier = parts.is_so()?;
    let mut ids = Vec::new();
    let mut pushed = Vec::new();
    for event in events {
        ids.push(event.envelope.id);
        pushed.push(Pushed {
            due: event.when.due(now_us),
            verdict: PushVerdict::Accepted,
        });
    }
    while !parts.is_empty() {
        let mut other = parts.parts()?;
        let (place, verdict) = (other.count()?, other.number()?);
        let (due, id) = (Timestamp::from_millis(other.number()?), other.id()?);
        let at = place.checked_sub(1).filter(|at| *at < pushed.len());
        let at = at.ok_or_else(|| unreadable("push"))?;
        let verdict = match verdict {
            1 => PushVerdict::Duplicate(id),
            2 => PushVerdict::Replaced(id),
            3 => PushVerdict::Conflict,
            4 => PushVerdict::TooOld,
            5 => PushVerdict::TooNew,
            _ => return Err(unreadable("push")),
        };
        let verdict = attempts.verdict(ids[at], verdict);
        pushed[at] = Pushed { due, verdict };
    }
    Ok((now_us, is_earlier, pushed))
}
