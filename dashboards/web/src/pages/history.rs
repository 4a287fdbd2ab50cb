//! Throughput, failures and lateness of an hour, a day, a month or a year, from the statistics of
//! minutes, with the values of each step and the way to its records.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use duly::QueueName;
use duly::time::Timestamp;

use crate::app::App;
use crate::chart::Chart;
use crate::error::{PageError, Result, html};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::hour_sums::{HOUR, Step, read_sums};
use crate::pages::queue::name_of;
use crate::pages::records;
use crate::questions::{MINUTE, at_minute, minute_of};
use crate::text::{self, Fields, number, span};

/// The minutes of a day.
const DAY: u64 = 1_440;

/// A span of time, in steps of some minutes.
#[derive(Clone, Copy, Debug)]
struct Extent {
    name: &'static str,
    words: &'static str,
    steps: u64,
    minutes: u64,
}

const EXTENTS: [Extent; 4] = [
    Extent {
        name: "hour",
        words: "Hour",
        steps: 60,
        minutes: 1,
    },
    Extent {
        name: "day",
        words: "Day",
        steps: 96,
        minutes: 15,
    },
    Extent {
        name: "month",
        words: "30 days",
        steps: 60,
        minutes: 720,
    },
    Extent {
        name: "year",
        words: "Year",
        steps: 73,
        minutes: 7_200,
    },
];

/// Steps of a span, from the oldest, and how far back they are known.
struct History {
    steps: Vec<Step>,
    read_from: Option<Timestamp>,
    /// Whether the next visit reads further back.
    goes_on: bool,
}

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage {
    frame: Frame,
    queue: String,
    span: &'static str,
    until: String,
    /// Each span: its address, its name, whether it is this one.
    extents: Vec<(String, &'static str, bool)>,
    earlier: String,
    later: Option<String>,
    /// The day before this one, in UTC.
    yesterday: String,
    between: String,
    totals: Vec<(&'static str, String)>,
    charts: Vec<Chart>,
    rows: Vec<Row>,
    /// When most ended, and the query of its records.
    peak: Option<(String, String)>,
    read_from: Option<String>,
    goes_on: bool,
    /// Why a queue has to be chosen, if that is so.
    choose: Option<String>,
}

struct Row {
    at: String,
    done: String,
    failed: String,
    p50: String,
    p99: String,
    records: String,
    is_peak: bool,
}

/// Reads the minutes, the newest first; of all queues the sums of hours, of which some are known.
async fn read(
    app: &App,
    queue: Option<&QueueName>,
    (extent, end): (Extent, u64),
) -> Result<History> {
    let begin = end.saturating_sub(extent.steps * extent.minutes);
    let mut steps = vec![Step::default(); usize::try_from(extent.steps).unwrap_or(0)];
    let add = |minute: u64, sum: &Step| {
        let at = minute.saturating_sub(begin) / extent.minutes;
        if let Some(step) = usize::try_from(at).ok().and_then(|at| steps.get_mut(at)) {
            step.merge(sum);
        }
    };
    let (records, span) = (app.bus.records(), (begin, end));
    let sums = queue.is_none() && extent.minutes.is_multiple_of(HOUR);
    let first = match queue {
        None if sums => {
            let now = minute_of(app.bus.store_time());
            app.hour_sums.read(&records, span, now, add).await?
        }
        Some(queue) => read_sums(&records.queue(queue), span, add).await?,
        None => read_sums(&records, span, add).await?,
    };
    let read_from = (first > begin).then(|| at_minute(first));
    Ok(History {
        steps,
        goes_on: sums && read_from.is_some(),
        read_from,
    })
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let _turn = app.reads.page(&visit.user, visit.is_live).await?;
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let queue = fields.get("queue");
    let queue = queue.map(|queue| name_of(&visit, queue)).transpose()?;
    let chosen = fields.get("span").unwrap_or("day");
    let extent = EXTENTS.into_iter().find(|extent| extent.name == chosen);
    let extent =
        extent.ok_or_else(|| PageError::invalid("a span is one of: hour, day, month, year"))?;
    let now = minute_of(app.bus.store_time()) + 1;
    let until = text::instant(&fields, "until")?;
    let end = until.map_or(now, |until| minute_of(until).min(now));
    // Steps begin at whole ones, so that those of two pages are the same.
    let end = end.div_ceil(extent.minutes) * extent.minutes;
    let length = extent.steps * extent.minutes;
    let begin = end.saturating_sub(length);
    let choose = records::choose(&app, &visit, &fields).await;
    let history = match choose {
        Some(_) => History {
            steps: Vec::new(),
            read_from: None,
            goes_on: false,
        },
        None => read(&app, queue.as_ref(), (extent, end)).await?,
    };
    let to = |changes: &[(&str, &str)]| format!("?{}", fields.with(changes));
    let at_end = |end: u64| (end * MINUTE).to_string();
    let next = end + length;
    let name = fields.get("queue");
    let rows = rows(&history.steps, (extent, begin), name);
    html(&HistoryPage {
        extents: EXTENTS
            .iter()
            .map(|it| {
                let address = to(&[("span", it.name)]);
                (address, it.words, it.name == extent.name)
            })
            .collect(),
        earlier: to(&[("until", &at_end(begin))]),
        later: (end < now).then(|| {
            let until = if next >= now {
                String::new()
            } else {
                at_end(next)
            };
            to(&[("until", &until)])
        }),
        yesterday: to(&[("span", "day"), ("until", &at_end((now - 1) / DAY * DAY))]),
        between: format!(
            "{} to {}, UTC",
            minute_text(begin),
            minute_text(end.min(now))
        ),
        totals: totals(&history.steps),
        charts: charts(&history.steps, (extent, begin), name),
        peak: rows
            .iter()
            .find(|row| row.is_peak)
            .map(|row| (row.at.clone(), row.records.clone())),
        rows,
        read_from: history.read_from.map(|at| minute_text(minute_of(at))),
        goes_on: history.goes_on,
        choose,
        queue: queue.map(|queue| queue.to_string()).unwrap_or_default(),
        span: extent.name,
        until: text::local(&fields, "until")?,
        frame: app.frame(&visit, "history", "History"),
    })
}

/// A minute, as a text.
fn minute_text(minute: u64) -> String {
    let text = at_minute(minute).to_string();
    text.get(..16).unwrap_or(&text).replacen('T', " ", 1)
}

fn secs(seconds: f64) -> String {
    match seconds {
        0.0 => "–".to_owned(),
        _ => span(Duration::from_secs_f64(seconds)),
    }
}

fn totals(steps: &[Step]) -> Vec<(&'static str, String)> {
    let mut all = Step::default();
    steps.iter().for_each(|step| all.merge(step));
    vec![
        ("Done", number(all.done)),
        ("Failed", number(all.failed)),
        ("Late, p50", secs(all.late(50.0))),
        ("Late, p99", secs(all.late(99.0))),
    ]
}

/// How many times are below a chart.
const TIMES: u64 = 5;

/// The begin of some steps as texts, as short as the span allows; the last is where the span ends.
fn times((extent, begin): (Extent, u64)) -> Vec<String> {
    let length = extent.steps * extent.minutes;
    let time = |part: u64| {
        let text = minute_text(begin + length * part / (TIMES - 1));
        let shown = match extent.name {
            "hour" | "day" => text.get(11..),
            "month" => text.get(5..10),
            _ => text.get(..7),
        };
        shown.unwrap_or(&text).to_owned()
    };
    (0..TIMES).map(time).collect()
}

fn charts(steps: &[Step], (extent, begin): (Extent, u64), queue: Option<&str>) -> Vec<Chart> {
    let at = |step: usize| minute_text(begin + step as u64 * extent.minutes);
    let ended: Vec<u64> = steps.iter().map(|step| step.done + step.failed).collect();
    let most = ended.iter().copied().max().unwrap_or(0);
    let step_text = span(Duration::from_secs(extent.minutes * 60));
    let titles = steps.iter().enumerate().map(|(index, step)| {
        format!(
            "{}, {step_text}: {} done, {} failed, late p50 {}, p99 {}",
            at(index),
            number(step.done),
            number(step.failed),
            secs(step.late(50.0)),
            secs(step.late(99.0))
        )
    });
    let titles: Vec<String> = titles.collect();
    let records: Vec<String> = (0..steps.len())
        .map(|index| format!("records?{}", records_of(index, (extent, begin), queue)))
        .collect();
    let marked = || {
        titles
            .iter()
            .map(String::as_str)
            .zip(records.iter().map(String::as_str))
    };
    let attempts = Chart::new(
        "Attempts",
        number(ended.iter().sum::<u64>()),
        format!(
            "Attempts that ended, at most {} in {step_text}; the table has the values",
            number(most)
        ),
    );
    let p99: Vec<f64> = steps.iter().map(|step| step.late(99.0)).collect();
    let latest = p99.iter().copied().fold(0.0, f64::max);
    let lateness = Chart::new(
        "Lateness, p99",
        secs(latest),
        format!(
            "From due to start, at most {} in {step_text}; the table has the values",
            secs(latest)
        ),
    );
    let half = match (most / 2, most % 2) {
        (half, 0) if half > 0 => number(half),
        (half, 1) if half > 0 => format!("{}.5", number(half)),
        _ => String::new(),
    };
    let attempts = attempts.axes([number(most), half, "0".to_owned()], times((extent, begin)));
    let scale = [secs(latest), secs(latest / 2.0), "0s".to_owned()];
    let lateness = lateness.axes(scale, times((extent, begin)));
    let parts = |of: fn(&Step) -> u64| steps.iter().map(|step| of(step) as f64).collect();
    vec![
        attempts
            .legend(&[("good", "done"), ("fail", "failed")])
            .bars(&[
                ("good", parts(|it| it.done)),
                ("fail", parts(|it| it.failed)),
            ])
            .steps(marked()),
        lateness.bars(&[("fetch", p99)]).steps(marked()),
    ]
}

/// The query of the records of a step.
fn records_of(index: usize, (extent, begin): (Extent, u64), queue: Option<&str>) -> String {
    let since = begin + index as u64 * extent.minutes;
    let mut records = form_urlencoded::Serializer::new(String::new());
    if let Some(queue) = queue {
        records.append_pair("queue", queue);
    }
    records.append_pair("since", &(since * MINUTE).to_string());
    let until = (since + extent.minutes) * MINUTE;
    records.append_pair("until", &until.to_string());
    records.finish()
}

/// The steps in which something ended, the newest first.
fn rows(steps: &[Step], (extent, begin): (Extent, u64), queue: Option<&str>) -> Vec<Row> {
    let most = steps.iter().map(|step| step.done + step.failed).max();
    let busy = steps.iter().enumerate().rev();
    let busy = busy.filter(|(_, step)| step.done + step.failed > 0);
    let row = |(index, step): (usize, &Step)| Row {
        at: minute_text(begin + index as u64 * extent.minutes),
        done: number(step.done),
        failed: number(step.failed),
        p50: secs(step.late(50.0)),
        p99: secs(step.late(99.0)),
        records: records_of(index, (extent, begin), queue),
        is_peak: most == Some(step.done + step.failed),
    };
    busy.map(row).collect()
}
