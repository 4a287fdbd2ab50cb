//! SQLite by rusqlite.

use duly::{Error, ErrorKind, Result};
use futures_util::FutureExt;
use rusqlite::{Connection, params};

use crate::transaction::{Done, Transaction};

/// Returns the result of a push or a finish in a transaction of rusqlite, whose calls do not wait for
/// other tasks: for code that blocks.
///
/// # Errors
///
/// That of the call; [`Invalid`](ErrorKind::Invalid) for a future of another driver, which has to be
/// awaited.
///
/// # Examples
///
/// ```no_run
/// use duly::Queue;
/// use duly::time::When;
/// use duly_outbox::{PushIn, at_once};
///
/// fn order(file: &mut rusqlite::Connection, closes: &Queue<u64>) -> Result<(), duly::Error> {
///     # let failed = |_| duly::Error::new(duly::ErrorKind::Unavailable, "");
///     let mut tx = file.transaction().map_err(failed)?;
///     tx.execute("insert into orders (id) values (7)", []).map_err(failed)?;
///     at_once(closes.push_in(&mut tx, 7, When::Now))?;
///     tx.commit().map_err(failed)
/// }
/// ```
pub fn at_once<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    call.now_or_never().unwrap_or_else(|| {
        let wrong = "the call waits for its database; await it, `at_once` is for rusqlite";
        Err(Error::new(ErrorKind::Invalid, wrong))
    })
}

impl Transaction for Connection {
    #[allow(clippy::unused_async)] // the trait's is
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        insert_events(self, &events)
    }

    #[allow(clippy::unused_async)] // the trait's is
    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        insert_done(self, &done)
    }
}

impl Transaction for rusqlite::Transaction<'_> {
    #[allow(clippy::unused_async)] // the trait's is
    async fn insert_events(&mut self, events: Vec<Vec<u8>>) -> Result<()> {
        insert_events(self, &events)
    }

    #[allow(clippy::unused_async)] // the trait's is
    async fn insert_done(&mut self, done: Done) -> Result<bool> {
        insert_done(self, &done)
    }
}

fn insert_events(connection: &Connection, events: &[Vec<u8>]) -> Result<()> {
    let insert = || {
        let sql = "insert into duly_outbox (event) values (?1)";
        let mut statement = connection.prepare_cached(sql)?;
        events
            .iter()
            .try_for_each(|event| statement.execute([event]).map(drop))
    };
    insert().map_err(|error| failed(&error))
}

fn insert_done(connection: &Connection, done: &Done) -> Result<bool> {
    let insert = || {
        let sql = "insert into duly_done (event, attempt, lease) values (?1, ?2, ?3) \
                   on conflict do nothing";
        let mut statement = connection.prepare_cached(sql)?;
        statement.execute(params![done.event, done.attempt, done.lease])
    };
    insert()
        .map(|rows| rows > 0)
        .map_err(|error| failed(&error))
}

/// Returns the error of a call.
pub(crate) fn failed(error: &rusqlite::Error) -> Error {
    let text = error.to_string();
    if text.contains("no such table") || text.contains("no such column") {
        return Error::new(
            ErrorKind::Invalid,
            format!(
                "the tables of the outbox are not as they must be: {text}; see `duly outbox schema \
                 --database sqlite`"
            ),
        );
    }
    let text = format!("the file of the outbox fails: {text}");
    Error::new(ErrorKind::Unavailable, text)
}
