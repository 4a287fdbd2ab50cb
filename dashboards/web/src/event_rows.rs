//! The rows of a table of events.

use duly::admin::StoredEvent;
use duly::event::State;
use duly::time::Timestamp;

use crate::text::{self, Moment};

/// The longest key of a row, in characters.
const KEY_MAX: usize = 40;

/// An event in a table.
#[derive(Debug)]
pub(crate) struct EventRow {
    pub(crate) id: String,
    pub(crate) queue: String,
    pub(crate) state: &'static str,
    pub(crate) due: Moment,
    pub(crate) tries: u16,
    /// Whether it waits, so that it can be chosen for an action.
    pub(crate) waits: bool,
    /// Its key, or else its unique key.
    pub(crate) key: String,
}

pub(crate) fn rows(events: &[StoredEvent], now: Timestamp) -> Vec<EventRow> {
    let row = |event: &StoredEvent| {
        let key = event.key.as_deref().or(event.unique.as_deref());
        EventRow {
            id: event.id.to_string(),
            queue: event.queue.to_string(),
            state: event.state.as_str(),
            due: Moment::new(event.due, now),
            tries: event.tries,
            waits: matches!(event.state, State::Scheduled | State::Ready) && !event.queue.is_own(),
            key: key.map(|key| text::shown(key, KEY_MAX)).unwrap_or_default(),
        }
    };
    events.iter().map(row).collect()
}
