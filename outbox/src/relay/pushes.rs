//! The pushes under way: those of the page at hand, and those that go on beside the pages.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use duly::{ErrorKind, Result};
use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::relay::groups::ScanStep;
use crate::relay::meters;
use crate::relay::push::{
    GroupResult, PageEvents, RowEvent, page_events, push_deferred, push_group,
};
use crate::relay::report::OutcomeCounts;
use crate::relay::run::Run;
use crate::relay::settle::{RowOutcome, RowResult, settling};
use crate::relay::source::{Row, Source};

/// A page waits no longer for its pushes; what they come to is then unknown, and its rows are deferred.
/// Less than the time for which a page is held.
const PATIENCE: Duration = Duration::from_secs(1);
/// And no longer than this beside pushes that have failed or got no reply, so that each further bucket
/// of a shard that is away costs little.
const PATIENCE_BESIDE: Duration = Duration::from_millis(100);
/// The pushes of pages that call the store at once.
const PUSHES_AT_ONCE: usize = 32;
/// The groups of deferred rows that are pushed at once.
pub(super) const RETRIES_AT_ONCE: usize = 8;

/// A push that has ended.
#[derive(Debug)]
pub(crate) struct PushDone {
    group: String,
    of: PushOf,
    result: GroupResult,
}

/// Where its rows are.
#[derive(Debug)]
pub(super) enum PushOf {
    /// In the page of this number.
    Page(u64),
    /// Among the deferred.
    Deferred {
        /// Their keys, each with whether it may have been pushed before.
        keys: Vec<(i64, bool)>,
        /// The last of them that is tried.
        last: i64,
    },
}

/// The pushes under way; a group has one at most.
pub(crate) struct Pushes {
    tasks: JoinSet<PushDone>,
    permits: Arc<Semaphore>,
    page: u64,
    /// Of the tasks, those of deferred rows.
    pub(super) retries: usize,
    /// Whether this relay has ever taken deferred rows.
    pub(super) has_claimed: bool,
    /// When a group that has failed may be tried next.
    pub(crate) probe_at: Instant,
}

impl Default for Pushes {
    fn default() -> Self {
        Self {
            tasks: JoinSet::new(),
            permits: Arc::new(Semaphore::new(PUSHES_AT_ONCE)),
            page: 0,
            retries: 0,
            has_claimed: false,
            probe_at: Instant::now(),
        }
    }
}

impl Pushes {
    /// Returns whether more deferred rows may be pushed now.
    pub(crate) fn has_room(&self) -> bool {
        self.retries < RETRIES_AT_ONCE
    }

    /// Waits for the next to end; `None` if there is none.
    pub(crate) async fn next(&mut self) -> Option<PushDone> {
        loop {
            if let Some(done) = result(self.tasks.join_next().await?) {
                return Some(done);
            }
        }
    }

    /// Returns one that has ended already.
    pub(crate) fn next_ended(&mut self) -> Option<PushDone> {
        loop {
            if let Some(done) = result(self.tasks.try_join_next()?) {
                return Some(done);
            }
        }
    }
}

fn result(joined: std::result::Result<PushDone, JoinError>) -> Option<PushDone> {
    // Its panics are results, and nobody else ends it.
    let early = |error| tracing::error!(%error, "a push of the outbox has ended early");
    joined.map_err(early).ok()
}

impl<S: Source> Run<S> {
    /// Pushes rows, and returns what became of each.
    pub(crate) async fn push_page(&mut self, rows: &[Row]) -> Result<Vec<RowResult>> {
        let PageEvents {
            mut outcomes,
            names,
            groups,
        } = page_events(&self.bus, rows);
        if self.may_have_missed && groups.values().flatten().any(RowEvent::is_ordered) {
            self.list_groups().await?; // another relay may have deferred others of their keys
        }
        self.push_groups(groups, &mut outcomes).await;
        let bytes_max = self.source.instead_bytes_max();
        let rows = outcomes.into_iter().zip(names).zip(rows);
        let row =
            |((outcome, group), row): ((Option<RowOutcome>, Option<String>), &Row)| RowResult {
                outcome: outcome.unwrap_or(RowOutcome::Unknown).within(bytes_max), // each has one
                group,
                is_repeated: row.is_repeated,
            };
        Ok(rows.map(row).collect())
    }

    /// Returns whether rows of a group wait among the deferred ones, as far as the last list told.
    fn may_have_rows(&self, group: &str) -> bool {
        self.groups.has_rows(group) || !self.group_list.behind.is_empty()
    }

    /// Pushes the events of a page, and notes what became of each.
    async fn push_groups(
        &mut self,
        groups: BTreeMap<String, Vec<RowEvent>>,
        outcomes: &mut [Option<RowOutcome>],
    ) {
        let is_late = self.pushes.tasks.len() > self.pushes.retries; // of a page before
        let patience = if is_late || !self.groups.is_well() {
            PATIENCE_BESIDE
        } else {
            PATIENCE
        };
        self.pushes.page += 1;
        let (page, now) = (self.pushes.page, Instant::now());
        let (deadline, mut open, mut is_failed) = (now + patience, 0, false);
        let mut groups: Vec<_> = groups.into_iter().collect();
        loop {
            // Those whose deferred rows are just being pushed: their events follow, or each page would
            // be deferred for as long as there are such rows.
            let mut behind = Vec::new();
            for (group, mut events) in groups {
                let is_blocked = self.groups.is_blocked(&group);
                if !is_blocked && self.may_have_rows(&group) {
                    // They would overtake others of their keys.
                    let (behind, others): (Vec<_>, _) =
                        events.into_iter().partition(RowEvent::is_ordered);
                    for event in behind {
                        outcomes[event.place] = Some(RowOutcome::NotYet);
                    }
                    events = others;
                }
                if events.is_empty() {
                    continue;
                }
                for event in &events {
                    let outcome = if is_blocked {
                        RowOutcome::NotYet
                    } else {
                        RowOutcome::Unknown // until it is known
                    };
                    outcomes[event.place] = Some(outcome);
                }
                if !is_blocked {
                    self.spawn(group, PushOf::Page(page), events, now);
                    open += 1;
                } else if self.groups.is_soon_known(&group, now, PATIENCE) {
                    behind.push((group, events));
                } else {
                    is_failed = true;
                }
            }
            groups = behind;
            if open == 0 && groups.is_empty() {
                break;
            }
            let Ok(Some(done)) = timeout_at(deadline, self.pushes.next()).await else {
                is_failed = true;
                break;
            };
            if !matches!(done.of, PushOf::Page(of) if of == page) {
                self.pushed(done).await;
                continue;
            }
            open -= 1;
            is_failed |= done.result.failure.is_some();
            for (place, outcome) in self.ended(&done.group, done.result) {
                outcomes[place] = Some(outcome);
            }
        }
        if !is_failed && self.groups.is_well() {
            self.store.succeeded();
        }
    }

    /// Waits a moment for the pushes under way, settles what they came to, and gives back what this
    /// relay holds, so that the next one need not wait for the claims to end. Of a database that does
    /// not reply they end by themselves.
    pub(crate) async fn finish(&mut self) {
        let (mut keys, mut outcomes) = (Vec::new(), Vec::new());
        let deadline = Instant::now() + PATIENCE;
        // Not each by itself: the database may be slow.
        while let Ok(Some(done)) = timeout_at(deadline, self.pushes.next()).await {
            let ended = self.ended(&done.group, done.result);
            if let PushOf::Deferred { keys: of, .. } = done.of {
                let before = keys.len();
                keys.extend(of);
                outcomes.extend(
                    ended
                        .into_iter()
                        .map(|(at, outcome)| (before + at, outcome)),
                );
            }
        }
        self.pushes.tasks.shutdown().await;
        if !keys.is_empty() {
            self.settle(&keys, outcomes).await;
        }
        if self.pushes.has_claimed
            && let Err(error) = self.call(Source::release_deferred).await
        {
            self.database_failed(&error);
        }
        if let Err(error) = self.call(Source::release_page).await {
            self.database_failed(&error);
        }
    }

    /// Takes note of a push that has gone on beside the pages.
    pub(crate) async fn pushed(&mut self, done: PushDone) {
        let (is_accepted, began) = (done.result.is_accepted(), Instant::now());
        let (group, mut result) = (done.group, done.result);
        let failed = std::mem::take(&mut result.failed_keys);
        let outcomes = self.ended(&group, result);
        // The rows of a page of before were deferred, and are pushed again.
        if let PushOf::Deferred { keys, last } = done.of {
            // Of many that have failed together one may be to blame, which is found by trying each.
            if is_accepted || outcomes.len() == 1 {
                self.groups.tried(&group, ScanStep { last, failed }, began);
            }
            self.settle(&keys, outcomes).await;
            self.pushes.retries = self.pushes.retries.saturating_sub(1);
            if is_accepted {
                self.pushes.probe_at = began; // others may be accepted, too
            } else {
                self.pause_probes(began);
            }
        }
        if self.groups.is_well() {
            self.store.succeeded();
        }
    }

    pub(super) async fn settle(
        &mut self,
        keys: &[(i64, bool)],
        outcomes: Vec<(usize, RowOutcome)>,
    ) {
        let bytes_max = self.source.instead_bytes_max();
        let outcomes = outcomes.into_iter();
        let outcomes: Vec<_> = outcomes
            .map(|(place, outcome)| (place, outcome.within(bytes_max)))
            .collect();
        let counts = OutcomeCounts::of(outcomes.iter().map(|(_, outcome)| outcome));
        let settling = settling(keys, outcomes);
        match self.call(move |it| it.settle_deferred(settling)).await {
            Ok(()) => self.report.settled(counts),
            Err(error) => self.database_failed(&error),
        }
    }

    fn ended(&mut self, group: &str, result: GroupResult) -> Vec<(usize, RowOutcome)> {
        self.groups.end(group, result.is_accepted(), Instant::now());
        if let Some(error) = &result.failure {
            if error.kind() == ErrorKind::Closed {
                self.is_closed = true;
            } else {
                self.store.failed(error);
                meters::store_failed();
            }
        }
        result.outcomes
    }

    pub(super) fn spawn(&mut self, group: String, of: PushOf, events: Vec<RowEvent>, now: Instant) {
        self.groups.begin(&group, now);
        let bus = self.bus.clone();
        let permits = Arc::clone(&self.pushes.permits);
        self.pushes.tasks.spawn(async move {
            let _permit = match of {
                PushOf::Page(_) => permits.acquire_owned().await.ok(),
                PushOf::Deferred { .. } => None, // those have a limit of their own
            };
            let places: Vec<_> = events.iter().map(|it| it.place).collect();
            let push = async {
                match of {
                    PushOf::Page(_) => push_group(&bus, &events).await,
                    PushOf::Deferred { .. } => push_deferred(&bus, &events).await,
                }
            };
            let push = AssertUnwindSafe(push).catch_unwind();
            // A codec of the user's may have panicked.
            let result = push.await.unwrap_or_else(|_| GroupResult::panicked(places));
            PushDone { group, of, result }
        });
    }
}
