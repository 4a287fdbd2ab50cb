//! A part of what waits in an outbox, where that is more than is looked at for one page.
//!
//! What is not read would be passed over for good by whoever reads page by page: it comes into the
//! journal at places that the pages have left behind. So a part is read from where the page begins,
//! and the page ends where the part does; the next one goes on from there.

use std::cmp::Reverse;

use crate::error::Result;
use crate::event::EventId;
use crate::record::{Cursor, Numbered, Order, Query};
use crate::store::{Outbox, Store};

/// How many records are read at once of one outbox: they may have payloads.
pub(super) const BATCH: usize = 1_000;

/// By how much a record may have finished before one that is in front of it in the outbox of a
/// whole store, which its buckets write side by side. Within a bucket time does not go back, but where
/// a clock that was ahead is set back: then a page may pass over what has ended before that.
const STORE_SLACK_US: u64 = 1_000_000;

/// The numbers of what waits in an outbox, or of a part of it.
pub(super) struct OutboxSpan {
    pub(super) outbox: Outbox,
    /// That of the last record before it.
    pub(super) after: u64,
    /// That of the next record behind it.
    pub(super) end: u64,
}

impl OutboxSpan {
    pub(super) async fn of(store: &dyn Store, outbox: Outbox) -> Result<Self> {
        let span = store.read_outbox(&outbox, u64::MAX, 0).await?;
        Ok(Self {
            outbox,
            after: span.first.max(1) - 1,
            end: span.next,
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.end.saturating_sub(self.after + 1)
    }
}

/// What was found of what waits.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) found: Vec<Numbered>,
    /// The place up to which this is all there is; `None`: nothing else waits.
    pub(super) edge: Option<Cursor>,
}

impl Waiting {
    /// Both, as far as both are complete.
    pub(super) fn and(mut self, other: Self, order: Order) -> Self {
        self.found.extend(other.found);
        self.edge = nearest(order, self.edge, other.edge);
        self
    }
}

/// The place that comes first.
pub(super) fn nearest(order: Order, one: Option<Cursor>, other: Option<Cursor>) -> Option<Cursor> {
    let both = one.into_iter().chain(other);
    match order {
        Order::Oldest => both.min(),
        Order::Newest => both.max(),
    }
}

pub(super) fn sort(order: Order, records: &mut [Numbered]) {
    match order {
        Order::Oldest => records.sort_unstable_by_key(Cursor::of),
        Order::Newest => records.sort_unstable_by_key(|it| Reverse(Cursor::of(it))),
    }
}

/// Keeps those that come first.
pub(super) fn keep_first(order: Order, records: &mut Vec<Numbered>, most: usize) {
    sort(order, records);
    records.truncate(most);
}

/// Whether a place is no further than another.
pub(super) fn is_within(order: Order, place: Cursor, edge: Cursor) -> bool {
    match order {
        Order::Oldest => place <= edge,
        Order::Newest => place >= edge,
    }
}

/// Reads an outbox from where the page begins, until it has `least` records of those that are asked
/// for, or has looked at `share`, and is past the beginning of the page.
pub(super) async fn part(
    store: &dyn Store,
    query: &Query,
    span: OutboxSpan,
    (least, share): (usize, u64),
) -> Result<Waiting> {
    let slack_us = match span.outbox {
        Outbox::Store => STORE_SLACK_US,
        Outbox::Bucket(_) => 0,
    };
    let mut part = Part {
        store,
        query,
        span,
        slack_us,
    };
    let mut waiting = Waiting::default();
    part.seek().await?;
    let (mut looked_at, step) = (0, share.min(BATCH as u64));
    while part.span.len() > 0 {
        let records = part.next(step).await?;
        looked_at += step;
        let furthest = match query.order {
            Order::Oldest => records.last(),
            Order::Newest => records.first(),
        };
        if let Some(furthest) = furthest {
            waiting.edge = Some(part.edge_at(furthest));
        }
        let asked_for = |it: &Numbered| query.matches(&it.1) && query.is_after(Cursor::of(it));
        waiting.found.extend(records.into_iter().filter(asked_for));
        keep_first(query.order, &mut waiting.found, least);
        let Some(edge) = waiting.edge.filter(|edge| query.is_after(*edge)) else {
            continue;
        };
        if part.ends_before(edge) {
            break;
        }
        let last = waiting.found.get(least.saturating_sub(1)).map(Cursor::of);
        let has_enough = last.is_some_and(|last| is_within(query.order, last, edge));
        if part.span.len() > 0 && (has_enough || looked_at >= share) {
            return Ok(waiting);
        }
    }
    waiting.edge = None;
    Ok(waiting)
}

struct Part<'a> {
    store: &'a dyn Store,
    query: &'a Query,
    /// What is left.
    span: OutboxSpan,
    slack_us: u64,
}

impl Part<'_> {
    /// Leaves out what comes before the page, almost all of it, by halves: time goes up with the
    /// numbers.
    async fn seek(&mut self) -> Result<()> {
        let (mut low, mut high) = (self.span.after, self.span.end.saturating_sub(1));
        while high.saturating_sub(low) > BATCH as u64 {
            let middle = low + (high - low) / 2;
            let page = self.store.read_outbox(&self.span.outbox, middle, 1).await?;
            // One that cannot be read leaves out nothing.
            let found = page.records.first();
            let is_before = found.is_some_and(|it| self.is_before(it));
            match (self.query.order, is_before) {
                (Order::Oldest, true) | (Order::Newest, false) => low = middle + 1,
                (Order::Oldest, false) | (Order::Newest, true) => high = middle,
            }
        }
        match self.query.order {
            Order::Oldest => self.span.after = low,
            Order::Newest => self.span.end = high + 1,
        }
        Ok(())
    }

    /// Reads the next numbers of the span, at most so many.
    async fn next(&mut self, most: u64) -> Result<Vec<Numbered>> {
        let (after, last) = (self.span.after, self.span.end.saturating_sub(1));
        let (mut after, last) = match self.query.order {
            Order::Oldest => (after, last.min(after.saturating_add(most))),
            Order::Newest => (after.max(last.saturating_sub(most)), last),
        };
        match self.query.order {
            Order::Oldest => self.span.after = last,
            Order::Newest => self.span.end = after + 1,
        }
        let mut records = Vec::new();
        while after < last {
            let limit = usize::try_from(last - after).unwrap_or(BATCH);
            let page = self.store.read_outbox(&self.span.outbox, after, limit);
            let page = page.await?;
            // What was before is gone.
            self.span.after = self.span.after.max(page.first.saturating_sub(1));
            if page.newer && self.query.order == Order::Oldest {
                self.span.end = self.span.after + 1; // what follows waits for a newer recorder
            }
            if page.last <= after {
                break;
            }
            after = page.last;
            records.extend(page.records.into_iter().filter(|it| it.0 <= last));
        }
        Ok(records)
    }

    /// Whether a record comes before the page, and so does all that comes before the record.
    fn is_before(&self, it: &Numbered) -> bool {
        let (query, place) = (self.query, self.moved(it, self.slack_us, 0));
        let is_out_of_time = match query.order {
            Order::Oldest => {
                { query.since }.is_some_and(|since| place.finished_us < since.as_micros())
            }
            Order::Newest => {
                { query.until }.is_some_and(|until| place.finished_us >= until.as_micros())
            }
        };
        is_out_of_time || !query.is_after(place)
    }

    /// The place up to which all was read, where this was read last. It names no event: that may be
    /// one that is not asked for.
    fn edge_at(&self, it: &Numbered) -> Cursor {
        let id = match self.query.order {
            Order::Oldest => [u8::MAX; 16],
            Order::Newest => [0; 16],
        };
        Cursor {
            id: EventId::from_bytes(id),
            ..self.moved(it, 0, self.slack_us)
        }
    }

    /// Whether all that is asked for comes before this place.
    fn ends_before(&self, edge: Cursor) -> bool {
        match self.query.order {
            Order::Oldest => {
                { self.query.until }.is_some_and(|it| edge.finished_us >= it.as_micros())
            }
            Order::Newest => {
                { self.query.since }.is_some_and(|it| edge.finished_us < it.as_micros())
            }
        }
    }

    /// The place of a record, moved by so much onwards and back.
    fn moved(&self, it: &Numbered, onwards_us: u64, back_us: u64) -> Cursor {
        let place = Cursor::of(it);
        let (up, down) = match self.query.order {
            Order::Oldest => (onwards_us, back_us),
            Order::Newest => (back_us, onwards_us),
        };
        let finished_us = place.finished_us.saturating_add(up).saturating_sub(down);
        Cursor {
            finished_us,
            ..place
        }
    }
}
