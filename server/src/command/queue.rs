//! `duly queue`: list, show, pause, resume, set, drain, purge.

use std::time::Duration;

use clap::Subcommand;
use duly::QueueName;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::error::{CommandError, Failure, Result};
use super::output::{Colour, Output, age, plain, progress, time};
use super::purge::{self, Purge};
use super::source::Source;
use super::values;
use super::view::{OverviewView, QueueChange, QueueView, events, uncounted};

/// How often a drain looks.
const DRAIN_POLL: Duration = Duration::from_millis(200);

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Lists the queues, with their events by state
    List {
        /// The most queues
        #[arg(long, value_name = "N", default_value_t = 1_000)]
        limit: usize,
    },
    /// Shows one queue and its settings
    Show {
        /// The queue
        queue: QueueName,
    },
    /// Pauses a queue on every node: no event of it starts
    Pause {
        /// The queue
        queue: QueueName,
        /// It need not exist: its first push makes it
        #[arg(long)]
        new: bool,
    },
    /// Resumes a paused queue
    Resume {
        /// The queue
        queue: QueueName,
        /// It need not exist: its first push makes it
        #[arg(long)]
        new: bool,
    },
    /// Changes settings of a queue on every node; `none` removes one
    #[command(group = clap::ArgGroup::new("setting").required(true).multiple(true))]
    Set {
        /// The queue
        queue: QueueName,
        /// The most starts of handlers in a second, over all nodes; each server gives its HTTP consumers
        /// and webhooks the whole rate
        #[arg(long, value_name = "N|none", group = "setting", value_parser = rate)]
        rate: Option<Setting<f64>>,
        /// The most handlers at once on each node
        #[arg(long, value_name = "N|none", group = "setting", value_parser = count)]
        workers: Option<Setting<u16>>,
        /// The number of buckets for new events
        #[arg(long, value_name = "N|none", group = "setting", value_parser = count)]
        buckets: Option<Setting<u16>>,
        /// It need not exist: its first push makes it
        #[arg(long)]
        new: bool,
    },
    /// Waits until no event of a queue is due, ready or leased
    Drain {
        /// The queue
        queue: QueueName,
        /// Waits for the scheduled events, too
        #[arg(long)]
        scheduled: bool,
        /// Gives up after this time, with exit code 5
        #[arg(long, value_name = "DURATION", value_parser = values::duration)]
        timeout: Option<Duration>,
    },
    /// Cancels every event of a queue that waits, scheduled or ready
    Purge {
        /// The queue
        queue: QueueName,
        /// Counts what would be cancelled, and changes nothing
        #[arg(long)]
        dry_run: bool,
        /// Cancels at most so many in a second
        #[arg(long, value_name = "N", value_parser = values::rate)]
        rate: Option<f64>,
        /// Does not ask
        #[arg(long)]
        yes: bool,
    },
}

/// A value of a setting, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<T>(Option<T>);

fn rate(text: &str) -> std::result::Result<Setting<f64>, String> {
    optional(
        text,
        |rate| (0.001..=1_000_000.0).contains(rate),
        "0.001 to 1000000",
    )
}

fn count(text: &str) -> std::result::Result<Setting<u16>, String> {
    optional(text, |count| (1..=1_024).contains(count), "1 to 1024")
}

fn optional<T: std::str::FromStr>(
    text: &str,
    is_within: impl Fn(&T) -> bool,
    bounds: &str,
) -> std::result::Result<Setting<T>, String> {
    match (text, text.parse()) {
        ("none", _) => Ok(Setting(None)),
        (_, Ok(value)) if is_within(&value) => Ok(Setting(Some(value))),
        (_, Ok(_)) => Err(format!("`{text}` must be {bounds}, or `none`")),
        (_, Err(_)) => Err(format!("`{text}` is neither a number nor `none`")),
    }
}

pub(crate) async fn run<S: Source>(
    source: &S,
    output: Output,
    command: QueueCommand,
) -> Result<()> {
    match command {
        QueueCommand::List { limit } => list(source, output, limit).await,
        QueueCommand::Show { queue } => show(output, &source.queue(&queue).await?),
        QueueCommand::Pause { queue, new } => {
            let change = QueueChange {
                paused: Some(true),
                ..QueueChange::default()
            };
            set(source, output, (&queue, new), change).await
        }
        QueueCommand::Resume { queue, new } => {
            let change = QueueChange {
                paused: Some(false),
                ..QueueChange::default()
            };
            set(source, output, (&queue, new), change).await
        }
        QueueCommand::Set {
            queue,
            rate,
            workers,
            buckets,
            new,
        } => {
            let change = QueueChange {
                paused: None,
                rate: rate.map(|Setting(rate)| rate),
                workers: workers.map(|Setting(workers)| workers),
                buckets: buckets.map(|Setting(buckets)| buckets),
            };
            set(source, output, (&queue, new), change).await
        }
        QueueCommand::Drain {
            queue,
            scheduled,
            timeout,
        } => drain(source, output, &queue, scheduled, timeout).await,
        QueueCommand::Purge {
            queue,
            dry_run,
            rate,
            yes,
        } => {
            let purge = Purge {
                queue: &queue,
                dry_run,
                rate,
                yes,
            };
            purge::run(source, output, purge).await
        }
    }
}

async fn list<S: Source>(source: &S, output: Output, limit: usize) -> Result<()> {
    let OverviewView {
        queues,
        has_more,
        now_ms,
        ..
    } = source.overview(limit).await?;
    let rows: Vec<_> = queues
        .iter()
        .map(|queue| {
            let oldest = queue
                .oldest_ready_ms
                .map(|at| age(now_ms.saturating_sub(at)));
            let paused = if queue.paused { "paused" } else { "" };
            vec![
                queue.queue.clone(),
                events(queue, queue.scheduled),
                events(queue, queue.ready),
                events(queue, queue.leased),
                events(queue, queue.dead),
                oldest.unwrap_or_default(),
                paused.to_owned(),
            ]
        })
        .collect();
    let heads = [
        "QUEUE",
        "SCHEDULED",
        "READY",
        "LEASED",
        "DEAD",
        "OLDEST",
        "",
    ];
    let first = queues
        .iter()
        .find_map(|it| Some((&it.queue, it.uncounted.as_ref()?)));
    let first = first.map(|(queue, error)| format!("; {queue}: {}", plain(error)));
    let uncounted =
        uncounted(&queues).map(|words| format!("... {words}{}", first.unwrap_or_default()));
    let more = has_more.then(|| "... and more queues; raise --limit".to_owned());
    let notes: Vec<_> = uncounted.into_iter().chain(more).collect();
    let notes = (!notes.is_empty()).then(|| notes.join("\n"));
    output.list(&queues, (&heads, &rows), notes.as_deref())
}

fn show(output: Output, queue: &QueueView) -> Result<()> {
    if output.json {
        return output.json(queue);
    }
    let state = if queue.paused {
        output.paint(Colour::Yellow, "paused")
    } else {
        output.paint(Colour::Green, "running")
    };
    let dead = queue.dead.to_string();
    let dead = match queue.dead {
        0 => dead,
        _ => output.paint(Colour::Red, &dead),
    };
    output.fields(&[
        ("queue", Some(queue.queue.clone())),
        ("state", Some(state)),
        ("scheduled", Some(queue.scheduled.to_string())),
        ("ready", Some(queue.ready.to_string())),
        ("leased", Some(queue.leased.to_string())),
        ("dead", Some(dead)),
        ("oldest ready", queue.oldest_ready_ms.map(time)),
        ("rate", queue.rate.map(|rate| format!("{rate} a second"))),
        ("workers", queue.workers.map(|it| it.to_string())),
        ("buckets", queue.buckets.map(|it| it.to_string())),
    ])
}

async fn set<S: Source>(
    source: &S,
    output: Output,
    (queue, is_new): (&str, bool),
    change: QueueChange,
) -> Result<()> {
    if !is_new {
        let found = source.queue(queue).await;
        found.map_err(|error| match error.failure {
            Failure::NotFound => {
                let text = format!("{error}; --new sets it before its first push");
                CommandError::not_found(text)
            }
            _ => error,
        })?;
    }
    source.set_queue(queue, change).await?;
    let text = match change.paused {
        Some(true) => format!("queue {queue} is paused"),
        Some(false) => format!("queue {queue} is resumed"),
        None => format!("queue {queue} is changed"),
    };
    let mut value = json!({"queue": queue});
    if let Some(paused) = change.paused {
        value["paused"] = paused.into();
    }
    if let Some(rate) = change.rate {
        value["rate"] = json!(rate);
    }
    if let Some(workers) = change.workers {
        value["workers"] = json!(workers);
    }
    if let Some(buckets) = change.buckets {
        value["buckets"] = json!(buckets);
    }
    output.value(&value, &text)
}

async fn drain<S: Source>(
    source: &S,
    output: Output,
    queue: &str,
    with_scheduled: bool,
    timeout: Option<Duration>,
) -> Result<()> {
    let begun = Instant::now();
    let mut bar = None;
    loop {
        let view = source.queue(queue).await?;
        let scheduled = if with_scheduled { view.scheduled } else { 0 };
        let left = (view.ready + view.leased + scheduled) as u64;
        if left == 0 {
            if let Some(bar) = bar {
                indicatif::ProgressBar::finish_and_clear(&bar);
            }
            let value = json!({"queue": queue, "left": 0});
            return output.value(&value, &format!("queue {queue} is drained"));
        }
        let bar = bar.get_or_insert_with(|| progress(Some(left), "draining"));
        let most = bar.length().unwrap_or(left).max(left);
        bar.set_length(most);
        bar.set_position(most - left);
        if timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
            bar.finish_and_clear();
            let paused = if view.paused { "; it is paused" } else { "" };
            return Err(CommandError::new(
                Failure::Unavailable,
                format!("queue {queue} still has {left} events{paused}"),
            ));
        }
        sleep(DRAIN_POLL).await;
    }
}
