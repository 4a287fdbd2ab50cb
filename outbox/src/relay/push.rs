//! Pushing the events of one group, and what becomes of each.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::__outbox::{self, PlainEvent, StagedEvent, StagedPush, renew, stage_plain};
use duly::records::Records;
use duly::{Bus, Error, ErrorKind};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use crate::relay::settle::RowOutcome;
use crate::relay::source::{Row, RowContent};

/// How long a push may take, with the look-ups that follow; what it came to is then unknown. Less than
/// a claim of deferred rows.
const PUSH_MAX: Duration = Duration::from_secs(20);
/// The look-ups of records at once, of one group.
const LOOKUPS_AT_ONCE: usize = 8;

/// An event of a page, or of deferred rows.
#[derive(Debug)]
pub(crate) struct RowEvent {
    /// Its place there.
    pub(crate) place: usize,
    pub(crate) event: StagedEvent,
    /// Whether it was put back by somebody who knows that handling it twice does no harm.
    pub(crate) is_anew: bool,
}

impl RowEvent {
    /// Returns whether its order among others decides which of them stands.
    pub(crate) fn is_ordered(&self) -> bool {
        self.event.order_key().is_some()
    }
}

/// What became of the events of a group.
#[derive(Debug)]
pub(crate) struct GroupResult {
    pub(crate) outcomes: Vec<(usize, RowOutcome)>,
    pub(crate) failure: Option<Error>,
    /// The order keys of the events that were not settled.
    pub(crate) failed_keys: Vec<String>,
}

impl GroupResult {
    /// Returns whether the store has taken or judged any of them, if there were any.
    pub(crate) fn is_accepted(&self) -> bool {
        let mut outcomes = self.outcomes.iter().map(|(_, outcome)| outcome);
        self.outcomes.is_empty() || outcomes.any(RowOutcome::has_reply)
    }

    /// Returns the result of a push that has panicked.
    pub(crate) fn panicked(places: Vec<usize>) -> Self {
        let error = Error::new(ErrorKind::Corrupt, "a push of the outbox has panicked");
        Self::unknown(places.into_iter(), error)
    }

    fn unknown(places: impl Iterator<Item = usize>, failure: Error) -> Self {
        Self {
            outcomes: places.map(|place| (place, RowOutcome::Unknown)).collect(),
            failure: Some(failure),
            failed_keys: Vec::new(),
        }
    }
}

/// A page, taken apart.
#[derive(Debug, Default)]
pub(crate) struct PageEvents {
    /// By row: what became of one that is not pushed.
    pub(crate) outcomes: Vec<Option<RowOutcome>>,
    /// The name of the group of each row that is.
    pub(crate) names: Vec<Option<String>>,
    pub(crate) groups: BTreeMap<String, Vec<RowEvent>>,
}

/// Takes rows apart.
pub(crate) fn page_events(bus: &Bus, rows: &[Row]) -> PageEvents {
    let mut page = PageEvents::default();
    for (place, row) in rows.iter().enumerate() {
        let (mut outcome, mut name) = (None, None);
        match &row.content {
            RowContent::Staged(bytes) => match StagedEvent::decode(bytes) {
                // Nothing else would ever change what the store says of that id.
                Ok(event) if row.is_anew && event.is_given() => {
                    outcome = Some(renewed(bus, &event));
                }
                Ok(event) => {
                    let group = format!("{}/{}", event.queue(), event.bucket());
                    // What an operator has put back goes on under a new id, however often it is tried.
                    let event = event.repeated(row.is_repeated && !row.is_anew);
                    let is_anew = row.is_anew;
                    let event = RowEvent {
                        place,
                        event,
                        is_anew,
                    };
                    page.groups.entry(group.clone()).or_default().push(event);
                    name = Some(group);
                }
                Err(error) => outcome = Some(RowOutcome::refused(with_causes(&error))),
            },
            RowContent::Plain(plain) => outcome = Some(encode(bus, plain, row.is_anew)),
            RowContent::Unreadable(why) => outcome = Some(RowOutcome::refused(why.clone())),
        }
        page.outcomes.push(outcome);
        page.names.push(name);
    }
    page
}

/// Pushes the events of a group.
pub(crate) async fn push_group(bus: &Bus, events: &[RowEvent]) -> GroupResult {
    let staged: Vec<_> = events.iter().map(|it| it.event.clone()).collect();
    let push = async {
        let pushed = __outbox::push(bus, &staged).await;
        let (mut outcomes, mut failure) = (Vec::with_capacity(events.len()), None);
        for (row, pushed) in events.iter().zip(pushed) {
            let outcome = match &pushed {
                StagedPush::Conflict(_) if row.is_anew => renewed(bus, &row.event),
                pushed => RowOutcome::of(pushed),
            };
            outcomes.push((row.place, outcome));
            if let StagedPush::Failed(error) = pushed {
                failure.get_or_insert(error);
            }
        }
        GroupResult {
            outcomes,
            failure,
            failed_keys: Vec::new(),
        }
    };
    let pushed = tokio::time::timeout(PUSH_MAX, push).await;
    pushed.unwrap_or_else(|_| {
        let late = format!("the store has not replied to a push within {PUSH_MAX:?}");
        let late = Error::new(ErrorKind::Unknown, late);
        GroupResult::unknown(events.iter().map(|row| row.place), late)
    })
}

/// Pushes deferred events of a group, and looks those up that are out of time. A page does not wait for
/// that: a look-up may read many records.
pub(crate) async fn push_deferred(bus: &Bus, events: &[RowEvent]) -> GroupResult {
    let deadline = Instant::now() + PUSH_MAX;
    let mut result = push_group(bus, events).await;
    let outcomes = result.outcomes.iter_mut().map(|(_, outcome)| outcome);
    let late = events.iter().zip(outcomes);
    let late = late.filter(|(_, outcome)| matches!(outcome, RowOutcome::OutOfTime));
    let lookups = late.map(|(row, outcome)| async move {
        *outcome = out_of_time(bus, &row.event).await;
    });
    let lookups: Vec<_> = lookups.collect();
    let lookups = stream::iter(lookups).for_each_concurrent(LOOKUPS_AT_ONCE, |it| it);
    // What there was no time for stays as it is, and is pushed again.
    drop(timeout_at(deadline, lookups).await);
    let outcomes = result.outcomes.iter().map(|(_, outcome)| outcome);
    let failed = events.iter().zip(outcomes);
    let failed = failed.filter(|(_, outcome)| !outcome.is_settled());
    let failed = failed.filter_map(|(row, _)| row.event.order_key());
    result.failed_keys = failed.collect();
    result
}

fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// An event of plain SQL goes on as a staged one: its bucket and its bytes are fixed before it is
/// pushed for the first time, and so are the same each time.
fn encode(bus: &Bus, plain: &PlainEvent, is_anew: bool) -> RowOutcome {
    match stage_plain(bus, plain) {
        Ok(staged) if is_anew && staged.is_given() => renewed(bus, &staged),
        Ok(staged) => RowOutcome::Instead(staged.encode()),
        Err(error) => RowOutcome::refused(with_causes(&error)),
    }
}

/// The id of an event is not within the time that the store accepts: it has waited for long, or
/// was made by a clock that was wrong. Or it is that of a name, which the store forgets and accepts
/// again, and the event may have been pushed before.
///
/// Its records say whether it was accepted and is over: the row may be one of a backup. Without one, an
/// event that was never pushed goes on under a new id. One that may have been accepted, and be over and
/// forgotten, does not: it is put aside. So is one whose id was chosen, as others may have pushed it.
async fn out_of_time(bus: &Bus, event: &StagedEvent) -> RowOutcome {
    let mut records = bus.records().queue(event.queue()).id(event.id());
    if !event.id().tells_time() {
        records = records.since(event.staged_at()); // those of before are of another event
    }
    match has_any(records).await {
        Ok(true) => RowOutcome::Accepted { is_new: false },
        Ok(_) if event.is_repeated() => RowOutcome::refused(format!(
            "the event {} may have been accepted by an earlier push whose result was lost, and \
             be older than the tombstones of the store; there is no record of it. \
             Put it back under a new id if handling it twice does no harm",
            event.id()
        )),
        Ok(_) if event.is_given() => RowOutcome::refused(format!(
            "the id {}, which was chosen for the event, is older than the tombstones of the store, \
             so an event of that id may have been handled already; there is no record of one. Put \
             the row back under a new id if handling it twice does no harm",
            event.id()
        )),
        Ok(_) => renewed(bus, event),
        Err(_) => RowOutcome::NotYet,
    }
}

/// A page may have none although there are more: it ends before what it did not look at.
async fn has_any(records: Records) -> duly::Result<bool> {
    let records = records.limit(1);
    let mut page = records.clone().page().await?;
    while let (true, Some(next)) = (page.items.is_empty(), page.next) {
        page = records.clone().after(next).page().await?;
    }
    Ok(!page.items.is_empty())
}

fn renewed(bus: &Bus, event: &StagedEvent) -> RowOutcome {
    match renew(bus, event) {
        Ok(renewed) => {
            tracing::debug!(first = %event.id(), id = %renewed.id(), "an event of the outbox has a \
                new id, as the store does not accept its first one");
            RowOutcome::Instead(renewed.encode())
        }
        Err(error) => RowOutcome::refused(with_causes(&error)),
    }
}
