//! The records of a key, in the store and in the journal.

use std::time::Duration;

use futures_util::TryStreamExt;

use crate::bus::call::stored_replies::{self, REPLY_KEPT};
use crate::bus::erasure::{Erasure, ErasureReport};
use crate::bus::fan_out::{as_they_come, in_order};
use crate::error::Result;
use crate::event::EventId;
use crate::journal::reading::of_journal;
use crate::journal::waiting::WaitingPages;
use crate::record::{Cursor, FoundRecords, Numbered, Query};
use crate::store::{Outbox, Store};

/// The most pages that are read for records of the queues that are meant.
const PAGES_MAX: usize = 64;
/// How much longer than it is kept a reply may be there.
const REPLY_SLACK: Duration = Duration::from_secs(60);

impl Erasure {
    /// Erases about a page of records, and before the first page what waits in outboxes; returns
    /// where the next one begins.
    ///
    /// A record leaves its outbox once it is in the journal, so what the outboxes have no more is in
    /// the pages that are read after them. What they have may be on its way there as it was.
    pub(super) async fn erase_records(
        &self,
        mut after: Option<Cursor>,
        report: &mut ErasureReport,
    ) -> Result<Option<Cursor>> {
        if after.is_none() && self.inner.open()?.records().is_none() {
            self.erase_waiting(report).await?;
        }
        for _ in 0..PAGES_MAX {
            let found = self.page(self.query(after)).await?;
            let places = self.places(&found.records).await?;
            report.unreached += found.skipped;
            report.records += places.len() as u64;
            if !self.dry_run && !places.is_empty() {
                self.erase(places).await?;
            }
            if found.next.is_none() {
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
    async fn erase_waiting(&self, report: &mut ErasureReport) -> Result<()> {
        let store = self.inner.open()?;
        let mut outboxes = store.outboxes().await?;
        outboxes.retain(|outbox| match outbox {
            Outbox::Store => true,
            Outbox::Bucket(bucket) => self.selects(&bucket.queue),
        });
        let can_erase = store.erase_records(Vec::new()).await?;
        let erases = can_erase && !self.dry_run;
        let is_on_its_way = erases && self.inner.journal().is_some();
        let erase = |outbox| self.erase_outbox(&**store, outbox, erases);
        let mut erased = as_they_come(outboxes.into_iter().map(erase));
        while let Some((all, holding)) = erased.try_next().await? {
            if can_erase {
                report.records += holding;
            } else {
                report.unreached += holding;
            }
            if is_on_its_way {
                report.unreached += all;
            }
        }
        Ok(())
    }

    /// Erases what waits in one outbox, if it `erases`; returns how many records there are, and how
    /// many of them hold something.
    async fn erase_outbox(
        &self,
        store: &dyn Store,
        outbox: Outbox,
        erases: bool,
    ) -> Result<(u64, u64)> {
        let query = self.query(None);
        let mut pages = WaitingPages::open(store, &query, outbox).await?;
        let (mut all, mut holding) = (0, 0);
        while let Some(page) = pages.next().await? {
            let places = self.places(&page).await?;
            all += page.iter().filter(|it| self.selects(&it.1.queue)).count() as u64;
            holding += places.len() as u64;
            if erases && !places.is_empty() {
                store.erase_records(places).await?;
            }
        }
        Ok((all, holding))
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
            let forget = replies.map(|(_, record)| {
                stored_replies::forget(&self.inner, &record.queue, record.id, None)
            });
            in_order(forget).try_for_each(|()| async { Ok(()) }).await?;
        }
        let holding = selected.filter(|it| it.1.has_content());
        Ok(holding.map(Cursor::of).collect())
    }
}
