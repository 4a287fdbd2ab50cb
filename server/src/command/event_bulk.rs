//! `duly event cancel`, `reschedule` and `run-now` of many events: those that filters find, at a rate,
//! with a place from which an interrupted one goes on.

use std::time::Duration;

use clap::Args;
use duly::__server::timing::BulkPacer;
use duly::EventId;
use duly::time::Timestamp;
use serde_json::json;

use super::bulk_source::BulkSource;
use super::error::{CommandError, Failure, Result};
use super::event_list::FilterArguments;
use super::interruption::until_interrupted;
use super::output::{Output, confirm, progress};
use super::source::Source;
use super::values;
use super::view::{BulkAction, EventBulk, EventPath};

/// One event, by its id, or those that filters find.
#[derive(Args, Debug)]
pub(crate) struct ManyArguments {
    /// The id of the event; without it those that match the filters
    #[arg(value_name = "ID")]
    id: Option<EventId>,
    #[command(flatten)]
    filter: FilterArguments,
    /// Every event that waits, where no filter beside a queue is given
    #[arg(long)]
    all: bool,
    /// Counts what would be changed, and changes nothing
    #[arg(long)]
    dry_run: bool,
    /// Changes at most so many in a second
    #[arg(long, value_name = "N", value_parser = values::rate)]
    rate: Option<f64>,
    /// Those that were pushed until this time; one that was interrupted says it
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pushed_until: Option<Timestamp>,
    /// Goes on where one was interrupted, with the same filters and --pushed-until
    #[arg(long, value_name = "CURSOR", requires = "pushed_until")]
    resume: Option<String>,
}

/// What a command is about.
pub(super) enum Selected<'a> {
    One(EventPath<'a>),
    Many(&'a ManyArguments),
}

impl ManyArguments {
    /// Returns what is selected; `verb`: what is done to it.
    pub(super) fn selected(&self, verb: &str) -> Result<Selected<'_>> {
        let is_filtered = !self.filter.is_queue_alone();
        let Some(id) = self.id else {
            if is_filtered || self.all {
                return Ok(Selected::Many(self));
            }
            return Err(CommandError::usage(format!(
                "nothing selects what to {verb}; give an id, a filter such as --key KEY, or --all"
            )));
        };
        let has_bound = self.rate.is_some() || self.pushed_until.is_some();
        if is_filtered || self.all || has_bound || self.dry_run {
            return Err(CommandError::usage(
                "an id and options of many events were given; give an id with its queue, or filters",
            ));
        }
        let queue = self.filter.queue();
        Ok(Selected::One(EventPath { id, queue }))
    }
}

/// Changes what matches; `yes`: does not ask.
pub(super) async fn change<S: Source + BulkSource>(
    source: &S,
    output: Output,
    (action, yes): (BulkAction, Option<bool>),
    arguments: &ManyArguments,
) -> Result<()> {
    let (verb, action_said) = match action {
        BulkAction::Cancel => ("cancelled", "events cancelled"),
        _ => ("rescheduled", "events rescheduled"),
    };
    let filter = arguments.filter.filter();
    if let Some(queue) = &filter.queue {
        // One that does not exist is a mistake, and not nothing.
        source.queue(queue).await?;
    }
    if let Some(yes) = yes.filter(|_| !arguments.dry_run) {
        confirm(yes, "Cancel every matching event that waits for good?")?;
    }
    if !arguments.dry_run && arguments.resume.is_none() {
        source
            .audit(action_said, &arguments.filter.target())
            .await?;
    }
    let bar = progress(None, verb);
    let mut done = Done {
        next: arguments.resume.clone(),
        pushed_until: arguments.pushed_until,
        ..Done::default()
    };
    // What goes on later has the time of the beginning, not a delay of its own.
    let at = match action {
        BulkAction::At(due) => format!("--at {due}, "),
        _ => String::new(),
    };
    let action = if arguments.dry_run {
        BulkAction::Count
    } else {
        action
    };
    let show = |many| bar.set_position(many);
    let ended = until_interrupted(sweep(source, (action, arguments), &mut done, &show)).await;
    bar.finish_and_clear();
    let Done {
        matched,
        changed,
        pushed_until,
        next,
    } = done;
    if let Err(error) = ended {
        let place = next.zip(pushed_until);
        let place = place.map_or_else(String::new, |(next, until)| {
            format!(
                "; go on with the same filters, {at}--pushed-until {until} and --resume '{next}'"
            )
        });
        let text = format!("{error}; {changed} events were {verb} before{place}");
        return Err(CommandError::new(error.failure, text));
    }
    let dry_run = arguments.dry_run;
    let value = json!({"matched": matched, "done": changed, "dry_run": dry_run});
    let text = if dry_run {
        format!("{matched} events would be {verb}; nothing was changed")
    } else {
        format!("{changed} of {matched} events are {verb}")
    };
    output.value(&value, &text)
}

/// Returns the time of the store.
pub(super) async fn store_time<S: BulkSource>(
    source: &S,
    arguments: &ManyArguments,
) -> Result<Timestamp> {
    let count = EventBulk {
        action: BulkAction::Count,
        pushed_until_ms: None,
        after: None,
        limit: 1,
    };
    let filter = arguments.filter.filter();
    let counted = source.change_events(&filter, count).await?;
    Ok(Timestamp::from_millis(counted.pushed_until_ms))
}

/// What was done until now, and where it goes on.
#[derive(Debug, Default)]
struct Done {
    matched: u64,
    changed: u64,
    /// What was pushed later is left alone.
    pushed_until: Option<Timestamp>,
    next: Option<String>,
}

/// Goes through all matches; `done` is accurate at any time, but for the step that is under way.
async fn sweep<S: BulkSource>(
    source: &S,
    (action, arguments): (BulkAction, &ManyArguments),
    done: &mut Done,
    progress: &dyn Fn(u64),
) -> Result<()> {
    let filter = arguments.filter.filter();
    let mut pace = BulkPacer::new(arguments.rate);
    loop {
        pace.wait().await;
        let bulk = EventBulk {
            action,
            pushed_until_ms: done.pushed_until.map(Timestamp::as_millis),
            after: done.next.clone(),
            limit: pace.stride(),
        };
        let step = source.change_events(&filter, bulk).await?;
        done.pushed_until = Some(Timestamp::from_millis(step.pushed_until_ms));
        done.matched += step.matched;
        done.changed += step.changed;
        progress(done.changed);
        pace.count(step.changed);
        done.next = step.next;
        if done.next.is_none() {
            return Ok(());
        }
    }
}

/// `duly event erase`.
#[derive(Args, Debug)]
pub(crate) struct EraseArguments {
    /// The key of the events
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Those of this queue
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<duly::QueueName>,
    /// Cancels those that wait; without it nothing is erased while some do
    #[arg(long)]
    cancel: bool,
    /// Counts what would be erased, and changes nothing
    #[arg(long)]
    dry_run: bool,
    /// Does not ask
    #[arg(long)]
    yes: bool,
}

/// How often records that are on their way are looked for again, and how long after.
const AGAIN: (u32, Duration) = (10, Duration::from_millis(500));

/// Erases what is stored of the events of a key.
pub(super) async fn erase<S: Source + BulkSource>(
    source: &S,
    output: Output,
    arguments: EraseArguments,
) -> Result<()> {
    let queue = arguments.queue.as_deref();
    if let Some(queue) = queue {
        source.queue(queue).await?;
    }
    if !arguments.dry_run {
        let key = super::output::plain(&arguments.key);
        let what = format!("Erase what is stored of the events with the key {key} for good?");
        confirm(arguments.yes, &what)?;
    }
    let mut sum = duly_server::api::ErasedEvents::default();
    let bar = progress(None, "records erased");
    let (mut next, mut again) = (None, 0);
    loop {
        let step = super::view::EraseStep {
            key: &arguments.key,
            queue,
            cancel: arguments.cancel,
            dry_run: arguments.dry_run,
            after: next.as_deref(),
        };
        let step = source.erase(step).await.map_err(|error| {
            let (records, before) = (sum.records, sum.cancelled + sum.dropped);
            let text = match records + before {
                0 => error.to_string(),
                _ => format!(
                    "{error}; {records} records were erased and {before} events ended before; \
                     repeat the command"
                ),
            };
            CommandError::new(error.failure, text)
        })?;
        sum.cancelled += step.cancelled;
        sum.dropped += step.dropped;
        sum.records += step.records;
        sum.running += step.running;
        sum.unreached += step.unreached;
        bar.set_position(sum.records);
        next = step.next;
        if next.is_some() {
            continue;
        }
        // What is on its way to a journal is there in a moment.
        if sum.unreached == 0 || arguments.dry_run || again == AGAIN.0 {
            break;
        }
        again += 1;
        tokio::time::sleep(AGAIN.1).await;
        sum.unreached = 0;
        next = Some("records".to_owned());
    }
    bar.finish_and_clear();
    said(output, &arguments, &sum)
}

fn said(
    output: Output,
    arguments: &EraseArguments,
    sum: &duly_server::api::ErasedEvents,
) -> Result<()> {
    let mut value = serde_json::to_value(sum).map_err(|error| {
        CommandError::new(Failure::Failed, format!("the result is not JSON: {error}"))
    })?;
    if let Some(value) = value.as_object_mut() {
        value.remove("next");
        value.insert("dry_run".to_owned(), arguments.dry_run.into());
    }
    let (records, cancelled, dropped) = (sum.records, sum.cancelled, sum.dropped);
    let mut text = if arguments.dry_run {
        format!(
            "{records} records would be erased, {cancelled} events cancelled and {dropped} dead \
             letters dropped; nothing was changed"
        )
    } else {
        format!(
            "{records} records are erased, {cancelled} events cancelled and {dropped} dead letters \
             dropped"
        )
    };
    if sum.running > 0 {
        text.push_str(&format!(
            "\n{} events run: erase again when they have ended",
            sum.running
        ));
    }
    if sum.unreached > 0 {
        text.push_str(&format!(
            "\n{} records are in outboxes of Redis, or cannot be read: with a journal erase again in a \
             moment; without one they stay until newer ones replace them",
            sum.unreached
        ));
    }
    if !arguments.dry_run {
        text.push_str(
            "\nnot reached: backups, logs, other stores and journals, rows of an outbox of your own",
        );
    }
    output.value(&value, &text)
}
