//! Trace context of events: written to their headers, and continued by their handlers.

use std::cell::RefCell;
use std::sync::Arc;

use crate::event::{
    Envelope, HEADERS_MAX, Headers, TRACE_HEADER, TRACE_STATE_HEADER, TraceContext,
};

thread_local! {
    /// The event whose handler runs on this thread, if it has a trace context.
    static HANDLED: RefCell<Option<Arc<Envelope>>> = const { RefCell::new(None) };
}

/// Writes the trace context of a push to its headers: that of the current span, or else that of the
/// event whose handler pushes.
///
/// A header set by the pusher stays, and an event without room for another header goes without: a
/// push never fails because of tracing.
pub(crate) fn stamp(headers: &mut Headers) {
    let is_ours = |name: &str| name == TRACE_HEADER || name == TRACE_STATE_HEADER;
    if headers.len() >= HEADERS_MAX || headers.iter().any(|(name, _)| is_ours(name)) {
        return;
    }
    let Some(here) = here() else {
        return;
    };
    headers.push((TRACE_HEADER.to_owned(), here.traceparent().to_owned()));
    if let Some(state) = here.tracestate().filter(|_| headers.len() < HEADERS_MAX) {
        headers.push((TRACE_STATE_HEADER.to_owned(), state.to_owned()));
    }
}

fn here() -> Option<TraceContext> {
    #[cfg(feature = "opentelemetry")]
    if let Some(here) = super::otel::here() {
        return Some(here);
    }
    // A thread that ends has no trace context any more.
    let handled = HANDLED.try_with(|handled| handled.borrow().clone());
    TraceContext::of_headers(&handled.ok().flatten()?.headers)
}

/// An event whose trace context continues in its handler's pushes; none if it has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentEvent(Option<Arc<Envelope>>);

impl CurrentEvent {
    pub(super) fn of(envelope: &Arc<Envelope>) -> Self {
        let mut names = envelope.headers.iter().map(|(name, _)| name);
        let has_one = names.any(|name| name == TRACE_HEADER);
        Self(has_one.then(|| Arc::clone(envelope)))
    }

    /// Returns the current event of this thread, to carry it to another one.
    pub(crate) fn current() -> Self {
        Self(HANDLED.with(|handled| handled.borrow().clone()))
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// Runs `run` with this as the current event.
    pub(crate) fn within<R>(&self, run: impl FnOnce() -> R) -> R {
        let Some(envelope) = &self.0 else {
            return run();
        };
        let before = HANDLED.replace(Some(Arc::clone(envelope)));
        let _restored = RestoreGuard(before); // also when `run` panics
        run()
    }
}

/// Restores the previous event.
struct RestoreGuard(Option<Arc<Envelope>>);

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        HANDLED.set(self.0.take());
    }
}
