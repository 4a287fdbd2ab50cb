//! A parser for the URL of a Redis store: servers, login, options.
//!
//! | form | servers |
//! |---|---|
//! | `redis://[user:password@]host[:6379][/db]` | one |
//! | `redis+unix:///path/to.sock[?db=1&user=..&password=..]`, also `unix:` | one, on this machine |
//! | `redis-sentinel://[user:password@]h1[:26379],h2/name[/db]` | the master called `name`, as the sentinels say |
//! | `redis-cluster://[user:password@]h1[:6379],h2` | a cluster, of which some nodes are named |
//!
//! `rediss`, `rediss-sentinel` and `rediss-cluster` are the same over TLS. A user, a password and a
//! path are percent-decoded. This module opens no connection, and no error and no `Debug` shows a
//! password.

mod parts;
mod query;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use self::parts::{address, database_of, decode, login_of};
use self::query::QueryParameters;
use crate::error::{Error, Result};

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Its name or number.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            return write!(f, "[{host}]:{port}");
        }
        write!(f, "{host}:{port}")
    }
}

/// The servers and their topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum Place {
    /// One server.
    Tcp(Address),
    /// One server on this machine.
    Unix(PathBuf),
    /// The server that the sentinels name as master.
    Sentinel {
        sentinels: Vec<Address>,
        master: String,
        login: Login,
    },
    /// A cluster, by some of its nodes.
    Cluster(Vec<Address>),
}

/// The credentials. Without a user name the password is that of the user `default`.
#[derive(Clone, Default, PartialEq, Eq)]
pub(in crate::store::redis) struct Login {
    pub(in crate::store::redis) user: Option<String>,
    pub(in crate::store::redis) password: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "***");
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("password", &password)
            .finish()
    }
}

/// TLS, and the trusted certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store::redis) struct Tls {
    /// A file of root certificates; without one, those of the machine.
    pub(in crate::store::redis) ca: Option<PathBuf>,
}

/// The options of a URL; `None` where an option is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store::redis) struct UrlChoices {
    /// The key prefix.
    pub(in crate::store::redis) prefix: Option<String>,
    /// The number of connections for commands.
    pub(in crate::store::redis) connections: Option<usize>,
    /// The timeout of a call.
    pub(in crate::store::redis) timeout: Option<Duration>,
    /// The timeout of an attempt to connect.
    pub(in crate::store::redis) connect_timeout: Option<Duration>,
    /// Whether a server that evicts keys when it is full is accepted.
    pub(in crate::store::redis) eviction_allowed: Option<bool>,
}

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(in crate::store::redis) place: Place,
    pub(in crate::store::redis) login: Login,
    pub(in crate::store::redis) database: i64,
    pub(in crate::store::redis) tls: Option<Tls>,
    pub(in crate::store::redis) choices: UrlChoices,
}

const FORMS: &str =
    "redis://, redis+unix://, redis-sentinel:// or redis-cluster://, with `rediss` for TLS";

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid), with a message that names the invalid part and never
    /// its password.
    pub fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url
            .split_once(':')
            .ok_or_else(|| Error::invalid(format!("a store's URL begins with {FORMS}")))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let form = Form::named(scheme)?;
        let mut options = QueryParameters::read(query)?;
        let tls = form.is_tls.then(|| Tls {
            ca: options.ca.take(),
        });
        if options.ca.is_some() {
            return Err(Error::invalid(
                "`ca` in a store's URL needs TLS: write `rediss` instead of `redis`",
            ));
        }
        let target = match form.kind {
            Kind::Unix => unix(rest, &mut options)?,
            kind => network(kind, rest, &mut options)?,
        };
        options.refuse_what_is_left()?;
        Ok(Self {
            tls,
            choices: options.choices,
            ..target
        })
    }
}

/// Formats the servers, for logs and errors; never the credentials.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |addresses: &[Address]| {
            let texts: Vec<_> = addresses.iter().map(Address::to_string).collect();
            texts.join(",")
        };
        match &self.place {
            Place::Tcp(address) => write!(f, "redis at {address}"),
            Place::Unix(path) => write!(f, "redis at {}", path.display()),
            Place::Sentinel {
                sentinels, master, ..
            } => write!(f, "redis `{master}` of sentinels {}", list(sentinels)),
            Place::Cluster(nodes) => write!(f, "redis cluster at {}", list(nodes)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Unix,
    Sentinel,
    Cluster,
}

struct Form {
    kind: Kind,
    is_tls: bool,
}

impl Form {
    fn named(scheme: &str) -> Result<Self> {
        let (kind, is_tls) = match scheme {
            "redis" => (Kind::Tcp, false),
            "rediss" => (Kind::Tcp, true),
            "redis+unix" | "unix" => (Kind::Unix, false),
            "redis-sentinel" => (Kind::Sentinel, false),
            "rediss-sentinel" => (Kind::Sentinel, true),
            "redis-cluster" => (Kind::Cluster, false),
            "rediss-cluster" => (Kind::Cluster, true),
            // The text before the first colon may be a password, if the scheme is missing.
            _ => return Err(Error::invalid(format!("a store's URL begins with {FORMS}"))),
        };
        if is_tls && cfg!(not(feature = "tls")) {
            return Err(Error::not_built(
                &format!("`{scheme}`, Redis over TLS,"),
                "tls",
            ));
        }
        Ok(Self { kind, is_tls })
    }
}

/// Parses the path of a socket; the rest is in the options.
fn unix(rest: &str, options: &mut QueryParameters) -> Result<Target> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(Error::invalid(
            "a store's URL for a socket has an absolute path: redis+unix:///run/redis.sock",
        ));
    }
    Ok(Target {
        place: Place::Unix(PathBuf::from(decode(path, "the path")?)),
        login: Login {
            user: options.user.take(),
            password: options.password.take(),
        },
        database: options.database.take().unwrap_or(0),
        tls: None,
        choices: UrlChoices::default(),
    })
}

/// Parses `//[user:password@]hosts[/path]`, where the meaning of the path depends on the form.
fn network(kind: Kind, rest: &str, options: &mut QueryParameters) -> Result<Target> {
    let rest = rest
        .strip_prefix("//")
        .ok_or_else(|| Error::invalid("a store's URL has `//` after its scheme"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if path.contains('@') {
        return Err(Error::invalid(
            "a user or password with `@`, `/`, `?` or `:` in a store's URL is percent-encoded",
        ));
    }
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (login_of(login)?, hosts),
        None => (Login::default(), authority),
    };
    let default_port = if kind == Kind::Sentinel { 26379 } else { 6379 };
    let addresses = hosts
        .split(',')
        .map(|host| address(host, default_port))
        .collect::<Result<Vec<_>>>()?;
    let (place, database) = match kind {
        Kind::Sentinel => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            if master.is_empty() {
                return Err(Error::invalid(
                    "a store's URL for sentinels names the master: redis-sentinel://host/mymaster",
                ));
            }
            let place = Place::Sentinel {
                sentinels: addresses,
                master: decode(master, "the master's name")?,
                login: options.sentinel.take().unwrap_or_default(),
            };
            (place, database)
        }
        Kind::Cluster if path.is_empty() => (Place::Cluster(addresses), ""),
        Kind::Cluster => {
            return Err(Error::invalid(
                "a cluster has no databases: its URL ends after the nodes",
            ));
        }
        Kind::Tcp | Kind::Unix => match <[Address; 1]>::try_from(addresses) {
            Ok([address]) => (Place::Tcp(address), path),
            Err(_) => {
                return Err(Error::invalid(
                    "several hosts are for redis-sentinel:// and redis-cluster://; redis:// has one",
                ));
            }
        },
    };
    Ok(Target {
        place,
        login,
        database: database_of(database)?,
        tls: None,
        choices: UrlChoices::default(),
    })
}
