//! The handle of a running relay.

use std::fmt;

use duly::__outbox::outside;
use duly::{Bus, Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::hint;
use crate::relay::meters;
use crate::relay::options::RelayOptions;
use crate::relay::run::Run;
use crate::relay::source::Source;

/// A running relay: it hands the events of an outbox to the store of a bus, as soon as their
/// transactions have committed.
///
/// Start one in one process of a fleet or in all of them: there is no leader, each does what the
/// others have not, and what two push at once is accepted once. They have one store: a relay hands every
/// row of its tables to the store of its own bus, so services with other stores have other tables. Stop it before the bus; dropping it
/// stops it at once, which loses nothing either.
///
/// # Examples
///
/// ```no_run
/// # #[cfg(feature = "sqlx")]
/// # async fn start(bus: duly::Bus, pool: sqlx::PgPool) -> duly::Result<()> {
/// use duly_outbox::{Relay, RelayOptions};
///
/// let relay = Relay::sqlx(&bus, pool, RelayOptions::default()).await?;
/// tokio::signal::ctrl_c().await.ok();
/// relay.stop().await;
/// bus.shutdown(std::time::Duration::from_secs(30)).await
/// # }
/// ```
#[must_use = "a relay stops when it is dropped"]
pub struct Relay {
    wake: watch::Sender<u64>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Relay {
    /// Starts a relay of an outbox in PostgreSQL on connections of a pool of sqlx 0.9.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for an option out of its bounds, and for tables that are
    /// missing or too old, which it names; [`Unavailable`](ErrorKind::Unavailable) when the database
    /// cannot be reached.
    #[cfg(feature = "sqlx")]
    pub async fn sqlx(bus: &Bus, pool: sqlx::PgPool, options: RelayOptions) -> Result<Self> {
        use crate::postgres::source::PostgresSource;
        use crate::postgres::sqlx_0_9::SqlxSession;

        Self::start(bus, PostgresSource::new(SqlxSession(pool)), options).await
    }

    /// Starts a relay of an outbox in PostgreSQL on connections of a pool of sqlx 0.8.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for an option out of its bounds, and for tables that are
    /// missing or too old, which it names; [`Unavailable`](ErrorKind::Unavailable) when the database
    /// cannot be reached.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use sqlx_0_8 as sqlx;
    /// # async fn start(bus: duly::Bus, pool: sqlx::PgPool) -> duly::Result<()> {
    /// use duly_outbox::{Relay, RelayOptions};
    ///
    /// let relay = Relay::sqlx_0_8(&bus, pool, RelayOptions::default()).await?;
    /// # relay.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "sqlx-0-8")]
    pub async fn sqlx_0_8(
        bus: &Bus,
        pool: sqlx_0_8::PgPool,
        options: RelayOptions,
    ) -> Result<Self> {
        use crate::postgres::source::PostgresSource;
        use crate::postgres::sqlx_0_8::SqlxSession;

        Self::start(bus, PostgresSource::new(SqlxSession(pool)), options).await
    }

    /// Starts a relay of an outbox in PostgreSQL on a connection of its own, by tokio-postgres. Of several
    /// hosts it stays with a standby that comes first, unless `target_session_attrs` is `read-write`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for an option out of its bounds, and for tables that are
    /// missing or too old, which it names; [`Unavailable`](ErrorKind::Unavailable) when the database
    /// cannot be reached.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start(bus: duly::Bus) -> Result<(), Box<dyn std::error::Error>> {
    /// use duly_outbox::{Relay, RelayOptions};
    ///
    /// let database = "host=db.example user=shop dbname=shop".parse()?;
    /// let options = RelayOptions::default();
    /// let relay = Relay::tokio_postgres(&bus, database, tokio_postgres::NoTls, options).await?;
    /// # relay.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tokio-postgres")]
    pub async fn tokio_postgres<T>(
        bus: &Bus,
        database: tokio_postgres::Config,
        tls: T,
        options: RelayOptions,
    ) -> Result<Self>
    where
        T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>,
        T: Clone + Send + Sync + 'static,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as tokio_postgres::tls::TlsConnect<tokio_postgres::Socket>>::Future: Send,
    {
        use crate::postgres::source::PostgresSource;
        use crate::postgres::tokio_postgres::TokioSession;

        let session = TokioSession::new(database, tls);
        Self::start(bus, PostgresSource::new(session), options).await
    }

    /// Starts a relay of an outbox in MySQL or MariaDB on a connection of its own, by sqlx 0.9; on
    /// a second one while it reads the whole table beside, which takes long where a snapshot is held. The
    /// options are those of a URL, or of a pool: `(*pool.connect_options()).clone()`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for an option out of its bounds, and for tables that are
    /// missing or too old, which it names; [`Unavailable`](ErrorKind::Unavailable) when the database
    /// cannot be reached.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start(bus: duly::Bus) -> Result<(), Box<dyn std::error::Error>> {
    /// use duly_outbox::{Relay, RelayOptions};
    ///
    /// let database = "mysql://relay:secret@db.example/shop".parse()?;
    /// let relay = Relay::sqlx_mysql(&bus, database, RelayOptions::default()).await?;
    /// # relay.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "sqlx-mysql")]
    pub async fn sqlx_mysql(
        bus: &Bus,
        database: sqlx::mysql::MySqlConnectOptions,
        options: RelayOptions,
    ) -> Result<Self> {
        use crate::mysql::source::MysqlSource;

        Self::start(bus, MysqlSource::new(database), options).await
    }

    /// Starts a relay of an outbox in a file of SQLite, on a connection of its own. The file should be
    /// in WAL mode, or the relay waits for each writer.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for an option out of its bounds, and for tables that are
    /// missing or too old, which it names; [`Unavailable`](ErrorKind::Unavailable) when the file cannot
    /// be opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start(bus: duly::Bus) -> duly::Result<()> {
    /// use duly_outbox::{Relay, RelayOptions};
    ///
    /// let relay = Relay::rusqlite(&bus, "shop.db", RelayOptions::default()).await?;
    /// # relay.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "rusqlite")]
    pub async fn rusqlite(
        bus: &Bus,
        file: impl Into<std::path::PathBuf>,
        options: RelayOptions,
    ) -> Result<Self> {
        Self::start(
            bus,
            crate::sqlite::source::SqliteSource::new(file.into()),
            options,
        )
        .await
    }

    pub(crate) async fn start<S: Source>(
        bus: &Bus,
        mut source: S,
        options: RelayOptions,
    ) -> Result<Self> {
        let options = options.checked(bus)?;
        outside(bus, source.check()).await?;
        Ok(Self::spawn(bus, source, options, true))
    }

    /// As [`start`](Self::start), also without the database: then it is checked once it is there.
    #[cfg(feature = "url")]
    pub(crate) async fn start_anyway<S: Source>(
        bus: &Bus,
        mut source: S,
        options: RelayOptions,
    ) -> Result<Self> {
        let options = options.checked(bus)?;
        let checked = outside(bus, source.check()).await;
        let is_checked = match checked {
            Err(error) if error.kind() != ErrorKind::Unavailable => return Err(error),
            checked => checked.is_ok(),
        };
        Ok(Self::spawn(bus, source, options, is_checked))
    }

    fn spawn<S: Source>(bus: &Bus, source: S, options: RelayOptions, is_checked: bool) -> Self {
        meters::register();
        let (wake, woken) = watch::channel(0);
        let stop = CancellationToken::new();
        let run = Run::new(
            bus.clone(),
            (source, is_checked),
            options,
            woken,
            stop.clone(),
        );
        let task = tokio::spawn(run.run(hint::watch()));
        Self { wake, stop, task }
    }

    /// Makes it read the outbox now. Worth a call after a commit of another process's event, or one of
    /// plain SQL in a test of virtual time; a push of this process does it by itself.
    pub fn wake(&self) {
        self.wake
            .send_modify(|wakes| *wakes = wakes.wrapping_add(1));
    }

    /// Returns whether it has ended: it was stopped, or its bus was shut down.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Stops it after the page that it is at, and stores what it knows. For a store that does not reply
    /// it waits a second, and for each reply of the database five; without one it ends, and in any case
    /// after 20 seconds: what it leaves behind is done by the next relay.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.task).await
            && error.is_panic()
        {
            let error = Error::new(ErrorKind::Corrupt, "the relay has panicked");
            tracing::error!(%error, "a relay has ended");
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}
