//! Dead letters: their number, the oldest, respawn and delete.
//!
//! A respawned job begins anew with one try and another ttl, which no event can: a new event takes
//! the place of the dead one. Clients go on to use the old id, so the shared state maps it to the
//! new event.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use duly::__server::payloads;
use duly::event::State;
use duly::time::When;
use duly::{ErrorKind, EventBuilder, EventId, Queue};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::json;

use super::check::Call;
use super::job::{self, ID_MARK};
use super::params::Params;
use super::{ApiError, Result, job_id, jobs, respawn_notes};
use crate::bus::{Body, DEAD_MAX, FoundJob, Pool};
use crate::http::reply;
use crate::metrics;
use crate::shared::Table;

/// The ttl of a respawned job, in seconds.
const TTL_S: u32 = 86_400;
/// How many dead jobs are respawned or deleted in one pass, which lists them anew: as many as are
/// listed at a time, so that the cost of each is the same however many there are.
const PASS_MAX: usize = DEAD_MAX;
/// How many dead jobs are deleted in one step.
const DELETED_AT_ONCE: usize = 1_000;
/// How many passes in a row may be in vain, as another request was faster with each of their jobs.
const VAIN_MAX: u32 = 16;
/// How many dead jobs are respawned in one step, in memory.
const AT_ONCE: usize = 100;
/// How many of them are looked up at the same time.
const LOOKUPS_AT_ONCE: usize = 16;

/// A dead job that is to be put back.
struct DeadJob {
    job: FoundJob,
    /// The id that clients know.
    known: EventId,
    /// The event that takes its place.
    successor: EventId,
    note: Note,
}

/// What is noted under the id that clients know.
enum Note {
    Missing,
    /// The event that takes the place of the job: another respawn has been here.
    Successor,
    /// An event before it: the job was respawned and has died again, or one of the same name was.
    Earlier,
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
    Ok(jobs::sized(call, stats.dead))
}

pub(super) async fn peek(call: &Call<'_>) -> Result<Response> {
    let queue = call.queue()?;
    let size = call.pool.stats(&queue).await?.dead;
    let head = match size {
        0 => None,
        _ => call.pool.dead(&queue, 1).await?.first().copied(),
    };
    let found = match head {
        Some(id) => call.pool.get(&queue, id).await?,
        None => None,
    };
    let view = DeadView {
        deadletter_head: found
            .map(|found| job::shown(found.id, &found.headers))
            .unwrap_or_default(),
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
    let queue = call.queue()?;
    call.has_begun = true;
    let mut vain = 0;
    while left > 0 && vain < VAIN_MAX {
        let dead = call.pool.dead(&queue, left.min(PASS_MAX)).await?;
        if dead.is_empty() {
            break;
        }
        let mut dropped = 0;
        for some in dead.chunks(DELETED_AT_ONCE) {
            call.check_again().await?;
            dropped += call.pool.drop_dead(&queue, some.iter().copied()).await?;
        }
        left = left.saturating_sub(usize::try_from(dropped).unwrap_or(usize::MAX));
        vain = if dropped == 0 { vain + 1 } else { 0 };
    }
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

pub(super) async fn respawn(call: &mut Call<'_>, query: Option<&str>) -> Result<Response> {
    let params = Params::new(query);
    let limit = limit(&params)?;
    let ttl_s = params.number("ttl", TTL_S)?;
    let queue = call.queue()?;
    call.has_begun = true;
    let (mut count, mut vain) = (0_usize, 0);
    while count < limit && vain < VAIN_MAX {
        let dead = call
            .pool
            .dead(&queue, (limit - count).min(PASS_MAX))
            .await?;
        if dead.is_empty() {
            break;
        }
        let mut respawned = 0;
        for some in dead.chunks(AT_ONCE) {
            call.check_again().await?;
            respawned += respawn_some(call, &queue, some, ttl_s).await?;
        }
        count += respawned;
        vain = if respawned == 0 { vain + 1 } else { 0 };
    }
    respawn_notes::sweep(call, count).await;
    metrics::respawned(&call.labels(), count);
    Ok(reply::json(
        StatusCode::OK,
        &json!({"count": count, "msg": "respawned"}),
    ))
}

/// Puts new events in the place of dead ones: notes their ids, pushes them, drops the old ones. The
/// id of a new event is made of that of the dead one, so whoever respawns the same job, after a crash
/// between two steps or at the same time, pushes the same event: it is there once, although it may be
/// over by then. Returns how many jobs this respawn has put back.
async fn respawn_some(
    call: &Call<'_>,
    queue: &Queue<Body>,
    dead: &[EventId],
    ttl_s: u32,
) -> Result<usize> {
    let (mut jobs, mut new, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let mut lookups = Vec::new();
    for id in dead {
        lookups.push(with_note(call, queue, *id));
    }
    let lookups = stream::iter(lookups).buffered(LOOKUPS_AT_ONCE);
    let found: Vec<_> = lookups.collect().await;
    for found in found {
        let Some(it) = found? else {
            continue;
        };
        let note = (key(call, it.known), respawn_notes::text(it.successor));
        match it.note {
            Note::Missing => new.push(note),
            Note::Earlier => again.push(note),
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
        // Another respawn was faster, and the job has ended.
        if respawned(call, it.known).await?.is_none() {
            continue;
        }
        let (queue, events) = if it.job.form.is_encrypted {
            (&encrypted, &mut sealed)
        } else {
            (queue, &mut in_clear)
        };
        events.push((it.job.id, respawned_event(queue, it, ttl_s)));
    }
    let mut pushed = Vec::new();
    let mut failed = None;
    for (queue, events) in [(queue, in_clear), (&encrypted, sealed)] {
        let (ids, events): (Vec<_>, Vec<_>) = events.into_iter().unzip();
        let results = queue.push_many(events, When::Now).each().await?;
        for (id, result) in ids.into_iter().zip(results) {
            match result {
                Ok(_) => pushed.push(id),
                // It was pushed before, and may be over already.
                Err(error) if error.kind() == ErrorKind::Conflict => pushed.push(id),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
    }
    let dropped = call.pool.drop_dead(queue, pushed).await?;
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(usize::try_from(dropped).unwrap_or(usize::MAX)),
    }
}

/// Returns a dead job, and what is noted of it.
async fn with_note(call: &Call<'_>, queue: &Queue<Body>, id: EventId) -> Result<Option<DeadJob>> {
    let job = call.pool.get(queue, id).await?;
    let Some(job) = job.filter(|job| job.state == State::Dead) else {
        return Ok(None);
    };
    let known = job::shown_id(job.id, &job.headers);
    let successor = job_id::after(job.id, job.pushed);
    let note = match respawned(call, known).await? {
        None => Note::Missing,
        Some(noted) if noted == successor => Note::Successor,
        Some(noted) if noted == job.id => Note::Earlier,
        // Where the successor is known, the note is of one after it.
        Some(_) if queue.get(successor).await?.is_some() => Note::Successor,
        Some(_) => Note::Earlier,
    };
    Ok(Some(DeadJob {
        job,
        known,
        successor,
        note,
    }))
}

fn respawned_event(queue: &Queue<Body>, dead: DeadJob, ttl_s: u32) -> EventBuilder<Body> {
    let DeadJob {
        job,
        known,
        successor,
        ..
    } = dead;
    let mut event = Pool::event_again(queue, job.body, job.form)
        .id(successor)
        .attempts(1);
    if let Some(key) = job.key {
        event = event.key(key);
    }
    if ttl_s > 0 {
        event = event.expires_after(Duration::from_secs(ttl_s.into()));
    }
    let headers = job
        .headers
        .into_iter()
        .filter(|(name, _)| name != ID_MARK && !name.starts_with("duly-"));
    for (name, value) in headers {
        event = event.header(name, value);
    }
    event.header(ID_MARK, known.to_string())
}

fn key(call: &Call<'_>, known: EventId) -> String {
    let route = &call.route;
    format!(
        "{}/{}/{}/{known}",
        call.pool.name(),
        route.namespace,
        route.queue
    )
}

/// Returns the event that an id means now, if its job was respawned.
pub(super) async fn respawned(call: &Call<'_>, known: EventId) -> Result<Option<EventId>> {
    let id = call
        .app
        .shared
        .get(Table::Respawned, &key(call, known))
        .await?;
    Ok(id.as_deref().and_then(respawn_notes::event_of))
}

/// Forgets a respawned job that has ended.
pub(super) async fn forget_respawned(call: &Call<'_>, known: EventId) -> Result<()> {
    Ok(call
        .app
        .shared
        .remove(Table::Respawned, &key(call, known))
        .await?)
}
