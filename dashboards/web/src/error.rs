//! The error of a page that cannot be shown.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use duly::ErrorKind;

use crate::access::AccessError;
use crate::grant::GrantEnd;

/// Why a page is not shown or an action not done.
#[derive(Debug)]
pub(crate) struct PageError {
    status: StatusCode,
    text: String,
}

pub(crate) type Result<T, E = PageError> = std::result::Result<T, E>;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    status: u16,
    title: &'a str,
    text: &'a str,
}

impl PageError {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, text }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub(crate) fn forbidden(text: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    pub(crate) fn forged() -> Self {
        let text = "this form is not of this page, or too old; go back, load the page again and \
                    repeat it";
        Self::new(StatusCode::FORBIDDEN, text)
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    pub(crate) fn failed(text: String) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }
}

impl From<GrantEnd> for PageError {
    fn from(ended: GrantEnd) -> Self {
        match ended {
            GrantEnd::Failed(error) => error.into(),
            ended => Self::forbidden(format!("nothing was done: {ended}")),
        }
    }
}

impl From<duly::Error> for PageError {
    fn from(error: duly::Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<AccessError> for PageError {
    fn from(error: AccessError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl From<askama::Error> for PageError {
    fn from(error: askama::Error) -> Self {
        Self::failed(format!("the page cannot be rendered: {error}"))
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let page = ErrorPage {
            status: self.status.as_u16(),
            title,
            text: &self.text,
        };
        let html = page.render().unwrap_or_else(|_| "error".to_owned());
        (self.status, Html(html)).into_response()
    }
}

/// Renders a page.
pub(crate) fn html(page: &impl Template) -> Result<Response> {
    Ok(Html(page.render()?).into_response())
}

#[allow(clippy::unused_async)] // a handler of axum is async
pub(crate) async fn unknown() -> PageError {
    PageError::not_found("there is no such page")
}
