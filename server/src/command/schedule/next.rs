//! `duly schedule next`: what a recurrence means.

use clap::Args;
use duly::schedule::Recurrence;
use duly::time::Timestamp;
use serde::Serialize;

use crate::command::error::{CommandError, Result};
use crate::command::output::Output;
use crate::command::values;

#[derive(Args, Debug)]
pub(crate) struct NextCommand {
    /// Minute, hour, day, month, weekday and a time zone [default: UTC], or an interval
    recurrence: Recurrence,
    /// How many instants
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    count: u16,
    /// After this time instead of now
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    from: Option<Timestamp>,
}

/// What a recurrence means, as JSON.
#[derive(Serialize)]
struct View {
    recurrence: String,
    meaning: String,
    next: Vec<Instant>,
}

#[derive(Serialize)]
struct Instant {
    at_ms: u64,
    clock: String,
}

pub(crate) fn run(output: Output, command: NextCommand) -> Result<()> {
    let NextCommand {
        recurrence,
        count,
        from,
    } = command;
    let from = from.unwrap_or_else(|| Timestamp::from_millis(values::now_ms()));
    let next = recurrence.occurrences(from).take(count.into());
    let next = next.map(|at| Instant {
        at_ms: at.as_millis(),
        clock: recurrence.clock_time(at),
    });
    let view = View {
        recurrence: recurrence.to_string(),
        meaning: recurrence.describe(),
        next: next.collect(),
    };
    if view.next.is_empty() {
        return Err(CommandError::not_found(format!(
            "`{recurrence}` is not once more after {from}"
        )));
    }
    if output.json {
        return output.json(&view);
    }
    output.line(&view.meaning)?;
    let rows: Vec<_> = view
        .next
        .iter()
        .map(|instant| {
            vec![
                instant.clock.clone(),
                Timestamp::from_millis(instant.at_ms).to_string(),
            ]
        })
        .collect();
    let zone = recurrence.zone().unwrap_or("UTC");
    output.table(&[zone, "UTC"], &rows)
}
