//! The delivery of one leased event: a request, and the settlement that follows from it.

use std::sync::Arc;
use std::time::Duration;

use duly::ErrorKind;
use duly::lease::{EncodedPayload, LeaseOutcome, LeaseStatus, LeaseToken, Leased};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::exchange::Message;
use super::failure::{Failure, FailureKind};
use super::in_flight::Slot;
use super::pace;
use super::places::RequestPlace;
use super::runner::Runner;
use super::target::Target;
use crate::shared::Call;

/// How often a settlement is tried.
const SETTLES_MAX: u32 = 6;
/// The pause after the first failed settlement; it doubles.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// How a delivery ended.
enum DeliveryEnd {
    /// There was no request, or it was cut off.
    Returned,
    Delivered,
    Failed {
        failure: Failure,
        /// The rest of the circuit, when the request was a probe of it that is free.
        rest: Option<Duration>,
    },
}

/// Delivers an event to a target, unless that is replaced or the lease is lost before its turn comes,
/// and settles it.
pub(super) async fn deliver(
    runner: Arc<Runner>,
    (target, replaced): (Arc<Target>, CancellationToken),
    leased: Leased<EncodedPayload>,
    mut slot: Slot,
) {
    let token = leased.token().clone();
    let message = Message::new(&runner.key, leased.into_event());
    let lost = CancellationToken::new();
    let ended = tokio::select! {
        biased;
        () = runner.deps.aborted.cancelled() => DeliveryEnd::Returned,
        ended = attempt(&runner, &target, &mut slot, [&replaced, &lost], &message) => ended,
        () = keep_lease(&runner, &token, &lost) => DeliveryEnd::Returned,
    };
    if let DeliveryEnd::Returned = ended {
        runner.labels.returned();
    }
    if let DeliveryEnd::Failed { failure, .. } = &ended
        && failure.kind == FailureKind::Gone
    {
        // Before the event is ready again, so that it is not sent again.
        runner.disable(&target, &failure.text).await;
    }
    settle(&runner, &token, outcome(ended)).await;
    drop(slot);
}

/// Decides how an attempt ends; pure.
fn outcome(ended: DeliveryEnd) -> LeaseOutcome {
    match ended {
        DeliveryEnd::Returned => LeaseOutcome::Release,
        DeliveryEnd::Delivered => LeaseOutcome::Ack,
        DeliveryEnd::Failed { failure, rest } => match rest {
            _ if failure.kind == FailureKind::Gone => LeaseOutcome::Release,
            // The target is not reached, so nothing was attempted. A later event is probed next.
            // After too many such probes there is no rest, and they count.
            Some(rest) if failure.kind.is_without_response() => LeaseOutcome::Snooze(rest),
            _ => LeaseOutcome::Retry {
                after: failure.retry_after,
                reason: Some(failure.text),
            },
        },
    }
}

/// Makes the request when its turn comes, unless its target is replaced or its lease lost by then.
async fn attempt(
    runner: &Arc<Runner>,
    target: &Target,
    slot: &mut Slot,
    [replaced, lost]: [&CancellationToken; 2],
    message: &Message,
) -> DeliveryEnd {
    let exchange = &runner.deps.exchange;
    let _place = tokio::select! {
        biased;
        () = replaced.cancelled() => return DeliveryEnd::Returned,
        () = lost.cancelled() => return DeliveryEnd::Returned,
        place = turn(runner, target, slot) => match place {
            Some(place) => place,
            None => return DeliveryEnd::Returned,
        },
    };
    let Some(admission) = runner.admit(target) else {
        return DeliveryEnd::Returned;
    };
    let began = Instant::now();
    let result = exchange.send(&runner.namespace, target, message).await;
    if let Err(failure) = &result
        && failure.kind == FailureKind::NotLookedUp
    {
        return DeliveryEnd::Returned; // and comes again; a probe has learned nothing
    }
    runner
        .labels
        .sent(result.as_ref().copied(), began.elapsed());
    let rest = admission.resolve(result.as_ref().copied());
    match result {
        Ok(()) => DeliveryEnd::Delivered,
        Err(failure) => DeliveryEnd::Failed { failure, rest },
    }
}

/// Waits for the lookup of its name and a place, unless it has them, and for a call of the rate that
/// all servers share. Who waits for a lookup or a call keeps no place from others. Who waits for a call
/// is the only one of the webhook: `None` if there is one, and where no lookup has a place in time.
async fn turn(runner: &Runner, target: &Target, slot: &mut Slot) -> Option<RequestPlace> {
    let exchange = &runner.deps.exchange;
    if !exchange.is_ready(target) {
        slot.place = None;
        if let Err(no_place) = exchange.ready(&runner.namespace, target).await {
            runner.waits(target, &no_place.to_string());
            return None;
        }
        runner.changed.notify_one(); // it leases more than one again
    }
    let mut throttled = None;
    loop {
        let place = match slot.place.take() {
            Some(place) => place,
            None => runner.place().await,
        };
        let Some(pause) = take_call(runner, target).await else {
            return Some(place);
        };
        drop(place);
        if throttled.is_none() {
            throttled = Some(slot.throttle()?);
        }
        sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
    }
}

/// Takes a call of the shared rate; if there is none, returns how long to wait before the next try.
async fn take_call(runner: &Runner, target: &Target) -> Option<Duration> {
    let rate = target.row.rate?;
    let (calls, window) = pace::window(rate);
    let counter = format!("webhook/{}@{rate}", runner.key);
    match runner.deps.shared.take(&counter, calls, window).await {
        Ok(Call::Counted(_)) => None,
        Ok(Call::Throttled(_)) => Some((window / 20).min(Duration::from_secs(1))),
        Err(error) => {
            // The pace of this server still holds.
            tracing::warn!(webhook = %runner.key, %error, "rate of a webhook is not shared");
            None
        }
    }
}

/// Extends a lease again and again, and tells when it is lost; never returns, as a request that is
/// under way goes on.
async fn keep_lease(runner: &Runner, token: &LeaseToken, lost: &CancellationToken) {
    let ttr = runner.deps.ttr;
    let mut ends = Instant::now() + ttr;
    loop {
        sleep(ttr / 3).await;
        let began = Instant::now();
        match runner.pool.bus().extend_lease(token, ttr).await {
            Ok(LeaseStatus::Held) => ends = began + ttr,
            Ok(LeaseStatus::Lost) => {
                tracing::warn!(webhook = %runner.key, id = %token.id(), "lease of a delivery lost");
                lost.cancel();
                return std::future::pending().await;
            }
            Err(error) => {
                tracing::warn!(
                    webhook = %runner.key, id = %token.id(), %error,
                    "lease of a delivery not extended"
                );
                if Instant::now() >= ends {
                    lost.cancel(); // another server may have the event
                }
            }
        }
    }
}

/// Settles an attempt; what cannot be settled comes back when its lease ends.
async fn settle(runner: &Runner, token: &LeaseToken, outcome: LeaseOutcome) {
    let mut pause = SETTLE_PAUSE;
    for tries in 1..=SETTLES_MAX {
        let error = match runner.pool.bus().settle_lease(token, outcome.clone()).await {
            Ok(LeaseStatus::Held) => return,
            Ok(LeaseStatus::Lost) => {
                // Its loss, or who else has settled it, is logged where it happened.
                tracing::debug!(webhook = %runner.key, id = %token.id(), "settled too late");
                return;
            }
            Err(error) => error,
        };
        if tries == SETTLES_MAX || error.kind() == ErrorKind::Closed {
            tracing::error!(webhook = %runner.key, id = %token.id(), %error, "delivery not settled");
            return;
        }
        sleep(pause).await;
        pause *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(status: u16, rest: Option<u64>, retry_after: Option<u64>) -> LeaseOutcome {
        let kind = FailureKind::of_status(status);
        let failure = Failure {
            retry_after: retry_after.map(Duration::from_secs),
            ..Failure::new(kind, "why")
        };
        outcome(DeliveryEnd::Failed {
            failure,
            rest: rest.map(Duration::from_secs),
        })
    }

    fn retry(after: Option<u64>) -> LeaseOutcome {
        LeaseOutcome::Retry {
            after: after.map(Duration::from_secs),
            reason: Some("why".to_owned()),
        }
    }

    #[test]
    fn a_webhook_attempt_counts_unless_a_probe_has_no_response() {
        assert_eq!(outcome(DeliveryEnd::Delivered), LeaseOutcome::Ack);
        assert_eq!(outcome(DeliveryEnd::Returned), LeaseOutcome::Release);
        assert_eq!(failed(500, None, None), retry(None));
        assert_eq!(failed(503, None, Some(7)), retry(Some(7)));
        assert_eq!(failed(410, None, Some(7)), LeaseOutcome::Release);
        assert_eq!(failed(503, Some(4), None), retry(None));
        assert_eq!(failed(503, Some(4), Some(9)), retry(Some(9)));
        assert_eq!(failed(301, Some(4), None), retry(None));
        for kind in [FailureKind::Connection, FailureKind::Timeout] {
            let unreached = |rest| {
                let failure = Failure::new(kind, "why");
                outcome(DeliveryEnd::Failed { failure, rest })
            };
            let rest = Duration::from_secs(4);
            assert_eq!(unreached(Some(rest)), LeaseOutcome::Snooze(rest));
            assert_eq!(unreached(None), retry(None));
        }
    }
}
