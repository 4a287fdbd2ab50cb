//! A trait: the operations that are measured of each journal.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use duly::journal::Journal;
use duly::records::{Numbered, Query};

use crate::Result;

/// A future of a contender.
pub(crate) type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// A journal, and the bare way of doing the same.
pub(crate) trait Contender {
    /// What it is called in the tables.
    fn name(&self) -> &'static str;

    /// The journal.
    fn journal(&self) -> Arc<dyn Journal>;

    /// Writes these records into the tables of another, empty journal in bulk, without our code;
    /// answers how long the database took, not what came before.
    fn raw_load<'a>(&'a mut self, records: &'a [Numbered]) -> Doing<'a, Duration>;

    /// How the database comes by the records of a query, in its words.
    fn plan(&self, query: Query) -> Doing<'_, Vec<String>>;

    /// How long processors have worked for its server, where it has one.
    fn server_time(&self) -> Option<Duration>;

    /// How many bytes the journal has on disk.
    fn bytes(&self) -> Doing<'_, u64>;
}
