//! The audit of the store: who did what to what, and when.

use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use duly::admin::{AuditCursor, AuditLine};

use crate::access::User;
use crate::app::{App, Frame};
use crate::error::{Result, html};
use crate::guard::Visit;
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
    is_first: bool,
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
/// was done to its schedules.
fn is_seen(user: &User, line: &AuditLine) -> bool {
    user.sees_all()
        || match line.target.strip_prefix("schedules/") {
            Some(schedule) => user.sees_past_of_schedule(schedule),
            None => user.sees(queue_of(&line.target)),
        }
}

fn page_of(target: &str) -> Option<String> {
    let name = queue_of(target);
    let queue: duly::QueueName = name.parse().ok()?;
    match target.strip_prefix(name)?.strip_prefix('/') {
        None => Some(format!("/queues/{queue}")),
        Some(id) => {
            let id: duly::EventId = id.parse().ok()?;
            Some(format!("/queues/{queue}/events/{id}"))
        }
    }
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let before = fields.get("before").map(str::parse::<AuditCursor>);
    let before = before.transpose()?;
    // Where a page ends would tell of the lines of other namespaces.
    let page = match visit.user.namespace() {
        Some(namespace) => in_time(app.bus.audit_of(namespace, before, ROWS)).await?,
        None => in_time(app.bus.audit(before, ROWS)).await?,
    };
    let now = app.bus.store_time();
    let seen = page.items.iter().filter(|line| is_seen(&visit.user, line));
    html(&AuditPage {
        rows: seen
            .map(|line| Row {
                at: Moment::new(line.at, now),
                actor: text::visible(&line.actor),
                action: line.action.clone(),
                target: text::shown(&line.target, TARGET_MAX),
                link: page_of(&line.target),
            })
            .collect(),
        next: page.next.map(|next| format!("?before={next}")),
        is_first: before.is_none(),
        frame: app.frame(&visit, "audit", "Audit"),
    })
}
