//! `duly event`: list, show, explain, cancel, reschedule, run-now, update, erase, replay.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use duly::time::Timestamp;
use duly::{EventId, QueueName};
use serde_json::json;
use serde_json::value::RawValue;

use super::bulk_source::BulkSource;
use super::error::{CommandError, Result};
use super::event_bulk::{self, EraseArguments, ManyArguments, Selected};
use super::event_list::{self, ListArguments};
use super::event_replay::{self, ReplayArguments};
use super::output::{Output, confirm, payload, plain, time};
use super::source::Source;
use super::values;
use super::view::{BulkAction, EventChange, EventPath, EventView};

/// The largest payload of a file.
const PAYLOAD_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum EventCommand {
    /// Lists events that are not over, the first due first
    List(ListArguments),
    /// Shows an event, with its payload
    Show(EventArguments),
    /// Explains where an event is, what it waits for, and what to do
    Explain(EventArguments),
    /// Cancels an event that waits, or all that match
    Cancel {
        #[command(flatten)]
        events: ManyArguments,
        /// Does not ask
        #[arg(long)]
        yes: bool,
    },
    /// Makes an event that waits, or all that match, due at another time
    #[command(group = clap::ArgGroup::new("when").required(true))]
    Reschedule {
        #[command(flatten)]
        events: ManyArguments,
        /// Due after this time from now
        #[arg(long, value_name = "DURATION", group = "when", value_parser = values::duration)]
        after: Option<Duration>,
        /// Due at this time, such as 2026-01-31T12:00:00Z
        #[arg(long, value_name = "TIME", group = "when", value_parser = values::time_to_come)]
        at: Option<Timestamp>,
    },
    /// Makes an event that waits, or all that match, due now
    RunNow(ManyArguments),
    /// Erases payloads, headers, replies and error texts of the events of a key
    Erase(EraseArguments),
    /// Pushes events that have ended once more, from the payloads of their records
    Replay(ReplayArguments),
    /// Replaces the payload of an event that waits
    #[command(group = clap::ArgGroup::new("new").required(true))]
    Update {
        #[command(flatten)]
        event: EventArguments,
        /// The new payload, JSON
        #[arg(long, value_name = "JSON", group = "new")]
        payload: Option<String>,
        /// A file with the new payload, JSON; `-` is the standard input
        #[arg(long, value_name = "FILE", group = "new")]
        payload_file: Option<PathBuf>,
    },
}

/// An event.
#[derive(Args, Debug)]
pub(crate) struct EventArguments {
    /// The id of the event
    id: EventId,
    /// Its queue; needed with --server
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<QueueName>,
}

impl EventArguments {
    fn path(&self) -> EventPath<'_> {
        EventPath {
            id: self.id,
            queue: self.queue.as_deref(),
        }
    }
}

pub(crate) async fn run<S: Source + BulkSource>(
    source: &S,
    output: Output,
    command: EventCommand,
) -> Result<()> {
    match command {
        EventCommand::List(arguments) => event_list::list(source, output, arguments).await,
        EventCommand::Show(event) => show(output, &source.event(event.path()).await?),
        EventCommand::Explain(event) => {
            let explained = source.explain(event.path()).await?;
            output.value(&explained, &explained.text)
        }
        EventCommand::Cancel { events, yes } => {
            let path = match events.selected("cancel")? {
                Selected::One(path) => path,
                Selected::Many(events) => {
                    let action = (BulkAction::Cancel, Some(yes));
                    return event_bulk::change(source, output, action, events).await;
                }
            };
            let id = path.id;
            // An unknown event is no question.
            let queue = source.event(path).await?.queue;
            confirm(yes, &format!("Cancel event {id} for good?"))?;
            // Another queue may have an event under the same id.
            let path = EventPath {
                id,
                queue: Some(&queue),
            };
            source.cancel(path).await?;
            let target = format!("{queue}/{id}");
            source.audit_done("event cancelled", &target).await;
            let value = json!({"id": id.to_string(), "cancelled": true});
            output.value(&value, &format!("event {id} is cancelled"))
        }
        EventCommand::Reschedule { events, after, at } => {
            let change = match (after, at) {
                (Some(after), _) => EventChange::After(after),
                (None, Some(at)) => EventChange::At(at),
                (None, None) => return Err(CommandError::usage("give --after or --at")),
            };
            moved(source, output, ("reschedule", &events), change).await
        }
        EventCommand::RunNow(events) => {
            let change = EventChange::After(Duration::ZERO);
            moved(source, output, ("run now", &events), change).await
        }
        EventCommand::Erase(arguments) => event_bulk::erase(source, output, arguments).await,
        EventCommand::Replay(arguments) => event_replay::replay(source, output, arguments).await,
        EventCommand::Update {
            event,
            payload,
            payload_file,
        } => {
            let text = match (payload, payload_file) {
                (Some(text), _) => text,
                (None, Some(file)) => read_payload(&file)?,
                (None, None) => return Err(CommandError::usage("give --payload or a file")),
            };
            let json = RawValue::from_string(text).map_err(|error| {
                CommandError::usage(format!(
                    "the payload is no JSON: {error}; a text is written with quotes, '\"text\"'"
                ))
            })?;
            changed(source, output, event.path(), EventChange::Payload(json)).await
        }
    }
}

/// Makes one event, or all that match, due at another time.
async fn moved<S: Source + BulkSource>(
    source: &S,
    output: Output,
    (verb, events): (&str, &ManyArguments),
    change: EventChange,
) -> Result<()> {
    let action = match (events.selected(verb)?, &change) {
        (Selected::One(path), _) => return changed(source, output, path, change).await,
        (Selected::Many(_), EventChange::At(due)) => BulkAction::At(*due),
        (Selected::Many(_), EventChange::After(Duration::ZERO)) => BulkAction::RunNow,
        (Selected::Many(_), EventChange::After(delay)) => {
            // One time for all: each page would have its own.
            BulkAction::At(event_bulk::store_time(source, events).await? + *delay)
        }
        (Selected::Many(_), EventChange::Payload(_)) => {
            return Err(CommandError::usage("give the id of one event"));
        }
    };
    event_bulk::change(source, output, (action, None), events).await
}

async fn changed<S: Source>(
    source: &S,
    output: Output,
    event: EventPath<'_>,
    change: EventChange,
) -> Result<()> {
    let action = match &change {
        EventChange::Payload(_) => "payload of event replaced",
        EventChange::After(_) | EventChange::At(_) => "event rescheduled",
    };
    let id = event.id;
    let queue = match event.queue {
        Some(queue) => queue.to_owned(),
        None => source.event(event).await?.queue,
    };
    let path = EventPath {
        id,
        queue: Some(&queue),
    };
    let due_ms = source.change(path, change).await?;
    source.audit_done(action, &format!("{queue}/{id}")).await;
    let value = json!({"id": id.to_string(), "due_ms": due_ms});
    output.value(
        &value,
        &format!("event {id} is changed, due {}", time(due_ms)),
    )
}

fn show(output: Output, event: &EventView) -> Result<()> {
    if output.json {
        return output.json(event);
    }
    let headers = event.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| plain(&format!("{name}: {value}")))
        .collect();
    output.fields(&[
        ("id", Some(event.id.clone())),
        ("queue", Some(event.queue.clone())),
        ("state", Some(event.state.clone())),
        ("due", Some(time(event.due_ms))),
        ("expires", event.expires_ms.map(time)),
        (
            "attempts left",
            event.attempts_left.map(|it| it.to_string()),
        ),
        ("key", event.key.as_deref().map(plain)),
        ("headers", (!headers.is_empty()).then(|| headers.join(", "))),
        ("payload", event.payload_base64.as_deref().map(payload)),
    ])
}

/// Removes the byte order mark with which some editors begin a file.
fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(text) => text.to_owned(),
        None => text,
    }
}

pub(super) fn read_payload(file: &std::path::Path) -> Result<String> {
    let wrong = |error: std::io::Error| {
        CommandError::usage(format!("{} cannot be read: {error}", file.display()))
    };
    let mut text = String::new();
    let reader: Box<dyn Read> = if file.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(wrong)?)
    };
    reader
        .take(PAYLOAD_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(wrong)?;
    Ok(without_mark(text))
}
