//! Ids of jobs: ids of events whose last four bytes are the delay.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use duly::{EventId, Queue};
use serde::Serialize;

/// What a versioned id begins with.
const VERSION: char = '1';
/// The length of an id without its version.
const LEN: usize = 26;

/// Returns a new id. A counter takes the place of random bits, so that no two ids of a process are
/// the same; it begins anywhere, so that those of two processes are not either.
pub(super) fn new<T: Serialize + Send + Sync + 'static>(queue: &Queue<T>, delay_s: u32) -> EventId {
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(fastrand::u32(..)));
    let id = queue.new_id();
    let entropy = u64::from(NEXT.fetch_add(1, Ordering::Relaxed)) << 32;
    EventId::from_parts(
        id.created(),
        id.bucket(),
        entropy | u64::from(delay_s.swap_bytes()),
    )
}

/// Returns the text of an id.
pub(super) fn text(id: EventId, is_versioned: bool) -> String {
    match is_versioned {
        true => format!("{VERSION}{id}"),
        false => id.to_string(),
    }
}

/// Parses an id, with its version or without; anything else is the id of no job.
pub(super) fn parse(text: &str) -> Option<EventId> {
    let text = match text.len() > LEN {
        true => text.strip_prefix(VERSION)?,
        false => text,
    };
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use duly::event::BucketId;
    use duly::time::Timestamp;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = EventId::from_parts(Timestamp::from_millis(1_700_000_000_000), BucketId(0), 7);
        assert_eq!(parse(&text(id, false)), Some(id));
        assert_eq!(parse(&text(id, true)), Some(id));
        assert_eq!(text(id, true).len(), 27);
        assert_eq!(parse("x"), None);
    }
}
