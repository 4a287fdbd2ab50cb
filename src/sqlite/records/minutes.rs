//! Reading counts and lateness by queue and minute.

use std::collections::BTreeMap;

use crate::event::QueueName;
use crate::record::{MinuteQuery, MinuteStats};
use crate::sqlite::records::paging::Reader;
use crate::sqlite::records::queue_names::{Names, name_of, number_of};
use crate::sqlite::records::rows::comparable;
use crate::sqlite::records::words;
use crate::time::Timestamp;

impl Reader {
    /// Some minutes, in the order of minutes and then of queues.
    pub(crate) fn minutes(&mut self, query: &MinuteQuery) -> rusqlite::Result<Vec<MinuteStats>> {
        let connection = &*self.connection.unchecked_transaction()?;
        let mut names = Names::new();
        let queue = match &query.queue {
            Some(name) => match number_of(connection, name)? {
                Some(number) => Some(number),
                None => return Ok(Vec::new()),
            },
            None => None,
        };
        // The first whole minute that does not begin before.
        let minute = |at: Timestamp| comparable(at.as_millis().div_ceil(60_000));
        let since = query.since.map_or(0, minute);
        let after = query.after.as_ref().map_or(0, |(at, _)| minute(*at));
        let until = query.until.map_or(i64::MAX, minute);
        let (index, term) = match queue {
            Some(_) => ("minutes_by_queue", "queue = ?3"),
            None => ("sqlite_autoindex_minutes_1", "?3 IS NULL"),
        };
        let mut counts = connection.prepare_cached(&format!(
            "SELECT minute, queue, outcome, count FROM minutes INDEXED BY {index} \
             WHERE {term} AND minute >= ?1 AND minute < ?2 ORDER BY minute"
        ))?;
        let mut rows = counts.query((since.max(after), until, queue))?;
        let mut found: BTreeMap<(i64, QueueName), (i64, MinuteStats)> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (at, queue): (i64, i64) = (row.get(0)?, row.get(1)?);
            let is_new_minute = found
                .last_key_value()
                .is_none_or(|((last, _), _)| at > *last);
            if is_new_minute && found.len() >= query.page_len() {
                break;
            }
            let start = Timestamp::from_millis(at.cast_unsigned().saturating_mul(60_000));
            let (Some(name), Some(outcome)) = (
                name_of(connection, &mut names, queue)?,
                words::outcome(row.get(2)?),
            ) else {
                continue;
            };
            if query.matches(start, &name) {
                let fresh = || (queue, MinuteStats::new(start, name.clone()));
                let (_, minute) = found.entry((at, name.clone())).or_insert_with(fresh);
                minute
                    .outcomes
                    .insert(outcome, row.get::<_, i64>(3)?.unsigned_abs());
                // The queues of a minute come in another order than their names.
                if found.len() > query.page_len() {
                    found.pop_last();
                }
            }
        }
        let mut slots = connection
            .prepare_cached("SELECT slot, count FROM lateness WHERE minute = ?1 AND queue = ?2")?;
        let page = found.into_iter();
        page.map(|((at, _), (queue, mut minute))| {
            let mut rows = slots.query([at, queue])?;
            while let Some(row) = rows.next()? {
                let many: i64 = row.get(1)?;
                minute.lateness.add(row.get(0)?, many.unsigned_abs());
            }
            Ok(minute)
        })
        .collect()
    }
}
