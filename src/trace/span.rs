//! The spans: of a push, of an attempt, and of a call that settles attempts.

use std::sync::Arc;

use tracing::field::{Empty, display};
use tracing::{Level, Span, span};

use super::context::CurrentEvent;
use super::log::attempt_failed;
use super::names::{
    ACCEPTED, ATTEMPT, ATTEMPTS, BUCKET, CAUSE, DUE, ERROR, EVENTS, FAILED, HANDLE, ID, KIND,
    LATE_US, OUTCOME, PUSH, QUEUE, SETTLE, SETTLED, SPANS, TRACE,
};
use crate::core::op::{AttemptOutcome, Delivery, StoreOp};
use crate::error::Error;
use crate::event::{BucketId, BucketKey, Envelope, EventId, QueueName};
use crate::record::Outcome;
use crate::time::Timestamp;

/// OpenTelemetry's kind of a span that produces.
const PRODUCER: Option<&str> = kind("producer");
/// OpenTelemetry's kind of a span that consumes.
const CONSUMER: Option<&str> = kind("consumer");

/// Set only with OpenTelemetry: any other subscriber would print it with each span.
const fn kind(word: &'static str) -> Option<&'static str> {
    if cfg!(feature = "opentelemetry") {
        Some(word)
    } else {
        None
    }
}

/// Creates the span of a push of one event.
pub(crate) fn push(queue: &QueueName, id: EventId, bucket: BucketId) -> Span {
    span!(
        target: SPANS,
        Level::DEBUG,
        PUSH,
        { QUEUE } = %queue,
        { ID } = %id,
        { BUCKET } = bucket.0,
        { EVENTS } = 1_u64,
        { DUE } = Empty,
        { OUTCOME } = Empty,
        { ERROR } = Empty,
        { KIND } = PRODUCER,
    )
}

/// Creates the span of a push of many events.
pub(crate) fn push_many(queue: &QueueName, events: usize) -> Span {
    span!(
        target: SPANS,
        Level::DEBUG,
        PUSH,
        { QUEUE } = %queue,
        { ID } = Empty,
        { BUCKET } = Empty,
        { EVENTS } = events,
        { DUE } = Empty,
        { OUTCOME } = Empty,
        { ERROR } = Empty,
        { KIND } = PRODUCER,
    )
}

/// Records the result of a push of one event: its outcome and its due time.
pub(crate) fn pushed(span: &Span, result: Result<(&'static str, Timestamp), &Error>) {
    if span.is_disabled() {
        return;
    }
    match result {
        Ok((outcome, due)) => {
            span.record(OUTCOME, outcome).record(DUE, display(due));
        }
        Err(error) => failed(span, error),
    }
}

/// Records the result of a push of many.
pub(crate) fn pushed_many(span: &Span, error: Option<&Error>) {
    match error {
        _ if span.is_disabled() => {}
        None => {
            span.record(OUTCOME, ACCEPTED);
        }
        Some(error) => failed(span, error),
    }
}

/// Creates the span of a call that settles attempts; no span for any other call.
pub(crate) fn call_of_settle(bucket: &BucketKey, op: &StoreOp) -> Span {
    let StoreOp::Settle { settlements, .. } = op else {
        return Span::none();
    };
    span!(
        target: SPANS,
        parent: None,
        Level::DEBUG,
        SETTLE,
        { QUEUE } = %bucket.queue,
        { BUCKET } = bucket.bucket.0,
        { EVENTS } = settlements.len(),
        { OUTCOME } = Empty,
        { ERROR } = Empty,
    )
}

/// Records the result of such a call.
pub(crate) fn settled(span: &Span, error: Option<&Error>) {
    match error {
        _ if span.is_disabled() => {}
        None => {
            span.record(OUTCOME, SETTLED);
        }
        Some(error) => failed(span, error),
    }
}

#[cold]
fn failed(span: &Span, error: &Error) {
    span.record(OUTCOME, FAILED).record(ERROR, display(error));
    #[cfg(feature = "opentelemetry")]
    super::otel::fail(span, &error.to_string());
}

/// The span of an attempt; empty without a subscriber and without a trace context.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptSpan(Option<Arc<SpanState>>);

#[derive(Debug)]
struct SpanState {
    span: Span,
    carried: CurrentEvent,
}

/// Creates the span of an attempt that starts at `started_us`, in microseconds since the epoch.
///
/// It begins its own trace and is linked to the one that its event was pushed in: an event may run
/// days after the span of its push has ended, and once more for each attempt.
pub(crate) fn handle(delivery: &Delivery<Arc<Envelope>>, started_us: u64) -> AttemptSpan {
    let envelope = &delivery.body;
    let carried = CurrentEvent::of(envelope);
    let span = span!(
        target: SPANS,
        parent: None,
        Level::DEBUG,
        HANDLE,
        { QUEUE } = %envelope.queue,
        { ID } = %delivery.id,
        { BUCKET } = envelope.bucket().0,
        { ATTEMPT } = delivery.attempt,
        { ATTEMPTS } = envelope.attempts,
        { DUE } = %delivery.due,
        { LATE_US } = started_us.saturating_sub(delivery.due.as_micros()),
        { TRACE } = envelope.trace().map(display),
        { OUTCOME } = Empty,
        { CAUSE } = Empty,
        { ERROR } = Empty,
        { KIND } = CONSUMER,
    );
    if span.is_disabled() && carried.is_nothing() {
        return AttemptSpan(None);
    }
    #[cfg(feature = "opentelemetry")]
    super::otel::link(&span, &envelope.headers);
    AttemptSpan(Some(Arc::new(SpanState { span, carried })))
}

impl AttemptSpan {
    /// Runs a part of the attempt in its span.
    #[inline]
    pub(crate) fn within<R>(&self, run: impl FnOnce() -> R) -> R {
        match &self.0 {
            None => run(),
            Some(attempt) => attempt.span.in_scope(|| attempt.carried.within(run)),
        }
    }

    /// Returns the span; an empty one if there is none.
    pub(crate) fn span(&self) -> Span {
        let attempt = self.0.as_ref();
        attempt.map_or_else(Span::none, |attempt| attempt.span.clone())
    }

    /// Records the outcome that a pulling consumer has settled.
    pub(crate) fn settled_as(&self, outcome: Outcome, error: Option<&str>) {
        let Some(span) = self.0.as_ref().map(|attempt| &attempt.span) else {
            return;
        };
        if span.is_disabled() {
            return;
        }
        span.record(OUTCOME, outcome.as_str()).record(ERROR, error);
        #[cfg(feature = "opentelemetry")]
        if matches!(outcome, Outcome::Retried | Outcome::Buried) {
            super::otel::fail(span, error.unwrap_or(outcome.as_str()));
        }
    }

    /// Records the outcome, and logs it if the handler failed.
    pub(crate) fn ended(&self, delivery: &Delivery<Arc<Envelope>>, verdict: &AttemptOutcome) {
        if let (None, AttemptOutcome::Ack) = (&self.0, verdict) {
            return;
        }
        self.within(|| attempt_failed(delivery, verdict));
        let Some(span) = self.0.as_ref().map(|attempt| &attempt.span) else {
            return;
        };
        if span.is_disabled() {
            return;
        }
        let (outcome, failing) = match verdict {
            AttemptOutcome::Ack => (Some(Outcome::Acked), None),
            AttemptOutcome::Retry(_, failing) => (Some(Outcome::Retried), Some(failing)),
            AttemptOutcome::Bury(failing) => (Some(Outcome::Buried), Some(failing)),
            AttemptOutcome::Snooze(_) => (Some(Outcome::Snoozed), None),
            AttemptOutcome::Discard(_) => (Some(Outcome::Discarded), None),
            AttemptOutcome::Expire => (Some(Outcome::Expired), None),
            AttemptOutcome::Interrupt { .. } => (Some(Outcome::Interrupted), None),
            AttemptOutcome::Release => (None, None),
        };
        span.record(OUTCOME, outcome.map(Outcome::as_str));
        let Some(failing) = failing else {
            return;
        };
        span.record(CAUSE, failing.cause.as_str());
        span.record(ERROR, failing.error.as_deref());
        #[cfg(feature = "opentelemetry")]
        {
            let words = failing.error.as_deref();
            super::otel::fail(span, words.unwrap_or(failing.cause.as_str()));
        }
    }
}
