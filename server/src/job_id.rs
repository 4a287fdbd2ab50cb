//! Ids of jobs: ids of events whose last four bytes are the delay.

use std::sync::atomic::{AtomicU32, Ordering};

use duly::time::Timestamp;
use duly::{EventId, Queue};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::shared::{Result, SharedState, StateError, Table};

/// What a versioned id begins with.
const VERSION: char = '1';
/// The length of an id without its version.
const LEN: usize = 26;

/// The bits of an id that count the ids of a start: a million of them in a millisecond.
const COUNTER_BITS: u32 = 20;
/// How many starts have numbers of their own, before the first number comes again.
const STARTS: u64 = 1 << (32 - COUNTER_BITS);
/// How many of the last starts the shared state knows.
const STARTS_KEPT: u64 = 16;
/// How often a number is tried that another server may take at the same time.
const TRIES_MAX: u32 = 1_000;

/// The ids of the jobs of this process: the time, the number of its start and a counter in place of
/// random bits, so that no two ids of servers that share their state are the same.
#[derive(Debug)]
pub(crate) struct JobIds {
    start: u32,
    next: AtomicU32,
}

impl JobIds {
    /// Takes the number of a start; a random one where the state takes none, as where it is full: it is
    /// drained through servers, which have to start.
    pub(crate) async fn take(state: &SharedState) -> Self {
        let start = next_start(state).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "start of the server not noted");
            fastrand::u64(..)
        });
        Self {
            start: u32::try_from(start % STARTS).unwrap_or_default(), // it has 12 bits
            next: AtomicU32::new(fastrand::u32(..)),
        }
    }

    /// Returns a new id, in the bucket of a unique key if one is given.
    pub(crate) fn next<T: Serialize + Send + Sync + 'static>(
        &self,
        queue: &Queue<T>,
        unique: Option<&str>,
        delay_s: u32,
    ) -> EventId {
        let id = match unique {
            Some(unique) => queue.new_id_for(unique),
            None => queue.new_id(),
        };
        let counter = self.next.fetch_add(1, Ordering::Relaxed) & ((1 << COUNTER_BITS) - 1);
        let own = u64::from(self.start << COUNTER_BITS | counter) << 32;
        EventId::from_parts(
            id.created(),
            id.bucket(),
            own | u64::from(delay_s.swap_bytes()),
        )
    }
}

/// Returns a number of a start that no other one of the last has.
async fn next_start(state: &SharedState) -> Result<u64> {
    for _ in 0..TRIES_MAX {
        let known = state.list(Table::Starts, "").await?;
        let numbers = known.iter().filter_map(|(number, _)| number.parse().ok());
        let next = numbers.max().unwrap_or(0_u64) + 1;
        let key = |number: u64| number.to_string();
        if !state.put_new(Table::Starts, &key(next), "").await? {
            continue;
        }
        let old = known.into_iter().map(|(number, _)| number);
        for number in old.filter(|it| it.parse().is_ok_and(|it: u64| it + STARTS_KEPT <= next)) {
            state.remove(Table::Starts, &number).await?;
        }
        return Ok(next);
    }
    Err(StateError::new(
        "starts",
        &"other servers start all the time",
    ))
}

/// Returns the id under which a dead job is put back: always the same, and of no other job, nor of
/// another one of its name. It has no time: by that of a job that died long ago, a store that has
/// dropped tombstones since would take its event for one that is over.
pub(crate) fn after(dead: EventId, pushed: Timestamp) -> EventId {
    let pushed = pushed.as_millis().to_be_bytes();
    let hash = Sha256::digest([b"respawned ", &dead.to_bytes()[..], &pushed].concat());
    let mut own = [0; 8];
    own[1..].copy_from_slice(&hash[..7]); // the last byte of an id is not random everywhere
    EventId::from_parts(Timestamp::EPOCH, dead.bucket(), u64::from_le_bytes(own))
}

/// Returns the text of an id.
pub(crate) fn text(id: EventId, is_versioned: bool) -> String {
    if is_versioned {
        format!("{VERSION}{id}")
    } else {
        id.to_string()
    }
}

/// Parses an id, with its version or without; anything else is the id of no job.
pub(crate) fn parse(text: &str) -> Option<EventId> {
    let text = if text.len() > LEN {
        text.strip_prefix(VERSION)?
    } else {
        text
    };
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use duly::event::BucketId;

    #[tokio::test]
    async fn starts_of_one_state_have_other_numbers() {
        let state = SharedState::open("memory:").await.unwrap();
        let mut starts = Vec::new();
        for _ in 0..50 {
            starts.push(JobIds::take(&state).await.start);
        }
        let known = state.list(Table::Starts, "").await.unwrap();
        assert!(known.len() <= 16, "{known:?}");
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len(), 50);
    }

    #[test]
    fn a_dead_job_is_put_back_under_one_id_and_each_under_its_own() {
        let at = Timestamp::from_millis(1_700_000_000_000);
        let ids: Vec<_> = (0..1_000_u64)
            .map(|own| EventId::from_parts(at, BucketId(3), own << 32))
            .collect();
        let mut all: Vec<_> = ids.iter().map(|id| after(*id, at)).collect();
        assert_eq!(all[0], after(ids[0], at));
        assert!(all.iter().all(|id| !id.tells_time()));
        let later = at + Duration::from_millis(1);
        all.extend(ids.iter().map(|id| after(*id, later)));
        all.extend(ids);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 3_000);
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = EventId::from_parts(Timestamp::from_millis(1_700_000_000_000), BucketId(0), 7);
        assert_eq!(parse(&text(id, false)), Some(id));
        assert_eq!(parse(&text(id, true)), Some(id));
        assert_eq!(text(id, true).len(), 27);
        assert_eq!(parse("x"), None);
    }
}
