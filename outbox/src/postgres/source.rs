//! The outbox in PostgreSQL as the source of a relay.

use std::time::Duration;

use duly::time::Timestamp;
use duly::{Error, ErrorKind, Result};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::postgres::news::{self, News};
use crate::postgres::own_steps::OwnSteps;
use crate::postgres::page::{self, Page};
use crate::postgres::parts::{OTHERS, PARTS};
use crate::postgres::session::Session;
use crate::postgres::snapshot::Snapshot;
use crate::postgres::step::{Look, NextStep, Step, look};
use crate::postgres::{claim, deferred, sweep, waiting};
use crate::relay::ends::EndsStart;
use crate::relay::source::{
    Closing, DeferredRow, Ends, Settling, Source, StoredLimit, TakeReply, Waiting,
};
use crate::schema::{self, Database};
use crate::session::{ListLimit, SqlResult, TextRow, read_ends, unreadable};

/// A look that takes so much longer than the quickest makes a step of what is visible, so that the
/// next is short again.
const LOOK_LONG: Duration = Duration::from_millis(5);
/// How long a request may take.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// How long other relays leave a page alone: twice as long as the last one took, since a page that
/// takes longer than it is held is pushed in vain, and between these. A look believes in up to a minute.
const HOLD_MIN: Duration = Duration::from_secs(3);
const HOLD_MAX: Duration = Duration::from_secs(45);
/// What each request begins with, as no setting outlasts it. The server ends its statements in time:
/// what is given up here would go on there, and wait for locks. And whatever the database's defaults
/// and its statistics are, the plans are those of the indexes, one look after the other: any other
/// plan walks what was passed and a snapshot keeps.
const SETTINGS: &str = "set local statement_timeout = '20s'; set local jit = off; \
                        set local enable_seqscan = off; set local enable_bitmapscan = off; \
                        set local enable_mergejoin = off; set local enable_hashjoin = off";
/// A write of nothing, which a server that is only read from refuses.
const WRITE_NOTHING: &str = "delete from duly_outbox_deferred where false";

/// An outbox in PostgreSQL.
pub(crate) struct PostgresSource<S> {
    session: S,
    /// The name of this relay.
    own: String,
    /// The page that is being pushed, the step that claims it, and since when.
    taken: Option<(Step, Page, Instant)>,
    /// How long the next page is held.
    hold: Duration,
    list_limit: ListLimit,
    /// Whether others may be leaving rows alone for this relay.
    may_hold: bool,
    news: News,
    /// How long the quickest look took.
    quickest: Duration,
    own_steps: OwnSteps,
    /// Whether rows were deferred when they were counted last.
    has_deferred: bool,
    /// When partitions with few rows were truncated.
    swept_all: Option<Instant>,
    ends_start: EndsStart,
}

impl<S: Session + 'static> PostgresSource<S> {
    pub(crate) fn new(session: S) -> Self {
        Self {
            session,
            own: format!("{:016x}", fastrand::u64(..)),
            taken: None,
            hold: HOLD_MIN,
            list_limit: ListLimit::new(),
            may_hold: false,
            news: News::default(),
            quickest: REQUEST_MAX,
            own_steps: OwnSteps::default(),
            has_deferred: true,
            swept_all: None,
            ends_start: EndsStart::new(),
        }
    }

    async fn run(&mut self, sql: &str) -> Result<Vec<TextRow>> {
        Ok(self.request(sql).await??)
    }

    async fn request(&mut self, sql: &str) -> Result<SqlResult<Vec<TextRow>>> {
        let sql = format!("{SETTINGS}; {sql}");
        let request = tokio::time::timeout(REQUEST_MAX, self.session.run(&sql)).await;
        request.map_err(|_| {
            let late = format!("the database of the outbox has not replied within {REQUEST_MAX:?}");
            Error::new(ErrorKind::Unavailable, late)
        })
    }

    /// Runs the statements of a step; `None` if another relay was faster.
    async fn step(&mut self, step: &Step, sql: &str) -> Result<Option<Vec<TextRow>>> {
        self.may_hold |= step.holder.is_some();
        let reply = match self.request(sql).await? {
            Err(error) if error.is_unique_violation() => return Ok(None),
            reply => reply?,
        };
        let mut rows = reply.into_iter();
        let is_own = rows.next().is_some_and(|row| step.is_own(&row));
        self.may_hold = is_own && step.holder.is_some();
        if is_own {
            self.own_steps.made(step.n);
        }
        Ok(is_own.then(|| rows.collect()))
    }

    /// Has the reply of a server that is only read from end in an error, by which its session leaves it:
    /// at rest nothing is written that would.
    async fn must_write(&mut self, rows: &[TextRow]) -> Result<()> {
        let is_read_only = rows.first().and_then(|row| row.last()?.as_deref());
        if is_read_only == Some("on") {
            self.run(WRITE_NOTHING).await?;
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<Look> {
        let rows = self.run(&look()).await?;
        self.must_write(&rows).await?;
        let look = rows.first().and_then(Look::read);
        look.ok_or_else(|| unreadable("state of the relays"))
    }

    async fn take_rows(&mut self) -> Result<TakeReply> {
        self.taken = None;
        let began = Instant::now();
        let look = self.look().await?;
        let took = began.elapsed();
        self.quickest = self.quickest.min(took);
        match look.next(&self.own) {
            NextStep::Held => Ok(TakeReply::Locked),
            NextStep::Idle => {
                if took > 2 * self.quickest + LOOK_LONG {
                    self.advance(look).await?;
                }
                Ok(TakeReply::Nothing)
            }
            NextStep::Reset => {
                self.reset(look).await?;
                Ok(TakeReply::Nothing)
            }
            NextStep::Push { claim, is_repeated } => {
                let (limit, began) = (self.list_limit.take(), Instant::now());
                let sql = claim::claim(&claim, self.hold, limit);
                let Some(rows) = self.step(&claim, &sql).await? else {
                    self.list_limit.listed(limit, 0, 0);
                    return Ok(TakeReply::Locked);
                };
                let page = page::read(&rows, limit, is_repeated)?;
                self.list_limit.listed(limit, page.found, page.rows.len());
                let rows = page.rows.clone();
                self.taken = Some((claim, page, began));
                Ok(TakeReply::Rows(rows))
            }
        }
    }

    /// Counts what is visible as settled, as there is nothing new: rows of transactions that run are
    /// not looked at again before their end.
    async fn advance(&mut self, look: Look) -> Result<()> {
        let Some(mut step) = look.step else {
            return Ok(());
        };
        if step.holder.as_deref().is_some_and(|it| it != self.own) || look.now == step.done {
            return Ok(());
        }
        step.n += 1;
        step.done = look.now;
        step.holder = None;
        self.step(&step, &step.insert(self.hold)).await.map(drop)
    }

    async fn reset(&mut self, look: Look) -> Result<()> {
        if let Some(step) = &look.step {
            tracing::warn!(
                was = step.cluster,
                is = look.cluster,
                "the outbox is that of another database or of an earlier time of it; every row of \
                 it is pushed again, under its own id"
            );
        }
        let step = Step {
            n: look.step.map_or(1, |step| step.n + 1),
            cluster: look.cluster,
            done: Snapshot::nothing(),
            reading: None,
            passed: (0, 0),
            is_repeated: false,
            holder: Some(self.own.clone()),
        };
        let sql = claim::reset(&step, self.hold);
        self.step(&step, &sql).await.map(drop)
    }

    async fn close_page(&mut self, closing: Closing) -> Result<bool> {
        let Some((claim, page, began)) = self.taken.take() else {
            return Ok(false);
        };
        let is_whole = closing.passed == page.rows.len();
        let last = closing.passed.checked_sub(1).map(|at| page.places[at]);
        // Of rows that stay it stays known, too.
        let is_repeated = closing.is_repeated || !is_whole && page.is_repeated;
        let step = claim.passing(last, is_whole && page.is_last, is_repeated);
        let sql = claim::close((&step, self.hold), &page.places, &closing);
        let is_passed = self.step(&step, &sql).await?.is_some();
        let took = began.elapsed();
        self.hold = (2 * took).clamp(HOLD_MIN, HOLD_MAX);
        if !is_passed {
            let hold = self.hold;
            tracing::debug!(
                ?took,
                ?hold,
                "another relay has taken a page of the outbox meanwhile"
            );
        }
        Ok(is_passed)
    }

    async fn release_rows(&mut self) -> Result<()> {
        if !self.may_hold {
            return Ok(());
        }
        match self.request(&claim::release(&self.own)).await? {
            Err(error) if error.is_unique_violation() => Ok(()), // another relay goes on already
            reply => Ok(reply.map(drop)?),
        }
    }

    async fn count(&mut self) -> Result<Waiting> {
        let Some(step) = self.look().await?.step else {
            return Ok(Waiting::default());
        };
        let rows = self.run(&waiting::count(&step)).await?;
        let waiting = waiting::read(&rows).ok_or_else(|| unreadable("count"))?;
        self.has_deferred = waiting.deferred > 0;
        Ok(waiting)
    }

    async fn sweep_rows(&mut self, before: Timestamp, moved: Option<StoredLimit>) -> Result<bool> {
        let is_long_ago = |at: Instant| at.elapsed() > sweep::LEFT_FOR;
        let room = if self.swept_all.is_none_or(is_long_ago) {
            self.swept_all = Some(Instant::now());
            0
        } else {
            sweep::ROOM_MIN
        };
        for row in self
            .run(&sweep::candidates(room, self.has_deferred))
            .await?
        {
            let Some(name) = row.into_iter().next().flatten() else {
                continue;
            };
            match self.request(&sweep::truncate(&name)).await? {
                Err(error) if error.is_lock_taken() => {}
                reply => drop(reply?),
            }
        }
        if let Some(moved) = moved {
            self.run(&sweep::limit(moved)).await?;
        }
        let delete = sweep::delete_done(self.ends_start.from(), before);
        let last = sweep::read_last(&self.run(&delete).await?)?;
        self.ends_start.deleted(last.unwrap_or(before));
        Ok(last.is_some())
    }

    async fn check_tables(&mut self) -> Result<()> {
        let tables = schema::tables(Database::Postgres).join("', '");
        let sql = format!(
            "select name || '.' || attname from unnest(array['{tables}']) as name, pg_attribute \
             where attrelid = to_regclass(name) and attnum > 0 and not attisdropped"
        );
        let found: Vec<_> = self
            .run(&sql)
            .await?
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        let mut missing = schema::missing(Database::Postgres, &found);
        let rows = self.run(PARTS).await?;
        let found: Vec<_> = rows.into_iter().flatten().flatten().collect();
        if missing.is_empty() {
            missing = schema::missing_parts(Database::Postgres, &found);
        }
        for other in OTHERS {
            if !found.iter().any(|it| it == other) {
                missing.push(other.to_owned());
            }
        }
        schema::check_missing(Database::Postgres, &missing)?;
        self.run(schema::COUNTED).await?;
        let sql = "select coalesce(max(version), 0) from duly_outbox_version";
        let rows = self.run(sql).await?;
        let version = rows.first().and_then(|row| row.first()?.as_deref());
        let version = version.and_then(|version| version.parse().ok());
        schema::check_version(Database::Postgres, version.unwrap_or(0))
    }
}

impl<S: Session + 'static> Source for PostgresSource<S> {
    fn check(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.check_tables())
    }

    fn has_news(&mut self) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move {
            let rows = self.run(news::QUERY).await?;
            self.must_write(&rows).await?;
            let has_news = rows.first().and_then(|row| self.news.read(row));
            has_news.ok_or_else(|| unreadable("last row of the outbox"))
        })
    }

    fn is_alone(&mut self) -> bool {
        self.own_steps.are_all()
    }

    fn take(&mut self) -> BoxFuture<'_, Result<TakeReply>> {
        Box::pin(self.take_rows())
    }

    fn close(&mut self, closing: Closing) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.close_page(closing))
    }

    fn release_page(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.release_rows())
    }

    fn groups(&mut self, behind: String) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move { deferred::read_groups(&self.run(&deferred::groups(&behind)).await?) })
    }

    fn take_deferred(
        &mut self,
        group: String,
        (behind, limit): (i64, usize),
    ) -> BoxFuture<'_, Result<Vec<DeferredRow>>> {
        Box::pin(async move {
            let sql = deferred::take(&self.own, &group, behind, limit);
            deferred::read(&self.run(&sql).await?)
        })
    }

    fn release_deferred(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.run(&deferred::release(&self.own)).await.map(drop) })
    }

    fn settle_deferred(&mut self, settling: Settling) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let sql = deferred::settle(&self.own, &settling);
            self.run(&sql).await.map(drop)
        })
    }

    fn waiting(&mut self) -> BoxFuture<'_, Result<Waiting>> {
        Box::pin(self.count())
    }

    fn ends(&mut self) -> BoxFuture<'_, Result<Ends>> {
        Box::pin(async move {
            let from = self.ends_start.begin(Instant::now());
            read_ends(&self.run(&sweep::ends(from)).await?)
        })
    }

    fn sweep(
        &mut self,
        before: Timestamp,
        moved: Option<StoredLimit>,
    ) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.sweep_rows(before, moved))
    }
}
