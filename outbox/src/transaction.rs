//! The interface to a transaction of the user's.

use duly::Result;

/// A transaction in which events are pushed and finished: of tokio-postgres, sqlx or rusqlite, each
/// with the feature of that name.
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
    /// The queue and the id of the event, with a slash between them.
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
