//! Log lines of failed handlers: one for each attempt.

use std::sync::Arc;
use std::time::Duration;

use tracing::{Level, event};

use super::names::{
    ATTEMPT, ATTEMPTS, BUCKET, BURIED, CAUSE, DELAY_MS, DISCARDED, ERROR, HANDLERS, ID, QUEUE,
    RETRIED, TRACE, UNDECODABLE,
};
use crate::core::op::{AttemptOutcome, Delivery, FailureReason};
use crate::event::Envelope;
use crate::record::Cause;

/// A log line of an attempt; the level and the message are constant, the rest are fields.
macro_rules! line {
    ($level:expr, $message:expr, $delivery:expr $(, { $field:expr } = $value:expr)* $(,)?) => {
        event!(
            target: HANDLERS,
            $level,
            message = $message,
            { QUEUE } = %$delivery.body.queue,
            { ID } = %$delivery.id,
            { BUCKET } = $delivery.body.bucket().0,
            { ATTEMPT } = $delivery.attempt,
            { ATTEMPTS } = $delivery.body.attempts,
            { TRACE } = $delivery.body.trace().map(tracing::field::display),
            $({ $field } = $value,)*
        )
    };
}

/// Logs a failed attempt: as a warning if another one follows, as an error if not.
pub(crate) fn attempt_failed(delivery: &Delivery<Arc<Envelope>>, verdict: &AttemptOutcome) {
    match verdict {
        AttemptOutcome::Retry(delay, failing) => {
            let (cause, error) = (failing.cause.as_str(), failing.error.as_deref());
            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            line!(
                Level::WARN,
                RETRIED,
                delivery,
                { CAUSE } = cause,
                { DELAY_MS } = delay_ms,
                { ERROR } = error
            );
        }
        AttemptOutcome::Bury(failing) => {
            let (cause, error) = (failing.cause.as_str(), failing.error.as_deref());
            line!(
                Level::ERROR,
                BURIED,
                delivery,
                { CAUSE } = cause,
                { ERROR } = error
            );
        }
        AttemptOutcome::Discard(words) => {
            line!(
                Level::WARN,
                DISCARDED,
                delivery,
                { ERROR } = words.as_deref()
            );
        }
        AttemptOutcome::Ack
        | AttemptOutcome::Snooze(_)
        | AttemptOutcome::Expire
        | AttemptOutcome::Interrupt { .. }
        | AttemptOutcome::Release => {}
    }
}

/// Logs a payload that could not be read, and the delay until the next attempt, if any. The reason
/// is only in the record: a decoder's error may quote the payload.
pub(crate) fn unread(delivery: &Delivery<Arc<Envelope>>, cause: Cause, again: Option<Duration>) {
    match again {
        Some(delay) => {
            let failing = FailureReason { cause, error: None };
            attempt_failed(delivery, &AttemptOutcome::Retry(delay, failing));
        }
        None => line!(
            Level::ERROR,
            UNDECODABLE,
            delivery,
            { CAUSE } = cause.as_str()
        ),
    }
}
