//! One event: its timeline, its payload, and why it is where it is.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use duly::admin::StoredEvent;
use duly::event::{Occurrence, State as EventState};
use duly::records::{Outcome, Record};
use duly::time::Timestamp;
use duly::{EventId, QueueName};

use crate::app::App;
use crate::error::{PageError, Result, html};
use crate::frame::Frame;
use crate::guard::Visit;
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::text::{self, Fields, Moment, span};

/// How many records of an event are shown: the newest.
const RECORDS: u32 = 50;
/// How long a page waits for an explanation, unless it is asked for: a shared store needs more, as
/// it observes other nodes.
const EXPLAINED_WITHIN: Duration = Duration::from_millis(120);

#[derive(Template)]
#[template(path = "event.html")]
struct EventPage {
    frame: Frame,
    id: String,
    queue: String,
    state: Option<&'static str>,
    attempts: String,
    key: Option<String>,
    /// The schedule that it is an occurrence of.
    schedule: Option<String>,
    unique: Option<String>,
    expires: Option<Moment>,
    headers: Vec<(String, String)>,
    payload: Option<String>,
    is_hidden: bool,
    steps: Vec<Step>,
    /// Whether there are records before those of the timeline.
    has_earlier: bool,
    /// Why the timeline has no records, if they cannot be read.
    unknown: Option<String>,
    reasons: Option<Vec<String>>,
    waits: bool,
    dead: bool,
}

/// A line of the timeline.
struct Step {
    at: Moment,
    title: String,
    detail: Option<String>,
    class: &'static str,
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    visit: Visit,
    Path((queue, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let name = name_of(&visit, &queue)?;
    let id: EventId = id.parse()?;
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let records = app.bus.records().id(id).queue(&name);
    let records = records.newest_first().limit(RECORDS);
    let (found, records) = tokio::join!(
        in_time(app.bus.event_in(&name, id)),
        in_time(records.page())
    );
    let found = found?;
    let (mut records, has_earlier, unknown) = match records {
        Ok(page) => (page.items, page.next.is_some(), None),
        Err(error) if found.is_none() => return Err(error.into()),
        Err(error) => {
            let why =
                format!("The records cannot be read, so its attempts are not known: {error}.");
            (Vec::new(), false, Some(why))
        }
    };
    records.reverse();
    if found.is_none() && records.is_empty() {
        return Err(PageError::not_found(format!(
            "queue {name} does not know event {id}, and no record of it is left"
        )));
    }
    let patience = match fields.get("explain") {
        Some(_) => Duration::from_secs(5),
        None => EXPLAINED_WITHIN,
    };
    let explained = tokio::time::timeout(patience, app.bus.explain_in(&name, id)).await;
    let reasons = match explained {
        Ok(explained) => Some(
            explained?
                .reasons
                .iter()
                .map(|it| text::visible(&it.to_string()))
                .collect(),
        ),
        Err(_) => None,
    };
    let now = app.bus.store_time();
    let state = found.as_ref().map(|event| event.state);
    let payload = found.as_ref().and_then(StoredEvent::payload_shown);
    let key = found.as_ref().and_then(|event| event.key.clone());
    let key = key.or_else(|| records.first()?.key.clone());
    let schedule = schedule_of((&app, &visit), &name, found.as_ref(), key.as_deref()).await;
    html(&EventPage {
        frame: app.frame(&visit, "queues", "Event"),
        id: id.to_string(),
        queue: name.to_string(),
        state: state.map(EventState::as_str),
        attempts: attempts(found.as_ref(), &records),
        key: key.as_deref().map(text::visible),
        schedule,
        unique: found
            .as_ref()
            .and_then(|event| event.unique.as_deref().map(text::visible)),
        expires: found
            .as_ref()
            .and_then(|event| event.expires)
            .map(|at| Moment::new(at, now)),
        headers: found
            .as_ref()
            .map(|event| headers(&event.headers))
            .unwrap_or_default(),
        is_hidden: payload
            .as_ref()
            .is_some_and(|it| it.starts_with("encrypted under key")),
        payload: payload.as_deref().map(text::visible),
        steps: steps(found.as_ref(), &records, now),
        has_earlier,
        unknown,
        reasons,
        waits: matches!(state, Some(EventState::Scheduled | EventState::Ready)) && !name.is_own(),
        dead: state == Some(EventState::Dead),
    })
}

/// Returns headers for display.
fn headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    let headers = headers.iter();
    headers
        .map(|(name, value)| (text::visible(name), text::visible(value)))
        .collect()
}

/// Returns the name of the schedule that an event is an occurrence of. Of one that is over the key is
/// left, which is that name.
async fn schedule_of(
    (app, visit): (&App, &Visit),
    queue: &QueueName,
    event: Option<&StoredEvent>,
    key: Option<&str>,
) -> Option<String> {
    let name = match event.filter(|event| !event.state.is_final()) {
        Some(event) => Occurrence::of_headers(&event.headers)?.schedule,
        None => key?.to_owned(),
    };
    // A key of another form is none of a schedule, and a page is shown without its link.
    let found = in_time(app.bus.schedules().get(&name)).await.ok()??;
    (visit.user.sees_schedule(&found) && found.options.queue() == queue).then_some(name)
}

fn attempts(event: Option<&StoredEvent>, records: &[Record]) -> String {
    let last = records
        .iter()
        .map(|record| record.attempt)
        .max()
        .unwrap_or(0);
    match event.and_then(|event| Some((event.tries, event.tries_max?))) {
        Some((tries, max)) => format!("{tries} of {max}"),
        None => event.map_or(last, |event| event.tries).to_string(),
    }
}

/// Returns the timeline: what has happened, and what comes next.
fn steps(event: Option<&StoredEvent>, records: &[Record], now: Timestamp) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut add = |at: Timestamp, title: &str, detail: Option<String>, class| {
        steps.push(Step {
            at: Moment::new(at, now),
            title: title.to_owned(),
            detail,
            class,
        });
    };
    if let Some(pushed) = event.and_then(|event| event.pushed) {
        add(pushed, "Pushed", None, "");
    }
    let at = |us: u64| Timestamp::from_millis(us / 1_000);
    for record in records {
        let stages = &record.stages;
        if record.attempt > 0 || stages.started_us > 0 {
            add(
                record.due,
                &format!("Due for attempt {}", record.attempt.max(1)),
                None,
                "",
            );
        }
        if stages.moved_us > 0 {
            add(at(stages.moved_us), "Moved to the ready list", None, "");
        }
        if stages.fetched_us > 0 {
            let node = (record.node.0 > 0).then(|| format!("by node {}", record.node));
            add(at(stages.fetched_us), "Leased", node, "");
        }
        if stages.started_us > 0 {
            let late = record
                .lateness()
                .map(|late| format!("{} after its due time", span(late)));
            add(at(stages.started_us), "Started", late, "");
        }
        let took = stages.finished_us.saturating_sub(stages.started_us);
        let took =
            (stages.started_us > 0).then(|| format!("after {}", span(Duration::from_micros(took))));
        let cause = record.cause.map(|cause| cause.as_str().replace('_', " "));
        let by = record.by.as_ref().map(|by| format!("by {by}"));
        let detail: Vec<String> = [took, cause, by, record.error.clone()]
            .into_iter()
            .flatten()
            .collect();
        let detail = (!detail.is_empty()).then(|| text::visible(&detail.join(" · ")));
        let (title, class) = outcome(record.outcome);
        add(at(stages.finished_us), title, detail, class);
    }
    match event.map(|event| (event.state, event.due, event.since)) {
        Some((EventState::Scheduled, due, _)) => add(due, "Due", None, "next"),
        Some((EventState::Ready, _, since)) => {
            add(
                since.unwrap_or(now),
                "Ready, waits for a worker",
                None,
                "next",
            );
        }
        Some((EventState::Leased, _, since)) => {
            add(since.unwrap_or(now), "Leased, is handled now", None, "next");
        }
        _ => {}
    }
    steps
}

/// The word of pages for an outcome, and its class.
pub(crate) fn outcome(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Acked => ("Succeeded", "good"),
        Outcome::Retried => ("Failed, to be retried", "warn"),
        Outcome::Snoozed => ("Snoozed", ""),
        Outcome::Buried => ("Failed for good: dead letter", "bad"),
        Outcome::Discarded => ("Discarded", ""),
        Outcome::Cancelled => ("Cancelled", ""),
        Outcome::Expired => ("Expired", "warn"),
        Outcome::LeaseLost => ("Lost with its node", "bad"),
        Outcome::Revived => ("Revived", ""),
        Outcome::Edited => ("Payload edited", ""),
        Outcome::Dropped => ("Dropped", "bad"),
        other => (other.as_str(), ""),
    }
}
