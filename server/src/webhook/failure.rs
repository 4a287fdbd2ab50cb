//! Failures of requests: their kinds, and what follows from each.

use std::time::Duration;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// This server cannot make requests at all.
    Client,
    /// The name would have had to wait for its lookup: no request was made.
    NotLookedUp,
    /// The address may not be called.
    Address,
    /// There was no connection, or it broke.
    Connection,
    /// There was no response in time.
    Timeout,
    /// The response is a redirect.
    Redirect,
    /// The target says that it is gone for good: 410.
    Gone,
    /// The response has another status that is no success.
    Status(u16),
}

impl FailureKind {
    /// Of a response's status that is no success.
    pub(super) fn of_status(status: u16) -> Self {
        match status {
            300..=399 => Self::Redirect,
            410 => Self::Gone,
            _ => Self::Status(status),
        }
    }

    /// Whether the target is at fault, so that the next event would fail as well. Other failures
    /// are responses to one event: the target is alive.
    pub(super) fn is_of_target(self) -> bool {
        match self {
            Self::Client | Self::Address | Self::Connection | Self::Timeout | Self::Redirect => {
                true
            }
            Self::NotLookedUp | Self::Gone => false,
            Self::Status(status) => {
                !(400..=499).contains(&status)
                    || matches!(status, 401 | 403 | 404 | 405 | 407 | 408 | 421 | 429)
            }
        }
    }

    /// Whether there was no response at all.
    pub(super) fn is_without_response(self) -> bool {
        match self {
            Self::Client | Self::NotLookedUp | Self::Address | Self::Connection | Self::Timeout => {
                true
            }
            Self::Redirect | Self::Gone | Self::Status(_) => false,
        }
    }

    /// The label of metrics.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::NotLookedUp => "not_looked_up",
            Self::Address => "address",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Redirect => "redirect",
            Self::Gone => "gone",
            Self::Status(400..=499) => "status_4xx",
            Self::Status(500..=599) => "status_5xx",
            Self::Status(_) => "status_other",
        }
    }
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    /// Why, for the record of the attempt: with the begin of the response.
    pub(super) text: String,
    /// The delay that the target asks for.
    pub(super) retry_after: Option<Duration>,
}

impl Failure {
    pub(super) fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
            retry_after: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_response_to_one_event_does_not_count_against_its_target() {
        for status in [301, 401, 403, 404, 408, 429, 500, 502, 503, 504, 102] {
            assert!(FailureKind::of_status(status).is_of_target(), "{status}");
        }
        for status in [400, 402, 409, 410, 413, 415, 422, 451] {
            assert!(!FailureKind::of_status(status).is_of_target(), "{status}");
        }
    }
}
