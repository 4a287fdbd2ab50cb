//! Fail-stop: the first doubt about the disk, kept for everyone who asks later.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::store::embedded::gate::Fate;
use crate::store::embedded::reader::closed;
use crate::store::embedded::shared::Shared;

/// Why the store stopped itself.
#[derive(Debug)]
pub(super) struct Stop {
    what: String,
    cause: Arc<dyn std::error::Error + Send + Sync>,
}

impl Stop {
    pub(super) fn new(
        what: impl Into<String>,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            what: what.into(),
            cause: Arc::from(cause.into()),
        }
    }

    /// For an operation that was on its way: it may or may not be on disk.
    pub(super) fn unknown(&self) -> Error {
        self.error(
            ErrorKind::Unknown,
            "it may or may not be on disk; open the store again and repeat the call",
        )
    }

    /// For an operation that came later: nothing of it happened.
    pub(super) fn closed(&self) -> Error {
        self.error(
            ErrorKind::Closed,
            "nothing is acknowledged any more; look at the disk, then open the store again",
        )
    }

    fn error(&self, kind: ErrorKind, advice: &str) -> Error {
        let Self { what, cause } = self;
        Error::new(
            kind,
            format!("the store stopped itself, as {what}: {cause}; {advice}"),
        )
        .because(Cause(Arc::clone(cause)))
    }
}

impl Shared {
    /// Acknowledges nothing any more, and says so to everyone who waits.
    pub(super) fn stop(&self, stop: Stop) {
        let stop = Arc::new(stop);
        let first = self.stop.get_or_init(|| {
            tracing::error!(error = %stop.closed(), "embedded store stopped after a failure");
            stop
        });
        self.pending.abandon(&Fate::Stopped(Arc::clone(first)));
    }

    pub(super) fn why_closed(&self) -> Error {
        self.stop.get().map_or_else(closed, |stop| stop.closed())
    }
}

/// One cause as the source of many errors.
#[derive(Debug)]
struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
