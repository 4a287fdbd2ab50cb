//! One queue.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use duly::QueueName;
use duly::admin::StoredEvent;
use duly::metrics::Stages;
use duly::records::Record;
use duly::time::Timestamp;

use crate::app::App;
use crate::chart::Chart;
use crate::error::{PageError, Result, html};
use crate::event_rows::{EventRow, rows};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::minutes::unreadable;
use crate::pages::now::by_minute;
use crate::problems::why_late;
use crate::questions::in_time;
use crate::sample::HOUR;
use crate::text::{Moment, count, number, span};

/// The minutes of its charts.
const MINUTES: u64 = 60;
/// The step of its forecast.
const STEP: Duration = Duration::from_secs(120);
/// Of how many records the stages of attempts are read, each with its payload, and in how many groups
/// they are shown.
const STAGE_RECORDS: u32 = 60;
const STAGE_GROUPS: usize = 30;
/// How many events it lists.
const EVENTS: usize = 20;
/// Of how many events it finds those that are due first.
const SORTED_MAX: usize = 200;

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    frame: Frame,
    name: String,
    states: Vec<(&'static str, String, &'static str)>,
    late: Option<String>,
    why: Option<String>,
    paused: bool,
    rate: Option<f64>,
    workers: Option<u16>,
    buckets: Option<u16>,
    charts: Vec<Chart>,
    /// Why charts are missing.
    unknown: Option<String>,
    stages: Option<Chart>,
    coming: Option<Chart>,
    /// Why it is not known what is to come, if that is so.
    unforeseen: Option<String>,
    here: Option<(usize, usize, usize)>,
    nodes: Vec<(String, bool)>,
    rows: Vec<EventRow>,
    /// The list of its events, to which an action on those that are chosen leads.
    query: String,
    /// Why there are no rows, if its events cannot be read.
    no_rows: Option<String>,
    /// Whether it is a queue of duly itself.
    is_own: bool,
    /// Unless the rows are all of its events.
    more_of: Option<Sample>,
}

/// What the listed events are of.
struct Sample {
    all: String,
    /// Whether they are those that are due first.
    is_exact: bool,
}

/// Returns the first due of few events, and of more some of them: this page keeps itself current, and
/// costs the same however many there are.
async fn first_due(app: &App, name: &QueueName, total: usize) -> duly::Result<Vec<StoredEvent>> {
    let events = app.bus.events().queue(name).limit(EVENTS);
    if total <= SORTED_MAX {
        return Ok(events.list(None).await?.items);
    }
    let mut some = events.page().await?.items;
    some.sort_by_key(|event| event.due);
    Ok(some)
}

/// Returns the name of a queue that the user may see.
pub(crate) fn name_of(visit: &Visit, queue: &str) -> Result<QueueName> {
    match QueueName::new(queue) {
        Ok(name) if visit.user.sees(&name) => Ok(name),
        Ok(_) | Err(_) => Err(PageError::not_found("there is no such queue")),
    }
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    Path(queue): Path<String>,
) -> Result<Response> {
    let name = name_of(&visit, &queue)?;
    let _turn = app.reads.page(&visit.user, visit.is_live).await?;
    let buckets = in_time(app.bus.bucket_stats(&name)).await?;
    if buckets.is_empty() {
        return Err(PageError::not_found(format!("there is no queue {name}")));
    }
    let mut stats = duly::admin::QueueStats::default();
    buckets.into_iter().for_each(|(_, of)| stats += of);
    let picture = app.sampler.picture().await;
    // Before the settings: a pause that its handlers follow is among them.
    let load = app.bus.load();
    let total = stats.scheduled + stats.ready + stats.leased + stats.dead;
    let now = app.bus.store_time();
    let since = now - Duration::from_secs(MINUTES * 60);
    let minutes = app.bus.records().queue(&name).since(since).minutes();
    let attempts = app.bus.records().queue(&name).newest_first();
    let (minutes, forecast, events, controls, attempts) = tokio::join!(
        in_time(minutes.limit(MINUTES as u32 + 1).page()),
        in_time(app.bus.forecast(&name, HOUR, STEP)),
        in_time(first_due(&app, &name, total)),
        in_time(app.bus.controls()),
        in_time(attempts.limit(STAGE_RECORDS).page()),
    );
    let attempts = attempts.map(|page| page.items).unwrap_or_default();
    let control = controls?.remove(&name).unwrap_or_default();
    let (charts, unknown) = match minutes {
        Ok(page) => (by_minute(page.items.iter(), now, MINUTES), None),
        Err(error) => (Vec::new(), Some(unreadable(error))),
    };
    let (coming, unforeseen) = match forecast {
        Ok(steps) => {
            let steps: Vec<usize> = steps.iter().map(|it| it.events).collect();
            (coming(&steps), None)
        }
        Err(error) => (None, Some(error.to_string())),
    };
    let late = Some(picture.late(&name, now)).filter(|late| late.as_secs() > 0);
    let here = load.iter().find(|load| load.queue == name);
    let serves = |node: &&crate::picture::NodeNow| node.node.queues.contains(&name);
    let nodes = picture.nodes.iter().filter(serves);
    let (events, no_rows) = match events {
        Ok(events) => (events, None),
        Err(error) => (Vec::new(), Some(format!("They cannot be read: {error}."))),
    };
    html(&QueuePage {
        states: vec![
            ("Scheduled", number(stats.scheduled as u64), "scheduled"),
            ("Ready", number(stats.ready as u64), "ready"),
            ("Leased", number(stats.leased as u64), "leased"),
            ("Dead", number(stats.dead as u64), "dead"),
        ],
        why: late
            .filter(|late| late.as_secs() >= 5)
            .map(|_| why_late((&picture, control), &load, &name)),
        late: late.map(|late| span(Duration::from_secs(late.as_secs()))),
        paused: control.paused,
        rate: control.rate,
        workers: control.workers,
        buckets: control.buckets,
        charts,
        unknown,
        stages: by_stage(&attempts, now),
        coming,
        unforeseen,
        here: here.map(|load| (load.active, load.workers, load.queued)),
        nodes: nodes
            .map(|node| (node.node.id.to_string(), node.is_alive))
            .collect(),
        rows: rows(&events, now),
        no_rows,
        more_of: (events.len() < total && total > EVENTS).then(|| Sample {
            all: number(total as u64),
            is_exact: total <= SORTED_MAX,
        }),
        frame: app.frame(&visit, "queues", name.as_str()),
        is_own: name.is_own(),
        query: format!("queue={name}"),
        name: name.to_string(),
    })
}

/// Which stage the newest attempts waited in, in groups from the oldest to the newest; `None` before
/// the first attempt.
fn by_stage(records: &[Record], now: Timestamp) -> Option<Chart> {
    let mut attempts: Vec<(u64, Stages)> = records
        .iter()
        .filter(|record| record.stages.started_us > 0)
        .map(|record| {
            let (at, due_us) = (&record.stages, record.due.as_millis() * 1_000);
            let stages = Stages::of(due_us, at.moved_us, at.fetched_us, at.started_us);
            (at.started_us, stages)
        })
        .collect();
    attempts.sort_unstable_by_key(|(at, _)| *at);
    let (oldest, _) = attempts.first()?;
    let begin = Moment::new(Timestamp::from_millis(oldest / 1_000), now).far;
    let groups = attempts.chunks(attempts.len().div_ceil(STAGE_GROUPS));
    let mean = |of: fn(&Stages) -> u64| -> Vec<f64> {
        let mean = |group: &[(u64, Stages)]| {
            let sum: u64 = group.iter().map(|(_, stages)| of(stages)).sum();
            sum as f64 / 1e6 / group.len() as f64
        };
        groups.clone().map(mean).collect()
    };
    let parts = [
        ("move", mean(|it| it.move_us)),
        ("fetch", mean(|it| it.fetch_us)),
        ("start", mean(|it| it.start_us)),
    ];
    let total = |of: &dyn Fn(&Vec<f64>) -> f64| parts.iter().map(|(_, it)| of(it)).sum::<f64>();
    let all = |at: usize| total(&|values| values.get(at).copied().unwrap_or(0.0));
    let top = (0..parts[0].1.len()).map(all).fold(0.0, f64::max);
    let secs = |seconds: f64| span(Duration::from_secs_f64(seconds));
    let of = |at: usize| {
        let values = &parts[at].1;
        secs(values.iter().sum::<f64>() / values.len().max(1) as f64)
    };
    let label = format!(
        "Where the last {} waited, on average: {} until moved to the ready list, {} until leased, \
         {} for a worker",
        count(attempts.len(), "attempt", "attempts"),
        of(0),
        of(1),
        of(2)
    );
    let newest = secs(all(parts[0].1.len().saturating_sub(1)));
    let chart = Chart::new("Lateness by stage", newest, label);
    let legend = [
        ("move", "until ready"),
        ("fetch", "until leased"),
        ("start", "for a worker"),
    ];
    let chart = chart.between(begin, "now").top(secs(top)).legend(&legend);
    Some(chart.bars(&parts))
}

fn coming(steps: &[usize]) -> Option<Chart> {
    let all: usize = steps.iter().sum();
    let (at, most) = steps
        .iter()
        .enumerate()
        .max_by_key(|(_, events)| **events)?;
    let label = match all {
        0 => "Nothing falls due in the next hour".to_owned(),
        _ => format!(
            "{} events fall due in the next hour, the most in about {} minutes: {} within two \
             minutes",
            number(all as u64),
            at * 2 + 1,
            number(*most as u64)
        ),
    };
    let chart = Chart::new("Due in the next hour", number(all as u64), label);
    let chart = chart.between("now", "in 1h").top(number(*most as u64));
    Some(chart.bars(&[("calm", steps.iter().map(|it| *it as f64).collect())]))
}
