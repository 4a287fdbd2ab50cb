//! The decision to send a call to a cluster again after an error.

use redis::{ErrorKind as Theirs, RedisError, Value};

/// Whether and how a call is retried after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    Never,
    /// It did not happen, and the reply redirects it.
    AtOnce,
    /// It did not happen, and may succeed soon or elsewhere.
    Refused,
    /// It may have happened.
    Unknown,
}

impl RetryDecision {
    pub(super) fn after(error: &RedisError) -> Self {
        let code = error.code().unwrap_or_default();
        let is_away = error.kind() == Theirs::ClusterConnectionNotFound;
        // A script that began may have written: the caller decides.
        let is_refused = REFUSALS.contains(&code) && !is_from_within(error);
        if code == "ASK" {
            Self::AtOnce
        } else if is_refused || is_away {
            Self::Refused
        } else if code.is_empty() && error.kind() == Theirs::Io {
            Self::Unknown
        } else {
            Self::Never
        }
    }
}

/// Errors of a node that does not accept a call now, and perhaps never.
const REFUSALS: &[&str] = &[
    "MOVED",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "LOADING",
    "READONLY",
    "MASTERDOWN",
];

/// Returns whether one of the calls before the last, which only waits, may have been executed.
pub(super) fn is_done_in_part(values: &[Value]) -> bool {
    let mut calls = values.iter().rev().skip(1);
    calls.any(|value| match value {
        Value::ServerError(error) => {
            RetryDecision::after(&error.clone().into()) == RetryDecision::Never
        }
        _ => true,
    })
}

fn is_from_within(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.contains(" script: ") || detail.contains("user_script")
}

/// Returns whether the error is of the connection rather than a reply of the node.
pub(super) fn is_of_the_connection(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        Theirs::Io | Theirs::ClusterConnectionNotFound | Theirs::Parse
    )
}
