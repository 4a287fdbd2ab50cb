//! Forecasts: how many scheduled events fall due by when.

use std::time::Duration;

use crate::bus::handle::Bus;
use crate::bus::names::MatchLevel;
use crate::core::op::StoreOp;
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::time::Timestamp;

/// The most steps of a forecast: a year by the day, or a day by four minutes.
pub const FORECAST_STEPS_MAX: usize = 400;

/// One step of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForecastStep {
    /// The end of the step, by the store's clock.
    pub until: Timestamp,
    /// How many events that are scheduled now fall due in it: after the end of the step before, and
    /// not after this one. The first step includes overdue events that were not moved yet.
    pub events: usize,
}

impl Bus {
    /// Counts how many of a queue's scheduled events fall due in each `step` from now until
    /// `horizon`, in all of its buckets, including those of earlier bucket counts.
    ///
    /// Retries that wait for their backoff are scheduled events, too. Ready and running events are
    /// not counted, nor what is pushed meanwhile. The last step may be shorter.
    ///
    /// A store does not read the events for it: it costs the same with a hundred and with ten
    /// million of them. Each bucket counts at its own time, one after the other, so the counts of
    /// different buckets are milliseconds apart, or as long as they wait.
    ///
    /// A store counts in time that it has for nothing else. So a bus counts 5,000 steps of buckets
    /// per second, and a bucket waits while more than 5,000 are owed: 60 steps over 8 buckets,
    /// which are 480, can run ten times a second, 400 steps three times in two seconds. Forecasts
    /// at the same time take turns, a bucket each, so a large one holds no small one up.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a `step` of zero, more than
    /// [`FORECAST_STEPS_MAX`] steps, or an invalid name;
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) for an unknown name that is another
    /// spelling of a known one; or the store's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// for minutes in [1, 2, 2, 45] {
    ///     queue.push(7, Duration::from_secs(minutes * 60 - 10)).await?;
    /// }
    ///
    /// let minute = Duration::from_secs(60);
    /// let coming = bus.forecast("order-close", 3 * minute, minute).await?;
    /// let events: Vec<usize> = coming.iter().map(|step| step.events).collect();
    /// assert_eq!(events, [1, 2, 0]);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn forecast(
        &self,
        queue: &str,
        horizon: Duration,
        step: Duration,
    ) -> Result<Vec<ForecastStep>> {
        let queue = QueueName::new(queue)?;
        let within = steps(horizon, step)?;
        let buckets = self.inner.buckets_of(&queue).await?;
        if buckets.is_empty() {
            self.inner.check_known(&queue, MatchLevel::Spelling).await?;
        }
        let mut from = None;
        let mut sums = vec![0; within.len()];
        for key in buckets {
            self.inner.forecasts.wait_for(within.len()).await;
            let now = self.inner.now();
            let waited = now.since(*from.get_or_insert(now));
            let within = within.iter().map(|span| span.saturating_sub(waited));
            let forecast = StoreOp::forecast(within.collect());
            let counts = self.inner.apply(&key, forecast).await?;
            sums.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
        let now = from.unwrap_or_else(|| self.inner.now());
        let before = std::iter::once(0).chain(sums.iter().copied());
        let steps = within.iter().zip(&sums).zip(before);
        let steps = steps.map(|((span, sum), before)| ForecastStep {
            until: now + *span,
            events: sum - before,
        });
        Ok(steps.collect())
    }
}

/// Returns the end of each step, from now.
fn steps(horizon: Duration, step: Duration) -> Result<Vec<Duration>> {
    if step.is_zero() {
        return Err(Error::invalid(
            "the step of a forecast is zero; it must be longer",
        ));
    }
    let count = horizon.as_nanos().div_ceil(step.as_nanos());
    match usize::try_from(count) {
        Ok(count) if count <= FORECAST_STEPS_MAX => {}
        _ => {
            return Err(Error::invalid(format!(
                "a forecast of {horizon:?} by {step:?} has {count} steps, at most \
                 {FORECAST_STEPS_MAX} are allowed; use longer steps or a nearer horizon"
            )));
        }
    }
    let ends = (1..).map(|number| step.saturating_mul(number).min(horizon));
    Ok(ends.take(usize::try_from(count).unwrap_or(0)).collect())
}
