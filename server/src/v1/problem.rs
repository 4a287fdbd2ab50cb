//! Errors as problem details, RFC 9457.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use duly::{Error, ErrorKind};
use serde::Serialize;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use crate::admission::Crowded;
use crate::auth::Refusal;
use crate::http::defaults;
use crate::shares::Evicted;

/// An error; its type is `about:blank`, so its title is that of its status.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// The status of the response.
    #[schema(minimum = 400, maximum = 599, example = 404)]
    status: u16,
    /// The status in words.
    #[schema(example = "Not Found")]
    title: String,
    /// What is wrong, and what would be right.
    #[schema(example = "no event waits or runs under this id")]
    detail: String,
    /// The class of the error, for programs.
    #[schema(example = "not_found")]
    kind: &'static str,
    /// How long until the same may succeed.
    #[serde(skip)]
    retry_after: Option<Duration>,
}

pub(super) type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    pub(super) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            detail: detail.into(),
            kind,
            retry_after: None,
        }
    }

    pub(super) fn unauthorized() -> Self {
        let text = "a valid token is needed: `Authorization: Bearer <token>`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", text)
    }

    pub(super) fn throttled(wait: Duration) -> Self {
        let text = "the limit of the token is reached; retry later";
        Self {
            retry_after: Some(wait),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "throttled", text)
        }
    }

    /// The request had to go, as there were too many of its kind.
    pub(super) fn evicted(why: Evicted, what: &str) -> Self {
        let status = why.status();
        let kind = match why {
            Evicted::Token | Evicted::Namespace => "throttled",
            Evicted::All => "unavailable",
        };
        Self::new(status, kind, why.text(what))
    }

    /// Says first what was done before it.
    pub(super) fn after(self, done: &str) -> Self {
        Self {
            detail: format!("{done}: {}", self.detail),
            ..self
        }
    }

    /// The server stops.
    pub(super) fn stopping() -> Self {
        let text = "the server stops; send the request to another";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "closed", text)
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether the request is to blame for nothing, and the same may succeed later.
    pub(super) fn passes(&self) -> bool {
        ["unavailable", "timed_out", "unknown", "full"].contains(&self.kind)
    }

    /// Whether a client that goes by it sends the request again.
    pub(super) fn is_retried(&self) -> bool {
        let status = self.status();
        status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
    }

    /// Whether the caller has no right to it.
    pub(super) fn is_refusal(&self) -> bool {
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&self.status())
    }

    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the problem of an error that is repeated, and logged elsewhere.
    pub(super) fn unlogged(error: &Error) -> Self {
        let kind = error.kind();
        let status = match kind {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict | ErrorKind::LeaseLost => StatusCode::CONFLICT,
            ErrorKind::Full => StatusCode::INSUFFICIENT_STORAGE,
            ErrorKind::Unavailable | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, kind.name(), error.to_string())
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    pub(super) fn method_not_allowed() -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(
            status,
            "method_not_allowed",
            "the path does not have this method",
        )
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid => Self::unauthorized(),
            Refusal::Forbidden(why) => Self::new(StatusCode::FORBIDDEN, "forbidden", why),
            Refusal::Throttled(wait) => Self::throttled(wait),
            Refusal::Failed(error) => error.into(),
        }
    }
}

impl From<Crowded> for Problem {
    fn from(crowded: Crowded) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self {
            retry_after: Some(Crowded::RETRY_AFTER),
            ..Self::new(status, "throttled", crowded.to_string())
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let problem = Self::unlogged(&error);
        if problem.status().is_server_error() {
            tracing::error!(%error, kind = error.kind().name(), "request failed");
        }
        problem
    }
}

impl From<crate::shared::StateError> for Problem {
    fn from(error: crate::shared::StateError) -> Self {
        tracing::error!(%error, "request failed");
        if error.is_full() {
            let status = StatusCode::INSUFFICIENT_STORAGE;
            return Self::new(status, "full", "the shared state has no room; retry later");
        }
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "unavailable", "the shared state does not answer")
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), "invalid", rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = axum::Json(&self).into_response();
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(wait) = self.retry_after {
            defaults::retry_after(headers, wait);
        }
        if self.status == StatusCode::UNAUTHORIZED.as_u16() {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

/// The errors that any operation may return, for the description.
pub(super) struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let problem = || {
            ContentBuilder::new()
                .schema(Some(Ref::from_schema_name("Problem")))
                .build()
        };
        let response = |text: &str| {
            let response = ResponseBuilder::new().description(text);
            response.content(PROBLEM_JSON, problem()).build().into()
        };
        let responses = PROBLEMS.iter();
        responses
            .map(|(status, text)| ((*status).to_owned(), response(text)))
            .collect()
    }
}

/// The content type of problem details.
const PROBLEM_JSON: &str = "application/problem+json";

/// The statuses of problems, and what each means.
const PROBLEMS: [(&str, &str); 16] = [
    (
        "400",
        "A name, an id, a parameter or the syntax of the body is wrong",
    ),
    (
        "401",
        "The token is missing, unknown, expired, or of another namespace",
    ),
    ("403", "The token may not do this, or not to this queue"),
    ("404", "There is no such event, lease, queue or schedule"),
    ("405", "The path does not have this method"),
    ("408", "The body did not arrive in time"),
    (
        "409",
        "The state of the event, or what is stored under its id, does not allow it",
    ),
    ("410", "What is asked for was kept for a time, and is over"),
    ("413", "The body is too large"),
    ("415", "The body has another content type"),
    ("422", "The body is JSON of another form"),
    ("429", "The limit of the token is reached"),
    (
        "500",
        "The request failed; with the kind `unknown` the store's answer was lost, and it may have done \
         what was asked: repeat it, a push under the same `id` or `idempotency_key`",
    ),
    ("503", "The store does not answer, or the server stops"),
    (
        "504",
        "The store, or the journal of its records, did not answer in time",
    ),
    (
        "507",
        "The store is full; `Retry-After` says when to try again",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_every_error_is_described() {
        for kind in [
            ErrorKind::Invalid,
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::Full,
            ErrorKind::LeaseLost,
            ErrorKind::Unavailable,
            ErrorKind::Unknown,
            ErrorKind::Corrupt,
            ErrorKind::Closed,
            ErrorKind::TimedOut,
        ] {
            let status = Problem::unlogged(&Error::new(kind, "x")).status.to_string();
            let is_described = PROBLEMS.iter().any(|(described, _)| *described == status);
            assert!(is_described, "{status} of {kind:?}");
        }
    }
}
