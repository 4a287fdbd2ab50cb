//! Lists of events in the order of their due times, which a bounded scan finds.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write;
use std::str::FromStr;
use std::sync::Arc;

use crate::bus::events::cursor::{self, number};
use crate::bus::events::{Events, StoredEvent};
use crate::bus::scan::{EventCursor, PAGE, Scan, ScanPage};
use crate::core::op::{BATCH_MAX, PeekBy};
use crate::error::{Error, Result, shown};
use crate::event::{EventId, QueueName};
use crate::time::Timestamp;

/// The default size of a list.
const LIST: usize = 100;
/// The most events that one call scans, and the most calls of the store that it makes for them.
const SCANNED_MAX: usize = 10_000;
const CALLS_MAX: usize = 1_000;

/// A part of the events that match, the first due first.
#[derive(Debug)]
#[non_exhaustive]
pub struct EventList {
    /// The events, without their payloads.
    pub items: Vec<StoredEvent>,
    /// How many events this call scanned, whether they match or not.
    pub scanned: usize,
    /// Whether the scan ended before the last event. Then there may be others that match, also due
    /// earlier than these, and `next` leads to them.
    pub is_partial: bool,
    /// Where the list goes on; `None`: this is the last part.
    pub next: Option<EventListCursor>,
}

/// A place in a list of events, as a text for links and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventListCursor {
    /// Where the scan begins; `None`: at the first event.
    start: Option<EventCursor>,
    /// The last event of this scan that was returned.
    beyond: Option<Place>,
}

/// A place in a list: events are due at the same time, and an id may occur in two queues.
type Place = (Timestamp, EventId, QueueName);

/// The earliest of the events that a scan has found.
struct Earliest {
    limit: usize,
    beyond: Option<Place>,
    found: BTreeMap<Place, StoredEvent>,
    /// Whether there are more than the limit.
    has_more: bool,
}

impl Earliest {
    fn offer(&mut self, mut event: StoredEvent) {
        let place = (event.due, event.id, event.queue.clone());
        if self.beyond.as_ref().is_some_and(|last| place <= *last) {
            return;
        }
        let is_full = self.found.len() == self.limit;
        if is_full
            && self
                .found
                .last_key_value()
                .is_some_and(|(last, _)| place > *last)
        {
            self.has_more = true;
            return;
        }
        // A thousand events of a megabyte each would be a gigabyte.
        event.payload = None;
        self.found.insert(place, event);
        if self.found.len() > self.limit {
            self.found.pop_last();
            self.has_more = true;
        }
    }
}

impl Events {
    /// Lists the events that match in the order of their due times, at most
    /// [`limit`](Self::limit) of them and without payloads, from a place of an earlier list on.
    ///
    /// One call scans at most 10,000 events, so a list of more than that is in order within each
    /// scan: [`is_partial`](EventList::is_partial) shows that the scan ended early, and
    /// [`next`](EventList::next) goes on behind it.
    ///
    /// # Errors
    ///
    /// As [`page`](Self::page).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<String>("mail")?;
    /// for hours in [3, 1, 2] {
    ///     let after = Duration::from_secs(hours * 3_600);
    ///     queue.event(format!("hour {hours}")).after(after).key("customer:8").push().await?;
    /// }
    ///
    /// let list = bus.events().key("customer:8").limit(2).list(None).await?;
    /// assert!(list.items[0].due < list.items[1].due);
    /// let rest = bus.events().key("customer:8").limit(2).list(list.next).await?;
    /// assert_eq!((rest.items.len(), rest.next), (1, None));
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn list(self, after: impl Into<Option<EventListCursor>>) -> Result<EventList> {
        self.check()?;
        let limit = self.limit.unwrap_or(LIST).clamp(1, BATCH_MAX);
        let (start, beyond) = match after.into() {
            Some(cursor) => (cursor.start, cursor.beyond),
            None => (self.after.clone(), None),
        };
        let mut earliest = Earliest {
            limit,
            beyond,
            found: BTreeMap::new(),
            has_more: false,
        };
        let (scanned, rest) = match self.by {
            PeekBy::All => self.scan_all(start.clone(), &mut earliest).await?,
            _ => self.scan_by_key(start.clone(), &mut earliest).await?,
        };
        let is_partial = rest.is_some();
        let last = earliest
            .found
            .last_key_value()
            .map(|(place, _)| place.clone());
        let next = match (earliest.has_more, rest) {
            (true, _) => Some(EventListCursor {
                start,
                beyond: last,
            }),
            (false, Some(rest)) => Some(EventListCursor {
                start: Some(rest),
                beyond: None,
            }),
            (false, None) => None,
        };
        Ok(EventList {
            items: earliest.found.into_values().collect(),
            scanned,
            is_partial,
            next,
        })
    }

    /// Scans the queues; returns how many events, and where the scan goes on.
    async fn scan_all(
        &self,
        start: Option<EventCursor>,
        earliest: &mut Earliest,
    ) -> Result<(usize, Option<EventCursor>)> {
        let selected = |queue: &_| self.selects(queue);
        let mut scan = Scan::unfinished(&self.inner, selected, start).await?;
        let (mut scanned, mut calls) = (0, 0);
        while scanned < SCANNED_MAX && calls < CALLS_MAX {
            let Some(ScanPage { bucket, events }) = scan.next(PAGE).await? else {
                break;
            };
            calls += 1;
            scanned += events.len();
            let found = events.into_iter().filter(|event| self.matches(event));
            found.for_each(|event| {
                let inner = Arc::clone(&self.inner);
                earliest.offer(StoredEvent::new(inner, bucket.clone(), &event));
            });
        }
        Ok((scanned, scan.cursor()))
    }

    async fn scan_by_key(
        &self,
        start: Option<EventCursor>,
        earliest: &mut Earliest,
    ) -> Result<(usize, Option<EventCursor>)> {
        let (mut scanned, mut place) = (0, start);
        loop {
            let query = self.clone().after(place);
            let (page, read) = query.page_by_key(BATCH_MAX).await?;
            scanned += read;
            page.items
                .into_iter()
                .for_each(|event| earliest.offer(event));
            place = page.next;
            if place.is_none() || scanned >= SCANNED_MAX {
                return Ok((scanned, place));
            }
        }
    }
}

/// Formats as `queue/bucket/position~due/id/queue`, the position in hexadecimal digits; what is
/// unset is left out.
impl fmt::Display for EventListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(start) = &self.start {
            start.fmt(f)?;
        }
        f.write_char('~')?;
        match &self.beyond {
            Some((due, id, queue)) => write!(f, "{}/{id}/{queue}", due.as_millis()),
            None => Ok(()),
        }
    }
}

impl FromStr for EventListCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (start, beyond) = text.split_once('~')?;
            Some(Self {
                start: optional(start, cursor::read)?,
                beyond: optional(beyond, place_of)?,
            })
        };
        read().ok_or_else(|| {
            Error::invalid(format!(
                "`{}` is not a cursor of a list of events; use `next` of the list before",
                shown(text)
            ))
        })
    }
}

/// Reads what may be left out.
fn optional<T>(text: &str, read: fn(&str) -> Option<T>) -> Option<Option<T>> {
    match text {
        "" => Some(None),
        _ => read(text).map(Some),
    }
}

fn place_of(text: &str) -> Option<Place> {
    let (due, place) = text.split_once('/')?;
    let (id, queue) = place.split_once('/')?;
    let due = Timestamp::from_millis(number(due)?);
    Some((due, id.parse().ok()?, queue.parse().ok()?))
}
