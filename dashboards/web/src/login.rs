//! Login and logout.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{RawForm, RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::access::Credentials;
use crate::app::App;
use crate::error::{PageError, Result, html};
use crate::guard::{self, CSRF, LOGIN, Visit};
use crate::text::{Fields, is_local};

/// How long a wrong login takes, so that guessing is slow.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest name and secret, in bytes.
const TEXT_MAX: usize = 512;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    base: String,
    csrf: String,
    to: String,
    wrong: bool,
}

/// The form.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response> {
    let (parts, _) = request.into_parts();
    let query = Fields::parse(query.as_deref().unwrap_or_default().as_bytes());
    html(&LoginPage {
        base: app.base.clone(),
        csrf: guard::login_csrf(&parts),
        to: query.get("to").unwrap_or("/").to_owned(),
        wrong: false,
    })
}

/// Checks what was entered, and keeps it in a cookie that no script reads.
pub(crate) async fn submit(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let csrf = guard::login_csrf(&parts);
    let request = Request::from_parts(parts, body);
    let RawForm(form) = axum::RequestExt::extract(request)
        .await
        .map_err(|_| PageError::invalid("the form is too large, or not complete"))?;
    let form = Fields::parse(&form);
    guard::check_csrf(&csrf, form.get(CSRF))?;
    let credentials = Credentials {
        name: form.get("name").unwrap_or_default().trim().to_owned(),
        secret: form.get("secret").unwrap_or_default().trim().to_owned(),
    };
    let to = form.get("to").filter(|to| is_local(to)).unwrap_or("/");
    let is_long = credentials.name.len() > TEXT_MAX || credentials.secret.len() > TEXT_MAX;
    let Ok(_place) = app.logins.try_acquire() else {
        let text = "too many logins at the same time; try again in a moment";
        return Err(PageError::new(StatusCode::TOO_MANY_REQUESTS, text));
    };
    if is_long || app.access.user(Some(&credentials)).await.is_none() {
        tokio::time::sleep(PAUSE).await;
        let page = html(&LoginPage {
            base: app.base.clone(),
            csrf,
            to: to.to_owned(),
            wrong: true,
        })?;
        return Ok((StatusCode::UNAUTHORIZED, page).into_response());
    }
    let mut response = Redirect::to(&format!("{}{to}", app.base)).into_response();
    let cookie = guard::set_cookie(&app, LOGIN, &guard::encode(&credentials));
    response.headers_mut().append(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Removes the cookie.
pub(crate) async fn end(
    State(app): State<Arc<App>>,
    visit: Visit,
    RawForm(form): RawForm,
) -> Result<Response> {
    guard::check_csrf(&visit.csrf, Fields::parse(&form).get(CSRF))?;
    let mut response = Redirect::to(&format!("{}/login", app.base)).into_response();
    let headers = response.headers_mut();
    headers.append(header::SET_COOKIE, guard::set_cookie(&app, LOGIN, ""));
    headers.insert("clear-site-data", HeaderValue::from_static("\"cache\""));
    Ok(response)
}
