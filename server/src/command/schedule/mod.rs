//! `duly schedule`: list, show, set, pause, resume, run-now, remove, next.

mod next;
mod show;
mod source;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use duly::QueueName;
use duly::schedule::{Calendar, MissedPolicy, OverlapPolicy, Recurrence};
use duly_server::api::ScheduleView;
use duly_server::schedules::NewSchedule;
use serde_json::json;

pub(crate) use self::next::{NextCommand, run as next};
use self::source::ScheduleAction;
pub(crate) use self::source::ScheduleSource;
use super::error::{Failure, Result, no_schedule};
use super::event::read_payload;
use super::output::{Output, confirm};
use super::source::Source;
use super::values;

/// How many schedules are looked through for a similar name.
const SIMILAR_MAX: usize = 10_000;

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Lists the schedules, and when each is next
    List {
        /// The most schedules
        #[arg(long, value_name = "N", default_value_t = 1_000)]
        limit: usize,
    },
    /// Shows a schedule: its next ten instants, its last ten results, and why
    Show {
        /// The schedule
        name: String,
    },
    /// Makes a schedule, or replaces all options of one that there is
    Set(SetArguments),
    /// Pauses a schedule: it pushes nothing until it is resumed
    Pause {
        /// The schedule
        name: String,
    },
    /// Resumes a paused schedule; what it missed is made up for as it says
    Resume {
        /// The schedule
        name: String,
    },
    /// Pushes an occurrence of a schedule now, beside those of its calendar
    RunNow {
        /// The schedule
        name: String,
    },
    /// Removes a schedule, and cancels what it has pushed that is to come
    Remove {
        /// The schedule
        name: String,
        /// Does not ask
        #[arg(long)]
        yes: bool,
    },
    /// Shows when a recurrence is next: `0 9 * * MON-FRI Europe/Berlin`, `every 15m phase 5m`
    Next(NextCommand),
}

/// A schedule to set.
#[derive(Args, Debug)]
pub(crate) struct SetArguments {
    /// The schedule
    name: String,
    /// Minute, hour, day, month, weekday and a time zone [default: UTC], or an interval: `every 15m`
    when: Recurrence,
    /// The queue that its occurrences are pushed to
    #[arg(long, short, value_name = "QUEUE")]
    queue: QueueName,
    /// The payload of each occurrence, JSON [default: the occurrence]
    #[arg(long, value_name = "JSON", conflicts_with = "payload_file")]
    payload: Option<String>,
    /// A file with the payload, JSON; `-` is the standard input
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// What becomes of missed occurrences: skip, once, or all(24)
    #[arg(long, value_name = "POLICY", default_value_t)]
    missed: MissedPolicy,
    /// What becomes of one while the one before has not ended: allow, skip or wait
    #[arg(long, value_name = "POLICY", default_value_t)]
    overlap: OverlapPolicy,
    /// The window over which occurrences are spread
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    jitter: Duration,
    /// A day on which it rests, such as 2026-12-25; may be given several times
    #[arg(long, value_name = "DATE", value_parser = date)]
    exclude: Vec<String>,
    /// A day of the only ones on which it runs; may be given several times
    #[arg(long, value_name = "DATE", value_parser = date)]
    only: Vec<String>,
}

fn date(text: &str) -> duly::Result<String> {
    Calendar::new([text]).map(|_| text.to_owned())
}

impl SetArguments {
    fn schedule(self) -> Result<(String, NewSchedule)> {
        let payload = match (self.payload, self.payload_file) {
            (None, Some(file)) => Some(read_payload(&file)?),
            (payload, _) => payload,
        };
        let schedule = NewSchedule {
            queue: self.queue.to_string(),
            when: self.when.to_string(),
            payload: payload.map(|json| json.trim().to_owned()),
            missed: Some(self.missed.to_string()),
            overlap: Some(self.overlap.to_string()),
            jitter_ms: u64::try_from(self.jitter.as_millis()).unwrap_or(u64::MAX),
            exclude: self.exclude,
            only: Some(self.only).filter(|only| !only.is_empty()),
        };
        // What is wrong is said before a store or a server is asked.
        let _ = schedule.clone().options()?;
        Ok((self.name, schedule))
    }
}

pub(crate) async fn run<S: Source + ScheduleSource>(
    source: &S,
    output: Output,
    command: ScheduleCommand,
) -> Result<()> {
    match command {
        ScheduleCommand::List { limit } => list(source, output, limit).await,
        ScheduleCommand::Show { name } => {
            let view = source.schedule(&name).await;
            let view = known(source, &name, view).await?;
            show::show(source, output, view).await
        }
        ScheduleCommand::Set(arguments) => {
            let (name, schedule) = arguments.schedule()?;
            let view = source.set_schedule(&name, schedule).await?;
            let text = format!("schedule {name} is set: {}", view.meaning);
            output.value(&view, &text)
        }
        ScheduleCommand::Pause { name } => {
            let done = act(source, &name, ScheduleAction::Pause).await;
            done.and_then(|()| changed(output, &name, "paused"))
        }
        ScheduleCommand::Resume { name } => {
            let done = act(source, &name, ScheduleAction::Resume).await;
            done.and_then(|()| changed(output, &name, "resumed"))
        }
        ScheduleCommand::RunNow { name } => {
            let run = source.run_schedule(&name).await;
            let run = known(source, &name, run).await?;
            let value = json!({"schedule": name, "id": run.id, "queue": run.queue});
            let text = format!("event {} of queue {} is pushed", run.id, run.queue);
            output.value(&value, &text)
        }
        ScheduleCommand::Remove { name, yes } => {
            // An unknown schedule is no question.
            let found = source.schedule(&name).await;
            known(source, &name, found).await?;
            confirm(yes, &format!("Remove schedule {name} for good?"))?;
            act(source, &name, ScheduleAction::Remove).await?;
            changed(output, &name, "removed")
        }
        ScheduleCommand::Next(command) => next(output, command),
    }
}

fn changed(output: Output, name: &str, done: &str) -> Result<()> {
    let mut value = json!({"schedule": name});
    value[done] = true.into();
    output.value(&value, &format!("schedule {name} is {done}"))
}

async fn act<S: ScheduleSource>(source: &S, name: &str, action: ScheduleAction) -> Result<()> {
    let done = source.act_on_schedule(name, action).await;
    known(source, name, done).await
}

/// Adds the name that was probably meant to the error of a schedule that is not there.
async fn known<S: ScheduleSource, T>(source: &S, name: &str, found: Result<T>) -> Result<T> {
    let error = match found {
        Err(error) if error.failure == Failure::NotFound => error,
        found => return found,
    };
    // Without a list, as where the token may not have it, the error is that of before.
    let Ok((views, _)) = source.schedules(Some(name), SIMILAR_MAX).await else {
        return Err(error);
    };
    let names = views.iter().filter_map(|it| QueueName::new(&it.name).ok());
    let names: Vec<_> = names.collect();
    let meant = QueueName::new(name).ok();
    let meant = meant.and_then(|name| duly::__server::names::name_meant(&name, &names));
    Err(meant.map_or(error, |meant| no_schedule(name, Some(meant))))
}

/// Says in a word how a schedule is.
fn state(view: &ScheduleView) -> &'static str {
    if view.paused_ms.is_some() {
        "paused"
    } else if view.declaration_gone {
        "no longer declared"
    } else {
        ""
    }
}

async fn list<S: ScheduleSource>(source: &S, output: Output, limit: usize) -> Result<()> {
    let (views, has_more) = source.schedules(None, limit).await?;
    let rows: Vec<_> = views
        .iter()
        .map(|view| {
            let next = view.next.first().map(|next| next.clock.clone());
            vec![
                view.name.clone(),
                view.queue.clone(),
                view.meaning.clone(),
                next.unwrap_or_default(),
                state(view).to_owned(),
            ]
        })
        .collect();
    let heads = ["SCHEDULE", "QUEUE", "WHEN", "NEXT", ""];
    let more = has_more.then_some("... and more schedules; raise --limit");
    output.list(&views, (&heads, &rows), more)
}
