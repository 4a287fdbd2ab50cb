//! Every name that `tracing` hears from here: targets, spans, fields and messages.
//!
//! They are part of what is promised: filters, dashboards and alarms are made of them.

/// The target of all spans; `duly::trace=debug` in a filter turns them on.
pub const SPANS: &str = "duly::trace";
/// The target of what the log says of handlers that fail.
pub const HANDLERS: &str = "duly::handler";

/// The span of a push, from its encoding to the store's answer.
pub const PUSH: &str = "duly.push";
/// The span of one attempt: the handler's call, and what became of it.
pub const HANDLE: &str = "duly.handle";
/// The span of one call that tells the store how attempts ended, many at a time.
pub const SETTLE: &str = "duly.settle";

/// The queue's name.
pub const QUEUE: &str = "queue";
/// The event's id, 26 characters.
pub const ID: &str = "id";
/// The number of its bucket.
pub const BUCKET: &str = "bucket";
/// How many events a call has.
pub const EVENTS: &str = "events";
/// When the event, or this attempt of it, is due by the store's clock, UTC.
pub const DUE: &str = "due";
/// Which attempt it is, from 1.
pub const ATTEMPT: &str = "attempt";
/// How many attempts there are at most.
pub const ATTEMPTS: &str = "attempts";
/// How long after its due time the attempt started, in microseconds.
pub const LATE_US: &str = "late_us";
/// The trace that the event was pushed in, 32 hexadecimal digits.
pub const TRACE: &str = "trace";
/// What became of it.
pub const OUTCOME: &str = "outcome";
/// Why an attempt failed, as in its record.
pub const CAUSE: &str = "cause";
/// After how many milliseconds the next attempt is due.
pub const DELAY_MS: &str = "delay_ms";
/// The error in words: the handler's own, or the store's.
pub const ERROR: &str = "error";
/// What OpenTelemetry is told of a span: that it produces or consumes.
pub const KIND: &str = "otel.kind";

/// The fields of [`PUSH`].
pub const PUSH_FIELDS: [&str; 8] = [QUEUE, ID, BUCKET, EVENTS, DUE, OUTCOME, ERROR, KIND];
/// The fields of [`HANDLE`].
pub const HANDLE_FIELDS: [&str; 12] = [
    QUEUE, ID, BUCKET, ATTEMPT, ATTEMPTS, DUE, LATE_US, TRACE, OUTCOME, CAUSE, ERROR, KIND,
];
/// The fields of [`SETTLE`].
pub const SETTLE_FIELDS: [&str; 5] = [QUEUE, BUCKET, EVENTS, OUTCOME, ERROR];

/// The outcome of a push that made a new event, or new ones.
pub const ACCEPTED: &str = "accepted";
/// The outcome of a push that changed nothing, since the event was there.
pub const DUPLICATE: &str = "duplicate";
/// The outcome of a push that took the place of a waiting event.
pub const REPLACED: &str = "replaced";
/// The outcome of a push or of a call that failed.
pub const FAILED: &str = "failed";
/// The outcome of a call that the store answered.
pub const SETTLED: &str = "settled";

/// A warning: the attempt failed and another one follows.
pub const RETRIED: &str = "handler failed, the event is tried again";
/// An error: the attempt failed and is the last one.
pub const BURIED: &str = "handler failed, the event is a dead letter";
/// A warning: the handler said that the event is of no use any more.
pub const DISCARDED: &str = "handler discarded the event";
/// An error: the payload is none of this handler's; it is not called.
pub const UNDECODABLE: &str = "payload does not decode, the event is a dead letter";

/// The fields of each message about a handler that failed; where there is no value there is no
/// field.
pub const FAILURE_FIELDS: [&str; 9] = [
    QUEUE, ID, BUCKET, ATTEMPT, ATTEMPTS, TRACE, CAUSE, DELAY_MS, ERROR,
];
