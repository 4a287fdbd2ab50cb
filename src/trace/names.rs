//! Names used with `tracing`: targets, spans, fields and messages.
//!
//! They are part of the API: filters, dashboards and alarms depend on them.

/// The target of all spans; `duly::trace=debug` in a filter turns them on.
pub const SPANS: &str = "duly::trace";
/// The target of the log lines of failed handlers.
pub const HANDLERS: &str = "duly::handler";

/// The span of a push, from its encoding to the store's result.
pub const PUSH: &str = "duly.push";
/// The span of one attempt: the handler's call, and its outcome.
pub const HANDLE: &str = "duly.handle";
/// The span of one call that settles attempts, many at a time.
pub const SETTLE: &str = "duly.settle";

/// The queue's name.
pub const QUEUE: &str = "queue";
/// The event's id, 26 characters.
pub const ID: &str = "id";
/// The number of its bucket.
pub const BUCKET: &str = "bucket";
/// The number of events in a call.
pub const EVENTS: &str = "events";
/// When the event, or this attempt of it, is due by the store's clock, UTC.
pub const DUE: &str = "due";
/// The number of the attempt, from 1.
pub const ATTEMPT: &str = "attempt";
/// The most attempts.
pub const ATTEMPTS: &str = "attempts";
/// How long after its due time the attempt started, in microseconds.
pub const LATE_US: &str = "late_us";
/// The trace that the event was pushed in, 32 hexadecimal digits.
pub const TRACE: &str = "trace";
/// The outcome.
pub const OUTCOME: &str = "outcome";
/// Why an attempt failed, as in its record.
pub const CAUSE: &str = "cause";
/// The delay until the next attempt, in milliseconds.
pub const DELAY_MS: &str = "delay_ms";
/// The error: the handler's own, or the store's.
pub const ERROR: &str = "error";
/// The span kind of OpenTelemetry: producer or consumer.
pub const KIND: &str = "otel.kind";

/// The fields of [`PUSH`].
pub const PUSH_FIELDS: [&str; 8] = [QUEUE, ID, BUCKET, EVENTS, DUE, OUTCOME, ERROR, KIND];
/// The fields of [`HANDLE`].
pub const HANDLE_FIELDS: [&str; 12] = [
    QUEUE, ID, BUCKET, ATTEMPT, ATTEMPTS, DUE, LATE_US, TRACE, OUTCOME, CAUSE, ERROR, KIND,
];
/// The fields of [`SETTLE`].
pub const SETTLE_FIELDS: [&str; 5] = [QUEUE, BUCKET, EVENTS, OUTCOME, ERROR];

/// The outcome of a push that created a new event, or new ones.
pub const ACCEPTED: &str = "accepted";
/// The outcome of a push that changed nothing, since the event existed.
pub const DUPLICATE: &str = "duplicate";
/// The outcome of a push that replaced a waiting event.
pub const REPLACED: &str = "replaced";
/// The outcome of a push or of a call that failed.
pub const FAILED: &str = "failed";
/// The outcome of a call with a result of the store.
pub const SETTLED: &str = "settled";

/// A warning: the attempt failed and another one follows.
pub const RETRIED: &str = "handler failed; event will be retried";
/// An error: the attempt failed and is the last one.
pub const BURIED: &str = "handler failed; event is a dead letter";
/// A warning: the handler discarded event.
pub const DISCARDED: &str = "handler discarded event";
/// An error: the payload does not decode as the handler's type; the handler is not called.
pub const UNDECODABLE: &str = "payload does not decode; event is a dead letter";

/// The fields of each message about a failed handler; a field without a value is left out.
pub const FAILURE_FIELDS: [&str; 9] = [
    QUEUE, ID, BUCKET, ATTEMPT, ATTEMPTS, TRACE, CAUSE, DELAY_MS, ERROR,
];
