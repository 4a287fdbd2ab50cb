//! Actions: what each needs, and the page that asks before it is done, and again where what was
//! entered is wrong; [`perform`] does it.

mod chosen;
mod dead;
mod events;
mod input;
mod kind;
mod perform;
mod replay;
mod schedule;
mod sweep;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::future::join_all;

use self::kind::Action;
use crate::app::App;
use crate::error::{PageError, Result, html};
use crate::frame::Frame;
use crate::guard::{CSRF, Form, Visit};
use crate::pages::queue::name_of;
use crate::questions::in_time;
use crate::text::{CHOSEN, Fields};

/// How many dead letters, or events, a dry run counts.
const DRY_RUN: usize = 1_000;
/// The rate of a sweep unless another is entered, in a second.
const SWEEP_RATE: f64 = 10.0;
/// That of a purge, which makes nothing run.
const PURGE_RATE: f64 = 1_000.0;

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    frame: Frame,
    action: &'static str,
    subject: String,
    effect: &'static str,
    dry_run: Option<String>,
    button: &'static str,
    is_dangerous: bool,
    hidden: Vec<(&'static str, String)>,
    inputs: Vec<Input>,
    /// The input that is wrong, and why.
    wrong: Option<PageError>,
    back: String,
}

impl ConfirmPage {
    fn is_wrong(&self, input: &Input) -> bool {
        let wrong = self.wrong.as_ref().and_then(PageError::field);
        wrong == Some(input.name)
    }
}

/// A field to fill in.
#[derive(Clone)]
struct Input {
    name: &'static str,
    label: &'static str,
    value: String,
    hint: &'static str,
    /// The keys of a phone for it.
    keys: &'static str,
    /// Its type in HTML.
    kind: &'static str,
}

impl Input {
    fn rate(label: &'static str, rate: f64) -> Self {
        Self {
            name: "rate",
            label,
            value: rate.to_string(),
            hint: "0.001 to 1000000",
            keys: "decimal",
            kind: "text",
        }
    }

    /// When something is due: after a while, or at a time.
    fn due() -> [Self; 2] {
        let delay = Self {
            name: "delay",
            label: "Seconds from now",
            value: "60".to_owned(),
            hint: "0 to 4294967295",
            keys: "decimal",
            kind: "text",
        };
        let at = Self {
            name: "at",
            label: "Or at, UTC",
            value: String::new(),
            hint: "a time here counts, and no seconds",
            keys: "text",
            kind: "datetime-local",
        };
        [delay, at]
    }
}

/// Where an action leads back to: a path of this dashboard.
fn back(action: Action, fields: &Fields) -> String {
    let queue = fields.get("queue").unwrap_or_default();
    let id = fields.get("id").unwrap_or_default();
    let schedule = fields.get("schedule").unwrap_or_default();
    match action {
        Action::RemoveSchedule => "/schedules".to_owned(),
        _ if action.is_of_schedule() => format!("/schedules/{schedule}"),
        Action::Pause | Action::Resume | Action::Rate => format!("/queues/{queue}"),
        _ if action.is_of_events() => {
            let query = fields.with(&[(CSRF, ""), ("rate", ""), ("delay", ""), ("at", "")]);
            format!("/find?{query}")
        }
        // Where its progress is.
        Action::Purge => format!("/find?queue={queue}"),
        _ if action.of_each().is_some() => {
            let list = fields.get(chosen::LIST).unwrap_or_default();
            let list = Fields::parse(list.as_bytes()).with(&[]);
            let page = if action.is_of_dead() { "dead" } else { "find" };
            format!("/{page}?{list}")
        }
        Action::Replay => {
            let query = fields.with(&[
                (CSRF, ""),
                ("rate", ""),
                ("name", ""),
                ("version", ""),
                (replay::SUBMITTED_AT, ""),
            ]);
            format!("/records?{query}")
        }
        Action::ReviveAll | Action::DropAll | Action::Stop => {
            let query = fields.with(&[("id", ""), (CSRF, ""), ("rate", ""), ("from", "")]);
            let page = fields.get("from");
            let page = page.filter(|page| matches!(*page, "find" | "records"));
            format!("/{}?{query}", page.unwrap_or("dead"))
        }
        _ => format!("/queues/{queue}/events/{id}"),
    }
}

/// Fails unless the visitor may do an action.
fn check(visit: &Visit, action: Action) -> Result<()> {
    visit.needs(action.role())?;
    if action == Action::RunSchedule && !visit.user.runs_schedules() {
        return Err(PageError::forbidden(format!(
            "{} runs no schedule here, as a limit counts what it pushes; run it over the API",
            visit.user.name
        )));
    }
    Ok(())
}

/// Asks before an action.
pub(crate) async fn confirm(
    State(app): State<Arc<App>>,
    visit: Visit,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let action = Action::parse(&name)?;
    check(&visit, action)?;
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    ask(&app, &visit, action, fields, None).await
}

/// Shows the question; once more with what was entered if that is wrong.
async fn ask(
    app: &App,
    visit: &Visit,
    action: Action,
    mut fields: Fields,
    wrong: Option<PageError>,
) -> Result<Response> {
    let mut dry_run = None;
    let subject = match action {
        Action::ReviveAll | Action::DropAll => {
            let (subject, count) = dead::selection(app, visit, &fields).await?;
            dry_run = Some(count);
            subject
        }
        _ if action.is_of_events() => {
            let (subject, count) = events::selection(app, visit, &fields).await?;
            dry_run = Some(count);
            subject
        }
        Action::Purge => {
            let (subject, count) = events::asked_purge(app, visit, &fields).await?;
            dry_run = Some(count);
            subject
        }
        _ if action.of_each().is_some() => {
            let (subject, count) = chosen::selection(app, visit, action, &fields).await?;
            dry_run = Some(count);
            subject
        }
        Action::Replay => {
            let (subject, count) = replay::selection(app, visit, &mut fields).await?;
            dry_run = Some(count);
            subject
        }
        Action::Stop => format!("Sweep {}", fields.get("id").unwrap_or_default()),
        _ if action.is_of_schedule() => {
            let schedule = schedule::found(app, visit, &fields).await?;
            let queue = schedule.options.queue();
            format!("Schedule {} of queue {queue}", schedule.name)
        }
        _ => {
            let queue = name_of(visit, fields.get("queue").unwrap_or_default())?;
            match fields.get("id") {
                Some(id) => format!("Event {id} of queue {queue}"),
                None => format!("Queue {queue}"),
            }
        }
    };
    let mut inputs = match action {
        Action::Rate => {
            let queue = name_of(visit, fields.get("queue").unwrap_or_default())?;
            let control = in_time(app.bus.controls()).await?.remove(&queue);
            let rate = control.and_then(|control| control.rate);
            vec![Input {
                name: "rate",
                label: "Starts in a second",
                value: rate.map(|rate| rate.to_string()).unwrap_or_default(),
                hint: "0.001 to 1000000; empty removes the limit",
                keys: "decimal",
                kind: "text",
            }]
        }
        Action::ReviveAll | Action::DropAll => {
            vec![Input::rate("Dead letters in a second", SWEEP_RATE)]
        }
        Action::CancelAll | Action::RunAll => vec![Input::rate("Events in a second", SWEEP_RATE)],
        Action::Purge => vec![Input::rate("Events in a second", PURGE_RATE)],
        Action::RescheduleAll => {
            let mut inputs = Input::due().to_vec();
            inputs.push(Input::rate("Events in a second", SWEEP_RATE));
            inputs
        }
        Action::Reschedule | Action::RescheduleChosen => Input::due().to_vec(),
        Action::Replay => replay::inputs(),
        _ => Vec::new(),
    };
    if wrong.is_some() {
        for input in &mut inputs {
            input.value = fields.text(input.name);
        }
    }
    let hidden = [
        "queue",
        "id",
        "schedule",
        "outcome",
        "cause",
        "error",
        "key",
        "node",
        "since",
        "until",
        "q",
        "in",
        "state",
        "from",
        CHOSEN,
        chosen::LIST,
        replay::SUBMITTED_AT,
    ];
    let hidden = hidden
        .into_iter()
        .filter_map(|name| Some((name, fields.get(name)?.to_owned())));
    html(&ConfirmPage {
        hidden: hidden.collect(),
        action: action.name(),
        subject,
        effect: action.effect(),
        dry_run,
        button: action.button(),
        is_dangerous: action.is_dangerous(),
        inputs,
        wrong,
        back: back(action, &fields),
        frame: app.frame(visit, "", action.title()),
    })
}

/// Does an action, records who did it, and goes back.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Form { visit, fields }: Form,
) -> Result<Response> {
    let action = Action::parse(&name)?;
    check(&visit, action)?;
    let done = match done(&app, &visit, action, &fields).await {
        Ok(done) => done,
        Err(error) if error.field().is_some() => {
            let status = error.status();
            let page = ask(&app, &visit, action, fields, Some(error)).await?;
            return Ok((status, page).into_response());
        }
        Err(error) => return Err(error),
    };
    if let Some(queue) = fields.get("queue").and_then(|queue| queue.parse().ok()) {
        app.sampler.refresh(&queue).await;
    }
    let back = back(action, &fields);
    let separator = if back.contains('?') { '&' } else { '?' };
    let to = format!("{}{back}{separator}{}", app.base, visit.done_query(&done));
    Ok(Redirect::to(&to).into_response())
}

/// Does an action, and records who did it; returns what was done.
async fn done(app: &App, visit: &Visit, action: Action, fields: &Fields) -> Result<String> {
    if let Some(each) = action.of_each() {
        return chosen::perform(app, visit, (action, each), fields).await;
    }
    let (done, targets) = match action {
        Action::ReviveAll | Action::DropAll => dead::sweep(app, visit, action, fields).await?,
        Action::Purge => events::purge(app, visit, fields).await?,
        Action::Replay => replay::sweep(app, visit, fields).await?,
        Action::Stop => sweep::stop(app, visit, fields)?,
        _ if action.is_of_events() => events::sweep(app, visit, action, fields).await?,
        _ => {
            let (done, target) = perform::perform(app, visit, action, fields).await?;
            (done, vec![target])
        }
    };
    let lines = targets.iter();
    let lines = lines.map(|target| app.audit(&visit.user, action.audited(), target));
    join_all(lines).await;
    Ok(done)
}
