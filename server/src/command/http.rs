//! The HTTP client of the commands.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use duly_server::with_causes;
use reqwest::{Client, Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::{Host, Url};

use super::error::{CommandError, Failure, Result};

/// How long a request may take: a forecast waits for its turn.
const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A client of one listener of a server.
#[derive(Debug)]
pub(crate) struct HttpClient {
    client: Client,
    base: Url,
    authorization: Option<String>,
}

impl HttpClient {
    /// A client of the listener at `url`, with the value of the header `Authorization`. What is at a
    /// loopback address is reached without the proxy of the environment.
    pub(crate) fn new(url: &str, authorization: Option<String>) -> Result<Self> {
        let base = Url::parse(url).ok();
        let base = base.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let base = base.ok_or_else(|| {
            CommandError::usage(format!(
                "`{url}` is no URL of a server; write one such as http://127.0.0.1:7777"
            ))
        })?;
        let is_loopback = base.host().is_some_and(|host| match host {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        });
        Self::build(base, authorization, is_loopback)
    }

    /// A client of a listener of this machine, without the proxy of the environment.
    pub(crate) fn of_this_machine(mut listener: SocketAddr) -> Result<Self> {
        if listener.ip().is_unspecified() {
            listener.set_ip(match listener {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        let base = Url::parse(&format!("http://{listener}"));
        let base = base.map_err(|error| CommandError::failed(error.to_string()))?;
        Self::build(base, None, true)
    }

    fn build(base: Url, authorization: Option<String>, is_here: bool) -> Result<Self> {
        let mut builder = duly_server::client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        if is_here {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| {
            CommandError::failed(format!("the HTTP client does not start: {error}"))
        })?;
        Ok(Self {
            client,
            base,
            authorization,
        })
    }

    /// Sends a request to a path of these segments; returns the body of the response, `Null` if it
    /// has none.
    pub(crate) async fn send(
        &self,
        method: Method,
        segments: &[&str],
        query: &[(&str, String)],
        body: Option<String>,
    ) -> Result<Value> {
        let (text, _) = self.exchange(method, segments, query, body).await?;
        if text.is_empty() {
            Ok(Value::Null)
        } else {
            serde_json::from_str(&text).map_err(|error| self.not_understood(&error))
        }
    }

    /// As [`send`](Self::send), for what has JSON in it whose text is to be kept.
    pub(crate) async fn send_for<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        query: &[(&str, String)],
        body: Option<String>,
    ) -> Result<T> {
        let (text, _) = self.exchange(method, segments, query, body).await?;
        serde_json::from_str(&text).map_err(|error| self.not_understood(&error))
    }

    /// Removes what is at a path; returns whether there was something.
    pub(crate) async fn remove(&self, segments: &[&str]) -> Result<bool> {
        let sent = self.exchange(Method::DELETE, segments, &[], None).await;
        sent.map(|(_, is_found)| is_found)
    }

    /// Returns the body of the response, and whether there was what the request is about.
    async fn exchange(
        &self,
        method: Method,
        segments: &[&str],
        query: &[(&str, String)],
        body: Option<String>,
    ) -> Result<(String, bool)> {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.client.request(method, url);
        if let Some(value) = &self.authorization {
            request = request.header(reqwest::header::AUTHORIZATION, value);
        }
        if let Some(body) = body {
            let json = "application/json";
            request = request
                .header(reqwest::header::CONTENT_TYPE, json)
                .body(body);
        }
        let failed = |error: reqwest::Error| {
            if error.is_builder() {
                let text = "the request cannot be made; the token or the account may have a \
                            character that no header has";
                return CommandError::usage(with_causes(text.to_owned(), &error));
            }
            let hint = if error.is_connect() {
                "; `duly serve` starts a server"
            } else {
                ""
            };
            let text = format!("{} does not respond{hint}: {error}", self.base);
            CommandError::new(Failure::Unavailable, with_causes(text, &error))
        };
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let is_found = response.headers().get("duly-found");
        let is_found = is_found.is_none_or(|found| found != "false");
        let text = response.text().await.map_err(failed)?;
        if status.is_success() {
            Ok((text, is_found))
        } else {
            Err(self.refused(status, &text))
        }
    }

    fn refused(&self, status: StatusCode, text: &str) -> CommandError {
        let failure = match status.as_u16() {
            400 | 405 | 413 | 415 | 422 => Failure::Usage,
            401 | 403 => Failure::Denied,
            404 => Failure::NotFound,
            409 => Failure::Conflict,
            // A proxy says 502 of a server that does not respond.
            408 | 429 | 502..=504 => Failure::Unavailable,
            _ => Failure::Failed,
        };
        let problem: Value = serde_json::from_str(text).unwrap_or_default();
        let detail = problem["detail"].as_str().or(problem["error"].as_str());
        let text = match (detail, failure) {
            // A store says the same.
            (Some(detail), Failure::Usage | Failure::NotFound | Failure::Conflict) => {
                detail.to_owned()
            }
            (_, Failure::Denied) if status == StatusCode::UNAUTHORIZED => {
                format!(
                    "the server refuses, {status}: {}",
                    self.credentials_needed()
                )
            }
            (detail, _) => {
                let detail = detail.unwrap_or("no reason is given");
                format!("the server refuses, {status}: {detail}")
            }
        };
        CommandError::new(failure, text)
    }

    /// Says what to give where the server does not know who asks.
    fn credentials_needed(&self) -> &'static str {
        let given = self.authorization.as_deref();
        if given.is_some_and(|given| given.starts_with("Bearer")) {
            "it knows no such token; give one of its own by --token or the variable DULY_TOKEN"
        } else {
            "give an account of it, `name:password`, by --account or the variable DULY_ACCOUNT"
        }
    }

    fn not_understood(&self, error: &serde_json::Error) -> CommandError {
        CommandError::failed(format!("{} is no server of duly: {error}", self.base))
    }

    /// Reads a value of a response.
    pub(super) fn read<T: DeserializeOwned>(&self, value: Value) -> Result<T> {
        serde_json::from_value(value).map_err(|error| self.not_understood(&error))
    }
}

/// Returns the parameters that are set.
pub(super) fn set_fields<const N: usize>(
    fields: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    let fields = fields.into_iter();
    let set = fields.filter_map(|(name, value)| Some((name, value?)));
    set.collect()
}
