//! The table of records that the store offers.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::record::{FoundRecords, Keep, MinuteQuery, MinuteStats, Query};
use crate::sqlite::records::Reader;
use crate::store::embedded::shared::Shared;
use crate::store::embedded::sqlite;
use crate::store::embedded::ticket::CommitPart;
use crate::store::future::StoreFuture;
use crate::store::records::RecordTable;

impl RecordTable for Shared {
    fn page(self: Arc<Self>, query: Query) -> StoreFuture<FoundRecords> {
        self.ask(move |reader| reader.page(&query))
    }

    fn minutes(self: Arc<Self>, query: MinuteQuery) -> StoreFuture<Vec<MinuteStats>> {
        self.ask(move |reader| reader.minutes(&query))
    }

    fn keep(&self, keep: Keep) {
        *self.keep.lock() = keep;
    }
}

impl Shared {
    /// Reads what was decided before this call, and before.
    fn ask<T: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&mut Reader) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<T> {
        StoreFuture::new(async move {
            if let Some(ticket) = self.pending.newest() {
                ticket.wait(CommitPart::Rest).await?;
            }
            let read = move |reader: &mut Reader| -> Result<T, Error> {
                read(reader).map_err(sqlite::at_read)
            };
            self.records.run(read).await
        })
    }
}
