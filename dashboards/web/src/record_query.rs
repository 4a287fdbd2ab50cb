//! Queries of records by the fields of a form: of all queues, or of one for who sees some only.

use duly::EventId;
use duly::records::{Cause, Cursor, NodeId, Outcome, Page, Record, Records};
use duly::time::Timestamp;

use crate::error::Result;
use crate::text::{self, Fields};

/// The most records that are read at once where they are compared here, and about the most for a page.
const PART_MAX: u32 = 1_000;
const READ_MAX: u32 = 10_000;

/// What is asked of each record, beside its queue, its event and its time.
#[derive(Clone, Debug, Default)]
struct Filter {
    /// Empty: every outcome.
    outcomes: Vec<Outcome>,
    cause: Option<Cause>,
    key: Option<String>,
    error: Option<String>,
    node: Option<NodeId>,
}

impl Filter {
    fn read(fields: &Fields) -> Result<Self> {
        let outcomes = match fields.get("outcome") {
            Some("failed") => vec![Outcome::Retried, Outcome::Buried, Outcome::LeaseLost],
            Some(outcome) => vec![outcome.parse()?],
            None => Vec::new(),
        };
        Ok(Self {
            outcomes,
            cause: fields.get("cause").map(str::parse).transpose()?,
            key: fields.get("key").map(str::to_owned),
            error: fields.get("error").map(str::to_owned),
            node: text::node(fields)?,
        })
    }

    fn has(&self, record: &Record) -> bool {
        let error = record.error.as_deref().unwrap_or_default();
        (self.outcomes.is_empty() || self.outcomes.contains(&record.outcome))
            && self.cause.is_none_or(|it| record.cause == Some(it))
            && (self.key.is_none() || record.key == self.key)
            && self.error.as_ref().is_none_or(|it| error.contains(it))
            && self.node.is_none_or(|it| record.node == it)
    }

    /// Returns the query with these filters.
    fn apply(self, mut records: Records) -> Records {
        for outcome in self.outcomes {
            records = records.outcome(outcome);
        }
        if let Some(cause) = self.cause {
            records = records.cause(cause);
        }
        if let Some(key) = self.key {
            records = records.key(key);
        }
        if let Some(error) = self.error {
            records = records.error_contains(error);
        }
        if let Some(node) = self.node {
            records = records.node(node);
        }
        records
    }
}

/// A query of records, the oldest first unless it is turned.
#[derive(Clone, Debug)]
pub(crate) struct RecordQuery {
    records: Records,
    /// The filters that are compared here: an index by one of these leads to the records of all
    /// queues, and how far it reaches would tell of those of others.
    compared: Option<Filter>,
    is_newest_first: bool,
}

impl RecordQuery {
    /// Reads the filters of a form; `records` are those of all queues, or of one.
    pub(crate) fn of_all(records: Records, fields: &Fields) -> Result<Self> {
        let filter = Filter::read(fields)?;
        Ok(Self {
            records: filter.apply(within(records, fields)?),
            compared: None,
            is_newest_first: false,
        })
    }

    /// Reads the filters of a form; `records` are those of one queue, and what is found tells of no
    /// other one.
    pub(crate) fn of_one(records: Records, fields: &Fields) -> Result<Self> {
        Ok(Self {
            compared: Some(Filter::read(fields)?),
            records: within(records, fields)?,
            is_newest_first: false,
        })
    }

    /// Selects what ended before a time, instead of the one of the form.
    pub(crate) fn until(mut self, until: Timestamp) -> Self {
        self.records = self.records.until(until);
        self
    }

    pub(crate) fn newest_first(mut self) -> Self {
        self.records = self.records.newest_first();
        self.is_newest_first = true;
        self
    }

    /// Returns a page behind a place. It may be short although there is a next one.
    pub(crate) async fn page(
        &self,
        after: Option<Cursor>,
        limit: u32,
    ) -> duly::Result<Page<Record>> {
        let Some(filter) = &self.compared else {
            return self.records.clone().after(after).limit(limit).page().await;
        };
        let (mut items, mut place, mut left) = (Vec::new(), after, limit);
        // Twice as many each time, so that few are read for a page where most match.
        let (mut part, mut read) = (limit, 0);
        while read < READ_MAX {
            let mut page = self.part(place, part).await?;
            let mut matching = (1..).zip(&page.items).filter(|(_, it)| filter.has(it));
            let last = matching.nth(left as usize - 1).map(|(at, _)| at);
            if let Some(last) = last.filter(|last| *last < part) {
                // Up to it, so that the page ends there.
                page = self.part(place, last).await?;
            }
            place = page.next;
            for record in page.items.into_iter().filter(|it| filter.has(it)) {
                items.push(record);
                left = left.saturating_sub(1);
            }
            if place.is_none() || left == 0 {
                break;
            }
            read += part;
            part = (part * 2).min(PART_MAX);
        }
        Ok(Page::new(items, place))
    }

    async fn part(&self, after: Option<Cursor>, limit: u32) -> duly::Result<Page<Record>> {
        let records = self.records.clone().after(after).limit(limit);
        let mut page = records.page().await?;
        page.next = page.next.map(|next| self.nameless(next, &page.items));
        Ok(page)
    }

    /// Returns a cursor that names no event of another queue: at the same time it stands before all.
    fn nameless(&self, cursor: Cursor, items: &[Record]) -> Cursor {
        if items.iter().any(|record| record.id == cursor.id) {
            return cursor;
        }
        let edge = if self.is_newest_first { 0xFF } else { 0 };
        Cursor {
            id: EventId::from_bytes([edge; 16]),
            ..cursor
        }
    }
}

/// Selects the event and the time of a form.
fn within(mut records: Records, fields: &Fields) -> Result<Records> {
    if let Some(id) = fields.get("id") {
        records = records.id(id.parse::<EventId>()?);
    }
    if let Some(since) = text::instant(fields, "since")? {
        records = records.since(since);
    }
    if let Some(until) = text::instant(fields, "until")? {
        records = records.until(until);
    }
    Ok(records)
}
