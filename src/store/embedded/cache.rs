//! Envelopes in memory: those on their way to the file, and those that are due soon.
//!
//! Rows are numbered here, in order of arrival, so the cache is a window over row numbers: no
//! hashing, and the oldest are let go first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::event::{Envelope, Payload};
use crate::store::embedded::row::Row;
use crate::time::Timestamp;

/// Events due later than this after their push are read back from the file when they are due.
///
/// Long enough for the usual "a minute later" and for every retry policy's first steps; short
/// enough that a month's worth of reminders does not push them out.
const SOON: Duration = Duration::from_secs(600);

/// What a window slot and an envelope cost beside their payload, in bytes.
const SLOT_BYTES: usize = size_of::<Slot>();
const ENVELOPE_BYTES: usize = size_of::<Envelope>() + 64;

/// A window over the rows; what is before it is on disk or over.
#[derive(Debug)]
pub(super) struct Cache {
    /// The row of the first slot; the row after the last slot is the next to be given.
    first: i64,
    window: VecDeque<Slot>,
    bytes: usize,
    bytes_max: usize,
    /// Payloads of updates on their way; bounded by the pending list.
    updates: HashMap<Row, Payload>,
}

#[derive(Debug, Default)]
struct Slot {
    envelope: Option<Arc<Envelope>>,
    /// Not on disk yet, so it cannot be read back and must not be let go.
    unwritten: bool,
}

/// What the cache knows of a row.
#[derive(Debug)]
pub(super) enum CacheEntry {
    /// All of it.
    Whole(Arc<Envelope>),
    /// The file has it.
    OnDisk,
    /// The file has it, but its payload is this one.
    Updated(Payload),
}

impl Cache {
    pub(super) fn new(first: i64, bytes_max: usize) -> Self {
        Self {
            first,
            window: VecDeque::new(),
            bytes: 0,
            bytes_max,
            updates: HashMap::new(),
        }
    }

    /// Keeps an envelope that is on its way to the file, under the next row number.
    pub(super) fn add(&mut self, envelope: &Arc<Envelope>) -> Row {
        let window = i64::try_from(self.window.len()).unwrap_or(i64::MAX); // it fits in memory
        let row = Row::new(self.first + window, envelope.id);
        self.bytes += SLOT_BYTES + weight(envelope);
        self.window.push_back(Slot {
            envelope: Some(Arc::clone(envelope)),
            unwritten: true,
        });
        self.shrink();
        row
    }

    /// A row is on disk now; it stays here only when it is due soon.
    pub(super) fn written(&mut self, row: Row, due: Timestamp, now: Timestamp) {
        if due > now + SOON {
            self.forget(row);
        } else if let Some(slot) = self.slot(row) {
            slot.unwritten = false;
            self.shrink();
        }
    }

    /// A row has another payload, which is on its way to the file.
    pub(super) fn update(&mut self, row: Row, payload: &Payload) {
        if let Some(slot) = self.slot(row)
            && let Some(envelope) = &mut slot.envelope
        {
            let before = weight(envelope);
            Arc::make_mut(envelope).payload = payload.clone();
            let after = weight(envelope);
            self.bytes = self.bytes + after - before;
        }
        self.updates.insert(row, payload.clone());
    }

    /// The file has this payload of a row; a later one may still be on its way.
    pub(super) fn updated(&mut self, row: Row, payload: &Payload) {
        let same = |known: &Payload| std::ptr::eq(known.as_bytes(), payload.as_bytes());
        if self.updates.get(&row).is_some_and(same) {
            self.updates.remove(&row);
        }
    }

    /// A row is over.
    pub(super) fn forget(&mut self, row: Row) {
        if let Some(slot) = self.slot(row) {
            slot.unwritten = false;
            if let Some(envelope) = slot.envelope.take() {
                self.bytes -= weight(&envelope);
            }
        }
        while self.window.front().is_some_and(Slot::is_free) {
            self.let_go();
        }
    }

    pub(super) fn get(&self, row: Row) -> CacheEntry {
        let slot = self.at(row).and_then(|at| self.window.get(at));
        match slot.and_then(|slot| slot.envelope.as_ref()) {
            Some(envelope) => CacheEntry::Whole(Arc::clone(envelope)),
            None => match self.updates.get(&row) {
                Some(payload) => CacheEntry::Updated(payload.clone()),
                None => CacheEntry::OnDisk,
            },
        }
    }

    fn shrink(&mut self) {
        while self.bytes > self.bytes_max && self.window.front().is_some_and(|slot| !slot.unwritten)
        {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        if let Some(slot) = self.window.pop_front() {
            self.first += 1;
            self.bytes -= SLOT_BYTES + slot.envelope.as_deref().map_or(0, weight);
        }
    }

    fn slot(&mut self, row: Row) -> Option<&mut Slot> {
        let at = self.at(row)?;
        self.window.get_mut(at)
    }

    /// Where in the window a row is; `None` when the window has passed it.
    fn at(&self, row: Row) -> Option<usize> {
        usize::try_from(row.number.checked_sub(self.first)?).ok()
    }
}

impl Slot {
    fn is_free(&self) -> bool {
        self.envelope.is_none() && !self.unwritten
    }
}

fn weight(envelope: &Envelope) -> usize {
    let texts = envelope.key.iter().chain(&envelope.unique).map(String::len);
    let headers = envelope
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len());
    ENVELOPE_BYTES + envelope.payload.len() + texts.chain(headers).sum::<usize>()
}
