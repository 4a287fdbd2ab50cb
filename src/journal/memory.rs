//! The journal in memory: what every other journal has to answer, in plain maps.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::ready;

use parking_lot::{Mutex, MutexGuard};

use crate::event::QueueName;
use crate::journal::contract::{Batch, Journal, JournalFuture};
use crate::record::retention::{self, Pace, Times};
use crate::record::{Cursor, MinuteQuery, MinuteStats, Numbered, Order, Query, Record};
use crate::record::{FoundRecords, Keep, Pruned};
use crate::time::Timestamp;

/// How many records one step of pruning removes.
const PRUNED_MAX: usize = 1_000;

/// A journal that lives as long as the process: for tests, and to compare other journals with.
///
/// # Examples
///
/// ```
/// use duly::journal::{Journal, MemoryJournal};
/// use duly::records::Query;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let journal = MemoryJournal::new();
/// assert_eq!(journal.page(Query::default()).await?.records, []);
/// # Ok::<(), duly::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct MemoryJournal(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    records: BTreeMap<Cursor, Record>,
    minutes: BTreeMap<(Timestamp, QueueName), MinuteStats>,
    /// Of records, and of minutes.
    paces: [Option<Pace>; 2],
}

impl MemoryJournal {
    /// An empty journal.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> MutexGuard<'_, Contents> {
        self.0.lock()
    }
}

impl Journal for MemoryJournal {
    fn load(&self, batches: Vec<Batch>) -> JournalFuture<()> {
        let mut kept = self.kept();
        let Contents {
            records, minutes, ..
        } = &mut *kept;
        for numbered in batches.into_iter().flat_map(|batch| batch.records) {
            let place = Cursor::of(&numbered);
            if records.contains_key(&place) {
                continue;
            }
            let (_, record) = numbered;
            let key = (MinuteStats::of(&record), record.queue.clone());
            let minute = || MinuteStats::new(key.0, key.1.clone());
            minutes
                .entry(key.clone())
                .or_insert_with(minute)
                .add(&record);
            records.insert(place, record);
        }
        Box::pin(ready(Ok(())))
    }

    fn page(&self, query: Query) -> JournalFuture<FoundRecords> {
        let kept = self.kept();
        let matching = kept
            .records
            .iter()
            .filter(|(place, record)| query.matches(record) && query.is_after(**place))
            .map(|(place, record)| (place.number, record.clone()));
        let mut records: Vec<Numbered> = match query.order {
            Order::Oldest => matching.take(query.page_len() + 1).collect(),
            Order::Newest => matching.rev().take(query.page_len() + 1).collect(),
        };
        let is_cut = records.len() > query.page_len();
        records.truncate(query.page_len());
        let next = records.last().map(Cursor::of).filter(|_| is_cut);
        Box::pin(ready(Ok(FoundRecords {
            records,
            next,
            skipped: 0,
        })))
    }

    fn minutes(&self, query: MinuteQuery) -> JournalFuture<Vec<MinuteStats>> {
        let kept = self.kept();
        let matching = kept
            .minutes
            .iter()
            .filter(|((start, queue), _)| query.matches(*start, queue));
        let minutes = matching.take(query.page_len());
        Box::pin(ready(Ok(minutes
            .map(|(_, minute)| minute.clone())
            .collect())))
    }

    fn prune(&self, keep: Keep, now: Timestamp) -> JournalFuture<Pruned> {
        let mut kept = self.kept();
        let Contents {
            records,
            minutes,
            paces: [pace_of_records, pace_of_minutes],
        } = &mut *kept;
        let newest_record = records.last_key_value().map(|(last, _)| last.finished_us);
        let newest_minute = minutes
            .last_key_value()
            .map(|((start, _), _)| retention::end_of(*start));
        let times = |newest| Times {
            store: now.as_micros(),
            clock: now.as_micros(), // it has none of its own
            newest,
        };
        let mut is_held_back = false;
        let mut before = |age, newest, oldest: Option<u64>, pace: &mut Option<Pace>| {
            let oldest = || Ok::<_, Infallible>(oldest);
            let Ok(allowed) = retention::allowed(age, keep.at_once, times(newest), *pace, oldest);
            is_held_back |= allowed.is_held_back;
            *pace = Some(allowed.pace);
            allowed.before
        };
        if let Some(age) = keep.minutes {
            let oldest = minutes.first_key_value().map(|((start, _), _)| *start);
            let oldest = oldest.map(Timestamp::as_micros);
            let newest = newest_record.max(newest_minute);
            let before = before(age, newest, oldest, pace_of_minutes);
            minutes.retain(|(start, _), _| start.as_micros() >= before);
        }
        let first = records
            .first_key_value()
            .map(|(first, _)| first.finished_us);
        let oldest = keep
            .age
            .map_or(0, |age| before(age, newest_record, first, pace_of_records));
        let most = keep.count.map_or(usize::MAX, |count| {
            usize::try_from(count).unwrap_or(usize::MAX)
        });
        let is_too_much = |records: &BTreeMap<Cursor, Record>| {
            let first = records.first_key_value();
            records.len() > most || first.is_some_and(|(first, _)| first.finished_us < oldest)
        };
        let mut removed = 0;
        while removed < PRUNED_MAX && is_too_much(records) {
            records.pop_first();
            removed += 1;
        }
        let pruned = Pruned {
            records: removed as u64,
            more: is_too_much(records),
            is_held_back,
        };
        Box::pin(ready(Ok(pruned)))
    }

    fn erase(&self, places: Vec<Cursor>) -> JournalFuture<()> {
        let mut kept = self.kept();
        for place in places {
            if let Some(record) = kept.records.get_mut(&place) {
                record.erase();
            }
        }
        Box::pin(ready(Ok(())))
    }

    fn close(&self) -> JournalFuture<()> {
        Box::pin(ready(Ok(())))
    }
}
