//! The records of a store, guarded and counted as its other calls.

use std::fmt;
use std::sync::Arc;

use crate::record::{FoundRecords, Keep, MinuteQuery, MinuteStats, Query};
use crate::store::future::StoreFuture;
use crate::store::proxy::guard::{Call, Guard};
use crate::store::records::RecordTable;

pub(super) struct TableProxy {
    near: Arc<dyn RecordTable>,
    guard: Guard,
}

impl TableProxy {
    pub(super) fn new(near: Arc<dyn RecordTable>, guard: Guard) -> Self {
        Self { near, guard }
    }
}

impl fmt::Debug for TableProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.near.fmt(f)
    }
}

impl RecordTable for TableProxy {
    fn page(self: Arc<Self>, query: Query) -> StoreFuture<FoundRecords> {
        let near = Arc::clone(&self.near);
        self.guard
            .timed(Call::ReadRecords.place(), || near.page(query))
    }

    fn minutes(self: Arc<Self>, query: MinuteQuery) -> StoreFuture<Vec<MinuteStats>> {
        let near = Arc::clone(&self.near);
        self.guard
            .timed(Call::ReadMinutes.place(), || near.minutes(query))
    }

    fn keep(&self, keep: Keep) {
        let _ = self.guard.caught(|| self.near.keep(keep)); // a panic changes nothing else
    }
}
