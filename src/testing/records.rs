//! The records of a store without a journal, for tests.

use crate::error::Result;
use crate::journal::reading;
use crate::journal::waiting::WAITING_MAX;
use crate::record::{Page, Query, Record};
use crate::store::Store;

/// Reads records from the outboxes of `store`.
///
/// # Errors
///
/// When the store cannot be read.
pub async fn records(store: &dyn Store, query: Query) -> Result<Page<Record>> {
    Ok(reading::page(store, None, query, WAITING_MAX).await?)
}
