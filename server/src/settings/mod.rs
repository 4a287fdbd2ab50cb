//! Settings: a TOML file, the environment, and flags.
//!
//! Every setting has a default, so that `duly serve` works with nothing. An unknown key is an error
//! that names the key.

mod address;
mod load;
mod numbers;
mod texts;
mod webhooks;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;

pub use self::address::address;
pub use self::load::{Overrides, SettingsError};
pub use self::webhooks::WebhookSettings;

/// All settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The clock of stores in memory, for tests of programs. Default: `system`.
    pub clock: ClockKind,
    /// `[api]`: the listener of the API.
    pub api: ApiSettings,
    /// `[admin]`: the listener for administration, its accounts, and the shared state.
    pub admin: AdminSettings,
    /// `[jobs]`: the defaults of lmstfy's parameters.
    pub jobs: JobSettings,
    /// `[limits]`: bounds on connections, bodies and waits.
    pub limits: LimitSettings,
    /// `[log]`: the log.
    pub log: LogSettings,
    /// `[outbox]`: the database whose outbox is relayed.
    pub outbox: OutboxSettings,
    /// `[pools.<name>]`: the stores; `default` always exists.
    pub pools: BTreeMap<String, PoolSettings>,
    /// `[webhooks]`: the delivery of queues to URLs.
    pub webhooks: WebhookSettings,
}

/// A clock.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ClockKind {
    /// That of the machine.
    #[default]
    System,
    /// One that stands still, and that requests move.
    Manual,
}

impl std::str::FromStr for ClockKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "system" => Ok(Self::System),
            "manual" => Ok(Self::Manual),
            _ => Err("it must be system or manual".to_owned()),
        }
    }
}

/// The listener of the API.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiSettings {
    /// The address; port 0 takes a free one. Default: `127.0.0.1:7777`.
    #[serde(deserialize_with = "address::listen")]
    pub listen: SocketAddr,
    /// A PEM file with the certificate chain; with it the listener speaks TLS.
    pub tls_certificate: Option<PathBuf>,
    /// A PEM file with the certificate's private key.
    pub tls_key: Option<PathBuf>,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7777)),
            tls_certificate: None,
            tls_key: None,
        }
    }
}

/// The listener for administration.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminSettings {
    /// The address; port 0 takes a free one. Default: `127.0.0.1:7778`.
    #[serde(deserialize_with = "address::listen")]
    pub listen: SocketAddr,
    /// Names and passwords for basic authentication; without any, tokens and limits are open to
    /// whoever reaches the listener.
    pub accounts: BTreeMap<String, String>,
    /// The names under which it is reached, beside addresses and `localhost`; asked for only where no
    /// account is, as of `/metrics`, since a page in a browser may give this address a name of its own:
    /// a list, or in the environment a text with commas.
    #[serde(deserialize_with = "texts::texts")]
    pub hosts: Vec<String>,
    /// Where tokens, limits and the audit are kept: `sqlite:` and a file, a Redis URL, or
    /// `memory:`. Default: beside the store of the pool `default`.
    pub state: Option<String>,
    /// Whether it has the dashboard, at `/dashboard`. Default: `true`.
    pub dashboard: bool,
    /// Whether browsers reach it only through a proxy with TLS: then the cookies of the dashboard
    /// are sent over nothing else. Default: `false`.
    pub behind_tls: bool,
    /// The proxies before it, as addresses or networks: what they say in `X-Forwarded-For` is the
    /// client, for the throttle of logins and for the audit. Others are not believed. A list, or in the
    /// environment a text with commas. Default: none.
    #[serde(deserialize_with = "texts::networks")]
    pub trusted_proxies: Vec<IpNet>,
}

/// Leaves passwords out.
impl std::fmt::Debug for AdminSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminSettings")
            .field("listen", &self.listen)
            .field("accounts", &self.accounts.keys())
            .finish_non_exhaustive()
    }
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7778)),
            accounts: BTreeMap::new(),
            hosts: Vec::new(),
            state: None,
            dashboard: true,
            behind_tls: false,
            trusted_proxies: Vec::new(),
        }
    }
}

/// The defaults of lmstfy's parameters.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSettings {
    /// The delay, in seconds. Default: 0.
    #[serde(deserialize_with = "numbers::whole")]
    pub delay_s: u32,
    /// The time to live, in seconds; 0 is for ever. Default: 86,400.
    #[serde(deserialize_with = "numbers::whole")]
    pub ttl_s: u32,
    /// The attempts. Default: 1.
    #[serde(deserialize_with = "numbers::whole")]
    pub tries: u16,
    /// The time to run, in seconds. Default: 120.
    #[serde(deserialize_with = "numbers::whole")]
    pub ttr_s: u32,
    /// The wait of a consume, in seconds. Default: 0.
    #[serde(deserialize_with = "numbers::whole")]
    pub timeout_s: u32,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            delay_s: 0,
            ttl_s: 86_400,
            tries: 1,
            ttr_s: 120,
            timeout_s: 0,
        }
    }
}

/// Bounds on connections, bodies and waits.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// The most connections of a listener, fewer where the limit of open files is low; for a new one
    /// the idlest ends that serves no request. Default: 40,000.
    #[serde(deserialize_with = "numbers::whole")]
    pub connections: usize,
    /// How long a client may take to send the headers of a request, and how long a connection may
    /// idle between two, in seconds. Default: 60.
    #[serde(deserialize_with = "numbers::whole")]
    pub header_timeout_s: u64,
    /// How long a client may take to send a body, in seconds. Default: 60.
    #[serde(deserialize_with = "numbers::whole")]
    pub body_timeout_s: u64,
    /// How long a write may make no progress before the connection is closed, in seconds. Default:
    /// 30.
    #[serde(deserialize_with = "numbers::whole")]
    pub write_timeout_s: u64,
    /// How long a stop waits for requests that run, in seconds. Default: 30.
    #[serde(deserialize_with = "numbers::whole")]
    pub grace_s: u64,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            connections: 40_000,
            header_timeout_s: 60,
            body_timeout_s: 60,
            write_timeout_s: 30,
            grace_s: 30,
        }
    }
}

impl LimitSettings {
    pub(crate) fn body_timeout(&self) -> Duration {
        Duration::from_secs(self.body_timeout_s)
    }

    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_s)
    }
}

/// The log.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// `error`, `warn`, `info`, `debug` or `trace`. Default: `info`.
    pub level: String,
    /// `text` or `json`. Default: `text`.
    pub format: LogFormat,
    /// Whether each request has a line, from the start. Default: `true`.
    pub access: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Text,
            access: true,
        }
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object on each line.
    Json,
}

/// A store.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    /// `memory:`, `sqlite:` and a file, or a Redis URL.
    pub url: String,
}

/// Leaves the credentials out.
impl std::fmt::Debug for PoolSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = self.url.split(':').next().unwrap_or_default();
        f.debug_struct("PoolSettings")
            .field("scheme", &scheme)
            .finish_non_exhaustive()
    }
}

/// The outbox of a program's database, for programs that push in their transactions and have no
/// relay of their own.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutboxSettings {
    /// `postgres://`, `mysql://` or `sqlite:`, as of [`Relay::connect`](duly_outbox::Relay::connect);
    /// MySQL needs the feature `mysql`. Default: none.
    pub url: Option<String>,
    /// The pool whose store gets its events. Default: `default`.
    pub pool: String,
    /// How long the ends of `finish_in` are kept, in seconds, as of
    /// [`RelayOptions::done_kept`](duly_outbox::RelayOptions::done_kept). The server does not know how
    /// long the attempts of other processes last. Default: 30 days.
    #[serde(deserialize_with = "numbers::whole")]
    pub done_kept_s: u64,
}

impl Default for OutboxSettings {
    fn default() -> Self {
        Self {
            url: None,
            pool: DEFAULT_POOL.to_owned(),
            done_kept_s: duly_outbox::RelayOptions::default().done_kept.as_secs(),
        }
    }
}

/// Leaves the credentials out.
impl std::fmt::Debug for OutboxSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutboxSettings")
            .field("is_set", &self.url.is_some())
            .field("pool", &self.pool)
            .field("done_kept_s", &self.done_kept_s)
            .finish()
    }
}

/// The pool that a token without a prefix means.
pub(crate) const DEFAULT_POOL: &str = "default";
/// The store of the pool `default` when nothing else is set.
const DEFAULT_STORE: &str = "sqlite:duly.db";

impl Settings {
    /// Returns why a manual clock may not be used with these settings, if so: what it makes of time
    /// must not outlive it, and what lasts must not get lost in it.
    pub(crate) fn clock_refusal(
        &self,
        pools: &BTreeMap<String, String>,
        state_url: &str,
        library: &duly::config::Settings,
    ) -> Option<String> {
        if self.clock == ClockKind::System {
            return None;
        }
        let lasts = |url: &str| url != "memory:";
        let right = "use `--store memory:`, or leave `--clock manual` out";
        if let Some((name, url)) = pools.iter().find(|(_, url)| lasts(url)) {
            let scheme = url.split(':').next().unwrap_or_default();
            return Some(format!(
                "the clock is manual, and the store of the pool {name} (`{scheme}:`) is not in \
                 memory; {right}"
            ));
        }
        if lasts(state_url) {
            return Some(format!(
                "the clock is manual, and `admin.state` is not in memory; {right}"
            ));
        }
        if self.outbox.url.is_some() {
            return Some(format!(
                "the clock is manual, and `outbox.url` is a database whose events would be moved \
                 to a store in memory, and be lost; unset it, {right}"
            ));
        }
        let journal = library.records.journal.as_deref();
        journal.filter(|url| *url != "off").map(|_| {
            format!(
                "the clock is manual, and `records.journal` keeps records; turn it off, {right}"
            )
        })
    }

    /// Returns the URL of each pool.
    pub(crate) fn pool_urls(&self) -> BTreeMap<String, String> {
        let pools = self.pools.iter();
        let mut urls: BTreeMap<_, _> = pools
            .map(|(name, pool)| (name.clone(), pool.url.clone()))
            .collect();
        urls.entry(DEFAULT_POOL.to_owned())
            .or_insert_with(|| DEFAULT_STORE.to_owned());
        urls
    }

    /// Returns the URL of the store of the pool `default`: of the settings of the server, of the
    /// library, or `sqlite:duly.db`.
    #[must_use]
    pub fn default_store_url(&self, library: &duly::config::Settings) -> String {
        let store = self.pools.get(DEFAULT_POOL).map(|pool| &pool.url);
        let store = store.or(library.store_url.as_ref());
        store.map_or_else(|| DEFAULT_STORE.to_owned(), String::clone)
    }

    /// Returns the URL of the shared state: beside the store of the pool `default` unless set.
    pub(crate) fn state_url(&self, pools: &BTreeMap<String, String>) -> String {
        if let Some(url) = &self.admin.state {
            return url.clone();
        }
        let store = pools
            .get(DEFAULT_POOL)
            .map_or(DEFAULT_STORE, String::as_str);
        match store.strip_prefix("sqlite:") {
            Some(path) => format!("sqlite:{path}.server"),
            None => store.to_owned(),
        }
    }
}
