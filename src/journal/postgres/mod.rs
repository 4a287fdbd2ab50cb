//! A journal in PostgreSQL, shared by many nodes.
//!
//! ```text
//!   load ───> two connections ─┐  COPY, counts and marks in one transaction
//!   page ───> one connection ──┼─────────> PostgreSQL, a schema of its own
//!   prune ──> one connection ──┘  whole weeks, or a bounded number of rows
//! ```
//!
//! A connection is opened on demand, and may be one of a pooler: each statement is in a transaction, which
//! leaves nothing behind in its session. A call that fails or is cancelled drops its connection, and
//! the next call opens another.

pub(crate) mod connector;
mod copy;
mod counts;
mod erase;
mod fault;
mod keep;
mod link;
mod load;
mod pace;
mod page;
mod prune;
mod row;
mod schema;
mod scope;
mod tls;
pub(crate) mod url;
mod weeks;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::link::{ConnectionPool, ConnectionSlot, Server, within};
use self::load::WeekCache;
use self::url::Target;
use crate::error::{Error, Result};
use crate::journal::contract::{Batch, Journal, JournalFuture};
use crate::record::{Cursor, FoundRecords, Keep, Pruned};
use crate::record::{MinuteQuery, MinuteStats, Query};
use crate::time::Timestamp;

/// Runs one call on the connection of a slot, with the call's timeout.
macro_rules! call {
    ($journal:ident.$door:ident, $doing:literal, |$client:ident, $shared:ident, $spot:ident| $call:expr) => {{
        let $shared = Arc::clone(&$journal.0);
        Box::pin(async move {
            let $spot = $shared.server.spot($doing);
            within($shared.server.timeout, || $spot.late(), async {
                $shared.refuse_if_closed()?;
                let mut held = $shared.$door.open(&$shared.server).await?;
                $shared.refuse_if_closed()?; // while this call waited for its turn
                let $client = held.client();
                let result = $call.await?;
                held.keep();
                Ok(result)
            })
            .await
        })
    }};
}

/// A journal in a PostgreSQL database, which any number of nodes share.
///
/// Its URL is that of any PostgreSQL client, with further query parameters:
///
/// | parameter | meaning | default |
/// |---|---|---|
/// | `schema` | the schema of the tables; created if it is missing | `duly` |
/// | `sslmode` | `disable`; `prefer`: encrypted where the server's certificate can be verified, in the clear otherwise; `require`, or `verify-full`: encrypted, with a certificate of a known authority for the host's name, or not at all | `require`; `prefer` where every host is a socket, a loopback address or `localhost` |
/// | `sslrootcert` | a file with the certificates of trusted authorities | those of the machine |
/// | `connect_timeout` | the timeout of an attempt to connect | `5s` |
/// | `timeout` | the timeout of a call, including all waits | `30s` |
///
/// Clones share their connections: up to two that load, one that reads and one that prunes.
///
/// # Examples
///
/// ```no_run
/// use duly::journal::PostgresJournal;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let url = "postgres://duly:secret@db.example:5432/orders?sslmode=require&schema=events";
/// let journal = PostgresJournal::connect(url).await?;
/// # drop(journal);
/// # Ok::<(), duly::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct PostgresJournal(Arc<Shared>);

struct Shared {
    server: Server,
    loading: ConnectionPool,
    reading: ConnectionSlot,
    pruning: ConnectionSlot,
    known: WeekCache,
    is_closed: AtomicBool,
}

impl PostgresJournal {
    /// Creates a journal that connects on first use.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when the URL is malformed or names a file of
    /// certificates that cannot be read.
    pub fn new(url: &str) -> Result<Self> {
        Ok(Self(Arc::new(Shared {
            server: Server::new(Target::parse(url)?)?,
            loading: ConnectionPool::default(),
            reading: ConnectionSlot::default(),
            pruning: ConnectionSlot::default(),
            known: WeekCache::default(),
            is_closed: AtomicBool::new(false),
        })))
    }

    /// Connects, and creates the tables or upgrades those of an older duly.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new); [`Unavailable`](crate::ErrorKind::Unavailable) when the server
    /// cannot be reached or rejects the user; [`Corrupt`](crate::ErrorKind::Corrupt) when the
    /// tables are those of a newer duly. No error shows the password.
    pub async fn connect(url: &str) -> Result<Self> {
        let journal = Self::new(url)?;
        let shared = &journal.0;
        let time = shared.server.timeout;
        let late = || shared.server.spot("cannot connect to").late();
        within(time, late, async {
            shared.reading.open(&shared.server).await?.keep();
            Ok(())
        })
        .await?;
        Ok(journal)
    }

    /// Returns the server's plan of `query`, as the output of `EXPLAIN`: a scan of one index of
    /// each week, in order. All other filters are compared row by row, at most 4,000 rows a page.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn plan(&self, query: Query) -> JournalFuture<Vec<String>> {
        call!(self.reading, "cannot read from", |client, shared, spot| {
            page::plan(client, &shared.server.scope, &query, spot)
        })
    }
}

impl Shared {
    fn refuse_if_closed(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            Err(Error::closed("the journal was closed; open it again"))
        } else {
            Ok(())
        }
    }
}

impl Journal for PostgresJournal {
    fn load(&self, batches: Vec<Batch>) -> JournalFuture<()> {
        call!(self.loading, "cannot load into", |client, shared, spot| {
            let scope = &shared.server.scope;
            load::load(client, scope, &shared.known, &batches, spot)
        })
    }

    fn page(&self, query: Query) -> JournalFuture<FoundRecords> {
        call!(self.reading, "cannot read from", |client, shared, spot| {
            page::page(client, &shared.server.scope, &query, spot)
        })
    }

    fn minutes(&self, query: MinuteQuery) -> JournalFuture<Vec<MinuteStats>> {
        call!(self.reading, "cannot read from", |client, shared, spot| {
            counts::minutes(client, &shared.server.scope, &query, spot)
        })
    }

    fn prune(&self, keep: Keep, now: Timestamp) -> JournalFuture<Pruned> {
        call!(self.pruning, "cannot prune", |client, shared, spot| {
            let scope = &shared.server.scope;
            prune::prune(client, scope, keep, now, spot)
        })
    }

    fn erase(&self, places: Vec<Cursor>) -> JournalFuture<()> {
        call!(self.pruning, "cannot erase in", |client, shared, spot| {
            erase::erase(client, &shared.server.scope, &places, spot)
        })
    }

    fn close(&self) -> JournalFuture<()> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            shared.is_closed.store(true, Ordering::Release);
            shared.loading.close().await;
            shared.reading.close().await;
            shared.pruning.close().await;
            Ok(())
        })
    }
}

impl fmt::Debug for PostgresJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresJournal")
            .field(&self.0.server.place)
            .finish()
    }
}
