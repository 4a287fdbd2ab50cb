//! The leases that a stream leaves behind when it ends.

use std::sync::Arc;
use std::time::Duration;

use duly::lease::{LeaseOutcome, LeaseToken};
use tokio::time::Instant;

use crate::bus::Pool;
use crate::state::App;
use crate::waiters::InFlight;

/// How long a consumer whose connection was cut has to settle or extend what it works on. It may
/// see the cut as long before the server does.
const CUT_REST: Duration = Duration::from_secs(2);

/// Gives back what the client of a stream that has ended neither settles nor extends, as if its
/// time to run were over: it may have been worked on. Where a proxy has cut the stream, its client
/// goes on by other connections: what it uses around the cut is left to it. A client that was
/// refused can use nothing. When the server stops all stays leased, as the client may settle it
/// elsewhere.
pub(super) fn give_back(app: &Arc<App>, pool: &Pool, in_flight: &Arc<InFlight>, is_refused: bool) {
    if app.waiters.in_flight(in_flight).0 == 0 {
        return;
    }
    let (app, pool, in_flight) = (Arc::clone(app), pool.clone(), Arc::clone(in_flight));
    let rest = if is_refused { Duration::ZERO } else { CUT_REST };
    let now = Instant::now();
    let used_since = (!is_refused).then(|| now.checked_sub(rest).unwrap_or(now));
    let give_back = async move {
        let is_stopping = tokio::select! {
            biased;
            () = app.closing.cancelled() => true,
            () = tokio::time::sleep(rest) => false,
        };
        if !is_stopping {
            settle(&app, &pool, &in_flight, used_since).await;
        }
        app.waiters.leave(&in_flight);
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(give_back)),
        Err(_) => tracing::warn!("leases not given back: the runtime has ended"),
    }
}

/// Takes each lease when its turn comes: until then its client may use it.
async fn settle(app: &App, pool: &Pool, in_flight: &InFlight, used_since: Option<Instant>) {
    let (mut failed, mut last_error) = (0_usize, None);
    loop {
        // It is never closed.
        let _room = app.waiters.give_backs.acquire().await;
        let Some(token) = app.waiters.take(in_flight, used_since) else {
            break;
        };
        let reason = Some("the stream of the consumer ended".to_owned());
        let after = Some(Duration::ZERO);
        let outcome = LeaseOutcome::Retry { after, reason };
        if let Ok(lease) = token.parse::<LeaseToken>()
            && let Err(error) = pool.bus().settle_lease(&lease, outcome).await
        {
            (failed, last_error) = (failed + 1, Some(error));
        }
        app.waiters.forgotten(token);
    }
    if let Some(error) = last_error {
        // They come back when their time to run is over.
        tracing::warn!(%error, failed, "leases of an ended stream not given back");
    }
}
