//! The filter of a query for events that are not over.

use crate::bus::dead_letters::display;
use crate::core::op::Snapshot;
use crate::event::State;
use crate::time::Timestamp;

/// The filter of a query for events; an unset field matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct EventFilter {
    pub(super) state: Option<State>,
    /// Of the due time.
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    /// Of the time of the push.
    pub(super) pushed_until: Option<Timestamp>,
    /// A text of a key, of a header, or of the payload.
    pub(super) contains: Option<String>,
}

impl EventFilter {
    pub(super) fn matches(&self, event: &Snapshot) -> bool {
        self.state.is_none_or(|state| event.state == state)
            && self.since.is_none_or(|since| event.due >= since)
            && self.until.is_none_or(|until| event.due < until)
            && self
                .pushed_until
                .is_none_or(|until| was_pushed_until(event, until))
            && self.contains.as_ref().is_none_or(|text| has(event, text))
    }
}

fn was_pushed_until(event: &Snapshot, until: Timestamp) -> bool {
    event.body.as_ref().is_none_or(|body| body.pushed <= until)
}

fn has(event: &Snapshot, text: &str) -> bool {
    event.body.as_ref().is_some_and(|body| {
        let is_in = |it: &String| it.contains(text);
        body.key.as_ref().is_some_and(is_in)
            || body.unique.as_ref().is_some_and(is_in)
            || body.headers.iter().any(|(_, value)| value.contains(text))
            || display::contains(body.payload.as_bytes(), text)
    })
}
