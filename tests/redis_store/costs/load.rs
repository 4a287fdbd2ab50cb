//! What becomes of events, carried out.

use std::time::Duration;

use duly::ErrorKind;
use duly::event::Payload;
use duly::records::Cause;
use duly::store::Store;
use duly::store::operation::{
    AttemptOutcome, BATCH_MAX, Delivery, FailureReason, Fetch, NewEvent, Reply, Settlement,
    StartMark, StoreOp,
};
use duly::time::When;
use futures_util::future::join_all;

use crate::redis_store::kit::{Bare, NODE, until};

/// So many calls are under way at a time.
const CALLERS: usize = 64;
/// Further ahead than any due time.
const AHEAD: Duration = Duration::from_secs(600);

/// What becomes of events before they are handled, or instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Handled,
    /// Every second one is cancelled.
    HalfCancelled,
    Rescheduled,
    Updated,
    Retried,
    Snoozed,
    HandedBack,
    /// The node that has leased them falls silent.
    Reaped,
    Revived,
    Dropped,
    /// Nobody fetches them in time.
    Expired,
}

pub(super) const FATES: [Fate; 11] = [
    Fate::Handled,
    Fate::HalfCancelled,
    Fate::Rescheduled,
    Fate::Updated,
    Fate::Retried,
    Fate::Snoozed,
    Fate::HandedBack,
    Fate::Reaped,
    Fate::Revived,
    Fate::Dropped,
    Fate::Expired,
];

pub(super) struct Load {
    pub(super) bare: Bare,
    pub(super) request: u64,
}

impl Load {
    /// Carries operations out, many at a time.
    pub(super) async fn all(&self, ops: impl IntoIterator<Item = StoreOp>) {
        let ops: Vec<_> = ops.into_iter().collect();
        for some in ops.chunks(CALLERS) {
            let done = join_all(some.iter().map(|op| self.bare.apply(op.clone()))).await;
            for reply in done {
                reply.expect("an operation");
            }
        }
    }

    /// Leases all that wait.
    async fn lease(&mut self) -> Vec<Delivery> {
        let mut held = Vec::new();
        loop {
            self.request += 1;
            let fetch = Fetch {
                node: NODE,
                request: self.request,
                limit: BATCH_MAX,
                ahead: AHEAD,
                ahead_limit: BATCH_MAX,
                hold: None,
                starts: usize::MAX,
            };
            let fetched = self.bare.typed(StoreOp::fetch(fetch)).await;
            let mut got = fetched.expect("a fetch").deliveries;
            if got.is_empty() {
                return held;
            }
            held.append(&mut got);
        }
    }

    /// Leases all that wait, and settles them so.
    pub(super) async fn settle(&mut self, verdict: AttemptOutcome) {
        let held = self.lease().await;
        let settlement = |it: &Delivery| Settlement {
            id: it.id,
            request: it.request,
            verdict: verdict.clone(),
            started_us: 1,
            fetched_us: 1,
        };
        let all: Vec<_> = held.iter().map(settlement).collect();
        let calls = all.chunks(BATCH_MAX).map(|some| StoreOp::Settle {
            node: NODE,
            settlements: some.to_vec(),
            started: StartMark::default(),
        });
        self.all(calls.collect::<Vec<_>>()).await;
    }

    async fn reap(&mut self) {
        let mut silent = Vec::new();
        loop {
            let limit = BATCH_MAX;
            let reap = StoreOp::Reap { silent, limit };
            match self.bare.apply(reap).await.expect("a reap") {
                Reply::Reaped(it) if it.more || !it.holders.is_empty() => silent = it.holders,
                _ => break,
            }
        }
        self.request += 1;
        let told = self.bare.fetch(self.request, 1).await; // a reaped node is told of it once
        assert_eq!(told.unwrap_err().kind(), ErrorKind::LeaseLost);
    }

    pub(super) async fn meet(&mut self, fate: Fate, events: &[NewEvent]) {
        let failed = || FailureReason {
            cause: Cause::Failed,
            error: Some("e".repeat(64)),
        };
        let ids: Vec<_> = events.iter().map(|it| it.envelope.id).collect();
        match fate {
            Fate::Handled => {}
            Fate::HalfCancelled => {
                let some = ids.iter().step_by(2);
                self.all(some.map(|id| StoreOp::Cancel { id: *id })).await;
            }
            Fate::Rescheduled => {
                let when = When::After(Duration::from_secs(9));
                let all = ids.iter();
                self.all(all.map(|id| StoreOp::Reschedule { id: *id, when }))
                    .await;
            }
            Fate::Updated => {
                let update = |id: &_| StoreOp::Update {
                    id: *id,
                    payload: Payload::from(&b"another payload"[..]),
                    by: None,
                    dead_only: false,
                };
                self.all(ids.iter().map(update)).await;
            }
            Fate::Retried => {
                let again = AttemptOutcome::Retry(Duration::from_millis(5), failed());
                self.settle(again).await;
            }
            Fate::Snoozed => {
                self.settle(AttemptOutcome::Snooze(Duration::from_millis(5)))
                    .await;
            }
            Fate::HandedBack => self.settle(AttemptOutcome::Release).await,
            Fate::Reaped => {
                self.lease().await;
                self.reap().await;
            }
            Fate::Revived | Fate::Dropped => {
                self.settle(AttemptOutcome::Bury(failed())).await;
                let change = |some: &[_]| match fate {
                    Fate::Revived => StoreOp::Revive {
                        ids: some.to_vec(),
                        by: None,
                    },
                    _ => StoreOp::Drop {
                        ids: some.to_vec(),
                        by: None,
                    },
                };
                self.all(ids.chunks(500).map(change)).await;
            }
            Fate::Expired => {
                let past_us = events[0].envelope.expires.expect("it has one").as_micros();
                until("all have expired", async || {
                    self.bare.store.now_us() > past_us
                })
                .await;
                self.all([StoreOp::Stats]).await; // it ends them
            }
        }
    }
}
