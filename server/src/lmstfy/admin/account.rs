//! Basic authentication of admin endpoints, where accounts are set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::http::{defaults, peer, reply};
use crate::state::App;

/// Who does something, for the audit.
#[derive(Clone, Debug)]
pub(super) struct Actor(pub(super) String);

/// Lets requests of accounts pass, or all where there are none.
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let accounts = &app.settings.admin.accounts;
    if accounts.is_empty() {
        request
            .extensions_mut()
            .insert(Actor("anonymous".to_owned()));
        return next.run(request).await;
    }
    let Some((user, password)) = credentials(request.headers()) else {
        return unauthorized();
    };
    let (address, headers) = (peer::address(), request.headers());
    let attempt = match app.logins.attempt(address, headers, user.trim()) {
        Ok(attempt) => attempt,
        Err(wait) => return throttled(wait),
    };
    if !is_known(accounts, &user, &password) {
        return unauthorized();
    }
    attempt.succeeded();
    request.extensions_mut().insert(Actor(user));
    next.run(request).await
}

fn unauthorized() -> Response {
    let mut response = reply::empty(StatusCode::UNAUTHORIZED);
    let realm = HeaderValue::from_static("Basic realm=\"Authorization Required\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, realm);
    response
}

fn throttled(wait: Duration) -> Response {
    let text = "too many wrong logins for this name; see Retry-After";
    let mut response = reply::json(StatusCode::TOO_MANY_REQUESTS, &json!({"error": text}));
    defaults::retry_after(response.headers_mut(), wait);
    response
}

/// Whether there is such an account. Each one is compared, whatever matches, and in the same time.
pub(crate) fn is_known(accounts: &BTreeMap<String, String>, user: &str, password: &str) -> bool {
    let matches = accounts
        .iter()
        .fold(Choice::from(0), |found, (name, word)| {
            found | (same(name, user) & same(word, password))
        });
    matches.into()
}

/// Compares two texts in a time that tells neither their length nor where they differ.
fn same(a: &str, b: &str) -> Choice {
    let [a, b] = [a, b].map(|text| Sha256::digest(text.as_bytes()));
    a.as_slice().ct_eq(b.as_slice())
}

fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}
