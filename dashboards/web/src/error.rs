//! The error of a page that cannot be shown.

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use duly::{Error, ErrorKind};

use crate::access::AccessError;
use crate::grant::GrantEnd;

/// Why a page is not shown or an action not done.
///
/// Its response has the words alone: the guard makes a page of them, as it knows the dashboard.
#[derive(Clone, Debug)]
pub(crate) struct PageError {
    status: StatusCode,
    text: String,
    field: Option<&'static str>,
}

pub(crate) type Result<T, E = PageError> = std::result::Result<T, E>;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    base: &'a str,
    status: u16,
    title: &'a str,
    text: &'a str,
    /// The path of the page before, where that is not the first one.
    back: Option<&'a str>,
}

impl PageError {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            field: None,
        }
    }

    /// Names the field of the form that is wrong.
    pub(crate) fn of(self, field: &'static str) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }

    /// The error of a call that has what is in a field: names it only where that is what is wrong.
    pub(crate) fn of_field(error: Error, field: &'static str) -> Self {
        let is_wrong = error.kind() == ErrorKind::Invalid;
        Self {
            field: is_wrong.then_some(field),
            ..Self::from(error)
        }
    }

    /// The field of the form that is wrong, if it is one.
    pub(crate) fn field(&self) -> Option<&'static str> {
        self.field
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
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
        let mut response = (self.status, self.text.clone()).into_response();
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            let soon = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, soon);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Makes a page of a response that is an error: it says what is wrong, and leads back.
pub(crate) fn page(mut response: Response, base: &str, back: Option<&str>) -> Response {
    let Some(error) = response.extensions_mut().remove::<PageError>() else {
        return response;
    };
    let page = ErrorPage {
        base,
        status: error.status.as_u16(),
        title: error.status.canonical_reason().unwrap_or("Error"),
        text: &error.text,
        back: back.filter(|back| *back != "/"),
    };
    let (mut parts, _) = response.into_parts();
    let (headers, body) = match page.render() {
        Ok(page) => Html(page).into_response().into_parts(),
        Err(_) => error.text.into_response().into_parts(),
    };
    parts.headers.extend(headers.headers);
    Response::from_parts(parts, body)
}

/// Renders a page.
pub(crate) fn html(page: &impl Template) -> Result<Response> {
    Ok(Html(page.render()?).into_response())
}

#[allow(clippy::unused_async)] // a handler of axum is async
pub(crate) async fn unknown() -> PageError {
    PageError::not_found("there is no such page")
}
