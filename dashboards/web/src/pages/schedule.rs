//! One schedule: when it is next and why, and how its last occurrences ended.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use duly::ErrorKind;
use duly::admin::Schedule;

use crate::app::App;
use crate::error::{PageError, Result, html};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::pages::schedules::{Clock, LastResult, ScheduleState, next};
use crate::questions::in_time;
use crate::text::{self, Moment, encoded, span};

/// How many instants and results are shown.
const SHOWN: usize = 10;
/// The longest payload that is shown, in characters.
const PAYLOAD_MAX: usize = 16 << 10;

#[derive(Template)]
#[template(path = "schedule.html")]
struct SchedulePage {
    frame: Frame,
    name: String,
    queue: String,
    when: String,
    meaning: String,
    zone: String,
    explanation: String,
    state: ScheduleState,
    paused: Option<Moment>,
    declared: Option<Moment>,
    is_gone: bool,
    is_changing: bool,
    facts: Vec<(&'static str, String)>,
    payload: Option<String>,
    next: Vec<Clock>,
    /// `None`: they could not be read.
    results: Option<Vec<LastResult>>,
    key: String,
}

/// Returns a schedule that the user may see.
pub(crate) async fn schedule_of(app: &App, visit: &Visit, name: &str) -> Result<Schedule> {
    let unknown = || PageError::not_found("there is no such schedule");
    let found = match in_time(app.bus.schedules().get(name)).await {
        // What cannot be a name is the name of none.
        Err(error) if error.kind() == ErrorKind::Invalid => None,
        found => found?,
    };
    let found = found.ok_or_else(unknown)?;
    if visit.user.sees_schedule(&found) {
        Ok(found)
    } else {
        Err(unknown())
    }
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    Path(name): Path<String>,
) -> Result<Response> {
    let schedule = schedule_of(&app, &visit, &name).await?;
    let options = &schedule.options;
    let records = app.bus.records().queue(options.queue());
    let records = records
        .key(&schedule.name)
        .newest_first()
        .limit(SHOWN as u32);
    let results = in_time(records.page()).await;
    let now = app.bus.store_time();
    let results = results.map(|page| {
        let results = page.items.iter().map(|it| LastResult::new(it, now));
        results.collect()
    });
    let when = options.recurrence();
    html(&SchedulePage {
        queue: options.queue().to_string(),
        when: when.to_string(),
        meaning: when.describe(),
        zone: when.zone().unwrap_or("UTC").to_owned(),
        explanation: schedule.explain(),
        state: ScheduleState::of(&schedule),
        paused: schedule.paused.map(|at| Moment::new(at, schedule.now)),
        declared: schedule.declared.map(|at| Moment::new(at, schedule.now)),
        is_gone: schedule.is_declaration_gone(),
        is_changing: schedule.is_changing,
        facts: facts(&schedule),
        payload: options.payload_text().map(|it| text::cut(it, PAYLOAD_MAX)),
        next: next(&schedule, SHOWN),
        results: results.ok(),
        key: encoded(&schedule.name),
        frame: app.frame(&visit, "schedules", &schedule.name),
        name: schedule.name,
    })
}

/// Returns the options that are worth a line.
fn facts(schedule: &Schedule) -> Vec<(&'static str, String)> {
    let options = &schedule.options;
    let mut facts = vec![
        ("Missed occurrences", options.missed_policy().to_string()),
        ("Overlapping ones", options.overlap_policy().to_string()),
    ];
    let jitter = options.jitter_window();
    if !jitter.is_zero() {
        facts.push(("Spread over", span(jitter)));
    }
    let (exclude, only) = options.calendars();
    if !exclude.is_empty() {
        facts.push(("Rests on", text::cut(&exclude.to_string(), 400)));
    }
    if let Some(only) = only {
        facts.push(("Runs only on", text::cut(&only.to_string(), 400)));
    }
    facts
}
