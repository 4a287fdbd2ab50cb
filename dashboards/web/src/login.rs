//! Login and logout.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{ConnectInfo, RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::access::Credentials;
use crate::app::App;
use crate::error::{PageError, Result, html};
use crate::guard::{self, CSRF, Form};
use crate::text::{Fields, is_local};

/// The longest name and secret, in bytes: a token may have 512, beside the name of its pool.
const TEXT_MAX: usize = 1_024;

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

/// Checks what was entered, and begins a session.
pub(crate) async fn submit(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let csrf = guard::login_csrf(&parts);
    let request = Request::from_parts(parts.clone(), body);
    let form = guard::read_form(request).await?;
    guard::check_csrf(&csrf, form.get(CSRF))?;
    let credentials = Credentials {
        name: form.get("name").unwrap_or_default().trim().to_owned(),
        secret: form.get("secret").unwrap_or_default().to_owned(),
    };
    let to = form.get("to").filter(|to| is_local(to)).unwrap_or("/");
    let is_long = credentials.name.len() > TEXT_MAX || credentials.secret.len() > TEXT_MAX;
    let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let address = address.map(|ConnectInfo(address)| address.ip());
    let attempt = match app
        .throttle
        .attempt(address, &parts.headers, &credentials.name)
    {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(too_many(wait)),
    };
    let user = if is_long {
        None
    } else {
        match app.access.user(Some(&credentials)).await {
            Ok(user) => user,
            Err(error) => {
                if !error.is_wrong() {
                    attempt.forget();
                }
                return Err(error.into());
            }
        }
    };
    let Some(user) = user else {
        let page = html(&LoginPage {
            base: app.base.clone(),
            csrf,
            to: to.to_owned(),
            wrong: true,
        })?;
        return Ok((StatusCode::UNAUTHORIZED, page).into_response());
    };
    attempt.succeeded();
    guard::end_session(&app, &parts.headers);
    let session = app.sessions.begin(credentials, &user)?;
    let mut response = Redirect::to(&format!("{}{to}", app.base)).into_response();
    let device = app.throttle.device(&user);
    for cookie in guard::login_cookies(&app, &parts, &session, &device) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

fn too_many(wait: Duration) -> Response {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let text = format!("too many wrong logins for this name; try again in {seconds} s");
    let mut response = PageError::new(StatusCode::TOO_MANY_REQUESTS, text).into_response();
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// Ends the session, and removes its cookie.
pub(crate) async fn end(State(app): State<Arc<App>>, Form { visit, .. }: Form) -> Result<Response> {
    let mut response = Redirect::to(&format!("{}/login", app.base)).into_response();
    let headers = response.headers_mut();
    if let Some(cookie) = visit.end(&app) {
        headers.append(header::SET_COOKIE, cookie);
    }
    headers.insert("clear-site-data", HeaderValue::from_static("\"cache\""));
    Ok(response)
}
