//! The loop of a relay.

use std::time::Duration;

use duly::__outbox::{
    self, OutageLog, PlainEvent, StagedEvent, StagedPush, delay_after, renew, stage_plain,
};
use duly::{Bus, Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::hint;
use crate::relay::meters;
use crate::relay::options::RelayOptions;
use crate::relay::settle::{Fate, closing};
use crate::relay::source::{PAGE_MAX, Row, RowContent, Source, Taken};

/// For so long after the last event, or the last push of this process, the outbox is read often.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// Events that come one by one are pushed together, at most so often.
const BATCH_EVERY: Duration = Duration::from_millis(5);
/// How often what waits is counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// How often room is freed.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// The most refused events that one page logs.
const REFUSED_LOGGED: usize = 5;

/// A relay at work.
pub(crate) struct Run<S> {
    pub(crate) bus: Bus,
    pub(crate) source: S,
    pub(crate) options: RelayOptions,
    pub(crate) wake: watch::Receiver<u64>,
    pub(crate) stop: CancellationToken,
    database: OutageLog,
    store: OutageLog,
    failures: u32,
    is_database_away: bool,
    busy_until: Instant,
    counted: Instant,
    swept: Instant,
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
        source: S,
        options: RelayOptions,
        wake: watch::Receiver<u64>,
        stop: CancellationToken,
    ) -> Self {
        let now = Instant::now();
        Self {
            bus,
            source,
            options,
            wake,
            stop,
            database: OutageLog::of("the database of an outbox"),
            store: OutageLog::of("the store, for events of an outbox"),
            failures: 0,
            is_database_away: false,
            busy_until: now,
            counted: now,
            swept: now,
        }
    }

    /// Runs until it is stopped, or the bus is.
    pub(crate) async fn run(mut self) {
        let mut pushes = hint::watch();
        while !self.stop.is_cancelled() {
            let began = Instant::now();
            let turn = self.turn().await;
            let turn = turn.unwrap_or_else(|error| self.database_failed(&error));
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
                Turn::Nothing => self.options.idle_poll,
                Turn::Failed => {
                    self.failures = self.failures.saturating_add(1);
                    delay_after(self.failures)
                }
            };
            if !matches!(turn, Turn::Failed) {
                self.failures = 0;
            }
            self.housekeep().await;
            if wait.is_zero() {
                continue;
            }
            let soonest = began + self.options.busy_poll.min(wait);
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = sleep_until(began + wait) => {}
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

    fn database_failed(&mut self, error: &Error) -> Turn {
        self.database.failed(error);
        self.is_database_away = true;
        meters::database_failed();
        Turn::Failed
    }

    /// Takes a page, pushes it and closes it.
    async fn turn(&mut self) -> Result<Turn> {
        let rows = match self.source.take().await? {
            Taken::Nothing | Taken::Held => None,
            Taken::Rows(rows) => Some(rows),
        };
        self.database.succeeded();
        self.is_database_away = false;
        let Some(rows) = rows else {
            return Ok(Turn::Nothing);
        };
        let fates = self.push(&rows).await;
        let Some(fates) = fates else {
            return Ok(Turn::Closed);
        };
        let counts = counts(&fates);
        log_refused(&fates);
        let closing = closing(fates);
        let is_whole = closing.passed == rows.len();
        if self.source.close(closing).await? {
            let (pushed, repeated, refused) = counts;
            meters::settled(pushed, repeated, refused);
        }
        Ok(if !is_whole {
            Turn::Failed
        } else if rows.len() < PAGE_MAX {
            Turn::PassedAll
        } else {
            Turn::Passed
        })
    }

    /// Pushes rows, and returns what became of each; `None` if the bus was shut down.
    async fn push(&mut self, rows: &[Row]) -> Option<Vec<Fate>> {
        let mut fates: Vec<Option<Fate>> = Vec::with_capacity(rows.len());
        let (mut places, mut events) = (Vec::new(), Vec::new());
        for (place, row) in rows.iter().enumerate() {
            let fate = match &row.content {
                RowContent::Staged(bytes) => match StagedEvent::decode(bytes) {
                    Ok(event) => {
                        places.push(place);
                        events.push(event);
                        None
                    }
                    Err(error) => Some(Fate::Refused(with_causes(&error))),
                },
                RowContent::Plain(plain) => Some(encode(&self.bus, plain)),
                RowContent::Unreadable(why) => Some(Fate::Refused(why.clone())),
            };
            fates.push(fate);
        }
        let pushed = __outbox::push(&self.bus, &events).await;
        let mut failure = None;
        for ((place, event), pushed) in places.into_iter().zip(&events).zip(pushed) {
            let fate = match Fate::of(&pushed) {
                Some(fate) => fate,
                None => out_of_time(&self.bus, event, rows[place].is_repeated).await,
            };
            fates[place] = Some(fate);
            if let StagedPush::Failed(error) = pushed {
                failure.get_or_insert(error);
            }
        }
        match failure {
            Some(error) if error.kind() == ErrorKind::Closed => return None,
            Some(error) => {
                self.store.failed(&error);
                meters::store_failed();
            }
            None => self.store.succeeded(),
        }
        // Each has one, as a push has a result for each event; a row without one is pushed again.
        let fates = fates.into_iter().map(|fate| fate.unwrap_or(Fate::Unknown));
        Some(fates.collect())
    }

    /// Counts what waits and frees room, each now and then.
    async fn housekeep(&mut self) {
        let now = Instant::now();
        if now >= self.counted + COUNT_EVERY && !self.is_database_away {
            self.counted = now;
            match self.source.waiting().await {
                Ok(waiting) => meters::waiting(waiting),
                Err(error) => drop(self.database_failed(&error)),
            }
        }
        if now >= self.swept + SWEEP_EVERY && !self.is_database_away {
            self.swept = now;
            if let Err(error) = self.source.sweep(self.options.done_kept).await {
                self.database_failed(&error);
            }
        }
    }
}

fn counts(fates: &[Fate]) -> (u64, u64, u64) {
    let (mut pushed, mut repeated, mut refused) = (0, 0, 0);
    for fate in fates {
        match fate {
            Fate::Accepted { is_new: true } => pushed += 1,
            Fate::Accepted { is_new: false } => repeated += 1,
            Fate::Refused(_) => refused += 1,
            Fate::Instead(_) | Fate::Unknown | Fate::NotYet => {}
        }
    }
    (pushed, repeated, refused)
}

fn log_refused(fates: &[Fate]) {
    let reasons = fates.iter().filter_map(|fate| match fate {
        Fate::Refused(reason) => Some(reason),
        _ => None,
    });
    for reason in reasons.take(REFUSED_LOGGED) {
        tracing::error!(
            reason,
            "an event of the outbox can never be accepted; it is in the table of refused ones"
        );
    }
}

fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// An event of plain SQL goes on as a staged one: its bucket and its bytes are fixed before it is
/// pushed for the first time, and so are the same each time.
fn encode(bus: &Bus, plain: &PlainEvent) -> Fate {
    match stage_plain(bus, plain) {
        Ok(staged) => Fate::Instead(staged.encode()),
        Err(error) => Fate::Refused(with_causes(&error)),
    }
}

/// The id of an event is not within the time that the store accepts: it has waited for long, or
/// was made by a clock that was wrong.
///
/// One that was never pushed goes on under a new id. One that may have been accepted, and be
/// over and forgotten, does not: its records say so, or it is put aside.
async fn out_of_time(bus: &Bus, event: &StagedEvent, is_repeated: bool) -> Fate {
    if !is_repeated {
        return match renew(bus, event) {
            Ok(renewed) => {
                tracing::debug!(first = %event.id(), id = %renewed.id(), "an event of the outbox \
                    has a new id, as the store does not accept one of that age");
                Fate::Instead(renewed.encode())
            }
            Err(error) => Fate::Refused(with_causes(&error)),
        };
    }
    let records = bus.records().queue(event.queue()).id(event.id());
    match records.limit(1).page().await {
        Ok(page) if !page.items.is_empty() => Fate::Accepted { is_new: false },
        Ok(_) => Fate::Refused(format!(
            "the event {} may have been accepted by an earlier push whose result was lost, and \
             its id is now older than the tombstones of the store; there is no record of it. \
             Push it again under a new id if handling it twice does no harm",
            event.id()
        )),
        Err(_) => Fate::Unknown,
    }
}
