//! The workloads of events that have something of their own, through the library.

use std::sync::Arc;
use std::time::Duration;

use duly::{CancelOutcome, Queue, Unique};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use super::load::{HOUR, IN_FLIGHT, Watch, payload, per_second, settled, with_bus};
use super::place::Place;
use crate::command::error::{CommandError, Result};

/// The delays of events that are due at times of their own are spread over so many milliseconds.
const SPREAD_MS: u64 = 1_000;
/// Of so many events one fails, where some do.
const FAILS_ONE_IN: u64 = 8;

/// What events have of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Own,
    Mixed,
    Retried,
    Cancelled,
}

impl Shape {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Mixed => "mixed",
            Self::Retried => "retried",
            Self::Cancelled => "cancelled",
        }
    }

    /// How many of the events are handled.
    fn handled(self, events: u64) -> u64 {
        match self {
            Self::Cancelled => events.div_ceil(2),
            _ => events,
        }
    }

    /// Pushes one of the events, and cancels it if it is one of those.
    async fn push(self, queue: &Queue<String>, number: u64) -> Result<()> {
        let event = queue.event(payload(0, number));
        let own = Duration::from_millis(number % SPREAD_MS);
        let is_cancelled = self == Self::Cancelled && number % 2 == 1;
        let event = match (self, number % 4) {
            _ if is_cancelled => event.after(HOUR),
            (Self::Own | Self::Cancelled, _) => event.after(own),
            (Self::Mixed, 1) => event.key(format!("customer:{}", number % 1_000)),
            (Self::Mixed, 2) => event.unique(format!("order:{number}"), Unique::Keep),
            (Self::Mixed, 3) => event.expires_after(HOUR),
            (Self::Mixed | Self::Retried, _) => event,
        };
        let receipt = event.push().await?;
        if is_cancelled && queue.cancel(receipt.id()).await? != CancelOutcome::Cancelled {
            let text = format!("event {} was not there to be cancelled", receipt.id());
            return Err(CommandError::failed(text));
        }
        Ok(())
    }
}

/// Pushes events one by one while they are handled; returns how many a second, from the first push
/// to the last settlement.
pub(super) async fn run(place: &Place, events: u64, shape: Shape) -> Result<f64> {
    let one_in = match shape {
        Shape::Retried => FAILS_ONE_IN,
        _ => 0,
    };
    let watch = Arc::new(Watch::failing(one_in));
    let took = with_bus(place, Some(&watch), async |bus, queue| {
        let begun = Instant::now();
        let pushes = stream::iter(0..events).map(|number| shape.push(&queue, number));
        let pushes = pushes.buffer_unordered(IN_FLIGHT);
        pushes.try_collect::<()>().await?;
        watch.until(shape.handled(events)).await?;
        settled(bus).await?;
        Ok(begun.elapsed())
    });
    Ok(per_second(events, took.await?))
}
