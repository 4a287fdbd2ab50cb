//! The guard of every request: its visitor, protection against forged requests, and the headers of
//! every response.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::access::{Credentials, Role, User};
use crate::app::App;
use crate::error::PageError;
use crate::text;

/// The cookie that a login sets.
pub(crate) const LOGIN: &str = "duly_login";
/// The cookie from which the token of forms is derived.
const VISIT: &str = "duly_visit";
/// The random bytes of that cookie.
const VISIT_BYTES: usize = 24;
/// The field of a form that proves that the form is ours.
pub(crate) const CSRF: &str = "csrf";
/// The longest message of a finished action.
const DONE_MAX: usize = 200;

/// What every response says: nothing is loaded from elsewhere, nothing runs that is not ours, and no
/// other page frames it.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// The id of a browser, random.
#[derive(Clone, Debug)]
struct VisitId(String);

/// A visitor who may be here.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) user: User,
    /// What forms have to bring back.
    pub(crate) csrf: String,
    /// What the action before has done.
    pub(crate) done: Option<String>,
}

/// Checks where a change comes from, and sets cookie and headers.
pub(crate) async fn guard(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::GET
        && request.method() != Method::HEAD
        && !is_own_origin(request.headers())
    {
        return finish(PageError::forged().into_response(), &app, None);
    }
    let known = cookie(request.headers(), VISIT).filter(|id| id.len() >= VISIT_BYTES);
    let (id, fresh) = match known {
        Some(id) => (id.to_owned(), None),
        None => match random_id() {
            Ok(id) => (id.clone(), Some(id)),
            Err(error) => return finish(error.into_response(), &app, None),
        },
    };
    request.extensions_mut().insert(VisitId(id));
    let response = next.run(request).await;
    finish(response, &app, fresh.as_deref())
}

fn finish(mut response: Response, app: &App, fresh: Option<&str>) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if let Some(id) = fresh {
        headers.append(header::SET_COOKIE, set_cookie(app, VISIT, id));
    }
    response
}

fn random_id() -> Result<String, PageError> {
    let mut bytes = [0; VISIT_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| PageError::failed(format!("no random numbers: {error}")))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the header that sets a cookie of this session; an empty value removes it.
pub(crate) fn set_cookie(app: &App, name: &str, value: &str) -> HeaderValue {
    let ends = if value.is_empty() { "; Max-Age=0" } else { "" };
    let secure = if app.is_secure { "; Secure" } else { "" };
    let text = format!(
        "{name}={value}; Path={}; HttpOnly; SameSite=Strict{secure}{ends}",
        app.base
    );
    // Values are base 64, and a path with other characters could not be routed.
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).into_iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

/// Whether a browser says that a page of ours sends the request. A client that is no browser says
/// nothing; it has the token of a form, or not.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text(HeaderName::from_static("sec-fetch-site")) {
        return matches!(site, "same-origin" | "none");
    }
    match (text(header::ORIGIN), text(header::HOST)) {
        (None, _) => true,
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, of)| of == host),
        (Some(_), None) => false,
    }
}

/// The value of the login cookie.
pub(crate) fn encode(credentials: &Credentials) -> String {
    let text = format!("{}\n{}", credentials.name, credentials.secret);
    URL_SAFE_NO_PAD.encode(text)
}

fn decode(value: &str) -> Option<Credentials> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(value).ok()?).ok()?;
    let (name, secret) = text.split_once('\n')?;
    Some(Credentials {
        name: name.to_owned(),
        secret: secret.to_owned(),
    })
}

/// Returns what a form of this visitor brings back: nobody else knows the cookie.
fn csrf_of(parts: &Parts, user: &str) -> String {
    let id = parts.extensions.get::<VisitId>();
    let key = id.map(|id| id.0.as_bytes()).unwrap_or_default();
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new(); // never: it takes keys of any length
    };
    mac.update(user.as_bytes());
    URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
}

/// Returns the token of the login form, which has no user yet.
pub(crate) fn login_csrf(parts: &Parts) -> String {
    csrf_of(parts, "\nlogin")
}

/// Compares the token of a form.
pub(crate) fn check_csrf(expected: &str, given: Option<&str>) -> Result<(), PageError> {
    let is_same = given.is_some_and(|given| expected.as_bytes().ct_eq(given.as_bytes()).into());
    match is_same && !expected.is_empty() {
        true => Ok(()),
        false => Err(PageError::forged()),
    }
}

impl Visit {
    /// Fails unless the user has the role.
    pub(crate) fn needs(&self, role: Role) -> Result<(), PageError> {
        match self.user.role >= role {
            true => Ok(()),
            false => Err(PageError::forbidden(format!(
                "this needs the role {}; {} has the role {}",
                role.as_str(),
                self.user.name,
                self.user.role.as_str()
            ))),
        }
    }
}

impl FromRequestParts<Arc<App>> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        let user = match parts.extensions.get::<User>() {
            Some(user) => Some(user.clone()),
            None => {
                let given = cookie(&parts.headers, LOGIN).and_then(decode);
                match app.access.user(given.as_ref()).await {
                    None if given.is_some() => app.access.user(None).await,
                    user => user,
                }
            }
        };
        let Some(user) = user else {
            let to = parts.uri.path_and_query().map_or("", |it| it.as_str());
            let to = text::encoded(to.trim_start_matches(&app.base));
            let login = format!("{}/login?to={to}", app.base);
            return Err(match parts.method == Method::GET {
                true => Redirect::to(&login).into_response(),
                false => PageError::forbidden("log in first".to_owned()).into_response(),
            });
        };
        let done = parts.uri.query().and_then(|query| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            let (_, done) = pairs.find(|(name, _)| name == "done")?;
            Some(done[..done.floor_char_boundary(DONE_MAX)].to_owned())
        });
        Ok(Self {
            csrf: csrf_of(parts, &user.name),
            user,
            done,
        })
    }
}
