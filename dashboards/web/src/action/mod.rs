//! Actions: what each needs, and the page that asks before it is done; [`perform`] does it.

mod events;
mod perform;
mod schedule;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};

use crate::access::Role;
use crate::app::{App, Frame};
use crate::error::{PageError, Result, html};
use crate::guard::{CSRF, Form, Visit};
use crate::pages::dead::DeadFilter;
use crate::pages::queue::name_of;
use crate::sample::in_time;
use crate::text::{Fields, count};

/// How many dead letters a dry run counts.
const DRY_RUN: usize = 1_000;
/// The rate of a sweep unless another is entered, in a second.
const SWEEP_RATE: f64 = 10.0;

/// Something a user can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pause,
    Resume,
    Rate,
    Cancel,
    RunNow,
    Reschedule,
    Revive,
    Drop,
    ReviveAll,
    DropAll,
    CancelAll,
    RunAll,
    RescheduleAll,
    Stop,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    RemoveSchedule,
}

impl Action {
    const ALL: [(&'static str, Self); 18] = [
        ("pause", Self::Pause),
        ("resume", Self::Resume),
        ("rate", Self::Rate),
        ("cancel", Self::Cancel),
        ("run-now", Self::RunNow),
        ("reschedule", Self::Reschedule),
        ("revive", Self::Revive),
        ("drop", Self::Drop),
        ("revive-all", Self::ReviveAll),
        ("drop-all", Self::DropAll),
        ("cancel-all", Self::CancelAll),
        ("run-all", Self::RunAll),
        ("reschedule-all", Self::RescheduleAll),
        ("stop", Self::Stop),
        ("pause-schedule", Self::PauseSchedule),
        ("resume-schedule", Self::ResumeSchedule),
        ("run-schedule", Self::RunSchedule),
        ("remove-schedule", Self::RemoveSchedule),
    ];

    fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        let (_, action) = found.ok_or_else(|| PageError::not_found("there is no such action"))?;
        Ok(action)
    }

    fn role(self) -> Role {
        match self {
            // To stop what somebody else began needs more.
            Self::Cancel
            | Self::RunNow
            | Self::Reschedule
            | Self::RunSchedule
            | Self::CancelAll
            | Self::RunAll
            | Self::RescheduleAll
            | Self::Stop => Role::Operate,
            _ => Role::Admin,
        }
    }

    /// The title of the question, and the text of its button.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Pause => ("Pause this queue?", "Pause"),
            Self::Resume => ("Resume this queue?", "Resume"),
            Self::Rate => ("Set the rate of this queue", "Set rate"),
            Self::Cancel => ("Cancel this event?", "Cancel the event"),
            Self::RunNow => ("Run this event now?", "Run now"),
            Self::Reschedule => ("Reschedule this event", "Reschedule"),
            Self::Revive => ("Revive this dead letter?", "Revive"),
            Self::Drop => ("Drop this dead letter?", "Drop for good"),
            Self::ReviveAll => ("Revive dead letters?", "Revive"),
            Self::DropAll => ("Drop dead letters?", "Drop for good"),
            Self::CancelAll => ("Cancel events?", "Cancel them for good"),
            Self::RunAll => ("Run events now?", "Run them now"),
            Self::RescheduleAll => ("Reschedule events", "Reschedule them"),
            Self::Stop => ("Stop this sweep?", "Stop"),
            Self::PauseSchedule => ("Pause this schedule?", "Pause"),
            Self::ResumeSchedule => ("Resume this schedule?", "Resume"),
            Self::RunSchedule => ("Run this schedule now?", "Run now"),
            Self::RemoveSchedule => ("Remove this schedule?", "Remove for good"),
        }
    }

    /// What will happen.
    fn effect(self) -> &'static str {
        match self {
            Self::Pause => {
                "No handler of it starts on any node until it is resumed. Running handlers finish, \
                 and pushes are accepted."
            }
            Self::Resume => "Its handlers start again on every node within a quarter of a second.",
            Self::Rate => "At most so many handlers start in a second, over all nodes.",
            Self::Cancel => "It will not run. This cannot be undone.",
            Self::RunNow => "It becomes due now, and runs as soon as a worker is free.",
            Self::Reschedule => "It becomes due so long from now.",
            Self::Revive => "It becomes ready again, with all its attempts.",
            Self::Drop => "It is removed, with its payload. This cannot be undone.",
            Self::ReviveAll => {
                "They become ready again, with all their attempts, in the background at this rate; \
                 the page of dead letters shows how far it is, and stops it."
            }
            Self::DropAll => {
                "They are removed, with their payloads, in the background at this rate. This cannot \
                 be undone."
            }
            Self::CancelAll => {
                "Those that wait will not run, cancelled in the background at this rate; the page \
                 of events shows how far it is, and stops it. What runs, or is dead, stays as it is. \
                 This cannot be undone."
            }
            Self::RunAll => {
                "Those that wait become due now, in the background at this rate, and run as workers \
                 are free."
            }
            Self::RescheduleAll => {
                "Those that wait become due so long after each is changed, in the background at this \
                 rate."
            }
            Self::Stop => "What it has done stays done; the rest stays dead.",
            Self::PauseSchedule => {
                "It pushes nothing until it is resumed, and what it has pushed that is to come is \
                 taken back. Occurrences that are due run."
            }
            Self::ResumeSchedule => "It goes on, and makes up for what it missed as it says.",
            Self::RunSchedule => {
                "An occurrence of it is pushed and due now, beside those of its calendar."
            }
            Self::RemoveSchedule => {
                "It ends, and what it has pushed that is to come is taken back. One that a program \
                 declares comes back while the program runs."
            }
        }
    }

    fn is_dangerous(self) -> bool {
        matches!(
            self,
            Self::Cancel | Self::CancelAll | Self::Drop | Self::DropAll | Self::RemoveSchedule
        )
    }

    /// Whether it is a sweep over events.
    fn is_of_events(self) -> bool {
        matches!(self, Self::CancelAll | Self::RunAll | Self::RescheduleAll)
    }

    fn is_of_schedule(self) -> bool {
        matches!(
            self,
            Self::PauseSchedule | Self::ResumeSchedule | Self::RunSchedule | Self::RemoveSchedule
        )
    }

    fn name(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(_, action)| *action == self);
        found.map_or("", |(name, _)| name)
    }
}

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
    back: String,
}

/// A field to fill in.
struct Input {
    name: &'static str,
    label: &'static str,
    value: String,
    hint: &'static str,
}

impl Input {
    fn rate(label: &'static str) -> Self {
        Self {
            name: "rate",
            label,
            value: SWEEP_RATE.to_string(),
            hint: "0.001 to 1000000",
        }
    }

    fn delay() -> Self {
        Self {
            name: "delay",
            label: "Seconds from now",
            value: "60".to_owned(),
            hint: "0 to 4294967295",
        }
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
            let query = fields.with(&[(CSRF, ""), ("rate", ""), ("delay", "")]);
            format!("/find?{query}")
        }
        Action::ReviveAll | Action::DropAll | Action::Stop => {
            let query = fields.with(&[("id", ""), (CSRF, ""), ("rate", ""), ("from", "")]);
            let page = fields.get("from").filter(|page| *page == "find");
            format!("/{}?{query}", page.unwrap_or("dead"))
        }
        _ => format!("/queues/{queue}/events/{id}"),
    }
}

/// Asks before an action.
pub(crate) async fn confirm(
    State(app): State<Arc<App>>,
    visit: Visit,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let action = Action::parse(&name)?;
    visit.needs(action.role())?;
    let fields = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    let mut dry_run = None;
    let subject = match action {
        Action::ReviveAll | Action::DropAll => {
            let filter = sweep_filter(&fields, &visit)?;
            let page = in_time(filter.letters(&app.bus).limit(DRY_RUN).page()).await?;
            let many = count(
                page.items.len(),
                "dead letter matches",
                "dead letters match",
            );
            dry_run = Some(match page.next {
                Some(_) => format!("At least {many}."),
                None => format!("{many}."),
            });
            format!("Dead letters {}", filter.words())
        }
        _ if action.is_of_events() => {
            let (subject, count) = events::asked(&app, &visit, &fields).await?;
            dry_run = Some(count);
            subject
        }
        Action::Stop => format!("Sweep {}", fields.get("id").unwrap_or_default()),
        _ if action.is_of_schedule() => {
            let schedule = schedule::found(&app, &visit, &fields).await?;
            let queue = schedule.options.queue();
            format!("Schedule {} of queue {queue}", schedule.name)
        }
        _ => {
            let queue = name_of(&visit, fields.get("queue").unwrap_or_default())?;
            match fields.get("id") {
                Some(id) => format!("Event {id} of queue {queue}"),
                None => format!("Queue {queue}"),
            }
        }
    };
    let inputs = match action {
        Action::Rate => {
            let queue = name_of(&visit, fields.get("queue").unwrap_or_default())?;
            let control = in_time(app.bus.controls()).await?.remove(&queue);
            let rate = control.and_then(|control| control.rate);
            vec![Input {
                name: "rate",
                label: "Starts in a second",
                value: rate.map(|rate| rate.to_string()).unwrap_or_default(),
                hint: "0.001 to 1000000; empty removes the limit",
            }]
        }
        Action::ReviveAll | Action::DropAll => vec![Input::rate("Dead letters in a second")],
        Action::CancelAll | Action::RunAll => vec![Input::rate("Events in a second")],
        Action::RescheduleAll => vec![Input::delay(), Input::rate("Events in a second")],
        Action::Reschedule => vec![Input::delay()],
        _ => Vec::new(),
    };
    let hidden = [
        "queue", "id", "schedule", "cause", "error", "key", "since", "until", "q", "in", "state",
        "from",
    ];
    let hidden = hidden
        .into_iter()
        .filter_map(|name| Some((name, fields.get(name)?.to_owned())));
    let (title, button) = action.words();
    html(&ConfirmPage {
        hidden: hidden.collect(),
        action: action.name(),
        subject,
        effect: action.effect(),
        dry_run,
        button,
        is_dangerous: action.is_dangerous(),
        inputs,
        back: back(action, &fields),
        frame: app.frame(&visit, "", title),
    })
}

/// Does an action, records who did it, and goes back.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Form { visit, fields }: Form,
) -> Result<Response> {
    let action = Action::parse(&name)?;
    visit.needs(action.role())?;
    let (done, target) = perform::perform(&app, &visit, action, &fields).await?;
    let name = match action {
        Action::Pause => "queue paused",
        Action::Resume => "queue resumed",
        Action::Rate => "rate of queue set",
        Action::Cancel => "event cancelled",
        Action::RunNow | Action::Reschedule => "event rescheduled",
        Action::Revive | Action::ReviveAll => "dead letters revived",
        Action::Drop | Action::DropAll => "dead letters dropped",
        Action::CancelAll => "events cancelled",
        Action::RunAll | Action::RescheduleAll => "events rescheduled",
        Action::Stop => "sweep stopped",
        Action::PauseSchedule => "schedule paused",
        Action::ResumeSchedule => "schedule resumed",
        Action::RunSchedule => "schedule run",
        Action::RemoveSchedule => "schedule removed",
    };
    app.audit(&visit.user, name, &target).await;
    if let Some(queue) = fields.get("queue").and_then(|queue| queue.parse().ok()) {
        app.sampler.refresh(&queue).await;
    }
    let back = back(action, &fields);
    let separator = if back.contains('?') { '&' } else { '?' };
    let to = format!("{}{back}{separator}{}", app.base, visit.done_query(&done));
    Ok(Redirect::to(&to).into_response())
}

/// Reads the filter of a sweep; who sees some queues only has to name one.
fn sweep_filter(fields: &Fields, visit: &Visit) -> Result<DeadFilter> {
    let filter = DeadFilter::read(fields, visit)?;
    if filter.queue.is_none() && !visit.user.sees_all() {
        Err(PageError::invalid("choose a queue first"))
    } else {
        Ok(filter)
    }
}
