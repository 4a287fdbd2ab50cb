//! The history of an event, from its records.

use std::collections::VecDeque;

use futures_util::TryFutureExt;

use crate::bus::fan_out::operator_call;
use crate::event::{EventId, QueueName};
use crate::journal::Journal;
use crate::journal::reading::{self, Unread};
use crate::journal::waiting::WAITING_MAX;
use crate::record::{Cursor, Order, Page, Query, Record};
use crate::store::Store;

/// The most records that are returned: the newest ones.
const TOLD_MAX: usize = 20;
/// The most pages that are read to count the others.
const PAGES_MAX: usize = 16;

/// The history of an event so far.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Attempts {
    /// The last records, at most 20, in the order in which they were written.
    pub records: Vec<Record>,
    /// How many records there are before these.
    pub earlier: u64,
    /// Whether `earlier` is exact; else there are more.
    pub is_all_counted: bool,
    /// Why the journal, the store's outboxes, or both could not be read; the records of the other
    /// one are included.
    pub unread: Option<String>,
}

/// Reads the history from wherever it can be read; with its queue, nothing of any other is asked.
pub(super) async fn read(
    store: &dyn Store,
    journal: Option<&dyn Journal>,
    (queue, id): (Option<&QueueName>, EventId),
) -> Attempts {
    let mut kept = VecDeque::new();
    let (mut counted, mut after) = (0, None);
    let mut unread = None;
    let mut source = RecordSource::Both;
    for _ in 0..PAGES_MAX {
        let query = Query {
            queue: queue.cloned(),
            id: Some(id),
            order: Order::Newest,
            after,
            limit: Some(Query::LIMIT_MAX),
            ..Query::default()
        };
        let page = source.page(store, journal, query, &mut unread).await;
        counted += page.items.len() as u64;
        for record in page.items {
            if kept.len() < TOLD_MAX {
                kept.push_front(record);
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Attempts {
        earlier: counted - kept.len() as u64,
        records: kept.into(),
        is_all_counted: after.is_none(),
        unread,
    }
}

/// The sources that respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordSource {
    Both,
    Outboxes,
    Journal,
    Nothing,
}

impl RecordSource {
    /// Reads a page. A source that fails once is not read again.
    async fn page(
        &mut self,
        store: &dyn Store,
        journal: Option<&dyn Journal>,
        query: Query,
        unread: &mut Option<String>,
    ) -> Page<Record> {
        if *self == Self::Both {
            let page = reading::page(store, journal, query.clone(), WAITING_MAX);
            let error = match operator_call(page.map_err(Unread::cause)).await {
                Ok(page) => return page,
                Err(error) => error,
            };
            *self = Self::Outboxes;
            *unread = Some(match journal {
                Some(_) => format!("the journal did not respond ({error}); this is from the store"),
                None => format!("the store did not respond ({error})"),
            });
        }
        if *self == Self::Outboxes && journal.is_some() {
            let page = reading::page(store, None, query.clone(), WAITING_MAX);
            match operator_call(page.map_err(Unread::cause)).await {
                Ok(page) => return page,
                Err(error) => {
                    *self = Self::Journal;
                    *unread = Some(format!(
                        "the store did not respond ({error}); this is from the journal"
                    ));
                }
            }
        }
        if let (Self::Journal, Some(journal)) = (*self, journal) {
            match operator_call(journal.page(query)).await {
                Ok(found) => return of_journal(found.records, found.next),
                Err(error) => {
                    *unread = Some(format!("neither store nor journal responded ({error})"));
                }
            }
        }
        *self = Self::Nothing;
        of_journal(Vec::new(), None)
    }
}

fn of_journal(records: Vec<(u64, Record)>, next: Option<Cursor>) -> Page<Record> {
    let items = records.into_iter().map(|(_, record)| record).collect();
    Page::new(items, next)
}
