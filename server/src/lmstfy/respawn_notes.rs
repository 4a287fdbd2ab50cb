//! Notes of respawned jobs in the shared state: the event that an id means now, since when, and of a
//! job that has died again the event before it, which is there until the other is pushed.
//!
//! A job may end without a word that names it: it expires, dies and is dropped, is settled by `/v1`.
//! So with each respawn some notes are looked at, and those of jobs that are over go.

use std::time::Duration;

use duly::time::Timestamp;
use duly::{ErrorKind, EventId};
use futures_util::{StreamExt, stream};

use super::check::Call;
use super::job;
use crate::bus::Pool;
use crate::clock;
use crate::shared::{Result, StateError, Table};

/// How old a note is before it is looked at: a newer one may be of an event that is not pushed yet.
const AGE_MIN: Duration = Duration::from_secs(3_600);
/// How many notes are looked at for each that a respawn adds: more than one, so that those of jobs
/// that are over are never more than the others.
const LOOKS: usize = 2;
/// The most notes that are read at a time.
const PAGE_MAX: usize = 1_000;
/// How many events are looked up at the same time.
const LOOKUPS_AT_ONCE: usize = 16;

/// Returns the text of a note that is made now.
pub(super) fn text(id: EventId, before: Option<EventId>) -> String {
    let now_ms = clock::now().as_millis();
    match before {
        Some(before) => format!("{id} {now_ms} {before}"),
        None => format!("{id} {now_ms}"),
    }
}

/// Returns the events that a note names, and when it was made.
fn parse(note: &str) -> Option<(Vec<EventId>, Timestamp)> {
    let mut words = note.split(' ');
    let id = words.next()?.parse().ok()?;
    let made_ms = words.next().unwrap_or("0").parse().ok()?;
    let before = words.next().map(str::parse).transpose().ok()?;
    let ids = [Some(id), before].into_iter().flatten().collect();
    Some((ids, Timestamp::from_millis(made_ms)))
}

/// Returns the events that a note names: the one that the id means now, and the one before it.
fn events_of(note: &str) -> Vec<EventId> {
    parse(note).map(|(ids, _)| ids).unwrap_or_default()
}

pub(super) fn key(call: &Call<'_>, known: EventId) -> String {
    key_of(call, &call.route.queue, known)
}

fn key_of(call: &Call<'_>, queue: &str, known: EventId) -> String {
    let namespace = &call.route.namespace;
    format!("{}/{namespace}/{queue}/{known}", call.pool.name())
}

/// Returns the id that clients know an event of a queue by: that of its mark, where there is a note
/// that the event took the place of that job.
pub(super) async fn known_id(
    call: &Call<'_>,
    queue: &str,
    id: EventId,
    headers: &[(String, String)],
) -> Result<EventId> {
    let Some(known) = job::marked(headers) else {
        return Ok(id);
    };
    let noted = noted(call, &key_of(call, queue, known)).await?;
    Ok(if noted.contains(&id) { known } else { id })
}

/// Returns the event that an id means now, if its job was respawned, and the one before it, if any:
/// it is there until the other is pushed.
pub(super) async fn of(call: &Call<'_>, known: EventId) -> Result<Vec<EventId>> {
    noted(call, &key(call, known)).await
}

async fn noted(call: &Call<'_>, key: &str) -> Result<Vec<EventId>> {
    Ok(noted_if_any(call, key).await?.unwrap_or_default())
}

/// As [`of`]; `None` where nothing is noted, and no event where that cannot be read.
pub(super) async fn if_any(call: &Call<'_>, known: EventId) -> Result<Option<Vec<EventId>>> {
    noted_if_any(call, &key(call, known)).await
}

async fn noted_if_any(call: &Call<'_>, key: &str) -> Result<Option<Vec<EventId>>> {
    let note = call.app.shared.get(Table::Respawned, key).await?;
    Ok(note.map(|note| readable_events(key, &note)))
}

/// Returns the events that a note names. One that cannot be read is told, and set aside.
fn readable_events(key: &str, note: &str) -> Vec<EventId> {
    let events = events_of(note);
    if events.is_empty() {
        let expected = "an id, milliseconds since the epoch, and perhaps another id";
        tracing::warn!(
            key,
            note,
            expected,
            "note of a respawned job cannot be read"
        );
    }
    events
}

/// Forgets a respawned job that has ended.
pub(super) async fn forget(call: &Call<'_>, known: EventId) -> Result<()> {
    let key = key(call, known);
    call.app.shared.remove(Table::Respawned, &key).await
}

/// Looks at some notes after a respawn of so many jobs, and removes those of jobs that are over. A
/// failure is of no matter to the respawn.
pub(super) async fn sweep(call: &Call<'_>, respawned: usize) {
    if let Err(error) = sweep_some(call, respawned.saturating_mul(LOOKS)).await {
        tracing::warn!(%error, "notes of respawned jobs not looked at");
    }
}

async fn sweep_some(call: &Call<'_>, mut left: usize) -> Result<()> {
    let shared = &call.app.shared;
    while left > 0 {
        let place = call.app.respawn_notes.lock().clone();
        let some = shared.some(Table::Respawned, &place, left.min(PAGE_MAX));
        let (notes, next) = some.await?;
        left = left.saturating_sub(notes.len().max(1));
        let is_last = next.is_empty();
        *call.app.respawn_notes.lock() = next;
        let old = notes
            .into_iter()
            .filter(|(key, note)| !readable_events(key, note).is_empty() && is_old(note));
        let old: Vec<_> = old
            .map(|(key, note)| remove_if_over(call, key, note))
            .collect();
        let mut removals = stream::iter(old).buffer_unordered(LOOKUPS_AT_ONCE);
        while let Some(removed) = removals.next().await {
            removed?;
        }
        if is_last {
            break;
        }
    }
    Ok(())
}

fn is_old(note: &str) -> bool {
    parse(note).is_some_and(|(_, made)| made + AGE_MIN <= clock::now())
}

/// Removes a note of this pool, if its event is over. Other pools may be of other servers.
async fn remove_if_over(call: &Call<'_>, key: String, note: String) -> Result<()> {
    let shared = &call.app.shared;
    let is_over = match found(call.pool, &key, &note).await {
        Ok(found) => found == Some(false),
        // Such as of a queue that no server has: it keeps no other note.
        Err(error) if error.kind() == ErrorKind::Invalid => {
            tracing::warn!(key, note, %error, "note of a respawned job cannot be used");
            false
        }
        Err(error) => return Err(StateError::new(&key, &error)),
    };
    // A respawn that has ended the event has made another note of it before.
    if is_over && shared.get(Table::Respawned, &key).await?.as_ref() == Some(&note) {
        shared.remove(Table::Respawned, &key).await?;
    }
    Ok(())
}

/// Whether an event of a note is not over, as the store has it: a consumer may end one that has
/// expired meanwhile. `None` where this pool cannot say.
async fn found(pool: &Pool, key: &str, note: &str) -> duly::Result<Option<bool>> {
    let mut names = key.split('/');
    let (of, namespace, queue) = (names.next(), names.next(), names.next());
    let (Some(namespace), Some(queue), ids) = (namespace, queue, events_of(note)) else {
        return Ok(None);
    };
    if of != Some(pool.name()) || ids.is_empty() {
        return Ok(None);
    }
    let queue = pool.queue(namespace, queue)?;
    for id in ids {
        let found = queue.get(id).await?;
        if found.is_some_and(|it| !it.state.is_final()) {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_its_events_and_is_old_after_an_hour() {
        let (id, before) = (EventId::from_bytes([7; 16]), EventId::from_bytes([6; 16]));
        for (note, events) in [
            (text(id, None), vec![id]),
            (text(id, Some(before)), vec![id, before]),
        ] {
            assert_eq!(events_of(&note), events);
            assert!(!is_old(&note));
        }
        let hour_ago = clock::now().as_millis() - 3_600_000;
        assert!(is_old(&format!("{id} {hour_ago}")));
        assert!(is_old(&format!("{id} {hour_ago} {before}")));
        // As they were before they had a time.
        assert_eq!(events_of(&id.to_string()), [id]);
        assert!(is_old(&id.to_string()));
        assert_eq!(events_of("no event"), []);
    }
}
