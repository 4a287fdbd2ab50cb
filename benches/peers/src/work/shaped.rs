//! Shapes of load: events that are pushed one by one and handled, plain ones or each with something
//! of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::pushing::joined;
use super::{
    Bench, Figures, PATIENCE, WORKERS, account, cpu_time, early, per_event, rate, settled,
};
use crate::Result;
use crate::contender::{Contender, Setup, Shape, To};
use crate::payload::{Watch, now_us, payload};

/// Callers that push, each the next event when its last one is accepted.
const CALLERS: usize = 64;
/// From the first push until the first of those is due: as long as their pushes take, or more.
const LEAD_MS: u64 = 2_000;

impl Bench<'_> {
    pub(super) async fn shaped<C: Contender>(
        &self,
        shape: Shape,
        events: usize,
    ) -> Result<Figures> {
        let (watch, handled) = (Watch::new(events), shape.handled(events));
        let setup = Setup {
            shape: Some(shape),
            ..self.setup(WORKERS, &watch)
        };
        let contender: Arc<C> = self.open(setup).await?;
        let mut gauge = crate::server::Gauge::new(self.url)?;
        let first_ms = now_us() / 1_000 + LEAD_MS;
        let due_ms = move |number: usize| match shape {
            Shape::Own { a_ms } | Shape::Cancelled { a_ms } => {
                Some(first_ms + (number / a_ms) as u64)
            }
            Shape::Plain | Shape::Mixed | Shape::Failing => None,
        };
        let (server_us, own, start) = (gauge.cpu_us()?, cpu_time(), Instant::now());
        let mut pushes = JoinSet::new();
        for caller in 0..CALLERS {
            let contender = Arc::clone(&contender);
            pushes.spawn(async move {
                for number in (caller..events).step_by(CALLERS) {
                    let due_ms = due_ms(number);
                    let to = To { queue: 0, due_ms };
                    contender
                        .push_as(shape, to, payload(due_ms, number), number)
                        .await?;
                }
                Ok(())
            });
        }
        joined(pushes).await?;
        let pushed = start.elapsed();
        watch.until(handled, PATIENCE).await;
        let took = start.elapsed();
        settled(&*contender).await?;
        let own_us = (cpu_time() - own).as_secs_f64() * 1e6;
        let server_us = gauge.cpu_us()? - server_us;
        contender.close().await?;
        let mut figures = account(&watch, handled);
        if watch.started() != handled {
            return Ok(figures);
        }
        if let Shape::Own { .. } | Shape::Cancelled { .. } = shape {
            figures.push(rate(events, pushed));
            let late = watch.lateness();
            for (name, percent) in [("p50 ms", 50), ("p99 ms", 99)] {
                let at = late.get(late.len().saturating_sub(1) * percent / 100);
                figures.extend(at.map(|us| (name.to_owned(), *us as f64 / 1e3)));
            }
            figures.push(early(&late));
        } else {
            figures.push(rate(events, took));
        }
        figures.push(per_event("server cpu us", server_us, events));
        figures.push(per_event("own cpu us", own_us, events));
        Ok(figures)
    }
}

impl Shape {
    /// How many of the events are handled.
    fn handled(self, events: usize) -> usize {
        match self {
            Self::Cancelled { .. } => events.div_ceil(2),
            _ => events,
        }
    }

    /// After how long an event that fails is handled again.
    pub const AGAIN: Duration = Duration::from_millis(100);

    /// Whether an event fails at its first attempt.
    pub fn fails(self, number: usize) -> bool {
        self == Self::Failing && number.is_multiple_of(8)
    }

    /// Whether an event is cancelled.
    pub fn is_cancelled(self, number: usize) -> bool {
        matches!(self, Self::Cancelled { .. }) && number % 2 == 1
    }
}
