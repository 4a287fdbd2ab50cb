//! The identity of a database: rows of a copy, and those of a backup that was restored, may have been
//! pushed since.

use duly::Result;

use crate::mysql::rows;
use crate::mysql::source::MysqlSource;
use crate::mysql::sql::{Statement, by_keys, text};
use crate::session::{TextRow, unreadable};

/// As many rows are marked at once.
const MARKED_MAX: usize = 500;

impl MysqlSource {
    /// Looks whether this is the database of before. In a copy, and in one that was restored from a
    /// backup, each row may have been pushed since.
    pub(super) async fn identify(&mut self) -> Result<()> {
        let server = "show global variables where variable_name in ('server_uuid', 'server_uid')";
        let server = self.session.run(server.to_owned()).await?;
        let server = server.first().and_then(|row| row.get(1)).cloned().flatten();
        self.server = server.unwrap_or_default();
        let found = self.session.run(select(&self.server)).await?;
        let [is, was] = read(found.into_iter().next())?;
        if is == was {
            return Ok(());
        }
        if !was.is_empty() {
            tracing::warn!(
                was,
                is,
                "the outbox is that of another database or of an earlier time of it; every row of \
                 it may have been pushed already"
            );
            for table in ["duly_outbox", "duly_outbox_deferred"] {
                self.mark_repeated(table).await?;
            }
        }
        let is = text(&is);
        let sql = format!(
            "insert into duly_outbox_identity values (1, {is}) on duplicate key update identity = {is}"
        );
        self.session.run(sql).await.map(drop)
    }

    /// Runs the statements that claim rows, and returns the rows; `None` if a backup was restored under
    /// this connection, so that what the rows said of earlier pushes was wrong.
    pub(super) async fn taken(
        &mut self,
        mut statements: Vec<Statement>,
    ) -> Result<Option<Vec<TextRow>>> {
        statements.push(select(&self.server).into());
        let mut rows = self.transaction(statements).await?;
        let [is, was] = read(rows.pop())?;
        if is == was {
            return Ok(Some(rows));
        }
        self.identify().await?;
        Ok(None)
    }

    /// Notes of all committed rows of a table that they may have been pushed.
    async fn mark_repeated(&mut self, table: &str) -> Result<()> {
        let mut last = 0;
        loop {
            let sql = format!(
                "select n, 0 from {table} force index (primary) where n > {last} \
                 order by n limit {MARKED_MAX}"
            );
            let keys = rows::read_keys(&self.session.run(sql).await?)?;
            let Some(greatest) = keys.last() else {
                return Ok(());
            };
            last = *greatest;
            let update = format!(
                "update {} set o.repeated = greatest(o.repeated, 2), o.holder = ''",
                by_keys(table, &keys)
            );
            self.session.transaction(vec![update.into()]).await?;
        }
    }
}

/// Returns the statement that reads what identifies the database on this server, and what has before.
fn select(server: &str) -> String {
    format!(
        "select concat_ws('/', {}, table_schema, create_time), \
         coalesce((select identity from duly_outbox_identity), '') \
         from information_schema.tables \
         where table_schema = database() and table_name = 'duly_outbox'",
        text(server)
    )
}

/// Reads the row of [`select`].
fn read(row: Option<TextRow>) -> Result<[String; 2]> {
    let texts: Option<Vec<String>> = row.and_then(|row| row.into_iter().collect());
    let texts = texts.and_then(|texts| <[String; 2]>::try_from(texts).ok());
    texts.ok_or_else(|| unreadable("identity"))
}
