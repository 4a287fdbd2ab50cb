//! The deferred rows of groups whose time has come.

use std::time::Duration;

use duly::__outbox::StagedEvent;
use tokio::time::Instant;

use crate::relay::groups::NextRows;
use crate::relay::push::RowEvent;
use crate::relay::pushes::{PushOf, RETRIES_AT_ONCE};
use crate::relay::run::Run;
use crate::relay::settle::RowOutcome;
use crate::relay::source::{DeferredRow, Source};

/// Pages have the database for so many times as long as groups that have failed: with many of those,
/// trying them would be all that a relay does.
const PROBE_PAUSE: u32 = 10;
/// But a group waits no longer than this: one call that took long says little about the next.
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(5);

impl<S: Source> Run<S> {
    /// Begins to push the deferred rows of groups whose time has come.
    pub(crate) async fn retry(&mut self) {
        let room = RETRIES_AT_ONCE.saturating_sub(self.pushes.retries);
        let now = Instant::now();
        for (group, has_failed) in self.groups.due(now, room) {
            if self.stop.is_cancelled() {
                return; // a claim would only be given back
            }
            let began = Instant::now();
            if has_failed && began < self.pushes.probe_at {
                continue;
            }
            let NextRows { behind, limit } = self.groups.next_rows(&group, now);
            self.pushes.has_claimed = true;
            let name = group.clone();
            let taken = self.call(move |it| it.take_deferred(name, (behind, limit)));
            let rows = match taken.await {
                Ok(rows) => rows,
                Err(error) => {
                    self.database_failed(&error);
                    return;
                }
            };
            self.groups.looked(&group, began.elapsed());
            if has_failed {
                self.pause_probes(began);
            }
            if rows.is_empty() {
                self.may_have_missed |= self.groups.emptied(&group, began);
                continue;
            }
            self.push_taken(group, rows, has_failed, now).await;
        }
    }

    /// Begins to push deferred rows: of a group that has failed the first.
    async fn push_taken(
        &mut self,
        group: String,
        mut rows: Vec<DeferredRow>,
        has_failed: bool,
        now: Instant,
    ) {
        rows.sort_unstable_by_key(|row| row.key);
        let (mut keys, mut events) = (Vec::new(), Vec::new());
        let (mut outcomes, mut last) = (Vec::new(), 0);
        for (place, row) in rows.into_iter().enumerate() {
            keys.push((row.key, row.is_repeated));
            if has_failed && !events.is_empty() {
                outcomes.push((place, RowOutcome::NotYet));
                continue;
            }
            last = row.key;
            match StagedEvent::decode(&row.event) {
                Ok(event) => {
                    let key = event.order_key();
                    if key.is_some_and(|key| self.groups.follows_passed(&group, &key)) {
                        outcomes.push((place, RowOutcome::NotYet));
                        continue;
                    }
                    let is_anew = row.is_anew;
                    let event = event.repeated(row.is_repeated && !is_anew);
                    events.push(RowEvent {
                        place,
                        event,
                        is_anew,
                    });
                }
                Err(error) => outcomes.push((place, RowOutcome::refused(error.to_string()))),
            }
        }
        if !outcomes.is_empty() {
            self.settle(&keys, outcomes).await;
        }
        if events.is_empty() {
            self.groups.skipped(&group, last, now);
            return;
        }
        self.pushes.retries += 1;
        self.spawn(group, PushOf::Deferred { keys, last }, events, now);
    }

    /// Puts the next try of a group that has failed off, by how long a call of the database took.
    pub(super) fn pause_probes(&mut self, began: Instant) {
        let pause = began.elapsed() * PROBE_PAUSE;
        let probe_at = self.pushes.probe_at.max(began) + pause;
        self.pushes.probe_at = probe_at.min(Instant::now() + PROBE_PAUSE_MAX);
    }
}
