//! The loop of a relay.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::__outbox::{self, OutageLog, delay_after, idle_pause, outside};
use duly::{Bus, Error, ErrorKind, Result};
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::relay::ends::EndsLimit;
use crate::relay::groups::{GroupList, Groups};
use crate::relay::options::RelayOptions;
use crate::relay::pushes::Pushes;
use crate::relay::report::{OutcomeCounts, Report};
use crate::relay::settle::{closing, passed};
use crate::relay::source::{PAGE_MAX, Source, TakeReply, paced};

/// For so long after the last event, or the last push of this process, the outbox is read often.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// Events that come one by one are pushed together, at most so often.
const BATCH_EVERY: Duration = Duration::from_millis(5);
/// At rest the outbox is read whole once in so many times; the others ask only whether there is news.
const WHOLE_EVERY: u32 = 5;
/// How often what waits is counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// How often room is freed; more often while a sweep does not free all, for a part of the time that is
/// one of so many.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
const SWEEP_PART: u32 = 3;
/// How often the groups of deferred rows are asked for.
const GROUPS_EVERY: Duration = Duration::from_secs(1);
/// While the store is away as a whole, no more rows than these are deferred.
const DEFERRED_MAX: u64 = 10_000;
/// How long a reply of a store that may be away is waited for.
const REPLY_MAX: Duration = Duration::from_secs(1);

/// How long a relay that is stopped waits for each reply of the database, less than a request may take.
/// Without one it ends: what is not stored is done again, as after a kill.
const STOP_REPLY_MAX: Duration = Duration::from_secs(5);
/// How long such a relay goes on at most.
const STOP_MAX: Duration = Duration::from_secs(20);

/// A relay at work.
pub(crate) struct Run<S> {
    pub(crate) bus: Bus,
    pub(crate) source: S,
    /// Whether its tables were found as they must be.
    is_checked: bool,
    pub(crate) options: RelayOptions,
    pub(crate) wake: watch::Receiver<u64>,
    pub(crate) stop: CancellationToken,
    pub(crate) report: Report,
    database: OutageLog,
    pub(crate) store: OutageLog,
    failures: u32,
    is_database_away: bool,
    /// It has not replied to this relay, which was stopped.
    is_given_up: bool,
    busy_until: Instant,
    /// How often in a row it was asked only whether there is news.
    asked_for_news: u32,
    count_at: Instant,
    sweep_at: Instant,
    ends: EndsLimit,
    list_at: Instant,
    pub(crate) group_list: GroupList,
    pub(crate) groups: Groups,
    /// Whether another relay may have deferred rows since the groups were listed.
    pub(crate) may_have_missed: bool,
    pub(crate) pushes: Pushes,
    /// How many rows are deferred, as far as they were counted.
    deferred: u64,
    pub(crate) is_closed: bool,
}

/// What a turn of the loop came to.
enum Turn {
    /// Rows were passed, and there are more.
    Passed,
    /// Rows were passed, and there were no more.
    PassedAll,
    /// There was nothing to do.
    Nothing,
    /// The store or the database has failed.
    Failed,
    /// The bus was shut down.
    Closed,
}

impl<S: Source> Run<S> {
    pub(crate) fn new(
        bus: Bus,
        (source, is_checked): (S, bool),
        options: RelayOptions,
        wake: watch::Receiver<u64>,
        stop: CancellationToken,
    ) -> Self {
        let now = Instant::now();
        Self {
            report: Report::new(bus.clone()),
            ends: EndsLimit::new(options.done_kept),
            bus,
            source,
            is_checked,
            options,
            wake,
            stop,
            database: OutageLog::of("the database of an outbox"),
            store: OutageLog::of("the store, for events of an outbox"),
            failures: 0,
            is_database_away: false,
            is_given_up: false,
            busy_until: now,
            asked_for_news: 0,
            count_at: now + COUNT_EVERY,
            sweep_at: now + SWEEP_EVERY,
            list_at: now, // those of a relay before are tried at once
            group_list: GroupList::default(),
            groups: Groups::default(),
            may_have_missed: true,
            pushes: Pushes::default(),
            deferred: 0,
            is_closed: false,
        }
    }

    /// Runs until it is stopped, or the bus is. `pushes`: those of this process from its start on.
    pub(crate) async fn run(mut self, pushes: watch::Receiver<u64>) {
        let stop = self.stop.clone();
        let stopped = async {
            stop.cancelled().await;
            sleep(STOP_MAX).await;
        };
        let work = async {
            self.work(pushes).await;
            self.stop.cancel(); // also where the bus was shut down, it waits no longer than at a stop
            self.finish().await;
        };
        tokio::select! {
            biased;
            () = work => {}
            () = stopped => {}
        }
    }

    /// Calls the database. Of one that does not reply to a relay that is stopped nothing more is asked.
    pub(crate) async fn call<T>(
        &mut self,
        call: impl for<'a> FnOnce(&'a mut S) -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let stopped = async {
            self.stop.cancelled().await;
            sleep(STOP_REPLY_MAX).await;
        };
        if !self.is_given_up {
            tokio::select! {
                biased;
                reply = outside(&self.bus, call(&mut self.source)) => return reply,
                () = stopped => self.is_given_up = true,
            }
        }
        let late = format!("the database of the outbox has not replied within {STOP_REPLY_MAX:?}");
        Err(Error::new(ErrorKind::Unavailable, late))
    }

    async fn work(&mut self, mut pushes: watch::Receiver<u64>) {
        while !self.stop.is_cancelled() && !__outbox::is_closed(&self.bus) {
            let began = Instant::now();
            // Nothing else may read it, while page follows page: its group would be blocked meanwhile.
            while let Some(done) = self.pushes.next_ended() {
                self.pushed(done).await;
            }
            let turn = self.turn().await;
            let turn = turn.unwrap_or_else(|error| {
                self.database_failed(&error);
                Turn::Failed
            });
            let wait = match turn {
                Turn::Closed => return,
                Turn::Passed => {
                    self.busy_until = Instant::now() + BUSY_FOR;
                    Duration::ZERO
                }
                // Steps are commits: those of one transaction each would load the database.
                Turn::PassedAll => {
                    self.busy_until = Instant::now() + BUSY_FOR;
                    self.options.busy_poll.min(BATCH_EVERY)
                }
                Turn::Nothing if Instant::now() < self.busy_until => self.options.busy_poll,
                Turn::Nothing => idle_pause(&self.bus, self.options.idle_poll),
                Turn::Failed => {
                    self.failures = self.failures.saturating_add(1);
                    delay_after(self.failures)
                }
            };
            if !matches!(turn, Turn::Failed) {
                self.failures = 0;
            }
            self.housekeep().await;
            if !self.is_database_away {
                self.retry().await;
            }
            if self.is_closed {
                return;
            }
            if wait.is_zero() {
                continue;
            }
            let may_retry = self.pushes.has_room() && !self.is_database_away;
            let retry_at = self
                .groups
                .next_retry(self.pushes.probe_at)
                .filter(|_| may_retry);
            let soonest = began + self.options.busy_poll.min(wait);
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = sleep_until(began + wait) => {}
                () = sleep_until(retry_at.unwrap_or(began)), if retry_at.is_some() => {}
                Some(done) = self.pushes.next() => self.pushed(done).await,
                // A hint, often before the commit: then it is read often for a while.
                Ok(()) = pushes.changed(), if self.failures == 0 => {
                    self.busy_until = Instant::now() + BUSY_FOR;
                    sleep_until(soonest).await;
                }
                Ok(()) = self.wake.changed() => {
                    self.busy_until = Instant::now() + BUSY_FOR;
                }
            }
        }
    }

    pub(crate) fn database_failed(&mut self, error: &Error) {
        self.database.failed(error);
        self.is_database_away = true;
        self.report.database_failed();
    }

    /// Takes a page, pushes it and closes it.
    async fn turn(&mut self) -> Result<Turn> {
        if !self.is_checked {
            self.call(move |it| it.check()).await?;
            self.is_checked = true;
        }
        let is_at_rest = self.failures == 0 && Instant::now() >= self.busy_until;
        let rows = if is_at_rest && self.has_no_news().await? {
            None
        } else {
            match self.call(move |it| it.take()).await? {
                TakeReply::Nothing | TakeReply::Locked => None,
                TakeReply::Rows(rows) => Some(rows),
            }
        };
        self.database.succeeded();
        self.is_database_away = false;
        let Some(rows) = rows else {
            return Ok(Turn::Nothing);
        };
        self.may_have_missed |= !self.source.is_alone();
        let outcomes = self.push_page(&rows).await?;
        // The next relay pushes what a bus that was shut down has not taken.
        let may_defer =
            !self.is_closed && (self.deferred < DEFERRED_MAX || !self.is_store_away().await);
        let passed = passed(&outcomes, may_defer);
        let counts = OutcomeCounts::of(outcomes.iter().take(passed).map(|row| &row.outcome));
        let closing = closing(outcomes, passed);
        let is_whole = closing.passed == rows.len();
        let groups: BTreeSet<_> = closing.deferred.iter().map(|it| it.group.clone()).collect();
        let deferred = closing.deferred.len() as u64;
        // Those of plain SQL, which are pushed next.
        let has_more = rows.len() == PAGE_MAX || !closing.instead.is_empty();
        if self.call(move |it| it.close(closing)).await? {
            self.report.settled(counts);
            self.deferred += deferred;
            let now = Instant::now();
            groups
                .iter()
                .for_each(|name| self.groups.deferred(name, now));
        }
        Ok(if self.is_closed {
            Turn::Closed
        } else if !is_whole {
            Turn::Failed
        } else if has_more {
            Turn::Passed
        } else {
            Turn::PassedAll
        })
    }

    /// Returns whether the outbox has said at little cost that there is nothing to take. Now and then it
    /// is not asked, since it may be wrong.
    async fn has_no_news(&mut self) -> Result<bool> {
        self.asked_for_news = (self.asked_for_news + 1) % WHOLE_EVERY;
        if self.asked_for_news == 0 {
            return Ok(false);
        }
        let has_news = self.call(move |it| it.has_news()).await?;
        Ok(!has_news)
    }

    /// Returns whether the store replies to nothing: then rows stay where they are, since deferring all
    /// of them would only write them again.
    async fn is_store_away(&mut self) -> bool {
        if !self.groups.may_store_be_away(Instant::now()) {
            return false;
        }
        let reply = tokio::time::timeout(REPLY_MAX, self.bus.controls()).await;
        let is_away = !matches!(reply, Ok(Ok(_)));
        if !is_away {
            self.groups.store_replied(Instant::now());
        }
        is_away
    }

    /// Frees the room of what is passed, and of ends that have been kept for their time; returns whether
    /// there may be more of those.
    async fn sweep(&mut self) -> Result<bool> {
        let mut ends = self.call(move |it| it.ends()).await?;
        // Of two clocks the one that is behind, as either may have jumped ahead.
        ends.now = ends.now.min(__outbox::now(&self.bus));
        let (before, moved) = self.ends.before(ends, Instant::now());
        self.call(move |it| it.sweep(before, moved)).await
    }

    /// Lists the groups that have deferred rows, as many as are known at once.
    pub(crate) async fn list_groups(&mut self) -> Result<()> {
        let now = Instant::now();
        let names = self.group_names().await;
        self.list_at = now + paced(GROUPS_EVERY, now.elapsed());
        let mut names = names?;
        self.group_list.listed(&mut names);
        self.groups.found(names, now);
        self.may_have_missed = false;
        Ok(())
    }

    async fn group_names(&mut self) -> Result<Vec<String>> {
        let behind = self.group_list.behind.clone();
        let mut names = self.call(move |it| it.groups(behind)).await?;
        if self.group_list.goes_round(&names) {
            names.extend(self.call(move |it| it.groups(String::new())).await?);
        }
        Ok(names)
    }

    fn may_housekeep(&self) -> bool {
        !self.is_database_away && !self.stop.is_cancelled()
    }

    /// Counts what waits and frees room, each now and then.
    async fn housekeep(&mut self) {
        let now = Instant::now();
        if now >= self.count_at && self.may_housekeep() {
            let waiting = self.call(move |it| it.waiting()).await;
            self.count_at = now + paced(COUNT_EVERY, now.elapsed());
            match waiting {
                Ok(waiting) => {
                    self.deferred = waiting.deferred;
                    self.report.waiting(waiting);
                }
                Err(error) => self.database_failed(&error),
            }
        }
        if now >= self.sweep_at && self.may_housekeep() {
            let swept = self.sweep().await;
            self.sweep_at = now + paced(SWEEP_EVERY, now.elapsed());
            match swept {
                Ok(true) => {
                    self.sweep_at = now + SWEEP_EVERY.min(SWEEP_PART * now.elapsed());
                }
                Ok(false) => {}
                Err(error) => self.database_failed(&error),
            }
        }
        if now >= self.list_at
            && self.may_housekeep()
            && let Err(error) = self.list_groups().await
        {
            self.database_failed(&error);
        }
    }
}
