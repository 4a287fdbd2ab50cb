//! The first page: what is wrong, and how it goes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use duly::QueueName;
use duly::admin::OutboxBacklog;
use duly::records::{Lateness, MinuteStats, Outcome};
use duly::time::Timestamp;

use crate::access::User;
use crate::app::App;
use crate::chart::Chart;
use crate::error::{Result, html};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::minutes::MINUTES;
use crate::picture::{NodeNow, Picture};
use crate::problems::{self, Problem};
use crate::sample::FORECASTS_MAX;
use crate::text::{count, number, span};

#[derive(Template)]
#[template(path = "now.html")]
struct NowPage {
    frame: Frame,
    problems: Vec<Problem>,
    more: usize,
    totals: Vec<Total>,
    charts: Vec<Chart>,
    /// Why charts are missing.
    unknown: Option<String>,
    coming: Option<Chart>,
    /// Of which queues it is not known what is to come, and why.
    unread: Option<String>,
    sources: Vec<(String, String)>,
    is_whole: bool,
    /// What waits in the outbox, and for how long.
    outbox: Option<String>,
}

struct Total {
    name: &'static str,
    value: String,
    link: String,
}

pub(crate) async fn page(State(app): State<Arc<App>>, visit: Visit) -> Result<Response> {
    let picture = app.sampler.picture().await;
    let now = app.bus.store_time();
    let nodes = picture.nodes.iter().filter(|node| node.is_alive);
    let serves = |node: &&NodeNow| node.node.queues.iter().any(|queue| visit.user.sees(queue));
    let nodes = nodes.filter(serves).count();
    let settings = app.sampler.settings(&picture).await;
    let (problems, more) = problems::find(&picture, &settings, &visit.user, now);
    let unknown = picture.minutes.why_unknown();
    let mut charts = Vec::new();
    if unknown.is_none() {
        let minutes = picture.minutes.iter();
        let minutes = minutes.filter(|minute| visit.user.sees(&minute.queue));
        charts = by_minute(minutes, now, MINUTES);
    }
    if visit.user.sees_all() {
        charts.push(backlog(&picture));
    }
    let (coming, sources) = coming(&picture, &visit.user);
    html(&NowPage {
        totals: totals(&picture, &visit.user, nodes),
        frame: app.frame(&visit, "now", "Now"),
        problems,
        more,
        charts,
        unknown,
        coming,
        unread: unread(&picture, &visit.user),
        sources,
        is_whole: picture.is_whole,
        outbox: picture
            .outbox
            .filter(|_| visit.user.sees_all())
            .map(waiting),
    })
}

fn waiting(outbox: OutboxBacklog) -> String {
    let waiting = usize::try_from(outbox.waiting).unwrap_or(usize::MAX);
    let many = count(waiting, "committed event waits", "committed events wait");
    match waiting {
        0 => "no committed event waits".to_owned(),
        _ => format!("{many}, the oldest for {}", span(outbox.oldest)),
    }
}

fn totals(picture: &Picture, user: &User, nodes: usize) -> Vec<Total> {
    let queues = picture.queues.iter().filter(|(name, _)| user.sees(name));
    let (mut count, mut sum) = (0_u64, duly::admin::QueueStats::default());
    for (_, queue) in queues {
        count += 1;
        sum += queue.stats;
    }
    let total = |name, value: u64, link: &str| Total {
        name,
        value: number(value),
        link: link.to_owned(),
    };
    vec![
        total("Queues", count, "/queues"),
        total("Scheduled", sum.scheduled as u64, "/queues?sort=scheduled"),
        total("Ready", sum.ready as u64, "/queues?sort=ready"),
        total("Leased", sum.leased as u64, "/queues?sort=leased"),
        total("Dead", sum.dead as u64, "/dead"),
        total("Nodes alive", nodes as u64, "/nodes"),
    ]
}

/// Charts of lateness and of attempts, by the minute.
pub(crate) fn by_minute<'a>(
    minutes: impl Iterator<Item = &'a MinuteStats>,
    now: Timestamp,
    many: u64,
) -> Vec<Chart> {
    let minute = |at: Timestamp| at.as_millis() / 60_000;
    let first = minute(now).saturating_sub(many.saturating_sub(1));
    let mut sums: BTreeMap<u64, (Lateness, u64, u64)> = BTreeMap::new();
    for it in minutes {
        let of = |outcome| it.outcomes.get(&outcome).copied().unwrap_or(0);
        let sum = sums.entry(minute(it.start)).or_default();
        sum.0.merge(&it.lateness);
        sum.1 += of(Outcome::Acked) + of(Outcome::Discarded) + of(Outcome::Snoozed);
        sum.2 += of(Outcome::Retried) + of(Outcome::Buried) + of(Outcome::LeaseLost);
    }
    let series = |of: &dyn Fn(&(Lateness, u64, u64)) -> f64| -> Vec<f64> {
        let places = (0..many).map(|at| sums.get(&(first + at)).map_or(0.0, of));
        places.collect()
    };
    let late = |percent: f64| {
        move |it: &(Lateness, u64, u64)| {
            it.0.percentile(percent)
                .map_or(0.0, |late| late.as_secs_f64())
        }
    };
    let (p50, p99) = (series(&late(50.0)), series(&late(99.0)));
    let (good, failed) = (series(&|it| it.1 as f64), series(&|it| it.2 as f64));
    let newest = |values: &[f64]| {
        values
            .iter()
            .rev()
            .copied()
            .find(|it| *it > 0.0)
            .unwrap_or(0.0)
    };
    let top = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let secs = |seconds: f64| span(Duration::from_secs_f64(seconds));
    let begin = format!("{many} min ago");
    let all: Vec<f64> = good.iter().zip(&failed).map(|(a, b)| a + b).collect();
    // The last minute is not over, so the one before it is the newest whole one, if there is any.
    let last = match all.as_slice() {
        [before @ .., now] if before.iter().all(|it| *it == 0.0) => *now,
        [.., last, _] => *last,
        _ => 0.0,
    };
    let bad: f64 = failed.iter().sum();
    let lateness = Chart::new(
        "Lateness, p99",
        secs(newest(&p99)),
        format!(
            "From due to start, by the minute: now p50 {}, p99 {}; at most {}",
            secs(newest(&p50)),
            secs(newest(&p99)),
            secs(top(&p99))
        ),
    );
    let attempts = Chart::new(
        "Attempts a minute",
        number(last as u64),
        format!(
            "Attempts that ended, by the minute: {} in the last one, at most {}; {} failed in all",
            number(last as u64),
            number(top(&all) as u64),
            number(bad as u64)
        ),
    );
    let lateness = lateness.between(&begin, "now").top(secs(top(&p99)));
    let lateness = lateness.legend(&[("late", "p99"), ("calm", "p50")]);
    let attempts = attempts.between(begin, "now").top(number(top(&all) as u64));
    let attempts = attempts.legend(&[("good", "done"), ("fail", "failed")]);
    vec![
        lateness.lines(&[("late", p99), ("calm", p50)]),
        attempts.bars(&[("good", good), ("fail", failed)]),
    ]
}

fn backlog(picture: &Picture) -> Chart {
    let values: Vec<f64> = picture
        .history
        .iter()
        .map(|point| point.ready as f64)
        .collect();
    let last = picture.history.back();
    let (ready, leased) = last.map_or((0, 0), |point| (point.ready, point.leased));
    let top = values.iter().copied().fold(0.0, f64::max) as u64;
    let span = span(Duration::from_secs(picture.history.len() as u64 * 2));
    let label = format!(
        "Events that are ready and wait: {} now, at most {} in the last {span}; {leased} run",
        number(ready as u64),
        number(top)
    );
    let chart = Chart::new("Backlog", number(ready as u64), label);
    let chart = chart.between(format!("{span} ago"), "now").top(number(top));
    chart.lines(&[("wait", values)])
}

/// Says of how many queues with scheduled events it is not known what falls due, and why.
fn unread(picture: &Picture, user: &User) -> Option<String> {
    let is_read = |name: &QueueName| picture.coming.iter().any(|(queue, _)| queue == name);
    let queues = picture.queues.iter();
    let unread = queues
        .filter(|(name, queue)| queue.stats.scheduled > 0 && user.sees(name) && !is_read(name));
    let unread = match unread.count() {
        0 => return None,
        unread => count(unread, "queue", "queues"),
    };
    let why = match (&picture.coming_error, picture.coming.len()) {
        (Some(error), _) => format!("it cannot be read: {error}"),
        (None, FORECASTS_MAX) => {
            format!("it is read of the {FORECASTS_MAX} queues with most scheduled events")
        }
        (None, _) => "it is still being read".to_owned(),
    };
    Some(format!(
        "Of {unread} it is not known what falls due in the next hour: {why}."
    ))
}

/// A chart of what falls due in the next hour, and the queues that it is of.
fn coming(picture: &Picture, user: &User) -> (Option<Chart>, Vec<(String, String)>) {
    let mut sums: Vec<f64> = Vec::new();
    let mut sources = Vec::new();
    for (queue, steps) in picture.coming.iter().filter(|(queue, _)| user.sees(queue)) {
        sums.resize(sums.len().max(steps.len()), 0.0);
        sums.iter_mut()
            .zip(steps)
            .for_each(|(sum, step)| *sum += *step as f64);
        let events: usize = steps.iter().sum();
        if events > 0 {
            sources.push((queue.to_string(), number(events as u64)));
        }
    }
    let all = sums.iter().sum::<f64>() as u64;
    let peak = sums
        .iter()
        .copied()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((at, most)) = peak.filter(|_| all > 0) else {
        return (None, sources);
    };
    let label = format!(
        "{} events fall due in the next hour, the most in about {} minutes: {} within two minutes",
        number(all),
        at * 2 + 1,
        number(most as u64)
    );
    let chart = Chart::new("Due in the next hour", number(all), label);
    let chart = chart.between("now", "in 1h").top(number(most as u64));
    (Some(chart.bars(&[("calm", sums)])), sources)
}
