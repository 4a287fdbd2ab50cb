//! Outboxes: reading from any number, letting go, what a full one does, and who is told.

mod bounds;
mod read;
mod says;
mod told;

use duly::EventId;
use duly::records::Numbered;
use duly::store::{Outbox, OutboxPage, Store};
use duly::time::When;

use crate::redis_store::kit::Bare;
use crate::servers::Redis;

impl Bare {
    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::Bucket(self.bucket.clone())
    }

    pub(super) async fn page(&self, after: u64, limit: usize) -> OutboxPage {
        let page = self.store.read_outbox(&self.outbox(), after, limit).await;
        page.expect("a page")
    }

    pub(super) async fn trim(&self, through: u64) {
        let trimmed = self.store.trim_outbox(&self.outbox(), through).await;
        trimmed.expect("a trim");
    }

    /// What is left after a number, read page by page.
    pub(super) async fn rest(&self, mut after: u64, limit: usize) -> Vec<Numbered> {
        let mut records = Vec::new();
        loop {
            let page = self.page(after, limit).await;
            assert!(
                page.records.len() <= limit && page.last >= after,
                "{page:?}"
            );
            records.extend(page.records.iter().cloned());
            if !page.has_more() {
                return records;
            }
            after = page.last;
        }
    }

    /// Handles so many new events, which leaves one entry of so many records.
    pub(super) async fn handle(&self, request: u64, many: usize) -> Vec<EventId> {
        let mut ids = Vec::new();
        for _ in 0..many {
            let id = self.new_id();
            self.push(id, When::Now).await.expect("a push");
            ids.push(id);
        }
        let held = self.fetch(request, many).await.expect("a fetch");
        let settled = self.ack(request, &held).await.expect("a settle");
        assert_eq!((held, settled), (ids.clone(), vec![true; many]));
        ids
    }
}

pub(super) fn numbers(records: &[Numbered]) -> Vec<u64> {
    records.iter().map(|(number, _)| *number).collect()
}

pub(super) fn key(prefix: &str, part: &str) -> String {
    format!("{prefix}:{{letters:0}}:{part}")
}

pub(super) fn entries(server: &Redis, prefix: &str) -> u64 {
    let len = server.cli(&["XLEN", &key(prefix, "outbox")]);
    len.parse().expect("a number")
}
