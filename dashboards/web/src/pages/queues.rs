//! The table of queues.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::Response;

use crate::app::App;
use crate::error::{Result, html};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::text::{Fields, number, span};

/// The rows of a page.
pub(crate) const ROWS: usize = 50;

/// The columns by which the table is sorted: field, title.
const COLUMNS: [(&str, &str); 6] = [
    ("name", "Queue"),
    ("late", "Late"),
    ("scheduled", "Scheduled"),
    ("ready", "Ready"),
    ("leased", "Leased"),
    ("dead", "Dead"),
];

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    frame: Frame,
    columns: Vec<Column>,
    rows: Vec<Row>,
    search: String,
    sort: String,
    order: &'static str,
    all: String,
    from: usize,
    to: usize,
    previous: Option<String>,
    next: Option<String>,
    is_whole: bool,
}

struct Column {
    title: &'static str,
    link: String,
    sorted: &'static str,
    is_number: bool,
}

struct Row {
    name: String,
    late: String,
    late_class: &'static str,
    scheduled: String,
    ready: String,
    leased: String,
    dead: String,
    has_dead: bool,
    paused: bool,
    rate: Option<String>,
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let picture = app.sampler.picture().await;
    let settings = app.sampler.settings(&picture).await;
    let now = app.bus.store_time();
    let sort = fields.get("sort").unwrap_or("late");
    let sort = COLUMNS
        .iter()
        .find(|(field, _)| *field == sort)
        .map_or("late", |it| it.0);
    let is_ascending = match fields.get("order") {
        Some("asc") => true,
        Some(_) => false,
        None => sort == "name",
    };
    let search = fields.text("q").trim().to_lowercase();
    let queues = picture.queues.iter();
    let mut queues: Vec<_> = queues
        .filter(|(name, _)| visit.user.sees(name))
        .filter(|(name, _)| search.is_empty() || name.to_lowercase().contains(&search))
        .map(|(name, queue)| {
            let stats = queue.stats;
            let late = picture.late(name, now);
            let key = match sort {
                "late" => late.as_millis(),
                "scheduled" => stats.scheduled as u128,
                "ready" => stats.ready as u128,
                "leased" => stats.leased as u128,
                "dead" => stats.dead as u128,
                _ => 0,
            };
            (key, name, stats, late)
        })
        .collect();
    queues.sort_by_key(|queue| queue.0);
    if !is_ascending {
        queues.reverse();
        if sort != "name" {
            // Among equals the names go up.
            queues.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        }
    }
    let pages = queues.len().div_ceil(ROWS).max(1);
    let page = fields.get("page").and_then(|page| page.parse().ok());
    let page: usize = page.unwrap_or(1).clamp(1, pages);
    let all = queues.len();
    let begin = (page - 1) * ROWS;
    let rows = queues.into_iter().skip(begin).take(ROWS);
    let rows = rows.map(|(_, name, stats, late)| {
        let control = settings.controls.get(name).copied().unwrap_or_default();
        Row {
            name: name.to_string(),
            late: match late.as_secs() {
                0 => "–".to_owned(),
                seconds => span(Duration::from_secs(seconds)),
            },
            late_class: match late.as_secs() {
                0..5 => "",
                5..60 => "warn",
                _ => "bad",
            },
            scheduled: number(stats.scheduled as u64),
            ready: number(stats.ready as u64),
            leased: number(stats.leased as u64),
            dead: number(stats.dead as u64),
            has_dead: stats.dead > 0,
            paused: control.paused,
            rate: control.rate.map(|rate| format!("{rate}/s")),
        }
    });
    let rows: Vec<Row> = rows.collect();
    let link = |page: usize| format!("?{}", fields.with(&[("page", &page.to_string())]));
    html(&QueuesPage {
        columns: columns(&fields, sort, is_ascending),
        from: if rows.is_empty() { 0 } else { begin + 1 },
        to: begin + rows.len(),
        rows,
        search: fields.text("q"),
        sort: sort.to_owned(),
        order: if is_ascending { "asc" } else { "desc" },
        all: number(all as u64),
        previous: (page > 1).then(|| link(page - 1)),
        next: (page < pages).then(|| link(page + 1)),
        is_whole: picture.is_whole,
        frame: app.frame(&visit, "queues", "Queues"),
    })
}

fn columns(fields: &Fields, sort: &str, is_ascending: bool) -> Vec<Column> {
    let column = |(field, title): (&'static str, &'static str)| {
        let is_sorted = field == sort;
        let turn = match (is_sorted, is_ascending, field) {
            (true, true, _) | (false, _, "late" | "scheduled" | "ready" | "leased" | "dead") => {
                "desc"
            }
            _ => "asc",
        };
        let query = fields.with(&[("sort", field), ("order", turn), ("page", "")]);
        Column {
            title,
            link: format!("?{query}"),
            sorted: match (is_sorted, is_ascending) {
                (false, _) => "none",
                (true, true) => "ascending",
                (true, false) => "descending",
            },
            is_number: field != "name",
        }
    };
    COLUMNS.into_iter().map(column).collect()
}
