//! The table of schedules.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use duly::admin::Schedule;
use duly::records::Record;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::error::{Result, html};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::pages::event::outcome;
use crate::questions::in_time;
use crate::text::{self, Fields, Moment, number};

/// The rows of a page.
const ROWS: usize = 50;
/// The most schedules that are read: of more, those of the first pages of the store.
const SCHEDULES_MAX: usize = 1_000;
/// How many last results are read at once, and for how long.
const RESULTS_AT_ONCE: usize = 8;
const RESULTS_WITHIN: Duration = Duration::from_secs(1);

#[derive(Template)]
#[template(path = "schedules.html")]
struct SchedulesPage {
    frame: Frame,
    rows: Vec<Row>,
    search: String,
    all: String,
    from: usize,
    to: usize,
    previous: Option<String>,
    next: Option<String>,
    has_more: bool,
}

struct Row {
    name: String,
    queue: String,
    meaning: String,
    next: Option<Clock>,
    last: Option<LastResult>,
    state: ScheduleState,
}

/// An instant by the clock of a schedule.
pub(crate) struct Clock {
    pub(crate) moment: Moment,
    pub(crate) clock: String,
    /// Whether its event is pushed already.
    pub(crate) is_pushed: bool,
}

/// How an occurrence ended.
pub(crate) struct LastResult {
    pub(crate) id: String,
    pub(crate) at: Moment,
    pub(crate) outcome: &'static str,
    pub(crate) class: &'static str,
    pub(crate) error: String,
}

/// The state of a schedule: its word, and its class.
pub(crate) struct ScheduleState {
    pub(crate) word: &'static str,
    pub(crate) class: &'static str,
}

impl ScheduleState {
    pub(crate) fn of(schedule: &Schedule) -> Self {
        let (word, class) = if schedule.paused.is_some() {
            ("paused", "warn")
        } else if schedule.is_declaration_gone() {
            ("no longer declared", "warn")
        } else if schedule.next().is_none() {
            ("over", "")
        } else {
            ("runs", "good")
        };
        Self { word, class }
    }
}

impl LastResult {
    pub(crate) fn new(record: &Record, now: duly::time::Timestamp) -> Self {
        let (outcome, class) = outcome(record.outcome);
        let at = duly::time::Timestamp::from_millis(record.stages.finished_us / 1_000);
        Self {
            id: record.id.to_string(),
            at: Moment::new(at, now),
            outcome,
            class,
            error: text::shown(record.error.as_deref().unwrap_or_default(), 200),
        }
    }
}

/// Returns the next instants of a schedule, as it was read.
pub(crate) fn next(schedule: &Schedule, many: usize) -> Vec<Clock> {
    let instants = schedule.instants().take(many);
    let instants = instants.map(|at| Clock {
        moment: Moment::new(at, schedule.now),
        clock: schedule.options.recurrence().clock_time(at),
        is_pushed: schedule.ahead.contains(&at),
    });
    instants.collect()
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let search = fields.text("q");
    let lower = search.trim().to_lowercase();
    let (read, has_more) = in_time(read(&app, &visit)).await?;
    let mut schedules: Vec<_> = read
        .into_iter()
        .filter(|it| lower.is_empty() || it.name.to_lowercase().contains(&lower))
        .collect();
    schedules.sort_by(|a, b| a.name.cmp(&b.name));
    let all = schedules.len();
    let pages = all.div_ceil(ROWS).max(1);
    let page = fields.get("page").and_then(|page| page.parse().ok());
    let page: usize = page.unwrap_or(1).clamp(1, pages);
    let begin = (page - 1) * ROWS;
    let shown: Vec<_> = schedules.into_iter().skip(begin).take(ROWS).collect();
    let last = last_results(&app, &shown).await;
    let rows: Vec<_> = shown
        .iter()
        .zip(last)
        .map(|(schedule, last)| Row {
            name: schedule.name.clone(),
            queue: schedule.options.queue().to_string(),
            meaning: schedule.options.recurrence().describe(),
            next: next(schedule, 1).pop(),
            last,
            state: ScheduleState::of(schedule),
        })
        .collect();
    let link = |page: usize| format!("?{}", fields.with(&[("page", &page.to_string())]));
    html(&SchedulesPage {
        from: if rows.is_empty() { 0 } else { begin + 1 },
        to: begin + rows.len(),
        rows,
        search,
        all: number(all as u64),
        previous: (page > 1).then(|| link(page - 1)),
        next: (page < pages).then(|| link(page + 1)),
        has_more,
        frame: app.frame(&visit, "schedules", "Schedules"),
    })
}

/// Returns the schedules that the user may see, and whether there are more. Who sees some only learns
/// nothing of others, so all are read, if there is time.
async fn read(app: &App, visit: &Visit) -> duly::Result<(Vec<Schedule>, bool)> {
    let schedules = app.bus.schedules();
    let (mut seen, mut place): (_, Option<String>) = (Vec::new(), None);
    loop {
        let from = place.as_deref();
        let page = match visit.user.namespace() {
            Some(namespace) => schedules.page_of(namespace, from, SCHEDULES_MAX).await?,
            None => schedules.page(from, SCHEDULES_MAX).await?,
        };
        let items = page.items.into_iter();
        seen.extend(items.filter(|it| visit.user.sees_schedule(it)));
        place = page.next;
        let is_full = seen.len() >= SCHEDULES_MAX;
        if place.is_none() || visit.user.sees_all() || is_full {
            return Ok((seen, place.is_some() && (visit.user.sees_all() || is_full)));
        }
    }
}

/// Returns the last result of each schedule, of those that can be read in time.
async fn last_results(app: &App, schedules: &[Schedule]) -> Vec<Option<LastResult>> {
    let (until, now) = (Instant::now() + RESULTS_WITHIN, app.bus.store_time());
    let reads = schedules.iter().map(async |schedule| {
        let records = app.bus.records().queue(schedule.options.queue());
        let records = records.key(&schedule.name).newest_first().limit(1).page();
        let page = timeout_at(until, records).await.ok()?.ok()?;
        page.items.first().map(|it| LastResult::new(it, now))
    });
    // Each future is made here, so that all have the type of one.
    let reads: Vec<_> = reads.collect();
    stream::iter(reads)
        .buffered(RESULTS_AT_ONCE)
        .collect()
        .await
}
