//! The interface to a transaction of the user's.

use duly::{Error, ErrorKind, Result};
use futures_util::FutureExt;

/// A transaction in which events are pushed and finished: of tokio-postgres, sqlx or rusqlite, each
/// with the feature of that name. Implement it for a newtype of another driver, as [the guide] does
/// for SeaORM and diesel.
///
/// [the guide]: https://docs.rs/duly-outbox
///
/// A connection outside of a transaction is one too: then each call commits by itself.
pub trait Transaction {
    /// Inserts staged events.
    fn insert_events(&mut self, events: Vec<Vec<u8>>) -> impl Future<Output = Result<()>>;

    /// Notes that an event is finished; returns `false` if it was already.
    fn insert_done(&mut self, done: Done) -> impl Future<Output = Result<bool>>;
}

/// The row of a finished event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Done {
    /// The queue and the id of the event, and the time of its push where the id is that of a name;
    /// with slashes between them.
    pub event: String,
    /// The number of the attempt.
    pub attempt: i32,
    /// The lease of the attempt.
    pub lease: String,
}

impl Done {
    pub(crate) fn new(event: String, attempt: u16, lease: String) -> Self {
        Self {
            event,
            attempt: i32::from(attempt),
            lease,
        }
    }
}

/// Returns the result of a push or a finish in a transaction of rusqlite or diesel, whose calls do
/// not wait for other tasks: for code that blocks.
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
/// # #[cfg(feature = "rusqlite")]
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
        let wrong =
            "the call waits for its database; await it, `at_once` is for drivers that block";
        Err(Error::new(ErrorKind::Invalid, wrong))
    })
}
