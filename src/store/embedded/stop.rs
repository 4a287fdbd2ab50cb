//! Fail-stop: why the store stopped itself, and the errors of calls from then on.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// Why the store stopped itself.
#[derive(Debug)]
pub(super) struct StopReason {
    what: String,
    cause: Arc<dyn std::error::Error + Send + Sync>,
}

impl StopReason {
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
