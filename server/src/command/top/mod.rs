//! `duly top`: a live view of all queues for a terminal, or one snapshot of it.

mod columns;
mod screen;
mod view;

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use duly_server::api::ForecastStep;
use futures_util::{StreamExt, stream};
use ratatui::crossterm::event::{Event, EventStream};
use tokio::signal::unix::{SignalKind, signal};

use self::view::{Order, View};
use super::error::{CommandError, Result};
use super::output::{Output, time};
use super::source::Source;
use super::values;
use super::view::OverviewView;

/// How far the load of the selected queue is shown, and its steps.
const HOUR: Duration = Duration::from_secs(3_600);
const STEP: Duration = Duration::from_secs(60);
/// How long a round waits for the load: the numbers of all queues are not old for it.
const LOAD_MAX: Duration = Duration::from_secs(2);
/// How often the age of what is shown is looked at.
const TICK: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(crate) struct TopCommand {
    /// The time between two readings
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = values::span)]
    interval: Duration,
    /// The most queues that are read
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: u16,
    /// The order of the queues
    #[arg(long, value_enum, default_value_t = Order::Lateness)]
    sort: Order,
    /// Writes one snapshot and ends, as it does where there is no terminal
    #[arg(long)]
    once: bool,
}

/// What is read in one round.
#[derive(Debug)]
struct Sample {
    overview: OverviewView,
    forecast: Option<Forecast>,
}

/// What falls due of the selected queue in the next hour, or why that is not known.
type Forecast = (String, Result<Vec<ForecastStep>>);

async fn sample<S: Source>(source: &S, limit: usize, selected: Option<String>) -> Result<Sample> {
    let overview = source.overview(limit).await?;
    let is_there = |name: &String| overview.queues.iter().any(|queue| queue.queue == *name);
    let forecast = match selected.filter(is_there) {
        Some(queue) => {
            let steps = bounded(source.forecast(&queue, HOUR, STEP)).await;
            Some((queue, steps))
        }
        None => None,
    };
    Ok(Sample { overview, forecast })
}

/// Waits for a forecast no longer than a round can.
async fn bounded<T>(forecast: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || CommandError::failed(format!("not known within {} s", LOAD_MAX.as_secs()));
    let waited = tokio::time::timeout(LOAD_MAX, forecast).await;
    waited.unwrap_or_else(|_| Err(late()))
}

pub(crate) async fn run<S: Source>(source: &S, output: Output, command: TopCommand) -> Result<()> {
    let limit = usize::from(command.limit);
    // What is wrong at once is an error of the command; what goes wrong later is shown.
    let first = sample(source, limit, None).await?;
    if output.json {
        return output.json(&first.overview);
    }
    let mut view = View::new(command.sort, command.interval);
    view.update(values::now_ms(), Ok(first));
    if command.once || !io::stdout().is_terminal() {
        return snapshot(output, &view);
    }
    let mut terminal = ratatui::try_init()?;
    let ended = live(&mut terminal, source, output, &command, view).await;
    let restored = ratatui::try_restore();
    ended.and(restored.map_err(Into::into))
}

/// Draws until a key or a signal ends it.
async fn live<S: Source>(
    terminal: &mut ratatui::DefaultTerminal,
    source: &S,
    output: Output,
    command: &TopCommand,
    mut view: View,
) -> Result<()> {
    let selected = RefCell::new(view.selected());
    let samples = stream::unfold((), async |()| {
        tokio::time::sleep(command.interval).await;
        let queue = selected.borrow().clone();
        Some((sample(source, usize::from(command.limit), queue).await, ()))
    });
    tokio::pin!(samples);
    let mut keys = EventStream::new();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut ticks = tokio::time::interval(TICK);
    loop {
        let now = values::now_ms();
        terminal.draw(|frame| screen::draw(frame, &mut view, now, output.has_colours()))?;
        tokio::select! {
            Some(sample) = samples.next() => view.update(values::now_ms(), sample),
            event = keys.next() => match event.transpose()? {
                Some(Event::Key(key)) if view.quits(key) => return Ok(()),
                Some(_) => {} // another key, or another size
                None => return Ok(()),
            },
            _ = ticks.tick() => {} // what is shown may have become old
            _ = terminated.recv() => return Ok(()),
        }
        selected.replace(view.selected());
    }
}

fn snapshot(output: Output, view: &View) -> Result<()> {
    let summary = view.summary().join("  ");
    output.line(&format!("{}  {summary}", time(view.read_ms())))?;
    let rows: Vec<_> = view.rows().map(Vec::from).collect();
    output.table(&view::HEADS, &rows)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_load_is_waited_for_no_longer_than_a_round_can() {
        assert_eq!(bounded(ready(Ok(7))).await.ok(), Some(7));
        let late = bounded(pending::<Result<()>>()).await;
        assert_eq!(late.unwrap_err().to_string(), "not known within 2 s");
    }
}
