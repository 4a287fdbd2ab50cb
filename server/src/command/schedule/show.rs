//! `duly schedule show`: a schedule with what comes and what was.

use duly_server::api::{Instant, ScheduleView};
use serde::Serialize;

use super::state;
use crate::command::error::Result;
use crate::command::output::{Colour, Output, plain, time};
use crate::command::source::Source;
use crate::command::view::{RecordFilter, RecordView};

/// How many results are shown.
const RESULTS: usize = 10;
/// How many pages of records are read for them: a page may have few, or none, though there are more.
const PAGES_MAX: usize = 16;

/// A schedule with its results, as JSON.
#[derive(Serialize)]
struct ScheduleReport {
    #[serde(flatten)]
    schedule: ScheduleView,
    /// The newest first.
    results: Vec<RecordView>,
}

pub(super) async fn show<S: Source>(
    source: &S,
    output: Output,
    schedule: ScheduleView,
) -> Result<()> {
    let results = results(source, &schedule).await?;
    if output.json {
        return output.json(&ScheduleReport { schedule, results });
    }
    fields(output, &schedule)?;
    let zone = schedule.when.parse::<duly::schedule::Recurrence>();
    let zone = zone.ok().and_then(|when| when.zone().map(str::to_owned));
    let zone = zone.unwrap_or_else(|| "UTC".to_owned());
    output.line("")?;
    let is_pushed = |next: &Instant| schedule.ahead.iter().any(|it| it.at_ms == next.at_ms);
    let rows: Vec<_> = schedule
        .next
        .iter()
        .map(|next| {
            let pushed = if is_pushed(next) { "pushed" } else { "" };
            vec![next.clock.clone(), time(next.at_ms), pushed.to_owned()]
        })
        .collect();
    output.table(&[&format!("NEXT, {zone}"), "UTC", ""], &rows)?;
    output.line("")?;
    let rows: Vec<_> = results.iter().map(|it| result(output, it)).collect();
    output.table(&["LAST RESULTS", "OUTCOME", "EVENT", ""], &rows)
}

/// Returns the last records of its events, of all attempts.
async fn results<S: Source>(source: &S, schedule: &ScheduleView) -> Result<Vec<RecordView>> {
    let filter = RecordFilter {
        queue: Some(schedule.queue.clone()),
        key: Some(schedule.name.clone()),
        newest_first: true,
        ..RecordFilter::default()
    };
    let (mut results, mut after) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let left = RESULTS - results.len();
        let page = source.records(&filter, after.as_deref(), left).await?;
        results.extend(page.items.into_iter().take(left));
        after = page.next;
        if after.is_none() || results.len() >= RESULTS {
            break;
        }
    }
    Ok(results)
}

fn fields(output: Output, schedule: &ScheduleView) -> Result<()> {
    let state = match (schedule.paused_ms, state(schedule)) {
        (Some(since), _) => output.paint(Colour::Yellow, &format!("paused since {}", time(since))),
        (None, "") => output.paint(Colour::Green, "running"),
        (None, other) => output.paint(Colour::Yellow, other),
    };
    let declared = match schedule.declared_ms {
        None => "by no program: it was set while programs ran".to_owned(),
        Some(at) if schedule.declaration_gone => format!(
            "by no program since {}; `duly schedule remove {}` ends it",
            time(at),
            schedule.name
        ),
        Some(at) => format!("by a program, last at {}", time(at)),
    };
    let dates = |dates: &[String]| (!dates.is_empty()).then(|| dates.join(" "));
    let jitter = schedule.jitter_ms;
    output.fields(&[
        ("schedule", Some(schedule.name.clone())),
        ("queue", Some(schedule.queue.clone())),
        ("when", Some(schedule.when.clone())),
        ("meaning", Some(schedule.meaning.clone())),
        ("state", Some(state)),
        ("next", Some(schedule.explanation.clone())),
        (
            "payload",
            schedule.payload.as_ref().map(|it| plain(it.get())),
        ),
        ("missed", Some(schedule.missed.clone())),
        ("overlap", Some(schedule.overlap.clone())),
        ("jitter", (jitter > 0).then(|| format!("{jitter} ms"))),
        ("exclude", dates(&schedule.exclude)),
        ("only", schedule.only.as_deref().and_then(dates)),
        ("declared", Some(declared)),
        (
            "change",
            schedule
                .changing
                .then(|| "waits for a program that runs schedules".to_owned()),
        ),
    ])
}

fn result(output: Output, record: &RecordView) -> Vec<String> {
    let colour = match record.outcome.as_str() {
        "acked" | "revived" => Colour::Green,
        "buried" | "lease_lost" => Colour::Red,
        _ => Colour::Yellow,
    };
    vec![
        time(record.ended_ms),
        output.paint(colour, &record.outcome),
        record.id.clone(),
        plain(record.error.as_deref().unwrap_or_default()),
    ]
}
