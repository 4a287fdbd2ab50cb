//! Where in a trace an event is pushed: put into its headers, and carried on by its handler.

use std::cell::RefCell;
use std::sync::Arc;

use crate::event::{
    Envelope, HEADERS_MAX, Headers, TRACE_HEADER, TRACE_STATE_HEADER, TraceContext,
};

thread_local! {
    /// The event whose handler runs on this thread just now, where it has a place in a trace.
    static HANDLED: RefCell<Option<Arc<Envelope>>> = const { RefCell::new(None) };
}

/// Puts the place in a trace where an event is pushed into its headers: that of the span which is
/// open here, or else that of the event whose handler pushes.
///
/// What its pusher put there by hand stays as it is, and an event that has no room for another
/// header goes without: a push never fails for its trace.
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
    // A thread that ends has no such place any more.
    let handled = HANDLED.try_with(|handled| handled.borrow().clone());
    TraceContext::of_headers(&handled.ok().flatten()?.headers)
}

/// An event whose place in a trace is that of what its handler pushes; nothing where it has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried(Option<Arc<Envelope>>);

impl Carried {
    pub(super) fn of(envelope: &Arc<Envelope>) -> Self {
        let mut names = envelope.headers.iter().map(|(name, _)| name);
        let has_one = names.any(|name| name == TRACE_HEADER);
        Self(has_one.then(|| Arc::clone(envelope)))
    }

    /// What is carried on this thread now, to take it to another one.
    pub(crate) fn current() -> Self {
        Self(HANDLED.with(|handled| handled.borrow().clone()))
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// Carries it on in what `run` pushes.
    pub(crate) fn within<R>(&self, run: impl FnOnce() -> R) -> R {
        let Some(envelope) = &self.0 else {
            return run();
        };
        let before = HANDLED.replace(Some(Arc::clone(envelope)));
        let _restored = Restored(before); // also when `run` panics
        run()
    }
}

/// Puts back what was carried before.
struct Restored(Option<Arc<Envelope>>);

impl Drop for Restored {
    fn drop(&mut self) {
        HANDLED.set(self.0.take());
    }
}
