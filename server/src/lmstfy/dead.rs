//! Dead letters: their number, the oldest, respawn and delete.
//!
//! A respawned job begins anew with one try and another ttl, which no event can: a new event takes
//! the place of the dead one. Clients go on to use the old id, so the shared state maps it to the
//! new event.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use duly::__server::payloads;
use duly::event::{BUCKET_HEADER, State};
use duly::time::When;
use duly::{ErrorKind, EventBuilder, EventId, Queue, Receipt, Unique};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::json;

use super::check::{Call, Steps};
use super::job::{self, ID_MARK};
use super::params::Params;
use super::{ApiError, Result, ends, respawn_notes};
use crate::admission::Work;
use crate::bus::{Body, FoundJob, Pool};
use crate::http::reply;
use crate::job_id;
use crate::metrics;
use crate::shared::Table;

/// The ttl of a respawned job, in seconds.
const TTL_S: u32 = 86_400;
/// How many dead jobs are deleted in one step.
const DELETED_AT_ONCE: usize = 1_000;
/// How many dead jobs are respawned in one step, in memory.
const AT_ONCE: usize = 100;
/// How many of them are looked up at the same time.
const LOOKUPS_AT_ONCE: usize = 16;

/// A dead job that is to be put back.
#[derive(Clone)]
struct DeadJob {
    job: FoundJob,
    /// The id that clients know.
    known: EventId,
    /// The event that takes its place.
    successor: EventId,
    note: Note,
}

/// What is noted under the id that clients know.
#[derive(Clone, Copy)]
enum Note {
    Missing,
    /// The event that takes the place of the job: another respawn has been here.
    Successor,
    /// An event before it: the job was respawned and has died again, or one of the same name was.
    Earlier,
}

/// What a respawn has done.
#[derive(Default)]
struct Respawned {
    /// How many jobs it has put back.
    count: usize,
    passed_over: PassedOver,
}

/// The dead jobs that this server cannot put back: it has not their key, or they are larger, or have
/// more headers, than it may push. They stay dead, and keep no other from being put back.
#[derive(Default)]
struct PassedOver {
    count: usize,
    first: Option<(EventId, duly::Error)>,
}

impl PassedOver {
    fn add(&mut self, id: EventId, error: duly::Error) {
        self.count += 1;
        self.first.get_or_insert((id, error));
    }

    fn log(&self, queue: &Queue<Body>) {
        if let Some((id, error)) = &self.first {
            let (queue, jobs) = (queue.name(), self.count);
            tracing::warn!(%queue, jobs, first = %id, %error, "dead jobs not respawned");
        }
    }
}

#[derive(Serialize)]
struct DeadView<'a> {
    deadletter_head: String,
    deadletter_size: usize,
    namespace: &'a str,
    queue: &'a str,
}

pub(super) async fn size(call: &Call<'_>) -> Result<Response> {
    let stats = call.pool.stats(&call.queue()?).await?;
    Ok(job::sized(call, stats.dead))
}

pub(super) async fn peek(call: &Call<'_>) -> Result<Response> {
    let queue = call.queue()?;
    let look = async {
        let size = call.pool.stats(&queue).await?.dead;
        let head = call.pool.dead_jobs(&queue).next(1).await?;
        let mut shown = String::new();
        for id in head {
            // Its headers alone: this server may lack the key of its payload.
            let found = queue.get(id).await?.and_then(|found| found.body);
            if let Some(event) = found {
                let known =
                    respawn_notes::known_id(call, &call.route.queue, id, &event.headers).await?;
                shown = job::shown(known, &event.headers);
            }
        }
        Ok::<_, ApiError>((size, shown))
    };
    let (size, shown) = call.admit(Work::Read)?.step(look).await?;
    let view = DeadView {
        deadletter_head: shown,
        deadletter_size: size,
        namespace: &call.route.namespace,
        queue: &call.route.queue,
    };
    Ok(reply::json(StatusCode::OK, &view))
}

/// Parses how many jobs a request concerns.
fn limit(params: &Params) -> Result<usize> {
    let limit = params.number("limit", 1_i64)?;
    match usize::try_from(limit) {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => Err(ApiError::bad("invalid limit")),
    }
}

pub(super) async fn delete(call: &mut Call<'_>, query: Option<&str>) -> Result<Response> {
    let mut left = limit(&Params::new(query))?;
    let (pool, queue) = (call.pool, call.queue()?);
    let steps = call.admit(Work::Change)?;
    call.has_begun = true;
    let mut dead = pool.dead_jobs(&queue);
    while left > 0 {
        let some = steps.step(dead.next(left.min(DELETED_AT_ONCE))).await?;
        if some.is_empty() {
            break;
        }
        let dropped = steps.step(pool.drop_dead(&queue, some)).await?;
        left = left.saturating_sub(usize::try_from(dropped).unwrap_or(usize::MAX));
    }
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

pub(super) async fn respawn(call: &mut Call<'_>, query: Option<&str>) -> Result<Response> {
    let params = Params::new(query);
    let limit = limit(&params)?;
    let ttl_s = params.number("ttl", TTL_S)?;
    let queue = call.queue()?;
    let steps = call.admit(Work::Change)?;
    call.has_begun = true;
    let mut done = Respawned::default();
    let ended = respawn_up_to(call, &queue, &steps, (limit, ttl_s), &mut done).await;
    let count = done.count;
    done.passed_over.log(&queue);
    respawn_notes::sweep(call, count).await;
    metrics::respawned(&call.labels(), count);
    match ended {
        // What was done is said; who asks for the rest learns whether it still fails.
        Err(ApiError::Internal(error)) if count > 0 => {
            tracing::error!(%error, count, "respawn ended early");
        }
        Err(ApiError::Refused(StatusCode::SERVICE_UNAVAILABLE, why)) if count > 0 => {
            tracing::error!(%why, count, "respawn ended early");
        }
        ended => ended?,
    }
    Ok(reply::json(
        StatusCode::OK,
        &json!({"count": count, "msg": "respawned"}),
    ))
}

async fn respawn_up_to(
    call: &Call<'_>,
    queue: &Queue<Body>,
    steps: &Steps<'_>,
    (limit, ttl_s): (usize, u32),
    done: &mut Respawned,
) -> Result<()> {
    let mut dead = call.pool.dead_jobs(queue);
    while done.count < limit {
        let some = steps.step(dead.next(AT_ONCE.min(limit - done.count)));
        let some = some.await?;
        if some.is_empty() {
            break;
        }
        let step = respawn_some(call, queue, (&some, ttl_s), done);
        steps.step(step).await?;
    }
    Ok(())
}

/// Puts new events in the place of dead ones: notes their ids, pushes them, drops the old ones. The
/// id of a new event is made of that of the dead one, so whoever respawns the same job, after a crash
/// between two steps or at the same time, pushes the same event: it is there once, although it may be
/// over by then.
async fn respawn_some(
    call: &Call<'_>,
    queue: &Queue<Body>,
    (dead, ttl_s): (&[EventId], u32),
    done: &mut Respawned,
) -> Result<()> {
    let (mut jobs, mut new, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let mut lookups = Vec::new();
    for id in dead {
        lookups.push(with_note(call, queue, *id));
    }
    let lookups = stream::iter(lookups).buffered(LOOKUPS_AT_ONCE);
    let found: Vec<_> = lookups.collect().await;
    for (id, found) in dead.iter().zip(found) {
        let it = match found? {
            Some(Ok(it)) => it,
            Some(Err(error)) => {
                done.passed_over.add(*id, error);
                continue;
            }
            None => continue,
        };
        let note = |before| {
            (
                respawn_notes::key(call, it.known),
                respawn_notes::text(it.successor, before),
            )
        };
        match it.note {
            Note::Missing => new.push(note(None)),
            Note::Earlier => again.push(note(Some(it.job.id))),
            Note::Successor => {}
        }
        jobs.push(it);
    }
    let shared = &call.app.shared;
    shared.put_all(Table::Respawned, &new, true).await?;
    shared.put_all(Table::Respawned, &again, false).await?;
    // Whoever pushed a job may encrypt, though this server does not.
    let encrypted = payloads::encrypted(queue.clone());
    let (mut in_clear, mut sealed) = (Vec::new(), Vec::new());
    for it in jobs {
        // Another respawn was faster, or whoever has ended the job found no note yet.
        let is_dead = |job: FoundJob| job.state == State::Dead;
        if !call.pool.get(queue, it.job.id).await?.is_some_and(is_dead) {
            continue;
        }
        if it.job.form.is_encrypted {
            sealed.push(it);
        } else {
            in_clear.push(it);
        }
    }
    let (mut pushed, mut failed) = (Vec::new(), None);
    for (queue, mut jobs) in [(queue, in_clear), (&encrypted, sealed)] {
        while !jobs.is_empty() {
            let results = push(queue, &jobs, ttl_s).await?;
            let mut keyless = Vec::new();
            for (mut it, result) in jobs.into_iter().zip(results) {
                match result {
                    // Its unique key was taken meanwhile: it is put back without, as by a revival.
                    Ok(receipt) if receipt.id() != it.successor => {
                        it.job.unique = None;
                        keyless.push(it);
                    }
                    Ok(_) => pushed.push(it),
                    Err(error) => match error.kind() {
                        // It was pushed before, and may be over already.
                        ErrorKind::Conflict => pushed.push(it),
                        ErrorKind::Invalid => done.passed_over.add(it.job.id, error),
                        _ => failed = failed.or(Some(error)),
                    },
                }
            }
            jobs = keyless;
        }
    }
    let ids: Vec<_> = pushed.iter().map(|it| it.job.id).collect();
    let dropped = call.pool.drop_dead(queue, ids).await?;
    let dropped = usize::try_from(dropped).unwrap_or(usize::MAX);
    done.count += dropped;
    if dropped < pushed.len() {
        let jobs = pushed.iter().map(|it| (it.known, it.successor));
        ends::end_what_has_ended(call, jobs).await?;
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Pushes new events in the place of dead ones, and returns a result for each.
async fn push(
    queue: &Queue<Body>,
    jobs: &[DeadJob],
    ttl_s: u32,
) -> Result<Vec<duly::Result<Receipt>>> {
    let events: Vec<_> = jobs
        .iter()
        .map(|it| respawned_event(queue, it, ttl_s))
        .collect();
    match queue.push_many(events, When::Now).each().await {
        // One of them is invalid by itself, and none was pushed.
        Err(error) if error.kind() == ErrorKind::Invalid => {}
        results => return Ok(results?),
    }
    let mut results = Vec::new();
    for it in jobs {
        results.push(respawned_event(queue, it, ttl_s).push().await);
    }
    Ok(results)
}

/// Returns a dead job, and what is noted of it; an error inside if this server cannot decrypt it.
async fn with_note(
    call: &Call<'_>,
    queue: &Queue<Body>,
    id: EventId,
) -> Result<Option<duly::Result<DeadJob>>> {
    let job = match call.pool.get(queue, id).await {
        Err(error) if error.kind() == ErrorKind::Invalid => return Ok(Some(Err(error))),
        job => job?,
    };
    let Some(job) = job.filter(|job| job.state == State::Dead) else {
        return Ok(None);
    };
    let known = respawn_notes::known_id(call, &call.route.queue, job.id, &job.headers).await?;
    let successor = job_id::after(job.id, job.pushed);
    let noted = respawn_notes::if_any(call, known).await?;
    let note = match noted.as_ref().map(|events| events.first()) {
        None => Note::Missing,
        Some(Some(noted)) if *noted == successor => Note::Successor,
        Some(Some(noted)) if *noted == job.id => Note::Earlier,
        // Where the successor is known, the note is of one after it.
        Some(Some(_)) if queue.get(successor).await?.is_some() => Note::Successor,
        // One that cannot be read is replaced as well.
        Some(_) => Note::Earlier,
    };
    Ok(Some(Ok(DeadJob {
        job,
        known,
        successor,
        note,
    })))
}

/// Builds the event that takes the place of a dead one: with all that it has, but for its attempts and
/// its expiry, which begin anew, and its bucket, which the new id has.
fn respawned_event(queue: &Queue<Body>, dead: &DeadJob, ttl_s: u32) -> EventBuilder<Body> {
    let job = &dead.job;
    let mut event = Pool::event_again(queue, job.body.clone(), job.form)
        .id(dead.successor)
        .attempts(1)
        .late(job.late)
        .keep_payload(job.keeps_payload);
    if let Some(key) = &job.key {
        event = event.key(key);
    }
    if let Some(unique) = &job.unique {
        event = event.unique(unique, Unique::Keep);
    }
    if ttl_s > 0 {
        event = event.expires_after(Duration::from_secs(ttl_s.into()));
    }
    for (name, value) in &job.headers {
        if name != ID_MARK && name != BUCKET_HEADER {
            event = event.header(name, value);
        }
    }
    event.header(ID_MARK, dead.known.to_string())
}
