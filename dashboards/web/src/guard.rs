//! The guard of every request: its visitor, protection against forged requests, and the headers of
//! every response.

use std::sync::Arc;

use axum::RequestExt;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::access::{Role, User};
use crate::app::App;
use crate::cookies::cookie;
use crate::error::{self, PageError};
use crate::grant::{Extent, Grant, Identity};
use crate::sessions::random_id;
use crate::text::{self, Fields};
use crate::throttle::DEVICE;

/// The cookie that a login sets: the id of its session.
const SESSION: &str = "duly_session";
/// The cookie from which the token of forms is derived.
const VISIT: &str = "duly_visit";
/// The random bytes of that cookie.
const VISIT_BYTES: usize = 24;
/// The header of a request by which a page keeps itself current.
const LIVE: &str = "x-live";
/// The field of a form that proves that the form is ours.
pub(crate) const CSRF: &str = "csrf";
/// The fields of a query with the text of a finished action, and the proof that it is ours.
const DONE: [&str; 2] = ["done", "of"];

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

/// What is known of a browser.
#[derive(Clone, Debug)]
struct Browser {
    /// Its id, random.
    id: String,
    /// Whether it is reached over TLS.
    is_secure: bool,
}

/// A visitor who may be here.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) user: User,
    /// What forms have to bring back.
    pub(crate) csrf: String,
    /// What the action before has done.
    pub(crate) done: Option<String>,
    /// The session, unless everybody may be here.
    session: Option<String>,
    /// Whether its page keeps itself current, so that nobody waits for it.
    pub(crate) is_live: bool,
    browser: Option<Browser>,
    identity: Identity,
}

/// A form that one of our pages has sent, of a visitor who may be here when all of it has arrived.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) visit: Visit,
    pub(crate) fields: Fields,
}

/// Checks where a change comes from, and sets cookie and headers.
pub(crate) async fn guard(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let back = page_before(request.headers(), &app.base).map(str::to_owned);
    let finish = |response, cookie| {
        let response = error::page(response, &app.base, back.as_deref());
        finish(response, cookie)
    };
    if request.method() != Method::GET
        && request.method() != Method::HEAD
        && !is_own_origin(request.headers())
    {
        return finish(PageError::forged().into_response(), None);
    }
    let known = cookie(request.headers(), VISIT).filter(|id| id.len() >= VISIT_BYTES);
    let (id, fresh) = match known {
        Some(id) => (id.to_owned(), None),
        None => match random_id::<VISIT_BYTES>() {
            Ok(id) => (id.clone(), Some(id)),
            Err(error) => return finish(error.into_response(), None),
        },
    };
    let forwarded = request.headers().get("x-forwarded-proto");
    let browser = Browser {
        id,
        is_secure: app.is_secure || forwarded.is_some_and(|scheme| scheme == "https"),
    };
    let cookie = fresh.map(|id| set_cookie(&app, &browser, VISIT, &id));
    request.extensions_mut().insert(browser);
    finish(next.run(request).await, cookie)
}

/// Returns the page of this dashboard, by its path below `base`, from which a browser comes.
fn page_before<'a>(headers: &'a HeaderMap, base: &str) -> Option<&'a str> {
    let address = headers.get(header::REFERER)?.to_str().ok()?;
    let (_, address) = address.split_once("://")?;
    let path = &address[address.find('/')?..];
    let path = path.strip_prefix(base)?;
    // A form that was shown again has no address of its own.
    let is_form = path.starts_with("/act/") && !path.contains('?');
    (text::is_local(path) && !is_form).then_some(path)
}

fn finish(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}

/// Returns the header that sets a cookie until the browser ends, or for longer if it is that of the
/// browser; an empty value removes it.
fn set_cookie(app: &App, browser: &Browser, name: &str, value: &str) -> HeaderValue {
    let ends = match name {
        _ if value.is_empty() => "; Max-Age=0",
        DEVICE => "; Max-Age=31536000",
        _ => "",
    };
    let secure = if browser.is_secure { "; Secure" } else { "" };
    let text = format!(
        "{name}={value}; Path={}; HttpOnly; SameSite=Strict{secure}{ends}",
        app.base
    );
    // Values are base 64, and a path with other characters could not be routed.
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
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

/// Returns the headers that let a browser keep a session, and that it was logged in with.
pub(crate) fn login_cookies(
    app: &App,
    parts: &Parts,
    session: &str,
    device: &str,
) -> impl Iterator<Item = HeaderValue> {
    let browser = parts.extensions.get::<Browser>();
    let cookies = [(SESSION, session), (DEVICE, device)];
    let cookies = cookies.map(|(name, value)| Some(set_cookie(app, browser?, name, value)));
    cookies.into_iter().flatten()
}

/// Ends the session of a browser, if it has one.
pub(crate) fn end_session(app: &App, headers: &HeaderMap) {
    if let Some(session) = cookie(headers, SESSION) {
        app.sessions.end(session);
    }
}

/// Returns what a form of this visitor brings back: nobody else knows the cookie.
fn csrf_of(parts: &Parts, user: &str) -> String {
    proof(parts.extensions.get(), user)
}

/// Returns the proof that a text is of a page that this browser was given.
fn proof(browser: Option<&Browser>, user: &str) -> String {
    let key = browser
        .map(|browser| browser.id.as_bytes())
        .unwrap_or_default();
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
    if is_same && !expected.is_empty() {
        Ok(())
    } else {
        Err(PageError::forged())
    }
}

impl Visit {
    /// Returns the part of a query by which the next page says what an action has done. The proof
    /// keeps others from having us say something else.
    pub(crate) fn done_query(&self, done: &str) -> String {
        let done = done.trim();
        let [name, of] = DONE;
        let mut query = form_urlencoded::Serializer::new(String::new());
        query
            .append_pair(name, done)
            .append_pair(of, &self.proof_of(done));
        query.finish()
    }

    fn proof_of(&self, done: &str) -> String {
        proof(self.browser.as_ref(), &format!("\ndone\n{done}"))
    }

    /// Ends the session, and returns the header by which the browser forgets it.
    pub(crate) fn end(&self, app: &App) -> Option<HeaderValue> {
        if let Some(session) = &self.session {
            app.sessions.end(session);
        }
        let browser = self.browser.as_ref()?;
        Some(set_cookie(app, browser, SESSION, ""))
    }

    /// Returns the right to do something in a role, for what goes on after the request.
    pub(crate) fn grant(&self, app: &App, role: Role, extent: Extent) -> Grant {
        Grant::new(Arc::clone(&app.access), self.identity.clone(), role, extent)
    }

    /// Fails unless the user may do what the role adds.
    pub(crate) fn needs(&self, role: Role) -> Result<(), PageError> {
        if self.user.may(role) {
            Ok(())
        } else {
            Err(PageError::forbidden(format!(
                "this needs the role {}; {} has the role {}",
                role.as_str(),
                self.user.name,
                self.user.shown_role()
            )))
        }
    }
}

impl FromRequestParts<Arc<App>> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        let mut session = cookie(&parts.headers, SESSION).map(str::to_owned);
        let is_live = parts.headers.contains_key(LIVE);
        let mut identity = match parts.extensions.get::<User>() {
            Some(user) => Identity::Layer(user.clone()),
            None => {
                // A page that keeps itself current is no use of the session.
                let of_session = |id: &String| app.sessions.credentials(id, !is_live);
                Identity::Login(session.as_ref().and_then(of_session))
            }
        };
        let failed = |error| PageError::from(error).into_response();
        let mut user = identity.user(&*app.access).await.map_err(failed)?;
        if user.is_none()
            && let Identity::Login(Some(_)) = identity
        {
            identity = Identity::Login(None);
            user = identity.user(&*app.access).await.map_err(failed)?;
        }
        if let Identity::Login(None) = identity
            && let Some(id) = session.take()
        {
            app.sessions.end(&id);
        }
        let Some(user) = user else {
            let to = parts.uri.path_and_query().map_or("", |it| it.as_str());
            let to = text::encoded(to.trim_start_matches(&app.base));
            let login = format!("{}/login?to={to}", app.base);
            return Err(if parts.method == Method::GET {
                Redirect::to(&login).into_response()
            } else {
                PageError::forbidden("log in first".to_owned()).into_response()
            });
        };
        let query = Fields::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let mut visit = Self {
            csrf: csrf_of(parts, &user.name),
            user,
            done: None,
            session,
            is_live,
            browser: parts.extensions.get().cloned(),
            identity,
        };
        let [done, of] = DONE.map(|name| query.get(name));
        visit.done = done
            .filter(|done| check_csrf(&visit.proof_of(done), of).is_ok())
            .map(str::to_owned);
        Ok(visit)
    }
}

/// Reads the form of a request.
pub(crate) async fn read_form(request: Request) -> Result<Fields, PageError> {
    #[allow(clippy::disallowed_types)] // here its visitor is checked again, or has not logged in
    let form = request.extract::<axum::extract::RawForm, _>().await;
    match form {
        Ok(form) => Ok(Fields::parse(&form.0)),
        Err(_) => Err(PageError::invalid(
            "the form is too large, of another kind, or not complete",
        )),
    }
}

impl FromRequest<Arc<App>> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        Visit::from_request_parts(&mut parts, app).await?;
        let request = Request::from_parts(parts.clone(), body);
        let failed = |error: PageError| error.into_response();
        let fields = read_form(request).await.map_err(failed)?;
        // The form may have taken its time.
        let visit = Visit::from_request_parts(&mut parts, app).await?;
        check_csrf(&visit.csrf, fields.get(CSRF)).map_err(failed)?;
        Ok(Self { visit, fields })
    }
}
