//! Query parameters of a Redis URL.

use std::path::PathBuf;
use std::time::Duration;

use super::parts::{database_of, decode};
use super::{Login, UrlChoices};
use crate::duration;
use crate::error::{Error, Result, shown};

/// The limit of connections for pushes.
const CONNECTIONS_MAX: usize = 64;

/// The parameters, until the parts that use them have taken them.
#[derive(Default)]
pub(super) struct QueryParameters {
    pub(super) choices: UrlChoices,
    pub(super) ca: Option<PathBuf>,
    pub(super) database: Option<i64>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) sentinel: Option<Login>,
}

const KNOWN: &str = "prefix, connections, timeout, connect_timeout, eviction; with TLS ca; \
                     for a socket db, user, password; for sentinels sentinel_user, sentinel_password";

impl QueryParameters {
    pub(super) fn read(query: &str) -> Result<Self> {
        let mut options = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value, "an option")?;
            options.set(key, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: String) -> Result<()> {
        let choices = &mut self.choices;
        match key {
            "prefix" => choices.prefix = Some(prefix(value)?),
            "connections" => choices.connections = Some(connections(&value)?),
            "timeout" => choices.timeout = Some(time(key, &value)?),
            "connect_timeout" => choices.connect_timeout = Some(time(key, &value)?),
            "eviction" => choices.eviction_allowed = Some(eviction(&value)?),
            "ca" => self.ca = Some(PathBuf::from(value)),
            "db" => self.database = Some(database_of(&value)?),
            "user" => self.user = Some(value),
            "password" | "pass" => self.password = Some(value),
            "sentinel_user" => self.sentinel.get_or_insert_default().user = Some(value),
            "sentinel_password" => self.sentinel.get_or_insert_default().password = Some(value),
            _ => {
                // A key may be the rest of a password that contains a `?`, so it is not repeated.
                return Err(Error::invalid(format!(
                    "a store's URL has an unknown option; known are {KNOWN}"
                )));
            }
        }
        Ok(())
    }

    /// Refuses the parameters that no part of the URL has taken: they belong to another form.
    pub(super) fn refuse_what_is_left(&self) -> Result<()> {
        if self.database.is_some() || self.user.is_some() || self.password.is_some() {
            return Err(Error::invalid(
                "`db`, `user` and `password` are options of a socket's URL alone; other forms say \
                 redis://user:password@host/db",
            ));
        }
        if self.sentinel.is_some() {
            return Err(Error::invalid(
                "`sentinel_user` and `sentinel_password` are options of redis-sentinel:// alone",
            ));
        }
        Ok(())
    }
}

fn prefix(value: String) -> Result<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if value.is_empty() || value.len() > 64 || !value.chars().all(fits) {
        return Err(Error::invalid(
            "`prefix` in a store's URL is 1 to 64 letters, digits, `-`, `_` or `.`",
        ));
    }
    Ok(value)
}

fn connections(value: &str) -> Result<usize> {
    let number = value.parse().ok();
    number
        .filter(|number| (1..=CONNECTIONS_MAX).contains(number))
        .ok_or_else(|| {
            Error::invalid(format!(
                "`connections` in a store's URL is a number from 1 to {CONNECTIONS_MAX}"
            ))
        })
}

fn time(key: &str, value: &str) -> Result<Duration> {
    // A value that is cut for display is invalid; the error then repeats what is shown.
    let time = duration::parse(&shown(value))
        .map_err(|wrong| Error::invalid(format!("`{key}` in a store's URL: {wrong}")))?;
    if time < Duration::from_millis(1) {
        return Err(Error::invalid(format!(
            "`{key}` in a store's URL is at least 1ms"
        )));
    }
    Ok(time)
}

fn eviction(value: &str) -> Result<bool> {
    match value {
        "allowed" => Ok(true),
        "refused" => Ok(false),
        _ => Err(Error::invalid(
            "`eviction` in a store's URL is `refused`, the default, or `allowed`",
        )),
    }
}
