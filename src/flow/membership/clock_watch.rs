//! A watch of the clocks: reads the store's time every second, and reports how far it is from that of
//! this machine, by a gauge, and in the log when it differs.
//!
//! A store in this process notices a jump of its wall clock only when its time is read. And timers
//! stand still while the machine is suspended, so whoever waits for an instant by one is woken after
//! that.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::metrics::NodeGauges;
use crate::panics;
use crate::store::{Store, clock_ahead_us, differs};
use crate::time::Clock;

/// How often the clocks are read: a jump is followed, and reported, within seconds.
const EVERY: Duration = Duration::from_secs(1);
/// After so many equal readings a difference counts as begun or ended, so that clocks a second apart
/// do not fill the log.
const STEADY: u32 = 3;
/// A round that takes so much longer was too long for every timer: the machine was suspended, or is
/// so busy that waking who waits does no harm.
const LATE: Duration = Duration::from_millis(100);

/// Starts the watch, which ends with `stop`. `gauges` are exported until then; `wake` wakes whoever
/// waits by a timer for an instant of `clock`.
pub(crate) fn start(
    runtime: &Handle,
    (store, clock): (Arc<dyn Store>, Arc<dyn Clock>),
    gauges: Arc<NodeGauges>,
    wake: impl Fn() + Clone + Send + Sync + 'static,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let watch = move || {
        let clocks = (Arc::clone(&store), Arc::clone(&clock));
        watch(clocks, Arc::clone(&gauges), wake.clone(), stop.clone())
    };
    runtime.spawn(panics::lasting("watching the clocks panicked", watch))
}

async fn watch(
    (store, clock): (Arc<dyn Store>, Arc<dyn Clock>),
    gauges: Arc<NodeGauges>,
    wake: impl Fn() + Send,
    stop: CancellationToken,
) {
    let (mut is_told, mut others) = (false, 0);
    let mut last = clock.mono();
    while stop
        .run_until_cancelled(tokio::time::sleep(EVERY))
        .await
        .is_some()
    {
        let now = clock.mono();
        if now.since(last) > EVERY + LATE {
            wake();
        }
        last = now;
        let ahead_us = clock_ahead_us(&*store, &*clock);
        gauges.clock_skew(ahead_us);
        if differs(ahead_us) == is_told {
            others = 0;
            continue;
        }
        others += 1;
        if others < STEADY {
            continue;
        }
        (is_told, others) = (!is_told, 0);
        let ahead_s = ahead_us as f64 / 1e6;
        if is_told {
            panics::reported(|| {
                tracing::warn!(
                    ahead_s,
                    "the store's time differs from the clock of this machine"
                );
            });
        } else {
            panics::reported(|| {
                tracing::info!("the store's time and the clock of this machine agree again");
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::store::MemoryStore;
    use crate::testing::ManualClock;

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_by_a_timer_is_woken_after_a_suspension() {
        let clock = Arc::new(ManualClock::new());
        let read: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(Arc::clone(&read)));
        let woken = Arc::<AtomicUsize>::default();
        let (stop, wakes) = (CancellationToken::new(), Arc::clone(&woken));
        let _stopped = stop.clone().drop_guard();
        let wake = move || {
            wakes.fetch_add(1, Ordering::Relaxed);
        };
        let gauges = Arc::new(NodeGauges::new());
        tokio::spawn(watch((store, read), gauges, wake, stop));
        for (suspended, expected) in [(0, 0), (0, 0), (7_200, 1), (0, 1), (1, 2), (0, 2)] {
            tokio::task::yield_now().await;
            clock.advance(EVERY + Duration::from_secs(suspended));
            tokio::time::sleep(EVERY).await;
            tokio::task::yield_now().await;
            assert_eq!(woken.load(Ordering::Relaxed), expected, "{suspended}");
        }
    }
}
