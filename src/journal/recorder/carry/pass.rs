//! Carrying: reads outboxes, loads the journal, trims.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::error::{Error, ErrorKind, Result};
use crate::journal::contract::{Batch, Journal};
use crate::journal::recorder::changed::ChangedOutboxes;
use crate::journal::recorder::size::bytes_of;
use crate::journal::recorder::status::SharedStatus;
use crate::journal::recorder::{RecorderOptions, Setup};
use crate::outage::Outage;
use crate::panics;
use crate::store::{OUTBOX_BATCH_MAX, Outbox, OutboxPage, Store};
use crate::time::Timestamp;

/// How many outboxes go into one load.
const OUTBOXES: usize = 16;
/// How many loads are under way at a time while more waits than one of them takes: one is read and
/// packed while the journal writes the other.
const LANES: usize = 2;
/// How many loads a lane has in one pass where there is no more than the lanes carry. They do not
/// wait for each other between two: out of step, one writes while the disk is waited for by the
/// other.
const ROUNDS: usize = 4;
/// How many outboxes a pass looks into besides those that are known to have something.
const LOOKS: usize = 16 * OUTBOXES;
/// How many records go into the first load, and how many at least into any.
const FIRST: usize = 1_000;
pub(super) const LEAST: usize = 64;
/// About how many bytes of records go into one load.
const BYTES: usize = 16 << 20;
/// Within this long it looks into every outbox when another node is gone: not at once, since every
/// node that is left hears of it together.
const LOOK_WITHIN: Duration = Duration::from_secs(1);
/// The first wait for a journal that is away.
const RETRY_MIN: Duration = Duration::from_millis(50);

/// What went wrong on the way.
pub(super) enum Trouble {
    Journal(Error),
    Store(Error),
}

/// The task that carries.
pub(in crate::journal::recorder) struct Carrier {
    store: Arc<dyn Store>,
    pub(super) journal: Arc<dyn Journal>,
    name: String,
    member_lost: Arc<Notify>,
    pub(super) options: RecorderOptions,
    pub(super) status: Arc<SharedStatus>,
    changed: Arc<ChangedOutboxes>,
    /// The outboxes that may have something, and the number to read from; above 0 where it is known
    /// that there is more.
    behind: BTreeMap<Outbox, u64>,
    /// The outboxes that it has still to look into, some in each pass: busy ones are read in between.
    unlooked: VecDeque<Outbox>,
    look_at: Instant,
    look_every: Duration,
    progress: Mutex<Progress>,
    /// Outboxes whose records the journal refuses.
    pub(super) refusals: Outage<Outbox>,
}

/// What loads that are under way at the same time have in common.
pub(super) struct Progress {
    /// Of each outbox the last number that is in the journal, or was gone when it was first seen.
    known: BTreeMap<Outbox, u64>,
    /// How many records go into one load.
    pub(super) share: usize,
    /// Whether the journal has taken in anything in this pass.
    pub(super) has_loaded: bool,
    /// When the oldest record finished that this pass has read.
    oldest_us: u64,
    /// Outboxes that could not be read, loaded or trimmed. They are tried again by themselves, so that no
    /// other one waits for them.
    failing: BTreeSet<Outbox>,
}

/// Some outboxes, and for each the number to read from.
pub(super) type Outboxes = Vec<(Outbox, u64)>;

impl Carrier {
    pub(in crate::journal::recorder) fn new(
        setup: Setup,
        status: Arc<SharedStatus>,
        changed: Arc<ChangedOutboxes>,
    ) -> Self {
        let every = setup.options.fallback_poll_every;
        Self {
            look_every: every.unwrap_or_else(|| setup.store.fallback_poll_every()),
            store: setup.store,
            journal: setup.journal,
            name: setup.name,
            member_lost: setup.member_lost,
            options: setup.options,
            status,
            changed,
            behind: BTreeMap::new(),
            unlooked: VecDeque::new(),
            look_at: Instant::now(),
            progress: Mutex::new(Progress {
                known: BTreeMap::new(),
                share: FIRST,
                has_loaded: false,
                oldest_us: u64::MAX,
                failing: BTreeSet::new(),
            }),
            refusals: Outage::of("records of an outbox for the journal"),
        }
    }

    /// Carries until it is told to stop, and then once more what is left.
    pub(in crate::journal::recorder) async fn run(mut self, stop: CancellationToken) {
        let (mut failures, mut failures_of_some) = (0, 0);
        let mut retry_at = Instant::now();
        let mut was_told = false;
        loop {
            let is_last = stop.is_cancelled();
            // What it begins after it was told to stop it begins once, or it might not end.
            let begins = !std::mem::replace(&mut was_told, is_last);
            let looks = begins && self.unlooked.is_empty() && Instant::now() >= self.look_at;
            let retries = begins && (is_last || Instant::now() >= retry_at);
            match self.pass(looks, retries).await {
                Ok(()) => failures = 0,
                Err(trouble) => {
                    failures += 1;
                    panics::reported(|| match &trouble {
                        Trouble::Journal(error) => self.status.failed(error, self.now()),
                        Trouble::Store(error) => self.status.store_failed(error),
                    });
                }
            }
            let some_fail = !self.progress().failing.is_empty();
            if failures == 0 && !some_fail && self.is_done() {
                panics::reported(|| self.status.nothing_waits(self.now()));
            }
            if is_last && (failures > 0 || self.is_done()) {
                return;
            }
            if retries {
                failures_of_some = if some_fail { failures_of_some + 1 } else { 0 };
                retry_at = Instant::now() + self.pause(failures_of_some);
            }
            let retry_at = Some(retry_at).filter(|_| some_fail);
            let next_at = retry_at.map_or(self.look_at, |at| at.min(self.look_at));
            self.rest(failures, next_at, &stop).await;
            if self.member_lost.notified().now_or_never().is_some() {
                let soon = Instant::now() + LOOK_WITHIN.mul_f64(fastrand::f64());
                self.look_at = self.look_at.min(soon);
            }
        }
    }

    /// Whether nothing is left to be read at once.
    fn is_done(&self) -> bool {
        self.behind.is_empty() && self.unlooked.is_empty()
    }

    /// Waits until there may be something to do; at once when it is told to stop.
    async fn rest(&self, failures: u32, next_at: Instant, stop: &CancellationToken) {
        if failures > 0 {
            stop.run_until_cancelled(sleep(self.pause(failures))).await;
            return;
        }
        if !self.is_done() {
            return;
        }
        let wake = async {
            tokio::select! {
                () = self.changed.arrived() => sleep(self.options.linger).await,
                () = sleep_until(next_at) => {}
                () = self.member_lost.notified() => self.member_lost.notify_one(), // who waits for this asks
            }
        };
        stop.run_until_cancelled(wake).await;
    }

    /// How long it waits after so many failures: many nodes do not come back in step.
    fn pause(&self, failures: u32) -> Duration {
        Backoff::new(RETRY_MIN, self.options.retry_max).jittered(failures)
    }

    /// Takes some of what outboxes have: of each that is known to have something, and of the next that
    /// it has to look into. It begins a look at all if it `looks`, and includes those that failed if it
    /// `retries`.
    async fn pass(&mut self, looks: bool, retries: bool) -> Result<(), Trouble> {
        let mut unlisted = None;
        if looks {
            match self.store.outboxes().await {
                Ok(every) => {
                    self.unlooked.extend(every);
                    // Nodes that started together do not look together for ever.
                    let every = self.look_every.mul_f64(0.75 + fastrand::f64() / 4.0);
                    self.look_at = Instant::now() + every;
                }
                Err(error) => unlisted = Some(Trouble::Store(error)),
            }
        }
        let (busy, quiet) = self.take_next(retries);
        let has_more = busy.iter().any(|(_, after)| *after > 0);
        let at_once = if has_more { LANES } else { 1 };
        let size = busy.len().div_ceil(at_once).clamp(1, OUTBOXES);
        let mut of_busy = busy.chunks(size).map(<[_]>::to_vec);
        let mut of_quiet = quiet.chunks(OUTBOXES).map(<[_]>::to_vec);
        let all_at_once = at_once > 1 && of_busy.len() + of_quiet.len() <= at_once;
        let mut groups = of_busy.by_ref().chain(of_quiet.by_ref());
        let this = &*self;
        let carry = |some: Outboxes| async move {
            // What may panic is a log subscriber or a metrics recorder.
            let carried = AssertUnwindSafe(this.carry_some(&some))
                .catch_unwind()
                .await;
            let panicked = |panic| {
                let error = Error::new(ErrorKind::Unknown, panics::message(panic));
                Err(Trouble::Store(error))
            };
            (carried.unwrap_or_else(panicked), some)
        };
        let mut behind = Outboxes::new();
        let mut failed = None;
        let mut again = if all_at_once {
            at_once * (ROUNDS - 1)
        } else {
            0
        };
        let mut under_way: FuturesUnordered<_> = groups.by_ref().take(at_once).map(carry).collect();
        while let Some((carried, some)) = under_way.next().await {
            match carried {
                Ok(left) if again > 0 && failed.is_none() && !left.is_empty() => {
                    again -= 1;
                    under_way.push(carry(left));
                }
                Ok(left) => behind.extend(left),
                Err(trouble) => {
                    // From the start: what was read may have been loaded or not, trimmed or not.
                    behind.extend(some.into_iter().map(|(outbox, _)| (outbox, 0)));
                    failed = failed.or(Some(trouble));
                }
            }
            if failed.is_none() {
                under_way.extend(groups.next().map(carry));
            }
        }
        drop(under_way);
        let (left, unread): (Vec<_>, Vec<_>) = (of_busy.collect(), of_quiet.collect());
        if let Some(Trouble::Journal(_)) = failed {
            this.glance(left.iter().chain(&unread)).await;
        }
        let left = left.into_iter().flatten().map(|(outbox, _)| (outbox, 0));
        self.behind.extend(behind.into_iter().chain(left));
        let unread = unread.into_iter().flatten().map(|(outbox, _)| outbox);
        self.unlooked.extend(unread);
        failed.or(unlisted).map_or(Ok(()), Err)
    }

    /// Takes the outboxes of the next pass: those that are known to have something, and some of those
    /// that it has to look into.
    fn take_next(&mut self, retries: bool) -> (Outboxes, Outboxes) {
        let mut progress = self.progress.lock();
        (progress.oldest_us, progress.has_loaded) = (u64::MAX, false);
        if retries {
            self.unlooked.extend(std::mem::take(&mut progress.failing));
        }
        let mut busy = std::mem::take(&mut self.behind);
        for outbox in self.changed.take() {
            busy.entry(outbox).or_insert(0);
        }
        busy.retain(|outbox, _| !progress.failing.contains(outbox));
        let next = self.unlooked.drain(..LOOKS.min(self.unlooked.len()));
        let next = next.filter(|it| !busy.contains_key(it) && !progress.failing.contains(it));
        let quiet: BTreeMap<Outbox, u64> = next.map(|outbox| (outbox, 0)).collect();
        (busy.into_iter().collect(), quiet.into_iter().collect())
    }

    /// Takes note of how many wait, where there is no telling when they can be loaded.
    async fn glance(&self, groups: impl Iterator<Item = &Outboxes>) {
        for some in groups {
            for ((outbox, _), page) in some.iter().zip(self.read(some, 0).await) {
                if let Ok(page) = page {
                    self.note(outbox, &page); // else the next pass finds out
                }
            }
        }
    }

    /// Reads some outboxes, loads what they have at once, and trims it; returns which of them have
    /// more.
    pub(super) async fn carry(&self, outboxes: &[(Outbox, u64)]) -> Result<Outboxes, Trouble> {
        let share = (self.progress().share / outboxes.len()).max(1);
        let pages = self.read(outboxes, share).await;
        let (mut batches, mut trims) = (Vec::new(), Vec::new());
        let (mut many, mut bytes, mut oldest_us) = (0, 0, u64::MAX);
        for ((outbox, after), page) in outboxes.iter().cloned().zip(pages) {
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    self.fails(outbox, &error);
                    continue;
                }
            };
            self.note(&outbox, &page);
            if page.last <= after.max(page.first.saturating_sub(1)) {
                continue; // it has nothing
            }
            many += page.records.len();
            for (_, record) in &page.records {
                bytes += bytes_of(record);
                oldest_us = oldest_us.min(record.stages.finished_us);
            }
            let more = page.has_more();
            trims.push((outbox.clone(), page.last, page.next, page.damaged, more));
            batches.push(Batch {
                outbox: format!("{}/{outbox}", self.name),
                records: page.records,
            });
        }
        self.lags(oldest_us);
        if many > 0 {
            self.load(batches, many).await.map_err(Trouble::Journal)?;
            let share = BYTES / (bytes / many).max(1);
            self.progress().share = share.clamp(LEAST, OUTBOX_BATCH_MAX);
        }
        let mut behind = Outboxes::new();
        for (outbox, last, next, damaged, more) in trims {
            self.progress().known.insert(outbox.clone(), last);
            if let Err(error) = self.store.trim_outbox(&outbox, last).await {
                self.fails(outbox, &error);
                continue;
            }
            self.status.damaged(&outbox, damaged);
            let left = next.saturating_sub(last + 1);
            self.status.wait_in(&outbox, left);
            if more {
                behind.push((outbox, last));
            }
        }
        Ok(behind)
    }

    /// Reads so many records of each outbox at most.
    async fn read(&self, outboxes: &[(Outbox, u64)], share: usize) -> Vec<Result<OutboxPage>> {
        let read = |(outbox, after): &(Outbox, u64)| self.store.read_outbox(outbox, *after, share);
        join_all(outboxes.iter().map(read)).await
    }

    /// Takes note that an outbox could not be read, loaded or trimmed.
    pub(super) fn fails(&self, outbox: Outbox, error: &Error) {
        self.progress().failing.insert(outbox);
        panics::reported(|| self.status.store_failed(error));
    }

    /// Takes note of what an outbox holds, and of what it has let go.
    fn note(&self, outbox: &Outbox, page: &OutboxPage) {
        self.status.seen(outbox, page);
        let gone = page.first.saturating_sub(1);
        let mut progress = self.progress();
        let known = progress.known.entry(outbox.clone()).or_insert(gone);
        if gone > *known {
            let carried = page.trimmed.max(*known); // by this node or another one
            *known = gone;
            self.status.dropped(outbox, gone.saturating_sub(carried));
        } else if page.next <= *known {
            // The store has lost its tail, and counts from an earlier number again.
            *known = gone;
        }
    }

    /// The oldest record that was read now finished then.
    fn lags(&self, oldest_us: u64) {
        let mut progress = self.progress();
        progress.oldest_us = progress.oldest_us.min(oldest_us);
        let lag_us = self.store.now_us().saturating_sub(progress.oldest_us);
        self.status.lags(Duration::from_micros(lag_us));
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.store.now_us() / 1_000)
    }
}
