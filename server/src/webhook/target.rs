//! A target: the URL of a queue, and how it may be called; as stored, and as used.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use url::Url;

use super::address::AddressGuard;
use super::secret::Secret;

/// The most characters of a URL.
pub(crate) const URL_LEN_MAX: usize = 2_048;
/// The most requests of a target at a time.
pub(crate) const CONCURRENCY_MAX: usize = 256;
/// The bounds of a rate, in requests a second.
pub(crate) const RATE: std::ops::RangeInclusive<f64> = 0.001..=10_000.0;
/// The bounds of a timeout, in milliseconds.
pub(crate) const TIMEOUT_MS: std::ops::RangeInclusive<u64> = 100..=600_000;
/// The most secrets: the one that signs, and the one before it.
pub(crate) const SECRETS_MAX: usize = 2;
/// The most headers, and the most characters of a name and of a value.
pub(crate) const HEADERS_MAX: usize = 16;
pub(crate) const HEADER_NAME_LEN_MAX: usize = 256;
pub(crate) const HEADER_LEN_MAX: usize = 1_024;

/// Headers that a target may not set: they belong to the connection or to the signature.
pub(crate) const RESERVED: [&str; 14] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "traceparent",
];
/// The begins of names that a target may not set.
pub(crate) const RESERVED_PREFIXES: [&str; 2] = ["webhook-", "duly-"];

/// The queue that a target serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TargetKey {
    pub(crate) pool: String,
    pub(crate) namespace: String,
    pub(crate) queue: String,
}

impl TargetKey {
    pub(crate) fn new(pool: &str, namespace: &str, queue: &str) -> Self {
        Self {
            pool: pool.to_owned(),
            namespace: namespace.to_owned(),
            queue: queue.to_owned(),
        }
    }

    /// The begin of the keys of a namespace. No name has a `/`.
    pub(crate) fn prefix(pool: &str, namespace: &str) -> String {
        format!("{pool}/{namespace}/")
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '/');
        let [pool, namespace, queue] = [parts.next()?, parts.next()?, parts.next()?];
        Some(Self::new(pool, namespace, queue))
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pool,
            namespace,
            queue,
        } = self;
        write!(f, "{pool}/{namespace}/{queue}")
    }
}

/// A target as it is stored.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TargetRow {
    pub(crate) url: String,
    /// The texts of the secrets; the first is the newest.
    pub(crate) secrets: Vec<String>,
    pub(crate) concurrency: usize,
    /// Requests in a second; `None` is no bound.
    pub(crate) rate: Option<f64>,
    pub(crate) timeout_ms: u64,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) paused: bool,
    /// Another number with each change.
    pub(crate) revision: u64,
    pub(crate) created_ms: u64,
    pub(crate) changed_ms: u64,
}

/// That a target has said it is gone; holds for one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disabled {
    pub(crate) revision: u64,
    pub(crate) reason: String,
    pub(crate) at_ms: u64,
}

/// A target as it is used.
pub(crate) struct Target {
    pub(crate) row: TargetRow,
    pub(crate) disabled: Option<Disabled>,
    pub(super) url: Url,
    pub(super) secrets: Vec<Secret>,
    pub(super) headers: HeaderMap,
}

/// Leaves out what is secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("url", &self.logged_url())
            .field("disabled", &self.disabled)
            .finish_non_exhaustive()
    }
}

impl Target {
    /// Checks a target; the error says what is wrong, and what would be right.
    pub(crate) fn new(row: TargetRow, disabled: Option<Disabled>) -> Result<Self, String> {
        if !(1..=SECRETS_MAX).contains(&row.secrets.len()) {
            let many = row.secrets.len();
            return Err(format!("{many} secrets; there must be 1 or {SECRETS_MAX}"));
        }
        if !(1..=CONCURRENCY_MAX).contains(&row.concurrency) {
            let many = row.concurrency;
            return Err(format!(
                "concurrency is {many}; it must be 1 to {CONCURRENCY_MAX}"
            ));
        }
        if let Some(rate) = row.rate.filter(|rate| !RATE.contains(rate)) {
            let (least, most) = (RATE.start(), RATE.end());
            return Err(format!(
                "rate is {rate}; it must be {least} to {most} a second"
            ));
        }
        if !TIMEOUT_MS.contains(&row.timeout_ms) {
            let (is, least, most) = (row.timeout_ms, TIMEOUT_MS.start(), TIMEOUT_MS.end());
            return Err(format!("timeout_ms is {is}; it must be {least} to {most}"));
        }
        let secrets = row.secrets.iter().map(|text| Secret::parse(text));
        Ok(Self {
            url: parse_url(&row.url)?,
            secrets: secrets.collect::<Result<_, _>>()?,
            headers: parse_headers(&row.headers)?,
            disabled: disabled.filter(|disabled| disabled.revision == row.revision),
            row,
        })
    }

    /// Checks that the settings allow its URL.
    pub(crate) fn check_url(&self, guard: &AddressGuard, allow_http: bool) -> Result<(), String> {
        if self.url.scheme() == "http" && !allow_http {
            return Err(
                "the url begins with http://; it must begin with https://, unless \
                 webhooks.allow_http of the settings is true"
                    .to_owned(),
            );
        }
        guard.check_url(&self.url).map_err(|why| why.to_string())
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.row.timeout_ms)
    }

    /// Whether nothing may be sent to it now.
    pub(super) fn is_idle(&self) -> bool {
        self.row.paused || self.disabled.is_some()
    }

    /// Returns where the URL leads, as the log shows it: a path may be a secret as well.
    pub(super) fn logged_url(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Returns the URL as views show it: without a query, which may hold a secret, and to who may not
    /// set it without a path, which may be one.
    pub(crate) fn shown_url(&self, may_set: bool) -> String {
        if !may_set {
            return format!("{}/...", self.logged_url());
        }
        let mut url = self.url.clone();
        if url.query().is_some() {
            url.set_query(Some("..."));
        }
        url.into()
    }
}

fn parse_url(text: &str) -> Result<Url, String> {
    if text.len() > URL_LEN_MAX {
        let len = text.len();
        return Err(format!(
            "the url has {len} characters; it must have at most {URL_LEN_MAX}"
        ));
    }
    let url = Url::parse(text).map_err(|why| format!("the url is none: {why}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err("the url must begin with https:// and name a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the url holds a login; put it into `headers` as `authorization`".to_owned());
    }
    if url.port() == Some(0) {
        return Err(
            "the url has the port 0, at which nobody listens; leave it out, or give another"
                .to_owned(),
        );
    }
    if url.fragment().is_some() {
        return Err("the url has a fragment (`#`), which no server sees; leave it out".to_owned());
    }
    Ok(url)
}

fn parse_headers(texts: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    if texts.len() > HEADERS_MAX {
        let many = texts.len();
        return Err(format!(
            "{many} headers; there must be at most {HEADERS_MAX}"
        ));
    }
    let mut headers = HeaderMap::new();
    for (text, value) in texts {
        let name = HeaderName::try_from(text.as_str())
            .ok()
            .filter(|name| name.as_str().len() <= HEADER_NAME_LEN_MAX)
            .ok_or_else(|| format!("\"{text}\" is no name of a header"))?;
        let is_reserved = RESERVED.contains(&name.as_str())
            || RESERVED_PREFIXES
                .iter()
                .any(|prefix| name.as_str().starts_with(prefix));
        if is_reserved {
            return Err(format!("the header {name} is set by duly; leave it out"));
        }
        let len = value.chars().count();
        if len > HEADER_LEN_MAX {
            return Err(format!(
                "the header {name} has {len} characters; it must have at most {HEADER_LEN_MAX}"
            ));
        }
        let mut value = HeaderValue::from_maybe_shared(Bytes::copy_from_slice(value.as_bytes()))
            .map_err(|_| format!("the value of the header {name} has characters that none has"))?;
        value.set_sensitive(true);
        headers.append(name, value); // names that differ in case are one header, with two values
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> TargetRow {
        TargetRow {
            url: "https://hooks.shop.test/x?key=hidden".to_owned(),
            secrets: vec![Secret::random().unwrap().text()],
            concurrency: 8,
            rate: None,
            timeout_ms: 15_000,
            headers: BTreeMap::new(),
            paused: false,
            revision: 1,
            created_ms: 0,
            changed_ms: 0,
        }
    }

    #[test]
    fn a_wrong_webhook_target_is_refused_with_what_would_be_right() {
        let with = |change: &dyn Fn(&mut TargetRow)| {
            let mut row = row();
            change(&mut row);
            Target::new(row, None).unwrap_err()
        };
        let url = |url: &'static str| with(&|row| row.url = url.to_owned());
        assert!(url("ftp://shop.test/").contains("https://"));
        assert!(url("shop").contains("the url is none"));
        assert!(url("https://me:word@shop.test/").contains("authorization"));
        assert!(url("https://shop.test/#x").contains("fragment"));
        assert!(with(&|row| row.url = format!("https://s.test/{:x>3000}", "")).contains("2048"));
        assert!(with(&|row| row.concurrency = 0).contains("1 to 256"));
        assert!(with(&|row| row.rate = Some(f64::NAN)).contains("10000"));
        assert!(with(&|row| row.timeout_ms = 1).contains("100 to 600000"));
        assert!(with(&|row| row.secrets.clear()).contains("1 or 2"));
        let header = |name: &'static str, value: &'static str| {
            with(&|row| {
                row.headers.insert(name.to_owned(), value.to_owned());
            })
        };
        assert!(header("Host", "x").contains("set by duly"));
        assert!(header("Webhook-Id", "x").contains("set by duly"));
        assert!(header("a b", "x").contains("no name"));
        assert!(header("x-a", "b\r\nc: d").contains("characters"));
    }

    #[test]
    fn a_webhook_target_hides_what_is_secret() {
        let target = Target::new(row(), None).unwrap();
        assert_eq!(target.shown_url(true), "https://hooks.shop.test/x?...");
        assert_eq!(target.shown_url(false), "https://hooks.shop.test/...");
        assert_eq!(target.logged_url(), "https://hooks.shop.test");
        assert!(!format!("{target:?}").contains("hidden"));
    }

    #[test]
    fn a_webhook_is_disabled_for_one_revision_only() {
        let disabled = |revision| Disabled {
            revision,
            reason: String::new(),
            at_ms: 0,
        };
        let idle = |disabled| Target::new(row(), disabled).unwrap().is_idle();
        assert!(idle(Some(disabled(1))));
        assert!(!idle(Some(disabled(2))));
        assert!(!idle(None));
    }
}
