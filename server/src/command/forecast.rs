//! `duly forecast`: what falls due when, as a chart.

use std::time::Duration;

use clap::Args;
use duly::QueueName;
use duly::admin::FORECAST_STEPS_MAX;

use super::error::{CommandError, Result};
use super::output::{Output, time};
use super::source::Source;
use super::values;

#[derive(Args, Debug)]
pub(crate) struct ForecastCommand {
    /// The queue
    queue: QueueName,
    /// How far to look
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = values::span)]
    horizon: Duration,
    /// The length of a step [default: a thirtieth of the horizon]
    #[arg(long, value_name = "DURATION", value_parser = values::span)]
    step: Option<Duration>,
}

/// The steps of a chart that fills a screen.
const STEPS: u32 = 30;

pub(crate) async fn run<S: Source>(
    source: &S,
    output: Output,
    command: ForecastCommand,
) -> Result<()> {
    let ForecastCommand {
        queue,
        horizon,
        step,
    } = command;
    let step = step.unwrap_or_else(|| (horizon / STEPS).max(Duration::from_millis(1)));
    let steps = horizon.as_nanos().div_ceil(step.as_nanos());
    if steps > FORECAST_STEPS_MAX as u128 {
        return Err(CommandError::usage(format!(
            "this forecast has {steps} steps, at most {FORECAST_STEPS_MAX} are allowed; use a \
             longer --step or a nearer --horizon"
        )));
    }
    let steps = source.forecast(&queue, horizon, step).await?;
    if output.json {
        return output.json(&steps);
    }
    let bars: Vec<_> = steps
        .iter()
        .map(|step| (time(step.until_ms), step.events))
        .collect();
    let total: usize = steps.iter().map(|step| step.events).sum();
    output.chart(&bars)?;
    output.line(&format!("{total} events of queue {queue} until then"))
}
