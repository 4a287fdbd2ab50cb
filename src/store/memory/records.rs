//! The outbox of a memory store: its newest records.

use std::collections::VecDeque;

use crate::error::Result;
use crate::record::{Cursor, Numbered, Record};
use crate::store::outbox::{self, OUTBOX_BATCH_MAX, OutboxLimit, OutboxPage, WhenFull};

/// The newest records, numbered from 1 in the order of writing.
#[derive(Debug)]
pub(super) struct Records {
    kept: VecDeque<Record>,
    /// The number of the oldest record kept.
    first: u64,
    /// That of the last one that was trimmed.
    trimmed: u64,
    max: usize,
    /// The limit when no outbox limit is set.
    max_anyway: usize,
    when_full: WhenFull,
}

impl Records {
    pub(super) fn new(max: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            first: 1,
            trimmed: 0,
            max,
            max_anyway: max,
            when_full: WhenFull::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Limits how many are kept.
    pub(super) fn limit(&mut self, limit: OutboxLimit) {
        self.when_full = limit.when_full;
        self.max = match limit.max {
            Some(max) => usize::try_from(max).unwrap_or(usize::MAX),
            None => self.max_anyway,
        };
    }

    /// Refuses a push when the outbox is full.
    pub(super) fn check_room(&self) -> Result<()> {
        let waiting = self.kept.len();
        if self.when_full == WhenFull::RefusePushes && waiting >= self.max {
            return Err(outbox::full(waiting as u64));
        }
        Ok(())
    }

    pub(super) fn append(&mut self, records: Vec<Record>) {
        self.kept.extend(records);
        if self.when_full == WhenFull::DropOldest {
            self.let_go(self.kept.len().saturating_sub(self.max));
        }
    }

    pub(super) fn trim(&mut self, through: u64) {
        let many = through.saturating_add(1).saturating_sub(self.first);
        let many = usize::try_from(many).unwrap_or(usize::MAX);
        self.let_go(many.min(self.kept.len()));
        self.trimmed = self.trimmed.max(through.min(self.first - 1));
    }

    fn let_go(&mut self, many: usize) {
        self.kept.drain(..many);
        self.first += many as u64;
    }

    pub(super) fn erase(&mut self, places: &[Cursor]) {
        for place in places {
            let at = place.number.checked_sub(self.first).map(usize::try_from);
            if let Some(Ok(at)) = at
                && let Some(record) = self.kept.get_mut(at).filter(|it| it.id == place.id)
            {
                record.erase();
            }
        }
    }

    pub(super) fn page(&self, after: u64, limit: usize) -> OutboxPage {
        let from = after.saturating_add(1).saturating_sub(self.first);
        let from = usize::try_from(from)
            .unwrap_or(usize::MAX)
            .min(self.kept.len());
        let records = (self.first + from as u64..).zip(self.kept.range(from..));
        let records = records.take(limit.min(OUTBOX_BATCH_MAX));
        let records: Vec<Numbered> = records
            .map(|(number, record)| (number, record.clone()))
            .collect();
        OutboxPage {
            last: records.last().map_or(after, |(number, _)| *number),
            records,
            damaged: 0,
            newer: false,
            first: self.first,
            next: self.first + self.kept.len() as u64,
            trimmed: self.trimmed,
        }
    }
}
