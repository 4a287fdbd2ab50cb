//! The input of a request: the parameters of its path, and its body.

use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use duly::EventId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::value::RawValue;
use utoipa::IntoParams;

use super::problem::{Problem, Result};
use crate::auth::LastingGrant;
use crate::http::body::{BodyError, UNFINISHED};
use crate::state::{App, ReadError};

/// The largest body of a request, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 8 << 20;

/// The path of a queue.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct QueuePath {
    /// The namespace that the token is for.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "shop"
    )]
    pub(super) namespace: String,
    /// The queue. It exists by use.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "close"
    )]
    pub(super) queue: String,
}

/// The path of a namespace.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct NamespacePath {
    /// The namespace that the token is for.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "shop"
    )]
    pub(super) namespace: String,
}

/// The path of an event.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct EventPath {
    /// The namespace that the token is for.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "shop"
    )]
    pub(super) namespace: String,
    /// The queue. It exists by use.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "close"
    )]
    pub(super) queue: String,
    /// The id of the event: 26 characters of a ULID.
    #[param(
        min_length = 26,
        max_length = 26,
        pattern = "^[0-7][0-9A-TV-Za-tv-z]{25}$",
        example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C"
    )]
    pub(super) id: String,
}

impl EventPath {
    pub(super) fn id(&self) -> Result<EventId> {
        Ok(self.id.parse::<EventId>()?)
    }
}

/// The path of a lease.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct LeasePath {
    /// The namespace that the token is for.
    #[param(
        min_length = 1,
        max_length = 255,
        pattern = "^[-_A-Za-z0-9]+$",
        example = "shop"
    )]
    pub(super) namespace: String,
    /// The token of the lease, as it was returned.
    #[param(
        min_length = 1,
        max_length = 1000,
        pattern = "^[-._A-Za-z0-9]+$",
        example = "01KBKSY8Q3X4H1W9V0T5RZ7M2C-9f-2a-1-64a0b1c2d3e4f-shop.close"
    )]
    pub(super) token: String,
}

/// The parameters of a path; a path that is no UTF-8 is a problem.
pub(super) struct InPath<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        let Path(path) =
            path.map_err(|rejection: PathRejection| Problem::invalid(rejection.body_text()))?;
        Ok(Self(path))
    }
}

/// The longest wait of a request, in milliseconds.
pub(super) const WAIT_MS_MAX: u64 = 3_600_000;
/// When a request that waits is answered at the latest, so that proxies and clients see an answer.
const POLL_MAX: Duration = Duration::from_secs(8);

/// Returns how long a request waits.
pub(super) fn wait(wait_ms: u64) -> Result<Duration> {
    if wait_ms <= WAIT_MS_MAX {
        Ok(Duration::from_millis(wait_ms).min(POLL_MAX))
    } else {
        Err(Problem::invalid(format!(
            "wait_ms is {wait_ms}; it must be at most {WAIT_MS_MAX}"
        )))
    }
}

/// Returns the media type of a request's body, without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE);
    let text = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let text = text.split(';').next().unwrap_or_default();
    text.trim().to_ascii_lowercase()
}

pub(super) fn unsupported(expected: &str) -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "invalid",
        format!("the header Content-Type must be {expected}"),
    )
}

/// Reads a body of JSON, of whoever may still send it when all of it is there.
pub(super) async fn json<T: DeserializeOwned>(
    app: &App,
    grant: &LastingGrant,
    headers: &HeaderMap,
    body: Body,
) -> Result<T> {
    if media_type(headers) != "application/json" {
        return Err(unsupported("application/json"));
    }
    let read = app.read(grant, body, BODY_BYTES_MAX).await;
    let (bytes, _room, _) = read.map_err(|error| match error {
        ReadError::Body(error) => unread(error),
        ReadError::Refused(refusal) => refusal.into(),
    })?;
    decode(&bytes)
}

fn unread(error: BodyError) -> Problem {
    match error {
        BodyError::TooLarge => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the body has more than {BODY_BYTES_MAX} bytes; send it in parts"),
        ),
        BodyError::Unreadable => Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "timed_out",
            "the body did not arrive in time; send it faster, or in parts",
        ),
        BodyError::Evicted(why) => Problem::evicted(why, UNFINISHED),
        BodyError::Stopping => Problem::stopping(),
    }
}

/// Decodes JSON: text that is none is a bad request, a value of another form unprocessable.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    // Some clients send a byte order mark, which is to be ignored (RFC 8259, 8.1).
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    // A list of the values of its fields would be taken for an object.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid",
            "the body is a list; it must be an object",
        ));
    }
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        Category::Data => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid",
            format!("the body does not have the described form: {error}"),
        ),
        _ => Problem::invalid(format!("the body is no JSON: {error}")),
    })
}

/// Decodes a whole number; JSON writes one with or without a fraction of zero.
pub(super) fn whole<'de, D, T>(deserializer: D) -> std::result::Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: TryFrom<u64>,
{
    let found = whole_or_none(deserializer)?;
    found.ok_or_else(|| serde::de::Error::custom("null, where a whole number is expected"))
}

/// Decodes a whole number, or `null`.
pub(super) fn whole_or_none<'de, D, T>(deserializer: D) -> std::result::Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: TryFrom<u64>,
{
    /// The largest number of which a float knows each smaller one.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let is_whole = |float: &f64| (0.0..=EXACT_MAX).contains(float) && float.fract() == 0.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is whole, and in bounds
    let of_float = |float: f64| float as u64;
    let whole = number
        .as_u64()
        .or_else(|| number.as_f64().filter(is_whole).map(of_float));
    match whole.and_then(|whole| T::try_from(whole).ok()) {
        Some(whole) => Ok(Some(whole)),
        None => Err(serde::de::Error::custom(format!(
            "{number} is no whole number within its bounds"
        ))),
    }
}

/// Decodes any JSON that is present; `null` is a value.
pub(super) fn any_json<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}
