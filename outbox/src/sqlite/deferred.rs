//! Deferred rows in SQLite.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::relay::source::{CLAIM, DeferredRow, GROUPS_MAX, PAGE_BYTES, Settling};
use crate::sqlite::driver::NOW;

/// Lists the groups behind a name: each is one step through the index.
pub(crate) fn groups(connection: &Connection, behind: String) -> rusqlite::Result<Vec<String>> {
    let sql = "select bucket from duly_outbox_deferred where bucket > ?1 order by bucket limit 1";
    let mut statement = connection.prepare_cached(sql)?;
    let (mut names, mut last) = (Vec::new(), behind);
    while names.len() < GROUPS_MAX {
        let name = statement.query_row([&last], |row| row.get(0)).optional()?;
        let Some(name) = name else {
            break;
        };
        last.clone_from(&name);
        names.push(name);
    }
    Ok(names)
}

/// Claims rows of a group for the relay `own`, up to the first that another one has, and reads them.
pub(crate) fn take(
    connection: &mut Connection,
    own: &str,
    group: &str,
    (behind, limit): (i64, usize),
) -> rusqlite::Result<Vec<DeferredRow>> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut rows = Vec::new();
    {
        let sql = format!(
            "select key, repeated, anew, event, \
             holder in ('', ?2) or until <= {NOW} or until > {NOW} + 60000 \
             from duly_outbox_deferred where bucket = ?1 and key > ?3 order by key limit ?4"
        );
        let mut statement = tx.prepare_cached(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut found = statement.query(params![group, own, behind, limit])?;
        let mut bytes = 0;
        while let Some(row) = found.next()? {
            if !row.get::<_, bool>(4)? {
                break;
            }
            let row = DeferredRow {
                key: row.get(0)?,
                is_repeated: row.get(1)?,
                is_anew: row.get(2)?,
                event: row.get(3)?,
            };
            bytes += row.event.len();
            rows.push(row);
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        let sql = format!(
            "update duly_outbox_deferred set repeated = 1, holder = ?1, until = {NOW} + {} \
             where key = ?2",
            CLAIM.as_millis()
        );
        let mut statement = tx.prepare_cached(&sql)?;
        for row in &rows {
            statement.execute(params![own, row.key])?;
        }
    }
    tx.commit()?;
    Ok(rows)
}

/// Settles rows which the relay `own` has claimed.
pub(crate) fn settle(
    connection: &mut Connection,
    own: &str,
    settling: &Settling,
) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for row in &settling.refused {
        // A new number of the outbox, since one of its rows may have had the key of this one.
        tx.execute("insert into duly_outbox (event) values (x'')", [])?;
        let n = tx.last_insert_rowid();
        tx.execute("delete from duly_outbox where n = ?1", [n])?;
        tx.execute(
            "insert into duly_outbox_refused (n, at, reason, repeated, event) \
             select ?4, at, ?2, ?3 or holder <> ?5, event from duly_outbox_deferred where key = ?1",
            params![row.row, row.reason, row.is_repeated, n, own],
        )?;
    }
    for (key, event) in &settling.instead {
        tx.execute(
            "insert into duly_outbox (at, event) \
             select at, ?2 from duly_outbox_deferred where key = ?1",
            params![key, event],
        )?;
    }
    {
        let mut delete = tx.prepare_cached("delete from duly_outbox_deferred where key = ?1")?;
        let refused = settling.refused.iter().map(|it| &it.row);
        let instead = settling.instead.iter().map(|(key, _)| key);
        for key in settling.gone.iter().chain(refused).chain(instead) {
            delete.execute([key])?;
        }
        let mut update = tx.prepare_cached(
            "update duly_outbox_deferred set repeated = ?2, holder = '', \
             tries = min(tries, 1000000) + 1 where key = ?1 and holder = ?3",
        )?;
        for (keys, repeated) in [(&settling.maybe, true), (&settling.never, false)] {
            for key in keys {
                update.execute(params![key, repeated, own])?;
            }
        }
    }
    tx.commit()
}
