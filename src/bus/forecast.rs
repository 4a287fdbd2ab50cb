//! The coming load: how many scheduled events fall due by when.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::bus::Bus;
use crate::bus::names::Doubt;
use crate::core::op::StoreOp;
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::time::Timestamp;

/// The most steps that one forecast answers: a year by the day, or a day by four
/// minutes.
pub const FORECAST_STEPS_MAX: usize = 400;

/// So long a step of a bucket has to itself: it takes one or two hundredths of that.
const EACH: Duration = Duration::from_micros(200);
/// A forecast begins at once as long as those before it are not further ahead of that.
const AHEAD: Duration = Duration::from_secs(1);

/// The load of one step of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coming {
    /// The end of the step, by the store's clock.
    pub until: Timestamp,
    /// How many events that are scheduled now fall due in it: after the end of the step before,
    /// and not after this one. What is overdue and was not moved yet is in the first.
    pub events: usize,
}

impl Bus {
    /// How many of a queue's scheduled events fall due in each `step` from now until `horizon`, in
    /// all of its buckets, those of earlier bucket counts too.
    ///
    /// Retries that wait for their backoff are scheduled events, too. What is ready or running is
    /// not counted, and nobody knows what is pushed meanwhile. The last step may be shorter.
    ///
    /// No store looks at the events for it: it costs the same with a hundred and with ten million
    /// of them. Each bucket counts at its own instant, one after the other, so over buckets whose
    /// answers took milliseconds the numbers are as exact as that.
    ///
    /// A store counts in time that it has for nobody else. So a bus counts 5,000 steps of buckets a
    /// second, and a forecast begins when no more than 5,000 are owed: 60 steps over 8 buckets,
    /// which are 480, can be asked for ten times a second, 400 steps three times in two seconds,
    /// and whoever asks for more waits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a `step` of zero, or more than
    /// [`FORECAST_STEPS_MAX`] steps, or a name that is not legal;
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) for one that is unknown and a known one
    /// spelled otherwise; or what the store answers.
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
    ) -> Result<Vec<Coming>> {
        let queue = QueueName::new(queue)?;
        let within = steps(horizon, step)?;
        let buckets = self.inner.buckets_of(&queue).await?;
        if buckets.is_empty() {
            self.inner.check_known(&queue, Doubt::Spelling).await?;
        }
        let steps = within.len().saturating_mul(buckets.len());
        self.inner.forecasts.wait_for(steps).await;
        let now = self.inner.now();
        let mut sums = vec![0; within.len()];
        for key in buckets {
            let within = within.clone();
            let counts = self.inner.apply(&key, StoreOp::forecast(within)).await?;
            sums.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
        let before = std::iter::once(0).chain(sums.iter().copied());
        let steps = within.iter().zip(&sums).zip(before);
        let steps = steps.map(|((span, sum), before)| Coming {
            until: now + *span,
            events: sum - before,
        });
        Ok(steps.collect())
    }
}

/// How fast a bus counts, in all its forecasts together.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Until when the steps that were counted have the time.
    taken: Mutex<Option<Instant>>,
}

impl Pace {
    /// Waits until so many steps of buckets may be counted; who came first goes first.
    async fn wait_for(&self, steps: usize) {
        let mut taken = self.taken.lock().await;
        let now = Instant::now();
        let from = taken.map_or(now, |until| until.max(now));
        tokio::time::sleep(from.duration_since(now).saturating_sub(AHEAD)).await;
        *taken = Some(from + EACH * u32::try_from(steps).unwrap_or(u32::MAX));
    }
}

/// The end of each step, from now.
fn steps(horizon: Duration, step: Duration) -> Result<Vec<Duration>> {
    if step.is_zero() {
        return Err(Error::invalid("a forecast by steps of zero has no end"));
    }
    let count = horizon.as_nanos().div_ceil(step.as_nanos());
    match usize::try_from(count) {
        Ok(count) if count <= FORECAST_STEPS_MAX => {}
        _ => {
            return Err(Error::invalid(format!(
                "a forecast of {horizon:?} by {step:?} has {count} steps, at most \
                 {FORECAST_STEPS_MAX} are answered: take longer steps, or look less far"
            )));
        }
    }
    let ends = (1..).map(|number| step.saturating_mul(number).min(horizon));
    Ok(ends.take(usize::try_from(count).unwrap_or(0)).collect())
}
