//! The audit of the store: who did what to what, and when.

use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use duly::QueueName;
use duly::admin::{AuditCursor, AuditFilter, AuditLine};
use duly::records::Page;

use crate::access::User;
use crate::app::App;
use crate::error::{Result, html};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::text::{self, Fields, Moment};

/// The rows of a page.
const ROWS: usize = 50;
/// The longest target of a row, in characters.
const TARGET_MAX: usize = 200;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    rows: Vec<Row>,
    next: Option<String>,
    /// The address of the first page, on a later one.
    first: Option<String>,
    /// The queue that is chosen, or nothing.
    queue: String,
    actor: String,
    action: String,
    since: String,
    until: String,
    is_filtered: bool,
}

struct Row {
    at: Moment,
    actor: String,
    action: String,
    target: String,
    /// The queue or the event that it is about, if it is one.
    link: Option<String>,
}

/// Returns the queue of a target, `queue`, `queue/id`, or a queue, a comma and more.
fn queue_of(target: &str) -> &str {
    target.split(['/', ',']).next().unwrap_or_default()
}

/// Who sees some queues only sees what was done to those; who sees all of the own namespace also what
/// was done to its schedules, and to `shop.*`, all of its queues.
fn is_seen(user: &User, line: &AuditLine) -> bool {
    user.sees_all()
        || match line.target.strip_prefix("schedules/") {
            Some(schedule) => user.sees_past_of_all(schedule),
            None => {
                let names = line.target.split(',').next().unwrap_or_default();
                names.split(' ').all(|name| {
                    let is_all = name.ends_with(".*");
                    is_all && user.sees_past_of_all(name) || user.sees(queue_of(name))
                })
            }
        }
}

fn page_of(target: &str) -> Option<String> {
    let name = queue_of(target);
    let queue: QueueName = name.parse().ok()?;
    match target.strip_prefix(name)?.strip_prefix('/') {
        None => Some(format!("/queues/{queue}")),
        Some(id) => {
            let id: duly::EventId = id.parse().ok()?;
            Some(format!("/queues/{queue}/events/{id}"))
        }
    }
}

/// Reads lines that match and are seen, from a place on. Where others begin is not told.
async fn read(
    app: &App,
    user: &User,
    (fields, queue): (&Fields, Option<&QueueName>),
    before: Option<AuditCursor>,
) -> Result<Page<AuditLine, AuditCursor>> {
    let mut filter = AuditFilter {
        // Where a page ends would tell of the lines of other namespaces, and of other queues.
        only_target: !user.sees_whole_namespace(),
        namespace: user.namespace().map(str::to_owned),
        target: queue.map(QueueName::to_string),
        ..AuditFilter::default()
    };
    filter.actor = fields.get("actor").map(str::to_owned);
    filter.action = fields.get("action").map(str::to_owned);
    filter.since = text::instant(fields, "since")?;
    filter.until = text::instant(fields, "until")?;
    let is_seen = |line: &AuditLine| is_seen(user, line);
    let page = app.bus.audit_seen(&filter, &is_seen, before, ROWS);
    Ok(in_time(page).await?)
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let _turn = app.reads.page(&visit.user, visit.is_live).await?;
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let before = fields.get("before").map(str::parse::<AuditCursor>);
    let before = before.transpose()?;
    let queue = fields.get("queue");
    let queue = queue.map(|queue| name_of(&visit, queue)).transpose()?;
    let page = read(&app, &visit.user, (&fields, queue.as_ref()), before).await?;
    let now = app.bus.store_time();
    html(&AuditPage {
        rows: page
            .items
            .iter()
            .map(|line| Row {
                at: Moment::new(line.at, now),
                actor: text::visible(&line.actor),
                action: line.action.clone(),
                target: text::shown(&line.target, TARGET_MAX),
                link: page_of(&line.target),
            })
            .collect(),
        next: page
            .next
            .map(|next| format!("?{}", fields.with(&[("before", &next.to_string())]))),
        first: before.map(|_| format!("?{}", fields.with(&[("before", "")]))),
        queue: queue.map(|queue| queue.to_string()).unwrap_or_default(),
        actor: fields.text("actor"),
        action: fields.text("action"),
        since: text::local(&fields, "since")?,
        until: text::local(&fields, "until")?,
        is_filtered: ["actor", "action", "since", "until"]
            .iter()
            .any(|name| fields.get(name).is_some()),
        frame: app.frame(&visit, "audit", "Audit"),
    })
}
