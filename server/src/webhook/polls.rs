//! The polls of a runner: it leases events, as many as may be sent, and starts their deliveries.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use duly::ErrorKind;
use duly::lease::{EncodedPayload, Leased};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::circuit::CircuitState;
use super::delivery::deliver;
use super::pace::Pace;
use super::runner::Runner;

/// How long a poll is parked before it is renewed.
const POLL: Duration = Duration::from_secs(600);
/// The most events of one poll.
const BATCH_MAX: usize = 100;
/// How long a poll that has places may take: a store that hangs would keep them from others.
const PLACED_MAX: Duration = Duration::from_millis(250);
/// The pause after a failed poll.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

impl Runner {
    /// Pulls and delivers until it is cancelled.
    pub(super) async fn run(self: Arc<Self>) {
        let mut pace = None;
        loop {
            tokio::select! {
                biased;
                () = self.cancelled.cancelled() => return,
                // What a poll has leased is handed back when it is dropped.
                () = self.changed.notified() => {}
                () = self.turn(&mut pace) => {}
            }
        }
    }

    /// Starts the deliveries that may start now, or waits. It leases events for places that it has, so
    /// that they wait in their queue and not in memory; only for the next one it waits without a place.
    async fn turn(self: &Arc<Self>, pace: &mut Option<Pace>) {
        let (target, replaced, state) = self.current();
        if target.is_idle() {
            return pending().await;
        }
        let most = match state {
            CircuitState::Closed => target.row.concurrency,
            CircuitState::Open(until) if until <= Instant::now() => 1,
            CircuitState::Open(until) => return sleep_until(until).await,
            CircuitState::Probing => return pending().await,
        };
        // One event is enough to wait for the lookup of a name, without a place.
        let is_ready = self.deps.exchange.is_ready(&target);
        let free = self.in_flight.free(if is_ready { most } else { 1 }).await;
        let paced = paced(pace, target.row.rate).await;
        let most = free.min(paced).min(BATCH_MAX);
        let (mut places, mut leased) = (Vec::new(), Ok(Vec::new()));
        if is_ready {
            places = self.deps.places.take_some(&self.namespace, most).await;
            let mut lease = pin!(self.lease(places.len(), Duration::ZERO));
            leased = match timeout(PLACED_MAX, &mut lease).await {
                Ok(leased) => leased,
                // The store takes its time, for which no place is kept from others.
                Err(_) => {
                    places.clear();
                    lease.await
                }
            };
        }
        if leased.as_ref().is_ok_and(Vec::is_empty) {
            places.clear();
            leased = self.lease(1, POLL).await;
        }
        let mut leased = match leased {
            Ok(leased) => leased,
            Err(error) => {
                drop(places);
                if error.kind() == ErrorKind::Closed {
                    return pending().await;
                }
                tracing::warn!(webhook = %self.key, %error, "poll of a webhook failed");
                return sleep(FAILED_PAUSE).await;
            }
        };
        let lacking = leased.len().saturating_sub(places.len());
        places.extend(self.deps.places.take_free(&self.namespace, lacking));
        for event in leased.split_off(leased.len().min(places.len().max(1))) {
            self.deps.tasks.spawn(async move { event.release().await });
        }
        if let Some(pace) = pace {
            pace.take(leased.len());
        }
        for event in leased {
            let slot = self.in_flight.begin(places.pop());
            let of = (Arc::clone(&target), replaced.clone());
            let delivery = deliver(Arc::clone(self), of, event, slot);
            self.deps.tasks.spawn(delivery);
        }
    }

    /// Leases up to `most` events, now or within a time.
    async fn lease(
        &self,
        most: usize,
        wait: Duration,
    ) -> duly::Result<Vec<Leased<EncodedPayload>>> {
        let queues = [self.queue.clone()];
        self.pool.lease(&queues, most, self.deps.ttr, wait).await
    }
}

/// Waits for the pace of a target; returns how many requests may begin.
async fn paced(pace: &mut Option<Pace>, rate: Option<f64>) -> usize {
    let Some(rate) = rate else {
        *pace = None;
        return usize::MAX;
    };
    #[allow(clippy::float_cmp)] // it is the same setting, or another
    let is_other = pace.as_ref().is_none_or(|pace| pace.rate() != rate);
    if is_other {
        *pace = Some(Pace::new(rate, Instant::now()));
    }
    while let Some(pace) = pace {
        match pace.ready(Instant::now()) {
            Ok(many) => return many,
            Err(wait) => sleep(wait).await,
        }
    }
    usize::MAX
}
