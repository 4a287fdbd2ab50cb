//! A parser for the URL of a database of PostgreSQL.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::duration;
use crate::error::{Error, Result, shown};

const FORM: &str = "the URL of a PostgreSQL database is postgres://user:password@host:5432/database, \
                    where `@`, `/`, `?`, `#` and `%` in a user or password are percent-encoded";

const KNOWN: &str = "schema, sslmode, sslrootcert, connect_timeout, timeout, host, port, user, \
                     password, dbname, application_name, channel_binding, target_session_attrs, \
                     keepalives, keepalives_idle";

/// The encryption of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    Never,
    /// Encrypted if the server offers it and its certificate can be verified; in the clear
    /// otherwise.
    Preferred,
    /// Encrypted, with a verified certificate, or not at all.
    Required,
}

/// A parsed URL. It has no `Debug`, so that the password is never printed.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    /// Whether all traffic stays on this machine.
    pub(super) is_local: bool,
    /// Default: [`Preferred`](Tls::Preferred) on this machine, [`Required`](Tls::Required) anywhere
    /// else, where an attacker in between could make TLS fail and read the password.
    pub(super) tls: Tls,
    /// A file of root certificates; without one, those of the machine.
    pub(super) roots: Option<PathBuf>,
    /// The schema of a journal. Default: `duly`.
    pub(super) schema: Option<String>,
    /// The timeout of connecting, login included. Default: 5 s, so that a call outlives a first
    /// attempt without a response.
    pub(super) connect_timeout: Duration,
    /// The timeout of a journal's call, including all waits. Default: 30 s.
    pub(super) timeout: Option<Duration>,
}

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid), with a message that never shows the password.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let is_ours = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme));
        if !is_ours {
            return Err(Error::invalid(FORM));
        }
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let mut choices = UrlChoices::default();
        let mut theirs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match choices.take(key, &decode(value)?)? {
                true => {}
                false if KNOWN.split(", ").any(|known| known == key) => theirs.push(pair),
                // It may be the rest of a password that contains a `?`, so it is not repeated.
                false => {
                    return Err(Error::invalid(format!(
                        "the URL of a PostgreSQL database has an option that is not known; known \
                         are {KNOWN}"
                    )));
                }
            }
        }
        let url = format!("{place}?{}", theirs.join("&"));
        // The package's message may contain a piece of the password, if it is not encoded.
        let mut config: Config = url.parse().map_err(|_| Error::invalid(FORM))?;
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        if config.get_user().is_none() {
            return Err(Error::invalid(FORM));
        }
        if config.get_application_name().is_none() {
            config.application_name("duly");
        }
        let is_local = config.get_hosts().iter().all(is_local);
        let tls = choices.tls.unwrap_or(if is_local {
            Tls::Preferred
        } else {
            Tls::Required
        });
        config.ssl_mode(match tls {
            Tls::Never => SslMode::Disable,
            Tls::Preferred => SslMode::Prefer,
            Tls::Required => SslMode::Require,
        });
        let connect_timeout = choices.connect_timeout.unwrap_or(Duration::from_secs(5));
        config.connect_timeout(connect_timeout);
        Ok(Self {
            config,
            is_local,
            tls,
            roots: choices.roots,
            schema: choices.schema,
            connect_timeout,
            timeout: choices.timeout,
        })
    }

    /// Returns the servers, for logs and errors; never the credentials.
    pub(super) fn place(&self) -> String {
        let ports = self.config.get_ports();
        let at = |(i, host): (usize, &Host)| {
            let port = ports.get(i).or(ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(name) => format!("{}:{port}", shown(name)),
                Host::Unix(folder) => format!("{}:{port}", folder.display()),
            }
        };
        let hosts: Vec<_> = self.config.get_hosts().iter().enumerate().map(at).collect();
        let database = self.config.get_dbname().or(self.config.get_user());
        format!(
            "postgres at {}/{}",
            hosts.join(","),
            shown(database.unwrap_or_default())
        )
    }
}

/// The parameters that are not of tokio-postgres.
#[derive(Default)]
struct UrlChoices {
    tls: Option<Tls>,
    roots: Option<PathBuf>,
    schema: Option<String>,
    connect_timeout: Option<Duration>,
    timeout: Option<Duration>,
}

impl UrlChoices {
    /// Takes a parameter that is one of these; returns whether it is.
    fn take(&mut self, key: &str, value: &str) -> Result<bool> {
        match key {
            "sslmode" => self.tls = Some(tls(value)?),
            "sslrootcert" if value == "system" => self.roots = None,
            "sslrootcert" => self.roots = Some(PathBuf::from(value)),
            "schema" => self.schema = Some(schema(value)?),
            "connect_timeout" => self.connect_timeout = Some(time(key, value)?),
            "timeout" => self.timeout = Some(time(key, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Returns whether a host is a socket, a loopback address or `localhost`; another name may resolve
/// to anything.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => match name.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        },
    }
}

fn tls(value: &str) -> Result<Tls> {
    match value {
        "disable" => Ok(Tls::Never),
        "prefer" | "allow" => Ok(Tls::Preferred),
        // A required certificate is verified as well, name included: the three are the same here.
        "require" | "verify-ca" | "verify-full" => Ok(Tls::Required),
        _ => Err(Error::invalid(
            "`sslmode` in the URL of a PostgreSQL database is disable, prefer, require or verify-full",
        )),
    }
}

fn schema(value: &str) -> Result<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = value.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if !starts || value.len() > 63 || !value.chars().all(is_name) || value.starts_with("pg_") {
        return Err(Error::invalid(
            "`schema` in the URL of a PostgreSQL journal is 1 to 63 small letters, digits and `_`, and \
             starts with neither a digit nor `pg_`",
        ));
    }
    Ok(value.to_owned())
}

/// Parses a duration such as `5s`; a number alone means seconds, as usual with PostgreSQL.
fn time(key: &str, value: &str) -> Result<Duration> {
    let seconds = value.parse().map(Duration::from_secs).ok();
    let time = seconds.map_or_else(|| duration::parse(&shown(value)), Ok);
    let time = time.map_err(|wrong| {
        Error::invalid(format!(
            "`{key}` in the URL of a PostgreSQL database: {wrong}"
        ))
    })?;
    if !(Duration::from_millis(10)..=Duration::from_hours(1)).contains(&time) {
        return Err(Error::invalid(format!(
            "`{key}` in the URL of a PostgreSQL database is from 10ms to 1h"
        )));
    }
    Ok(time)
}

fn decode(text: &str) -> Result<String> {
    percent_decoded(text).ok_or_else(|| Error::invalid(FORM))
}

/// Decodes percent-encoding; `None` if that is wrong, or the bytes are no UTF-8.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                (high * 16 + low) as u8 // two digits fill a byte
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_how() {
        let target = Target::parse(
            "postgres://user:p%40ss@one:1,two:2/db?schema=mine&sslmode=require&timeout=7s&\
             connect_timeout=2&application_name=x",
        )
        .unwrap();
        assert_eq!(target.place(), "postgres at one:1,two:2/db");
        assert_eq!(target.schema.as_deref(), Some("mine"));
        assert_eq!(target.config.get_password(), Some(&b"p@ss"[..]));
        assert_eq!(target.config.get_application_name(), Some("x"));
        assert_eq!(target.tls, Tls::Required);
        let (connect, call) = (target.connect_timeout, target.timeout);
        assert_eq!(
            (connect.as_secs(), call.map(|it| it.as_secs())),
            (2, Some(7))
        );
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let target = Target::parse("postgresql://user@%2Frun%2Fpg").unwrap();
        assert_eq!(target.place(), "postgres at /run/pg:5432/user");
        assert_eq!(target.tls, Tls::Preferred);
        assert_eq!(target.config.get_application_name(), Some("duly"));
    }

    #[test]
    fn off_this_machine_encryption_is_required_unless_the_url_says_otherwise() {
        let tls = |url: &str| Target::parse(url).unwrap().tls;
        for local in [
            "postgres://u@127.0.0.1/db",
            "postgres://u@127.0.0.2:5433/db",
            "postgres://u@[::1]/db",
            "postgres://u@[::ffff:127.0.0.1]/db",
            "postgres://u@localhost/db",
            "postgres://u@LOCALHOST/db",
            "postgres://u@%2Frun%2Fpg/db",
            "postgres://u@/db?host=/run/pg",
            "postgres://u@localhost,127.0.0.1/db",
        ] {
            assert_eq!(tls(local), Tls::Preferred, "{local}");
        }
        for elsewhere in [
            "postgres://u@10.0.0.7/db",
            "postgres://u@[fe80::1]/db",
            "postgres://u@0.0.0.0/db",
            "postgres://u@127.1/db",
            "postgres://u@db.example/db",
            "postgres://u@localhost.example/db",
            "postgres://u@localhost,db.example/db",
            "postgres://u@/db?host=db.example",
        ] {
            assert_eq!(tls(elsewhere), Tls::Required, "{elsewhere}");
            let sign = if elsewhere.contains('?') { '&' } else { '?' };
            for (mode, expected) in [
                ("disable", Tls::Never),
                ("prefer", Tls::Preferred),
                ("verify-full", Tls::Required),
            ] {
                let chosen = format!("{elsewhere}{sign}sslmode={mode}");
                assert_eq!(tls(&chosen), expected, "{chosen}");
            }
        }
    }

    #[test]
    fn no_error_shows_a_password() {
        for url in [
            "secret",
            "mysql://user:secret@host/db",
            "postgres://user:x?secret@host/db",
            "postgres://user:secret@host:port/db",
            "postgres://user:secret@host/db?sslmode=secret",
            "postgres://user:secret@host/db?schema=Secret",
            "postgres://user:secret@host/db?timeout=0",
            "postgres://user:secret@host/db?secret=1",
        ] {
            let Err(error) = Target::parse(url) else {
                panic!("{url} is taken");
            };
            assert!(!format!("{error:?}").contains("ecret"), "{error:?}");
        }
    }
}
