//! A subscriber of the log that calls the store, as a program does that pushes its log lines.

use tracing::span::{self, Attributes};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Calls a function at each line of the log of this thread, until it is dropped.
pub(super) struct AtEachLine {
    _heard_here: DefaultGuard,
    /// Beside a single one, a line that another thread reaches first is disabled for all.
    _second: Dispatch,
}

impl AtEachLine {
    pub(super) fn call(function: impl Fn() + Send + Sync + 'static) -> Self {
        let _second = Dispatch::new(NoSubscriber::default());
        let _heard_here = tracing::subscriber::set_default(Calls(function));
        Self {
            _heard_here,
            _second,
        }
    }
}

struct Calls<F>(F);

impl<F: Fn() + Send + Sync + 'static> Subscriber for Calls<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("duly")
    }

    fn new_span(&self, _: &Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        (self.0)();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
