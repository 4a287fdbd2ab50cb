//! A sweep over the records that a filter finds: what had ended is pushed once more.

use duly::records::Outcome;

use super::input::rate;
use super::kind::Action;
use super::sweep::start;
use super::{Input, SWEEP_RATE};
use crate::app::App;
use crate::error::{PageError, Result};
use crate::grant::Extent;
use crate::guard::Visit;
use crate::pages::records;
use crate::questions::in_time;
use crate::record_query::RecordQuery;
use crate::sweeps::Work;
use crate::text::{self, Fields, count, shown};

/// How many records a dry run reads.
const DRY_RUN: u32 = 1_000;
/// The field that says when the question was asked.
pub(super) const SUBMITTED_AT: &str = "asked";
/// The fields of the filter, beside the queue, with what they mean.
const FILTERS: [(&str, &str); 8] = [
    ("id", "of event"),
    ("outcome", "with outcome"),
    ("cause", "with cause"),
    ("key", "with key"),
    ("error", "with error"),
    ("node", "on node"),
    ("since", "since"),
    ("until", "before"),
];

/// Returns the queue, which a replay needs.
fn queue_of(fields: &Fields) -> Result<&str> {
    let queue = fields.get("queue");
    queue.ok_or_else(|| PageError::invalid("choose a queue first: a replay is of one queue"))
}

/// Returns the filter in words, beside the queue.
fn words(fields: &Fields) -> String {
    let said = FILTERS.into_iter().filter_map(|(name, what)| {
        let value = shown(fields.get(name)?, 80);
        Some(format!(", {what} {value}"))
    });
    said.collect()
}

/// Returns the query of what is replayed. It ends when it was asked, or before: what is pushed once
/// more has records of its own, which are not to be replayed.
fn records(app: &App, visit: &Visit, fields: &Fields) -> Result<RecordQuery> {
    let outcome = fields
        .get("outcome")
        .and_then(|outcome| outcome.parse::<Outcome>().ok());
    if outcome.is_some_and(|outcome| !outcome.is_final()) {
        let text = "an event that is replayed has ended: acked, discarded, cancelled, expired or dropped; \
                    dead letters are revived";
        return Err(PageError::invalid(text));
    }
    let records = records::filtered(app, visit, fields)?;
    let at = text::instant(fields, SUBMITTED_AT)?;
    let missing = || PageError::invalid("the time of the question is missing: ask again");
    let at = at.ok_or_else(missing)?;
    let until = text::instant(fields, "until")?;
    Ok(records.until(until.map_or(at, |until| until.min(at))))
}

/// Returns what a replay would be over, and how many events it would push.
pub(super) async fn selection(
    app: &App,
    visit: &Visit,
    fields: &mut Fields,
) -> Result<(String, String)> {
    let queue = queue_of(fields)?.to_owned();
    *fields = fields.and(SUBMITTED_AT, &app.bus.store_time().as_millis().to_string());
    let records = records(app, visit, fields)?;
    let page = in_time(records.page(None, DRY_RUN)).await?;
    let report = app
        .bus
        .replay("counted")
        .dry_run()
        .push(&page.items)
        .await?;
    let mut said = count(
        usize::try_from(report.pushed).unwrap_or(usize::MAX),
        "event would be pushed once more",
        "events would be pushed once more",
    );
    if page.next.is_some() {
        said = format!("At least {said}");
    }
    Ok((
        format!("Records of queue {queue}{}", words(fields)),
        format!(
            "{said}{}.",
            left_out(report.without_payload, report.unreadable)
        ),
    ))
}

/// Returns what is said of events that cannot be replayed.
fn left_out(without_payload: u64, unreadable: u64) -> String {
    let mut said = String::new();
    if without_payload > 0 {
        let many = text::number(without_payload);
        said += &format!("; {many} have no payload (their queue does not say keep_payload)");
    }
    if unreadable > 0 {
        let many = text::number(unreadable);
        said += &format!("; {many} have a payload for which there is no key");
    }
    said
}

pub(super) fn inputs() -> Vec<Input> {
    vec![
        Input {
            name: "name",
            label: "Name of this replay",
            value: format!("{}", text::now()),
            hint: "a replay under the same name pushes nothing twice",
            keys: "text",
            kind: "text",
        },
        Input {
            name: "version",
            label: "Version of the payloads",
            value: String::new(),
            hint: "of those that name none; empty: that of the queue's type in this program, or 0",
            keys: "numeric",
            kind: "text",
        },
        Input::rate("Events in a second", SWEEP_RATE),
    ]
}

/// Starts a replay; returns what was done, and to what.
pub(super) async fn sweep(
    app: &App,
    visit: &Visit,
    fields: &Fields,
) -> Result<(String, Vec<String>)> {
    let queue = queue_of(fields)?.to_owned();
    let rate = rate(fields)?;
    let records = records(app, visit, fields)?;
    let name = fields.get("name").unwrap_or_default();
    let mut replay = app.bus.replay(name);
    if let Some(version) = fields.get("version") {
        let text = "the version must be a number from 0 to 4294967295";
        let wrong = |_| PageError::invalid(text).of("version");
        replay = replay.version(version.parse().map_err(wrong)?);
    }
    // A name that is too long is told now, and not by the sweep.
    let named = replay.push(&[]).await;
    named.map_err(|error| PageError::of_field(error, "name"))?;
    let words = words(fields);
    let name = shown(name, 128);
    let what = format!("Replay records of queue {queue}{words}, as {name}, {rate} in a second");
    let work = Work::Replay(Box::new(records), replay);
    let targets = vec![format!("{queue}{words}, replay {name}")];
    let extent = Extent::Queue(queue);
    start(
        app,
        visit,
        Action::Replay,
        (work, what, rate),
        (extent, &targets),
    )?;
    Ok(("The replay has begun.".to_owned(), targets))
}
