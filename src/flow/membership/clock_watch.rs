//! A watch of the clocks: reads the store's time every second, and reports when it differs from that
//! of this machine.
//!
//! A store in this process notices a jump of its wall clock only when its time is read.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::metrics::NodeGauges;
use crate::store::{Store, clock_ahead_us, differs};
use crate::time::Clock;

/// How often the clocks are read: a jump is followed, and reported, within seconds.
const EVERY: Duration = Duration::from_secs(1);
/// After so many equal readings a difference counts as begun or ended, so that clocks a second apart
/// do not fill the log.
const STEADY: u32 = 3;

/// Watches until it is stopped. `gauges`: those of the depth sampler, where there is one.
pub(crate) async fn watch(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    gauges: Weak<NodeGauges>,
    stop: CancellationToken,
) {
    let (mut is_told, mut others) = (false, 0);
    while stop
        .run_until_cancelled(tokio::time::sleep(EVERY))
        .await
        .is_some()
    {
        let ahead_us = clock_ahead_us(&*store, &*clock);
        if let Some(gauges) = gauges.upgrade() {
            gauges.clock_skew(ahead_us);
        }
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
            tracing::warn!(
                ahead_s,
                "the store's time differs from the clock of this machine"
            );
        } else {
            tracing::info!("the store's time and the clock of this machine agree again");
        }
    }
}
