//! The end of a job: of its own event, and of all that respawns have put in its place.
//!
//! A respawn notes the new event, looks whether the old one is still dead, pushes, and looks at its
//! note once more if somebody else has ended the old one. So whoever has ended the old one first,
//! and looks for notes then, knows each event that is pushed or will be; and what is pushed until
//! its note goes is there to be ended after that.

use duly::EventId;
use duly::event::State;
use futures_util::{StreamExt, stream};

use super::check::Call;
use super::{Result, respawn_notes};
use crate::auth::Scope;
use crate::bus::JobEnd;

/// How many notes of one job are looked at: for each but the first, the event before has died and
/// was respawned meanwhile.
const RESPAWNED_MAX: usize = 16;
/// How many jobs are looked up at the same time.
const LOOKUPS_AT_ONCE: usize = 16;

/// What came of the end of a job whose events were known.
#[derive(Debug)]
pub(super) struct EndOutcome {
    /// Whether a consumer had it.
    pub(super) was_leased: bool,
    /// The end of what a respawn has put in its place meanwhile.
    pub(super) successors: Result<()>,
}

/// Whether the token may end a job in a state: whoever publishes recalls what waits, whoever
/// consumes acknowledges what is leased, and an admin drops what is dead.
pub(super) fn permitted(call: &Call<'_>, state: State) -> Result<()> {
    match state {
        State::Scheduled | State::Ready => call.may(Scope::Publish),
        State::Leased => call.may(Scope::Consume),
        State::Dead => call.may(Scope::Admin),
        _ => Ok(()),
    }
}

/// The end of a job, by a request that may need a right to it.
pub(super) struct EndStep<'a, 'c> {
    pub(super) call: &'a Call<'c>,
    /// The id that clients know.
    pub(super) known: EventId,
    pub(super) needs_right: bool,
}

impl EndStep<'_, '_> {
    /// Ends the events of the job, in whatever state they are, if the token may do so in that
    /// state; and then what respawns have put in their place.
    pub(super) async fn all(&self, events: Vec<EventId>) -> Result<EndOutcome> {
        let mut was_leased = false;
        for id in &events {
            was_leased |= self.event(*id).await?;
        }
        // Of a job that a consumer has under its own id there is no other event.
        let successors = if was_leased && events.len() == 1 {
            Ok(false)
        } else {
            self.successors(events).await
        };
        Ok(EndOutcome {
            was_leased: was_leased || matches!(successors, Ok(true)),
            successors: successors.map(drop),
        })
    }

    /// Ends what is noted of a job whose events before have `ended`, and forgets it; returns
    /// whether one of them was leased.
    async fn successors(&self, mut ended: Vec<EventId>) -> Result<bool> {
        let (mut was_leased, mut noted) = (false, Vec::new());
        for _ in 0..RESPAWNED_MAX {
            noted = respawn_notes::of(self.call, self.known).await?;
            let begun = ended.len();
            for id in &noted {
                if !ended.contains(id) {
                    was_leased |= self.event(*id).await?;
                    ended.push(*id);
                }
            }
            if was_leased || ended.len() == begun {
                break;
            }
        }
        if !noted.is_empty() {
            let forgotten = respawn_notes::forget(self.call, self.known).await;
            // What was pushed until now ends although its note may stay.
            for id in noted.into_iter().filter(|_| !was_leased) {
                self.event(id).await?;
            }
            forgotten?;
        }
        Ok(was_leased)
    }

    /// Ends an event; returns whether it was leased.
    async fn event(&self, id: EventId) -> Result<bool> {
        let check = |state| {
            if self.needs_right {
                permitted(self.call, state)
            } else {
                Ok(())
            }
        };
        let (pool, queue) = (self.call.pool, self.call.queue()?);
        match pool.end(&queue, id, |state| check(state).is_ok()).await? {
            JobEnd::Refused(state) => check(state).map(|()| false),
            end => Ok(end == JobEnd::Acked),
        }
    }
}

/// Ends the new events of jobs that were ended while they were on their way: whoever did so has
/// removed the note. Of each job the id that clients know is given, and the new event.
pub(super) async fn end_what_has_ended(
    call: &Call<'_>,
    jobs: impl Iterator<Item = (EventId, EventId)>,
) -> Result<()> {
    let ends = jobs.map(|(known, successor)| end_if_ended(call, known, successor));
    each(ends.collect()).await
}

async fn end_if_ended(call: &Call<'_>, known: EventId, successor: EventId) -> Result<()> {
    // One that cannot be read is there: nobody has removed it.
    if respawn_notes::if_any(call, known).await?.is_some() {
        return Ok(());
    }
    let step = EndStep {
        call,
        known,
        needs_right: false,
    };
    step.all(vec![successor]).await?.successors
}

/// Does each, whatever becomes of the others; returns the first error.
async fn each(ends: Vec<impl Future<Output = Result<()>>>) -> Result<()> {
    let ends: Vec<_> = stream::iter(ends).buffered(LOOKUPS_AT_ONCE).collect().await;
    ends.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::lmstfy::ApiError;

    #[tokio::test]
    async fn an_end_that_fails_keeps_no_other_from_ending() {
        let ended = Cell::new(0);
        let end = async |is_bad: bool| {
            if is_bad {
                return Err(ApiError::bad("a bad row"));
            }
            ended.set(ended.get() + 1);
            Ok(())
        };
        let ends = (0..40).map(|number| end(number == 0)).collect();
        assert!(each(ends).await.is_err());
        assert_eq!(ended.get(), 39);
    }
}
