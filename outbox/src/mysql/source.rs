//! The outbox in MySQL or MariaDB as the source of a relay.

use std::time::Duration;

use duly::Result;
use duly::time::Timestamp;
use futures_util::future::BoxFuture;
use sqlx::mysql::MySqlConnectOptions;
use tokio::time::Instant;

use crate::mysql::read_start::ReadStart;
use crate::mysql::session::{MysqlSession, READ_ONLY};
use crate::mysql::sql::{NOW, Statement, done_by_events};
use crate::mysql::{deferred, rows};
use crate::relay::ends::EndsStart;
use crate::relay::source::{
    Closing, DeferredRow, Ends, LIMIT, Settling, Source, StoredLimit, TakeReply, Waiting,
};
use crate::schema::{self, Database};
use crate::session::{ListLimit, TextRow, read_ends, unreadable};

/// As many rows are counted.
const COUNTED_MAX: u32 = 100_000;
/// The most ends that one statement deletes, and the most statements of one sweep.
const DONE_MAX: u32 = 1_000;
const DONE_ROUNDS: u32 = 10;
/// An outbox in a database.
pub(crate) struct MysqlSource {
    pub(super) session: MysqlSession,
    /// What identifies the server.
    pub(super) server: String,
    /// The name of this relay.
    own: String,
    /// The keys of the page that is being pushed.
    taken: Option<Vec<i64>>,
    start: ReadStart,
    ends_start: EndsStart,
    list_limit: ListLimit,
    deferred_limit: ListLimit,
}

impl MysqlSource {
    pub(crate) fn new(options: MySqlConnectOptions) -> Self {
        Self {
            start: ReadStart::new(options.clone(), Instant::now()),
            ends_start: EndsStart::new(),
            session: MysqlSession::new(options),
            server: String::new(),
            own: format!("{:016x}", fastrand::u64(..)),
            taken: None,
            list_limit: ListLimit::new(),
            deferred_limit: ListLimit::new(),
        }
    }

    /// Opens a connection if there is none, to the database of before or to a copy of it.
    async fn open(&mut self) -> Result<()> {
        if self.session.open().await?
            && let Err(error) = self.identify().await
        {
            self.session.close();
            return Err(error);
        }
        Ok(())
    }

    async fn run(&mut self, sql: String) -> Result<Vec<TextRow>> {
        self.open().await?;
        self.session.run(sql).await
    }

    pub(super) async fn transaction(&mut self, statements: Vec<Statement>) -> Result<Vec<TextRow>> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        self.open().await?;
        self.session.transaction(statements).await
    }

    async fn take_rows(&mut self) -> Result<TakeReply> {
        self.taken = None;
        self.open().await?;
        if let Some(found) = self.start.found_beside()
            && let rows @ TakeReply::Rows(_) = self.take_found(&found, found.len()).await?
        {
            return Ok(rows);
        }
        let limit = self.list_limit.take();
        let found = self.list(limit).await?;
        self.take_found(&found, limit).await
    }

    /// Claims listed rows, as many as a page has, and reads them.
    async fn take_found(&mut self, found: &[TextRow], limit: usize) -> Result<TakeReply> {
        let keys = rows::read_keys(found)?;
        self.list_limit.listed(limit, found.len(), keys.len());
        if keys.is_empty() {
            return Ok(TakeReply::Nothing);
        }
        let Some(taken) = self.taken(rows::take(&self.own, &keys)).await? else {
            return Ok(TakeReply::Locked);
        };
        let (keys, rows) = rows::read(&taken)?;
        if rows.is_empty() {
            return Ok(TakeReply::Locked); // another relay was faster
        }
        self.taken = Some(keys);
        Ok(TakeReply::Rows(rows))
    }

    /// Lists rows that may be claimed, with their sizes.
    async fn list(&mut self, limit: usize) -> Result<Vec<TextRow>> {
        let began = Instant::now();
        let own = &self.own;
        let behind = self.start.begin(began, || rows::find(own, 0, limit));
        let find = rows::find(own, behind, limit);
        let mut found = self.session.run(format!("{READ_ONLY}; {find}")).await?;
        self.session.leave_read_only(&found)?;
        found.remove(0);
        if behind == 0 {
            self.start.read_whole(began, Instant::now());
        }
        Ok(found)
    }

    async fn close_page(&mut self, closing: Closing) -> Result<bool> {
        let Some(keys) = self.taken.take() else {
            return Ok(false);
        };
        let statements = rows::close(&self.own, &keys, &closing);
        let deleted = rows::read_deleted(&self.transaction(statements).await?);
        let passed = closing.passed.checked_sub(1).and_then(|at| keys.get(at));
        if let Some(last) = passed {
            self.start.passed(*last, Instant::now());
        }
        Ok(closing.passed == 0 || deleted > 0)
    }

    async fn take_deferred_rows(
        &mut self,
        group: &str,
        (behind, limit): (i64, usize),
    ) -> Result<Vec<DeferredRow>> {
        let list_limit = self.deferred_limit.take();
        let find = deferred::find(&self.own, group, behind, limit.min(list_limit));
        let found = deferred::free(self.run(find).await?);
        let keys = rows::read_keys(&found)?;
        self.deferred_limit
            .listed(list_limit, found.len(), keys.len());
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let taken = self.taken(deferred::take(&self.own, &keys)).await?;
        let mut rows = deferred::read(&taken.unwrap_or_default())?;
        // Another relay may have been faster with one of them.
        let in_order = rows.iter().zip(&keys);
        let in_order = in_order.take_while(|(row, key)| row.key == **key).count();
        rows.truncate(in_order);
        Ok(rows)
    }

    async fn count(&mut self) -> Result<Waiting> {
        let behind = self.start.counted_behind(Instant::now());
        let sql = format!(
            "select count(*), greatest(coalesce({NOW} - min(at), 0), 0), \
             coalesce(sum(is_deferred), 0), (select count(*) from \
                 (select n from duly_outbox_refused limit {COUNTED_MAX}) as refused) from ( \
             (select at, 0 as is_deferred from duly_outbox force index (primary) \
                 where n > {behind} order by n limit {COUNTED_MAX}) union all \
             (select at, 1 from duly_outbox_deferred limit {COUNTED_MAX})) as waiting"
        );
        let rows = self.run(sql).await?;
        let number = |at: usize| rows.first()?.get(at)?.as_deref()?.parse::<u64>().ok();
        let numbers = (number(0), number(1), number(2), number(3));
        let (Some(rows), Some(oldest), Some(deferred), Some(refused)) = numbers else {
            return Err(unreadable("count"));
        };
        Ok(Waiting {
            rows,
            oldest: Duration::from_millis(oldest),
            deferred,
            refused,
        })
    }

    /// Deletes by keys that were read before, so that no row is waited for that is being inserted.
    async fn delete_done(&mut self, before: Timestamp, moved: Option<StoredLimit>) -> Result<bool> {
        if let Some(moved) = moved {
            let sql = format!("replace into duly_done_limit values ({})", moved.values());
            self.run(sql).await?;
        }
        for _ in 0..DONE_ROUNDS {
            let old = format!(
                "select event, at from duly_done where at >= {} and at < {} order by at limit {DONE_MAX}",
                self.ends_start.from().as_millis(),
                before.as_millis()
            );
            let found = self.run(old).await?;
            let is_last = found.len() < DONE_MAX as usize;
            let text = |row: &TextRow, at: usize| row.get(at).cloned().flatten();
            let last = found.last().and_then(|row| text(row, 1)?.parse().ok());
            let last = last.map(Timestamp::from_millis).filter(|_| !is_last);
            let events: Vec<_> = found.iter().filter_map(|row| text(row, 0)).collect();
            if !events.is_empty() {
                let delete = format!("delete o from {}", done_by_events(&events));
                self.transaction(vec![delete.into()]).await?;
            }
            self.ends_start.deleted(last.unwrap_or(before));
            if is_last {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn check_tables(&mut self) -> Result<()> {
        // Not yet with a look at the identity, whose table may be missing.
        self.session.open().await?;
        let sql = "select concat(table_name, '.', column_name) from information_schema.columns \
                   where table_schema = database() and table_name like 'duly%'";
        let found = self.session.run(sql.to_owned()).await?;
        let found: Vec<_> = found.into_iter().flatten().flatten().collect();
        let missing = schema::missing(Database::Mysql, &found);
        schema::check_missing(Database::Mysql, &missing)?;
        // Not the procedure: who may not run it does not see it, as a relay that needs it for nothing.
        let sql = "select concat(if(index_name = 'PRIMARY', 'primary key of ', 'index '), \
                       if(index_name = 'PRIMARY', table_name, index_name)) \
                   from information_schema.statistics \
                   where table_schema = database() and table_name like 'duly%' \
                   union all select 'row of duly_outbox_salt' from duly_outbox_salt";
        let found = self.session.run(sql.to_owned()).await?;
        let found: Vec<_> = found.into_iter().flatten().flatten().collect();
        let missing = schema::missing_parts(Database::Mysql, &found);
        schema::check_missing(Database::Mysql, &missing)?;
        self.session.run(schema::COUNTED.to_owned()).await?;
        let sql = "select coalesce(max(version), 0) from duly_outbox_version";
        let version = self.session.run(sql.to_owned()).await?;
        let version = version.first().and_then(|row| row.first()?.as_deref());
        let version = version.and_then(|version| version.parse().ok());
        schema::check_version(Database::Mysql, version.unwrap_or(0))?;
        self.identify().await
    }
}

impl Source for MysqlSource {
    fn check(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.check_tables())
    }

    fn take(&mut self) -> BoxFuture<'_, Result<TakeReply>> {
        Box::pin(self.take_rows())
    }

    fn close(&mut self, closing: Closing) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.close_page(closing))
    }

    fn groups(&mut self, behind: String) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move { deferred::read_groups(&self.run(deferred::groups(&behind)).await?) })
    }

    fn take_deferred(
        &mut self,
        group: String,
        rows: (i64, usize),
    ) -> BoxFuture<'_, Result<Vec<DeferredRow>>> {
        Box::pin(async move { self.take_deferred_rows(&group, rows).await })
    }

    fn release_deferred(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.run(deferred::release(&self.own)).await.map(drop) })
    }

    fn settle_deferred(&mut self, settling: Settling) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let statements = deferred::settle(&self.own, &settling);
            self.transaction(statements).await.map(drop)
        })
    }

    fn instead_bytes_max(&self) -> usize {
        self.session.event_bytes_max()
    }

    fn waiting(&mut self) -> BoxFuture<'_, Result<Waiting>> {
        Box::pin(self.count())
    }

    fn ends(&mut self) -> BoxFuture<'_, Result<Ends>> {
        let from = self.ends_start.begin(Instant::now()).as_millis();
        let sql =
            format!("select {NOW}, (select min(at) from duly_done where at >= {from}), {LIMIT}");
        Box::pin(async move { read_ends(&self.run(sql).await?) })
    }

    fn sweep(
        &mut self,
        before: Timestamp,
        moved: Option<StoredLimit>,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.delete_done(before, moved))
    }
}
