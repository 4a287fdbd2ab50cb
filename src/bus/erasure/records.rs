//! The records of a key, in the store and in the journal.

use std::time::Duration;

use futures_util::TryStreamExt;

use crate::bus::call::stored_replies::{self, REPLY_KEPT};
use crate::bus::erasure::{Erasure, ErasureReport};
use crate::bus::fan_out::in_order;
use crate::error::Result;
use crate::event::EventId;
use crate::journal::reading::{self, of_journal};
use crate::record::{Cursor, FoundRecords, Numbered, Query};

/// The most pages that are read for records of the queues that are meant.
const PAGES_MAX: usize = 64;
/// How much longer than it is kept a reply may be there.
const REPLY_SLACK: Duration = Duration::from_secs(60);

impl Erasure {
    /// Erases about a page of records; returns where the next one begins.
    pub(super) async fn erase_records(
        &self,
        mut after: Option<Cursor>,
        report: &mut ErasureReport,
    ) -> Result<Option<Cursor>> {
        for _ in 0..PAGES_MAX {
            let found = self.page(self.query(after)).await?;
            let places = self.places(&found.records).await?;
            report.records += places.len() as u64;
            if !self.dry_run && !places.is_empty() {
                self.erase(places).await?;
            }
            if found.next.is_none() {
                if self.inner.open()?.records().is_none() {
                    self.erase_waiting(&self.query(None), report).await?;
                }
                return Ok(None);
            }
            after = found.next;
            // A cursor has the id of its event, which may be that of somebody else.
            let own = found.records.iter().rfind(|it| self.selects(&it.1.queue));
            if let Some(own) = own {
                return Ok(Some(Cursor::of(own)));
            }
        }
        Ok(after.map(|Cursor { finished_us, .. }| Cursor {
            finished_us,
            number: 0,
            id: EventId::from_bytes([0; 16]),
        }))
    }

    fn query(&self, after: Option<Cursor>) -> Query {
        Query {
            key: Some(self.key.clone()),
            after,
            limit: Some(Query::LIMIT_MAX),
            ..Query::default()
        }
    }

    /// Reads a page of the table of the store, or of the journal.
    async fn page(&self, query: Query) -> Result<FoundRecords> {
        if let Some(table) = self.inner.open()?.records() {
            return table.page(query).await;
        }
        match self.inner.journal() {
            Some(journal) => Ok(of_journal(journal.page(query)).await?),
            None => Ok(FoundRecords::default()),
        }
    }

    /// Erases in the table of the store, or in the journal.
    async fn erase(&self, places: Vec<Cursor>) -> Result<()> {
        let store = self.inner.open()?;
        match self.inner.journal() {
            Some(journal) if store.records().is_none() => {
                of_journal(journal.erase(places)).await?;
            }
            _ => drop(store.erase_records(places).await?),
        }
        Ok(())
    }

    /// Erases what waits in outboxes, where the store can.
    async fn erase_waiting(&self, query: &Query, report: &mut ErasureReport) -> Result<()> {
        let store = self.inner.open()?;
        let waiting = reading::waiting(&**store, query, Some, |_: &mut Vec<Numbered>| {}).await?;
        let places = self.places(&waiting).await?;
        let mut can_erase = store.erase_records(Vec::new()).await?;
        for places in places.chunks(Query::LIMIT_MAX as usize) {
            if can_erase && !self.dry_run {
                can_erase = store.erase_records(places.to_vec()).await?;
            }
            let many = places.len() as u64;
            if can_erase {
                report.records += many;
            } else {
                report.unreached += many;
            }
        }
        Ok(())
    }

    /// Returns the places of those that hold something, and removes the replies to their events.
    async fn places(&self, records: &[Numbered]) -> Result<Vec<Cursor>> {
        let now_us = self.inner.now().as_micros();
        let kept_us = (REPLY_KEPT + REPLY_SLACK).as_micros() as u64; // some minutes
        let oldest_us = now_us.saturating_sub(kept_us);
        let selected = records.iter().filter(|it| self.selects(&it.1.queue));
        if !self.dry_run {
            let young = |it: &&Numbered| it.1.stages.finished_us >= oldest_us;
            let replies = selected.clone().filter(young);
            let forget = replies
                .map(|(_, record)| stored_replies::forget(&self.inner, &record.queue, record.id));
            in_order(forget).try_for_each(|()| async { Ok(()) }).await?;
        }
        let holding = selected.filter(|it| it.1.has_content());
        Ok(holding.map(Cursor::of).collect())
    }
}
