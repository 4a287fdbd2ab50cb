//! A relay of the database at a URL.

use duly::{Bus, Error, ErrorKind, Result};

use crate::handle::Relay;
use crate::relay::options::RelayOptions;

impl Relay {
    /// Starts a relay of the outbox in the database at a URL, on a connection of its own:
    ///
    /// | URL | database | feature |
    /// |---|---|---|
    /// | `postgres://user:password@host:5432/database` | PostgreSQL | `url` |
    /// | `mysql://user:password@host:3306/database` | MySQL, MariaDB | `sqlx-mysql` |
    /// | `sqlite:shop.db` | a file of SQLite | `rusqlite` |
    ///
    /// The path of a file is percent-decoded, and may end in `?mode=rw` or `?mode=rwc`, as that of a pool of
    /// sqlx: a relay writes, and makes no file in either case.
    ///
    /// Of several hosts of PostgreSQL the one that writes is connected, by `target_session_attrs`.
    /// A connection is encrypted as that of a journal, by `sslmode` and `sslrootcert`: off
    /// this machine it must be, unless the URL says otherwise. For MySQL a program chooses TLS by features
    /// of sqlx.
    ///
    /// A database that cannot be reached yet is tried again, as it is later.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a URL that is none, an option out of its bounds, and for
    /// tables that are missing or too old, which it names. No error shows the password.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start(bus: duly::Bus) -> duly::Result<()> {
    /// use duly_outbox::{Relay, RelayOptions};
    ///
    /// let url = "postgres://relay:secret@db.example/shop";
    /// let relay = Relay::connect(&bus, url, RelayOptions::default()).await?;
    /// # relay.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(bus: &Bus, url: &str, options: RelayOptions) -> Result<Self> {
        match url.split_once(':').unwrap_or_default() {
            ("postgres" | "postgresql", _) => postgres(bus, url, options).await,
            ("mysql" | "mariadb", _) => mysql(bus, url, options).await,
            ("sqlite", file) => sqlite(bus, file, options).await,
            _ => Err(wrong(
                "the URL of the database of an outbox begins with postgres://, mysql:// or sqlite:",
            )),
        }
    }
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, what.into())
}

async fn postgres(bus: &Bus, url: &str, options: RelayOptions) -> Result<Relay> {
    use crate::postgres::source::PostgresSource;
    use crate::postgres::tokio_postgres::TokioSession;

    let connector = duly::__outbox::postgres::Connector::of_program(url)?;
    let source = PostgresSource::new(TokioSession::of_url(connector));
    Relay::start_anyway(bus, source, options).await
}

#[cfg(feature = "sqlx-mysql")]
async fn mysql(bus: &Bus, url: &str, options: RelayOptions) -> Result<Relay> {
    use crate::mysql::source::MysqlSource;

    // The package's message may contain a piece of the password.
    let database = url.parse().map_err(|_| {
        wrong(
            "the URL of a MySQL database is mysql://user:password@host:3306/database, where `@`, \
             `/`, `?`, `#` and `%` in a user or password are percent-encoded",
        )
    })?;
    Relay::start_anyway(bus, MysqlSource::new(database), options).await
}

#[cfg(not(feature = "sqlx-mysql"))]
async fn mysql(_: &Bus, _: &str, _: RelayOptions) -> Result<Relay> {
    Err(without(
        "MySQL",
        "`sqlx-mysql` of duly-outbox, `mysql` of duly-server",
    ))
}

#[cfg(feature = "rusqlite")]
async fn sqlite(bus: &Bus, url: &str, options: RelayOptions) -> Result<Relay> {
    let source = crate::sqlite::source::SqliteSource::new(file_of(url)?);
    Relay::start_anyway(bus, source, options).await
}

/// Returns the file of a URL of SQLite without its scheme.
#[cfg(feature = "rusqlite")]
fn file_of(url: &str) -> Result<std::path::PathBuf> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let path = path.strip_prefix("//").unwrap_or(path);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        if !matches!(option, "mode=rw" | "mode=rwc") {
            let name = option.split('=').next().unwrap_or_default();
            return Err(wrong(format!(
                "`{name}` of the URL of a file of SQLite is not as it must be: a relay takes \
                 `mode=rw` and `mode=rwc`, and no other option"
            )));
        }
    }
    if path.is_empty() || path == ":memory:" {
        return Err(wrong(
            "the URL of a file of SQLite names none: sqlite:shop.db, or sqlite:///folder/shop.db",
        ));
    }
    let decoded = duly::__outbox::percent_decoded(path);
    Ok(decoded
        .ok_or_else(|| {
            wrong(
                "the path in the URL of a file of SQLite is percent-encoded UTF-8: a `%` is `%25`",
            )
        })?
        .into())
}

#[cfg(not(feature = "rusqlite"))]
async fn sqlite(_: &Bus, _: &str, _: RelayOptions) -> Result<Relay> {
    Err(without("SQLite", "`rusqlite` of duly-outbox"))
}

#[cfg(not(all(feature = "sqlx-mysql", feature = "rusqlite")))]
fn without(database: &str, feature: &str) -> Error {
    wrong(format!(
        "this build relays no outbox in {database}: it lacks the feature {feature}"
    ))
}
