//! Protection against pages of other origins, whose requests a browser sends on its user's behalf.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

use crate::http::reply;
use crate::state::App;
use crate::v1;

/// Where a browser says that a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What a browser fetches.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The description of `/v1`, which needs no token.
const DESCRIPTION: &str = "/v1/openapi.json";
/// What names queues or pools, and asks for no account where there are some.
const OPEN: [&str; 4] = ["/info", "/metrics", "/pools", "/version"];

/// Refuses requests that a browser sends for a page of another origin. No such page could read a
/// response; it could act.
pub(crate) async fn refuse_foreign(request: Request, next: Next) -> Response {
    let text = "a page of another origin has sent this request; its origin may do nothing";
    if !is_foreign(request.headers(), request.uri().path()) {
        next.run(request).await
    } else if request.uri().path().starts_with("/v1/") {
        v1::forbidden(text)
    } else {
        refused(text)
    }
}

/// Refuses names of this host that are not known, where no account is asked for: a page may let a name
/// of its own point here, and is of the same origin then.
pub(crate) async fn known_host(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let admin = &app.settings.admin;
    let host = request.headers().get(header::HOST);
    let host = host.map(|host| host.to_str().unwrap_or("?"));
    let is_open = admin.accounts.is_empty() || OPEN.contains(&request.uri().path());
    match host {
        Some(host) if is_open && !is_known(host, &admin.hosts) => {
            let name = name_of(host);
            refused(&format!(
                "the host `{name}` is not known; use an address or localhost, or list `{name}` in \
                 admin.hosts (DULY_SERVER__ADMIN__HOSTS)"
            ))
        }
        _ => next.run(request).await,
    }
}

fn refused(text: &str) -> Response {
    reply::json(StatusCode::FORBIDDEN, &json!({"error": text}))
}

/// Whether a browser says that another origin sends the request. A link to a page is no such request,
/// and other clients say nothing. What needs a token is no page: a link to it could consume.
fn is_foreign(headers: &HeaderMap, path: &str) -> bool {
    let is_page = !path.starts_with("/api/") && (!path.starts_with("/v1/") || path == DESCRIPTION);
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_link = is_page && text(FETCH_MODE) == Some("navigate") && text(header::ORIGIN).is_none();
    if let Some(site) = text(FETCH_SITE) {
        return !matches!(site, "same-origin" | "none") && !is_link;
    }
    match (text(header::ORIGIN), text(header::HOST)) {
        (None, _) => false,
        (Some(origin), Some(host)) => origin.split_once("://").is_none_or(|(_, of)| of != host),
        (Some(_), None) => true,
    }
}

/// Returns the name of a host, without its port.
fn name_of(host: &str) -> &str {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.trim_end_matches('.')
}

/// Whether a host is an address, `localhost`, or one of some names; its port does not matter.
fn is_known(host: &str, names: &[String]) -> bool {
    if SocketAddr::from_str(host).is_ok() {
        return true;
    }
    let name = name_of(host);
    let is_address = IpAddr::from_str(host.trim_matches(['[', ']'])).is_ok()
        || IpAddr::from_str(name.trim_matches(['[', ']'])).is_ok();
    let is_local =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    is_address || is_local || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_page_of_another_origin_is_told_from_all_else() {
        let is_foreign_to = |path: &str, pairs: &[_]| is_foreign(&headers(pairs), path);
        let is_foreign = |pairs: &[_]| is_foreign_to("/dashboard/", pairs);
        let host = (header::HOST, "localhost:7778");
        assert!(!is_foreign(std::slice::from_ref(&host)));
        assert!(!is_foreign(&[(FETCH_SITE, "none")]));
        assert!(!is_foreign(&[(FETCH_SITE, "same-origin")]));
        assert!(!is_foreign(&[
            host.clone(),
            (header::ORIGIN, "http://localhost:7778")
        ]));
        assert!(!is_foreign(&[
            (FETCH_SITE, "cross-site"),
            (FETCH_MODE, "navigate")
        ]));
        let link = [(FETCH_SITE, "cross-site"), (FETCH_MODE, "navigate")];
        assert!(!is_foreign_to(DESCRIPTION, &link));
        for path in ["/api/ns/q", "/v1/ns/queues", "/v1/openapi.jsonx"] {
            assert!(is_foreign_to(path, &link), "{path}");
        }
        for site in ["cross-site", "same-site", "else"] {
            assert!(is_foreign(&[(FETCH_SITE, site), (FETCH_MODE, "no-cors")]));
        }
        let form = [
            (FETCH_SITE, "cross-site"),
            (FETCH_MODE, "navigate"),
            (header::ORIGIN, "null"),
        ];
        assert!(is_foreign(&form));
        for origin in ["http://evil.example", "http://localhost:7777", "null"] {
            assert!(is_foreign(&[host.clone(), (header::ORIGIN, origin)]));
        }
        assert!(is_foreign(&[(header::ORIGIN, "http://localhost:7778")]));
    }

    #[test]
    fn addresses_and_listed_names_are_known() {
        let names = ["duly.internal".to_owned()];
        for host in [
            "127.0.0.1:7778",
            "10.0.0.7",
            "[::1]:7778",
            "[::1]",
            "localhost",
            "LOCALHOST:7778",
            "duly.localhost:1",
            "duly.internal",
            "Duly.Internal:80",
        ] {
            assert!(is_known(host, &names), "{host}");
        }
        for host in [
            "evil.example:7778",
            "localhost.evil.example",
            "127.0.0.1.evil",
            "",
            "?",
        ] {
            assert!(!is_known(host, &names), "{host}");
        }
    }
}
