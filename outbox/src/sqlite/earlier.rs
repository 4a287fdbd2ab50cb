//! Tables of an earlier form.

use rusqlite::{Connection, TransactionBehavior};

/// Adds what tables of an earlier form lack: SQL of SQLite cannot add a column only if there is none.
pub(crate) fn add_columns(connection: &mut Connection) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (table, column, of) in [
        (
            "duly_outbox_refused",
            "repeated",
            "integer not null default 1",
        ),
        ("duly_outbox", "anew", "integer not null default 0"),
        (
            "duly_outbox_deferred",
            "order_key",
            "text not null default ''",
        ),
    ] {
        let sql = "select count(*) > 0 and sum(name = ?2) = 0 from pragma_table_info(?1)";
        let lacks: bool = tx.query_row(sql, [table, column], |row| row.get(0))?;
        if lacks {
            tx.execute(&format!("alter table {table} add column {column} {of}"), [])?;
        }
    }
    tx.commit()
}
