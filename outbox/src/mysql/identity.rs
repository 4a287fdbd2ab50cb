//! The identity of a database: rows of a copy, and those of a backup that was restored, may have been
//! pushed since. It is the time at which a table was made that a restore makes anew, and that nobody
//! changes: to change or to optimize one makes it anew, too. Servers of a cluster that all write have an
//! identity each, in the same table, and may have the same name.

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
        self.session.must_write().await?;
        let server = "show global variables where variable_name in ('server_uuid', 'server_uid')";
        let server = self.session.run(server.to_owned()).await?;
        let server = server.first().and_then(|row| row.get(1)).cloned().flatten();
        self.server = server.unwrap_or_default();
        let found = self.session.run(select(&self.server)).await?;
        let identity = Identity::read(found.into_iter().next())?;
        if identity.is_same() {
            return Ok(());
        }
        if identity.is_of_another() {
            tracing::warn!(
                ?identity,
                "the outbox is that of another database or of an earlier time of it; every row of \
                 it may have been pushed already"
            );
            for table in ["duly_outbox", "duly_outbox_deferred"] {
                self.mark_repeated(table).await?;
            }
        }
        let (key, is) = (text(&identity.key), text(&identity.is));
        let sql = format!(
            "insert into duly_outbox_server values ({key}, {is}) \
             on duplicate key update identity = {is}"
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
        if Identity::read(rows.pop())?.is_same() {
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

/// What identifies the database.
#[derive(Debug)]
struct Identity {
    /// The server with that time.
    key: String,
    is: String,
    /// What it was when a relay saw it under this key; empty if none has.
    was: String,
    /// Whether a relay has seen it under another key.
    has_others: bool,
}

impl Identity {
    /// Reads the row of [`select`].
    fn read(row: Option<TextRow>) -> Result<Self> {
        let texts: Option<Vec<String>> = row.and_then(|row| row.into_iter().collect());
        let texts = texts.and_then(|texts| <[String; 4]>::try_from(texts).ok());
        let [key, is, was, others] = texts.ok_or_else(|| unreadable("identity"))?;
        let has_others = others == "1";
        Ok(Self {
            key,
            is,
            was,
            has_others,
        })
    }

    fn is_same(&self) -> bool {
        self.is == self.was
    }

    /// Returns whether its rows are those of another database, or of an earlier time of this one.
    fn is_of_another(&self) -> bool {
        !self.is_same() && (!self.was.is_empty() || self.has_others)
    }
}

/// Returns the statement that reads the identity of the database on a server.
fn select(server: &str) -> String {
    let key = format!("concat_ws('/', {}, create_time)", text(server));
    format!(
        "select {key}, concat_ws('/', table_schema, create_time), \
         coalesce((select identity from duly_outbox_server where server = {key}), ''), \
         exists (select * from duly_outbox_server where server <> {key}) \
         from information_schema.tables \
         where table_schema = database() and table_name = 'duly_outbox_server'"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names of servers, and when the table was made on each.
    type Server = (&'static str, &'static str);

    /// What servers share.
    #[derive(Clone, Default)]
    struct Cluster(BTreeSet<Server>);

    impl Cluster {
        /// Takes rows at a server; returns whether all were marked.
        fn take(&mut self, server: Server) -> bool {
            let is = server.1;
            let others = self.0.iter().any(|it| *it != server);
            let was = if self.0.insert(server) { "" } else { is };
            let texts = [server.0, is, was, if others { "1" } else { "0" }];
            let row = texts.map(|text| Some(text.to_owned())).to_vec();
            Identity::read(Some(row)).unwrap().is_of_another()
        }
    }

    #[test]
    fn servers_that_take_turns_mark_nothing() {
        for names in [["a", "b"], ["a", "a"], ["", ""]] {
            let [a, b] = [(names[0], "shop/1"), (names[1], "shop/2")];
            let mut cluster = Cluster::default();
            assert!(!cluster.take(a), "nobody has pushed anything");
            assert!(cluster.take(b), "it may be a copy");
            for _ in 0..9 {
                assert!(!cluster.take(a) && !cluster.take(b));
            }
        }
    }

    #[test]
    fn a_copy_and_a_restored_backup_are_noticed() {
        let mut first = Cluster::default();
        first.take(("a", "shop/1"));
        for server in [("b", "shop/2"), ("a", "shop/3"), ("b", "shop/1")] {
            let mut copy = first.clone();
            assert!(copy.take(server) && !copy.take(server));
        }
    }
}
