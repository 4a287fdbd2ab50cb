//! The filter of a query for events that are not over.

use std::time::Duration;

use crate::bus::dead_letters::display;
use crate::core::op::Snapshot;
use crate::event::State;
use crate::time::Timestamp;

/// What processes take the store's time for differs by less than this.
const APART: Duration = Duration::from_secs(60);

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
    /// `now`: the store's time.
    pub(super) fn matches(&self, event: &Snapshot, now: impl Fn() -> Timestamp) -> bool {
        self.state.is_none_or(|state| event.state == state)
            && self.since.is_none_or(|since| event.due >= since)
            && self.until.is_none_or(|until| event.due < until)
            && self
                .pushed_until
                .is_none_or(|until| was_pushed_until(event, until, now))
            && self.contains.as_ref().is_none_or(|text| has(event, text))
    }
}

/// Returns whether an event was pushed until then. So was one that says a time which is still to come:
/// its pusher's clock was ahead, and has been set back since.
fn was_pushed_until(event: &Snapshot, until: Timestamp, now: impl Fn() -> Timestamp) -> bool {
    event
        .body
        .as_ref()
        .is_none_or(|body| body.pushed <= until || body.pushed > now() + APART)
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
