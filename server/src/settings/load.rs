//! A loader of settings: the file, then the environment, then flags.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use config::{Config, ConfigError, Environment, File, FileFormat};

use super::{ClockKind, DEFAULT_POOL, PoolSettings, Settings};

/// The settings file that is read when none is named.
const FILE: &str = "duly-server.toml";
/// The longest name and password of an account.
const ACCOUNT_BYTES_MAX: usize = 512;
/// The prefix of variables: `DULY_SERVER__API__LISTEN`.
const PREFIX: &str = "DULY_SERVER";

/// The sections of the file, as a variable names them.
const SECTIONS: [&str; 7] = [
    "ADMIN", "API", "JOBS", "LIMITS", "LOG", "OUTBOX", "WEBHOOKS",
];

/// Returns the first name of a variable that is meant for the server, and is not read as it lacks an
/// underscore. Kubernetes makes names with the same beginning for a service `duly-server`.
fn misspelt(mut names: impl Iterator<Item = String>) -> Option<String> {
    names.find(|name| {
        let rest = name
            .strip_prefix(PREFIX)
            .and_then(|it| it.strip_prefix('_'));
        let Some(rest) = rest.filter(|rest| !rest.starts_with('_')) else {
            return false;
        };
        let key = SECTIONS
            .iter()
            .find_map(|section| rest.strip_prefix(section)?.strip_prefix('_'));
        let is_made = |key: &str| key.starts_with("SERVICE_") || key.starts_with("PORT");
        key.is_some_and(|key| !is_made(key)) || rest.starts_with("POOLS_")
    })
}

/// What flags set; `None` is unset.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The address of the API.
    pub listen: Option<SocketAddr>,
    /// The address of the admin interface.
    pub admin_listen: Option<SocketAddr>,
    /// The store of the pool `default`.
    pub store: Option<String>,
    /// The database whose outbox is relayed.
    pub outbox: Option<String>,
    /// The clock.
    pub clock: Option<ClockKind>,
    /// The log level.
    pub log_level: Option<String>,
}

/// An error of the settings; names the key.
#[derive(Debug)]
pub struct SettingsError(String);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "settings: {}", self.0)
    }
}

impl std::error::Error for SettingsError {}

impl From<ConfigError> for SettingsError {
    fn from(error: ConfigError) -> Self {
        Self(error.to_string())
    }
}

impl Settings {
    /// Reads the settings of `duly serve`.
    ///
    /// # Errors
    ///
    /// A missing file that was named, an unknown key, a value of another type or out of bounds.
    pub fn load(file: Option<&Path>, overrides: Overrides) -> Result<Self, SettingsError> {
        let source = match file {
            Some(file) => File::from(file).format(FileFormat::Toml).required(true),
            None => File::from(Path::new(FILE))
                .format(FileFormat::Toml)
                .required(false),
        };
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        if let Some(name) = misspelt(names) {
            return Err(SettingsError(format!(
                "{name} is not a setting; the name of one begins with {PREFIX}__, and has two underscores \
                 between its parts, such as {PREFIX}__API__LISTEN"
            )));
        }
        let environment = Environment::with_prefix(PREFIX)
            .prefix_separator("__")
            .separator("__");
        Self::of(
            Config::builder().add_source(source).add_source(environment),
            overrides,
        )
    }

    /// Reads settings from the text of a file.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    ///
    /// # Examples
    ///
    /// ```
    /// use duly_server::Settings;
    ///
    /// let settings = Settings::from_toml("[api]\nlisten = '0.0.0.0:7777'")?;
    /// assert_eq!(settings.api.listen.port(), 7777);
    /// assert!(Settings::from_toml("[api]\nlisen = 1").unwrap_err().to_string().contains("lisen"));
    /// # Ok::<(), duly_server::settings::SettingsError>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, SettingsError> {
        let source = File::from_str(text, FileFormat::Toml);
        Self::of(Config::builder().add_source(source), Overrides::default())
    }

    fn of(
        sources: config::ConfigBuilder<config::builder::DefaultState>,
        overrides: Overrides,
    ) -> Result<Self, SettingsError> {
        let mut settings: Self = sources.build()?.try_deserialize()?;
        if let Some(listen) = overrides.listen {
            settings.api.listen = listen;
        }
        if let Some(listen) = overrides.admin_listen {
            settings.admin.listen = listen;
        }
        if let Some(url) = overrides.store {
            settings
                .pools
                .insert(DEFAULT_POOL.to_owned(), PoolSettings { url });
        }
        if overrides.outbox.is_some() {
            settings.outbox.url = overrides.outbox;
        }
        if let Some(clock) = overrides.clock {
            settings.clock = clock;
        }
        if let Some(level) = overrides.log_level {
            settings.log.level = level;
        }
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        let wrong = |text: String| Err(SettingsError(text));
        self.webhooks.check().map_err(SettingsError)?;
        if self.jobs.tries == 0 {
            return wrong("jobs.tries is 0; it must be 1 to 65535".to_owned());
        }
        if !(1..=1_000_000).contains(&self.limits.connections) {
            let connections = self.limits.connections;
            return wrong(format!(
                "limits.connections is {connections}; it must be 1 to 1000000"
            ));
        }
        for (key, seconds) in [
            ("header_timeout_s", self.limits.header_timeout_s),
            ("body_timeout_s", self.limits.body_timeout_s),
            ("write_timeout_s", self.limits.write_timeout_s),
        ] {
            if !(1..=86_400).contains(&seconds) {
                return wrong(format!("limits.{key} is {seconds}; it must be 1 to 86400"));
            }
        }
        let pool = &self.outbox.pool;
        if pool != DEFAULT_POOL && !self.pools.contains_key(pool) {
            return wrong(format!(
                "outbox.pool is `{pool}`, which is not a pool; add [pools.{pool}], or leave it out"
            ));
        }
        if self.outbox.url.is_some() && self.outbox.done_kept_s < 60 {
            let seconds = self.outbox.done_kept_s;
            return wrong(format!(
                "outbox.done_kept_s is {seconds}; it must be at least 60"
            ));
        }
        if self.limits.grace_s > 86_400 {
            let grace = self.limits.grace_s;
            return wrong(format!("limits.grace_s is {grace}; it must be 0 to 86400"));
        }
        let mut accounts = self.admin.accounts.iter();
        if let Some(why) = accounts.find_map(|(name, password)| wrong_account(name, password)) {
            return wrong(why);
        }
        let pools: Vec<&str> = self.pools.keys().map(String::as_str).collect();
        let accounts: Vec<&str> = self.admin.accounts.keys().map(String::as_str).collect();
        for (key, names) in [("pools", pools), ("admin.accounts", accounts)] {
            if let Some((one, other)) = alike(&names) {
                return wrong(format!(
                    "{key}: `{one}` and `{other}` differ by case alone; a variable of the \
                     environment sets the name in lower case, so write it so in the file"
                ));
            }
        }
        if self.log.level.parse::<tracing::Level>().is_err() {
            let level = &self.log.level;
            return wrong(format!(
                "log.level is \"{level}\"; it must be error, warn, info, debug or trace"
            ));
        }
        if self.api.tls_certificate.is_some() != self.api.tls_key.is_some() {
            return wrong(
                "api.tls_certificate and api.tls_key belong together; one is missing".to_owned(),
            );
        }
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        match self.pools.keys().find(|name| !is_name(name)) {
            Some(name) => wrong(format!(
                "pools.{name}: the name of a pool has letters, digits, `-` and `_` only"
            )),
            None => Ok(()),
        }
    }
}

/// Returns why an account could log in in one way alone, or in none: by a form, or by a header that
/// has the name before the first colon.
fn wrong_account(name: &str, password: &str) -> Option<String> {
    let has_control = |text: &str| text.chars().any(char::is_control);
    let why = if name.is_empty() || password.is_empty() {
        return Some(format!(
            "admin.accounts: the name or the password of `{name}` is empty; give both, or leave \
             the account out"
        ));
    } else if name.contains(':') {
        "the name has a colon, which ends it in a login"
    } else if name.trim() != name {
        "the name begins or ends with a blank, which a login leaves out"
    } else if has_control(name) || has_control(password) {
        "the name or the password has a character that cannot be entered, such as a line break"
    } else if name.len().max(password.len()) > ACCOUNT_BYTES_MAX {
        return Some(format!(
            "admin.accounts: the name or the password of `{name:.32}` has more than \
             {ACCOUNT_BYTES_MAX} bytes"
        ));
    } else {
        return None;
    };
    Some(format!("admin.accounts: `{name}`: {why}"))
}

/// Returns two of some names that are the same but for their case.
fn alike<'a>(names: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let mut known = BTreeMap::new();
    names.iter().find_map(|name| {
        let other = known.insert(name.to_lowercase(), *name);
        other.map(|other| (other, *name))
    })
}
