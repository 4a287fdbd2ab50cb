//! `duly records`: how attempts and events ended.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use duly::records::{Cause, NodeId, Outcome, Records};
use duly::time::Timestamp;
use duly::{Bus, EventId, QueueName};
use tokio::time::sleep;

use super::error::{CommandError, Result};
use super::output::{Colour, Output, plain, said, time};
use super::source::{PAGE, Source};
use super::values;
use super::view::{RecordFilter, RecordView};

/// How often new records are looked for.
const FOLLOW_POLL: Duration = Duration::from_millis(500);
/// How late a record may be stored: nodes write them behind the work.
const FOLLOW_OVERLAP_MS: u64 = 5_000;

/// Which records are meant.
#[derive(Args, Debug)]
pub(super) struct RecordArguments {
    /// Those with this outcome, such as acked, retried or buried
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<Outcome>,
    /// Those of attempts that failed for this cause, such as failed, timed_out or panicked
    #[arg(long, value_name = "CAUSE")]
    cause: Option<Cause>,
    /// What ended at this time or later: 2026-01-31T12:00:00Z, or a duration ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    since: Option<Timestamp>,
    /// What ended before this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    until: Option<Timestamp>,
    /// Those of events with this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Those whose error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

impl RecordArguments {
    pub(super) fn filter(&self, queue: Option<&QueueName>) -> RecordFilter {
        RecordFilter {
            queue: queue.map(QueueName::to_string),
            outcome: self.outcome,
            cause: self.cause,
            since: self.since,
            until: self.until,
            key: self.key.clone(),
            error: self.error.clone(),
            ..RecordFilter::default()
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct RecordsCommand {
    /// Those of this queue; needed with --server
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Those of this event: its whole history
    #[arg(long, value_name = "ID")]
    id: Option<EventId>,
    #[command(flatten)]
    filter: RecordArguments,
    /// Those of attempts on this node, as `duly node list` names it
    #[arg(long, value_name = "NODE", value_parser = values::node)]
    node: Option<NodeId>,
    /// The newest first
    #[arg(long, conflicts_with = "follow")]
    newest: bool,
    /// The most records [default: 100]; with --follow, of those before it begins
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Goes on with new records until it is interrupted
    #[arg(long, short, conflicts_with = "until")]
    follow: bool,
    /// The form of the output; --json is the same as json
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The form of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// An object on each line
    Json,
    /// Comma-separated values, with a line of names
    Csv,
}

impl RecordFilter {
    /// Returns the query of a store.
    pub(super) fn records(&self, bus: &Bus) -> Records {
        let mut records = bus.records();
        if let Some(queue) = &self.queue {
            records = records.queue(queue);
        }
        if let Some(id) = self.id {
            records = records.id(id);
        }
        if let Some(outcome) = self.outcome {
            records = records.outcome(outcome);
        }
        if let Some(cause) = self.cause {
            records = records.cause(cause);
        }
        if let Some(since) = self.since {
            records = records.since(since);
        }
        if let Some(until) = self.until {
            records = records.until(until);
        }
        if let Some(key) = &self.key {
            records = records.key(key);
        }
        if let Some(error) = &self.error {
            records = records.error_contains(error);
        }
        if let Some(node) = self.node {
            records = records.node(node);
        }
        if self.newest_first {
            records = records.newest_first();
        }
        records
    }
}

/// Writes records in a form.
struct Writer {
    output: Output,
    format: Format,
    is_first: bool,
}

impl Writer {
    fn write(&mut self, records: &[RecordView]) -> Result<()> {
        let has_head = std::mem::take(&mut self.is_first);
        match self.format {
            Format::Text => records.iter().try_for_each(|record| self.text(record)),
            Format::Json => records.iter().try_for_each(|it| self.output.json(it)),
            Format::Csv => {
                let mut writer = csv::WriterBuilder::new()
                    .has_headers(false)
                    .from_writer(Vec::new());
                let wrong = |error: csv::Error| CommandError::failed(error.to_string());
                if has_head {
                    writer.write_record(COLUMNS).map_err(wrong)?;
                }
                for record in records {
                    writer.write_record(cells(record)).map_err(wrong)?;
                }
                let bytes = writer.into_inner();
                let bytes = bytes.map_err(|error| CommandError::failed(error.to_string()))?;
                Ok(std::io::stdout().lock().write_all(&bytes)?)
            }
        }
    }

    fn text(&self, record: &RecordView) -> Result<()> {
        let outcome = match record.outcome.as_str() {
            "acked" | "revived" => Colour::Green,
            "buried" | "lease_lost" => Colour::Red,
            _ => Colour::Yellow,
        };
        let mut line = format!(
            "{}  {}  {}  attempt {}  {}",
            time(record.ended_ms),
            record.id,
            record.queue,
            record.attempt,
            self.output.paint(outcome, &record.outcome),
        );
        if let Some(cause) = &record.cause {
            line.push_str(&format!("  {cause}"));
        }
        if let Some(actor) = &record.actor {
            line.push_str(&format!("  by {}", plain(actor)));
        }
        if let Some(error) = &record.error {
            line.push_str(&format!("  {}", plain(error)));
        }
        self.output.line(&line)
    }
}

/// Returns the cells of a record, whose texts no spreadsheet takes for a formula, and no terminal for
/// a command.
fn cells(record: &RecordView) -> [String; COLUMNS.len()] {
    let text = |text: &Option<String>| text.as_deref().map(cell).unwrap_or_default();
    [
        record.id.clone(),
        record.queue.clone(),
        record.attempt.to_string(),
        record.outcome.clone(),
        record.cause.clone().unwrap_or_default(),
        text(&record.error),
        text(&record.key),
        record.due_ms.to_string(),
        record
            .leased_ms
            .map(|ms| ms.to_string())
            .unwrap_or_default(),
        record.ended_ms.to_string(),
        text(&record.actor),
    ]
}

fn cell(text: &str) -> String {
    let text = plain(text);
    let begins_one = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    let is_formula = text.trim_start().starts_with(begins_one);
    if is_formula { format!("'{text}") } else { text }
}

/// The columns of CSV.
const COLUMNS: [&str; 11] = [
    "id",
    "queue",
    "attempt",
    "outcome",
    "cause",
    "error",
    "key",
    "due_ms",
    "leased_ms",
    "ended_ms",
    "actor",
];

pub(crate) async fn run<S: Source>(
    source: &S,
    output: Output,
    command: RecordsCommand,
) -> Result<()> {
    let mut filter = RecordFilter {
        id: command.id,
        node: command.node,
        newest_first: command.newest,
        ..command.filter.filter(command.queue.as_ref())
    };
    let mut writer = Writer {
        output,
        format: if output.json {
            Format::Json
        } else {
            command.format
        },
        is_first: true,
    };
    if command.follow {
        return follow(
            source,
            &mut filter,
            &mut writer,
            command.limit.unwrap_or(100),
        )
        .await;
    }
    let (mut left, mut next) = (command.limit.unwrap_or(100), None);
    while left > 0 {
        let page = source.records(&filter, next.as_deref(), left.min(PAGE));
        let page = page.await?;
        left -= page.items.len().min(left);
        writer.write(&page.items)?;
        next = page.next;
        if next.is_none() {
            return Ok(());
        }
    }
    // No form of records has a place for it.
    said("... there may be more; raise --limit, or add filters");
    Ok(())
}

/// Writes the last records, and then each new one. A record may be stored later than a younger
/// one, so each look goes back a little, and leaves out what was written.
async fn follow<S: Source>(
    source: &S,
    filter: &mut RecordFilter,
    writer: &mut Writer,
    limit: usize,
) -> Result<()> {
    filter.newest_first = true;
    let (mut last, mut before) = (Vec::new(), None);
    while last.len() < limit {
        let left = (limit - last.len()).min(PAGE);
        let page = source.records(filter, before.as_deref(), left).await?;
        last.extend(page.items);
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    last.reverse();
    writer.write(&last)?;
    filter.newest_first = false;
    if last.is_empty() {
        // It goes on behind the newest record, by no clock of this machine: the store's may be another.
        let queue = filter.queue.clone();
        let newest = RecordFilter {
            queue,
            newest_first: true,
            ..RecordFilter::default()
        };
        last = source.records(&newest, None, 1).await?.items;
    }
    let mut written: BTreeSet<_> = last.iter().map(identity).collect();
    let ended_ms = |record: Option<&RecordView>| record.map_or(0, |it| it.ended_ms);
    let (mut newest, first) = (ended_ms(last.last()), ended_ms(last.first()));
    loop {
        // Not before the first record that was written: the older ones were not asked for.
        let since = newest.saturating_sub(FOLLOW_OVERLAP_MS).max(first);
        filter.since = Some(Timestamp::from_millis(since));
        written.retain(|(ended_ms, ..)| *ended_ms >= since);
        let mut next = None;
        loop {
            let mut page = source.records(filter, next.as_deref(), PAGE).await?;
            page.items.retain(|record| written.insert(identity(record)));
            newest = page
                .items
                .iter()
                .map(|record| record.ended_ms)
                .fold(newest, u64::max);
            writer.write(&page.items)?;
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        sleep(FOLLOW_POLL).await;
    }
}

fn identity(record: &RecordView) -> (u64, String, u16, String) {
    let (id, outcome) = (record.id.clone(), record.outcome.clone());
    (record.ended_ms, id, record.attempt, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_a_text() {
        for (error, expected) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            (" +1", "' +1"),
            ("\t@x", "' @x"),
            ("-1", "'-1"),
            ("\u{1b}[2Jred", " [2Jred"),
            ("it failed = badly", "it failed = badly"),
        ] {
            assert_eq!(cell(error), expected);
        }
    }
}
