//! OpenTelemetry: the trace context of a push, and the links of a span.

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::event::{Headers, TraceContext};

/// Returns the trace context of the current span. If OpenTelemetry does not see it, or is used
/// without `tracing`, its own context is used.
pub(super) fn here() -> Option<TraceContext> {
    let span = Span::current();
    let seen = if span.is_disabled() {
        None
    } else {
        written(&span.context())
    };
    seen.or_else(|| written(&Context::current()))
}

fn written(context: &Context) -> Option<TraceContext> {
    let span = context.span();
    let place = span.span_context();
    if !place.is_valid() {
        return None;
    }
    let (trace, id) = (place.trace_id(), place.span_id());
    let flags = place.trace_flags() & TraceFlags::SAMPLED;
    let state = place.trace_state().header();
    TraceContext::new(&format!("00-{trace}-{id}-{flags:02x}"), Some(&state))
}

/// Links `span` to the trace context in `headers`, if there is one.
pub(super) fn link(span: &Span, headers: &Headers) {
    if span.is_disabled() {
        return;
    }
    if let Some(place) = TraceContext::of_headers(headers).and_then(|place| read(&place)) {
        span.add_link(place);
    }
}

fn read(place: &TraceContext) -> Option<SpanContext> {
    let mut parts = place.traceparent().split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let id = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    // A state that OpenTelemetry cannot read is left out; the trace goes on without it.
    let state: TraceState = place
        .tracestate()
        .and_then(|state| state.parse().ok())
        .unwrap_or_default();
    Some(SpanContext::new(trace, id, flags, true, state))
}

/// Marks `span` as failed.
pub(super) fn fail(span: &Span, words: &str) {
    span.set_status(Status::error(words.to_owned()));
}
