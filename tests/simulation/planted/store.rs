//! The seams around the store.

use std::sync::Arc;
use std::time::Duration;

use duly::event::State;
use duly::records::{NodeId, Outcome};
use duly::store::DedupWindow;
use duly::store::operation::{
    BATCH_MAX, PeekBy, PeekPage, PushOutcome, PushReport, ReapReport, Reply, Response, StartMark,
    StoreOp,
};
use duly::time::{Timestamp, When};
use duly::{CancelOutcome, ChangeOutcome, ErrorKind, EventId, Unique};
use duly_conformance::history::{EntryKind, Lease, Promise};

use crate::bugs::Bug;
use crate::network::Caller;
use crate::plan::Plan;
use crate::store::Body;
use crate::world::World;

/// When an event was asked to be due.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Push(When),
    Reschedule(When),
    Nothing,
}

impl Asked {
    fn of(op: &StoreOp) -> Self {
        match op {
            StoreOp::Push(events) => Self::Push(events[0].when),
            StoreOp::Reschedule { when, .. } => Self::Reschedule(*when),
            _ => Self::Nothing,
        }
    }

    /// Whether it is due before that.
    fn is_early(self, response: &Response<Body>) -> bool {
        let (when, due) = match (self, &response.reply) {
            (Self::Push(when), Reply::Pushed(pushed)) => match pushed[0].verdict {
                PushOutcome::Accepted | PushOutcome::Replaced(_) => (when, pushed[0].due),
                _ => return false,
            },
            (
                Self::Reschedule(when),
                Reply::Rescheduled(
                    ChangeOutcome::Changed(due) | ChangeOutcome::ChangedAfterAttempt(due),
                ),
            ) => (when, *due),
            _ => return false,
        };
        match when {
            When::After(delay) => due.as_micros() < response.now_us + delay.as_micros() as u64,
            When::At(at) => due < at,
            _ => false,
        }
    }
}

/// The unique key that a push asks for, as a number, and whether it replaces.
fn unique_of(op: &StoreOp) -> Option<(EventId, u64, bool)> {
    let StoreOp::Push(events) = op else {
        return None;
    };
    let key = events[0].envelope.unique.as_ref()?;
    let key = key.bytes().fold(0, |key, byte| key << 8 | u64::from(byte));
    let replaces = events[0].on_taken == Unique::Replace;
    Some((events[0].envelope.id, key, replaces))
}

impl World {
    /// The seam between the network and the store.
    pub fn apply(
        &mut self,
        from: Caller,
        bucket: usize,
        mut op: StoreOp,
    ) -> Result<Response<Body>, ErrorKind> {
        let asked = Asked::of(&op);
        let unique = unique_of(&op);
        match (&mut op, self.bug) {
            (StoreOp::Push(events), Some(Bug::UniqueOverlooked)) => {
                for event in events {
                    Arc::make_mut(&mut event.envelope).unique = None;
                }
            }
            (StoreOp::MoveDue { .. } | StoreOp::Fetch(_), Some(Bug::DueByNodeClock)) => {
                self.skew_store(from, bucket);
            }
            (StoreOp::MoveDue { .. }, Some(Bug::SplitMove)) => self.take_out_due(bucket),
            (StoreOp::Settle { settlements, .. }, Some(Bug::SettleWithoutToken))
                if !settlements.is_empty() =>
            {
                let id = settlements[0].id;
                if let Some(token) = self.checker.lease_of(id)
                    && settlements.len() == 1
                {
                    settlements[0].request = token.request;
                    let settlements = std::mem::take(settlements);
                    op = StoreOp::Settle {
                        node: token.node,
                        settlements,
                        started: StartMark::default(),
                    };
                }
            }
            (StoreOp::Fetch(fetch), Some(bug)) if fetch.hold.is_some() => {
                self.store.promised = fetch.hold;
                fetch.hold = match bug {
                    Bug::HoldsForgotten => Some(Duration::from_secs(86_400)),
                    Bug::HoldsCut => fetch.hold.map(|hold| hold / 2),
                    _ => fetch.hold,
                };
            }
            (StoreOp::Extend { node, leases, hold }, Some(Bug::ExtendIgnored)) => {
                let (id, request) = leases[0];
                let lease = Lease {
                    node: *node,
                    request,
                };
                let stood = self.checker.lease_of(id) == Some(lease);
                let now_us = self.store.time_us(self.now_us, Some(bucket));
                let until = Timestamp::from_micros_up(now_us + hold.as_micros() as u64);
                let what = EntryKind::Extended {
                    lease,
                    stood,
                    until,
                };
                self.note(Some(id), what);
                let reply = Reply::Extended(vec![stood]);
                return Ok(Response { now_us, reply });
            }
            (StoreOp::Reconcile { .. }, Some(Bug::OrphansKept)) => {
                let now_us = self.store.time_us(self.now_us, Some(bucket));
                let reply = Reply::Reaped(ReapReport::default());
                return Ok(Response { now_us, reply });
            }
            (StoreOp::Push(events), Some(Bug::DueRoundedDown)) => {
                let now_us = self.store.time_us(self.now_us, Some(bucket));
                for event in events {
                    if let When::After(delay) = event.when {
                        let due_ms = (now_us + delay.as_micros() as u64) / 1_000;
                        event.when = When::At(Timestamp::from_millis(due_ms));
                    }
                }
            }
            (StoreOp::Reap { silent, .. }, Some(Bug::OneLookReaper)) => {
                let look = StoreOp::Reap {
                    silent: Vec::new(),
                    limit: 1,
                };
                if let Ok(Response {
                    reply: Reply::Reaped(reaped),
                    ..
                }) = self.apply_plainly(bucket, look)
                {
                    let me = self.node_of(from);
                    silent.extend(
                        reaped
                            .holders
                            .into_iter()
                            .filter(|(node, _)| Some(*node) != me),
                    );
                }
            }
            _ => {}
        }
        let mut response = self.apply_plainly(bucket, op);
        self.store.promised = None;
        if let (Ok(response), Some((id, key, replaces))) = (&response, unique)
            && let Reply::Pushed(pushed) = &response.reply
        {
            let taken_by = match pushed[0].verdict {
                PushOutcome::Duplicate(other) if other != id => Some(Some(other)),
                PushOutcome::Accepted | PushOutcome::Replaced(_) => Some(None),
                _ => None,
            };
            if let Some(taken_by) = taken_by {
                let what = EntryKind::UniqueAsked {
                    key,
                    replaces,
                    taken_by,
                };
                self.note(Some(id), what);
            }
        }
        if let Ok(response) = &mut response {
            if asked.is_early(response) {
                let text = "an event is due before it was asked for";
                self.break_off(Promise::NeverEarly, None, text);
            }
            match (&mut response.reply, self.bug) {
                (Reply::Cancelled(truth), Some(Bug::CancelOfLeasedIsDone))
                    if *truth == CancelOutcome::TooLate(State::Leased) =>
                {
                    *truth = CancelOutcome::Cancelled;
                }
                (Reply::Cancelled(truth), Some(Bug::CancelHidesLostLease))
                    if *truth == CancelOutcome::CancelledAfterAttempt =>
                {
                    *truth = CancelOutcome::Cancelled;
                }
                (Reply::Pushed(pushed), Some(Bug::TooOldIsAccepted)) => {
                    for pushed in pushed {
                        if pushed.verdict == PushOutcome::TooOld {
                            pushed.verdict = PushOutcome::Accepted;
                        }
                    }
                }
                (Reply::Extended(stood), Some(Bug::ExtendWithoutToken)) => stood.fill(true),
                _ => {}
            }
        }
        response
    }

    /// What a store that has failed makes of an operation.
    pub fn failed(
        &mut self,
        from: Caller,
        bucket: usize,
        op: StoreOp,
    ) -> Result<Response<Body>, ErrorKind> {
        let now_us = self.store.buckets[bucket].now_us();
        match (&op, self.bug) {
            (StoreOp::Push(events), Some(Bug::AcknowledgesAfterFailure)) => {
                let accepted = PushReport {
                    due: Timestamp::EPOCH,
                    verdict: PushOutcome::Accepted,
                };
                let reply = Reply::Pushed(vec![accepted; events.len()]);
                Ok(Response { now_us, reply })
            }
            (StoreOp::Fetch(_), Some(Bug::ReadsAfterFailure)) => self.apply(from, bucket, op),
            _ => Err(ErrorKind::Closed),
        }
    }

    /// What a store without room makes of a push.
    pub fn full(
        &mut self,
        from: Caller,
        bucket: usize,
        op: StoreOp,
    ) -> Result<Response<Body>, ErrorKind> {
        match self.bug {
            Some(Bug::FullIsLate) => {
                let _ = self.apply(from, bucket, op);
            }
            Some(Bug::FullIsAccepted) => {
                let due = Timestamp::EPOCH;
                let verdict = PushOutcome::Accepted;
                let reply = Reply::Pushed(vec![PushReport { due, verdict }]);
                let now_us = self.store.buckets[bucket].now_us();
                return Ok(Response { now_us, reply });
            }
            _ => {}
        }
        Err(ErrorKind::Full)
    }

    /// What the store really wrote of what happened.
    pub fn written(&self, mut happened: Vec<(EventId, EntryKind)>) -> Vec<(EventId, EntryKind)> {
        let is_retry = |what: &EntryKind| {
            let outcome = match what {
                EntryKind::Recorded { outcome, .. } => Some(*outcome),
                _ => None,
            };
            outcome == Some(Outcome::Retried)
        };
        match self.bug {
            Some(Bug::RecordLost) => happened.retain(|(_, what)| !is_retry(what)),
            Some(Bug::RecordTwice) => {
                let again = happened.iter().find(|(_, what)| is_retry(what)).copied();
                happened.extend(again);
            }
            Some(Bug::ExtendWithoutToken) => {
                for (_, what) in &mut happened {
                    if let EntryKind::Extended { stood, .. } = what {
                        *stood = true;
                    }
                }
            }
            _ => {}
        }
        happened
    }

    fn node_of(&self, from: Caller) -> Option<NodeId> {
        match from {
            Caller::Node { node, .. } => self.nodes[node].id(),
            _ => None,
        }
    }

    fn skew_store(&mut self, from: Caller, bucket: usize) {
        if let Caller::Node { node, .. } = from {
            let ahead_us = 40_000 * node as u64;
            let clock_us = self.store.clock_us(self.now_us) + ahead_us;
            let _ = self.store.look(clock_us, bucket, StoreOp::Stats);
        }
    }

    /// First step of a move in two: ids leave the delay set, and nobody has them.
    fn take_out_due(&mut self, bucket: usize) {
        let clock_us = self.store.clock_us(self.now_us);
        let (by, from, limit) = (PeekBy::All, None, BATCH_MAX);
        let peek = StoreOp::Peek { by, from, limit };
        let Ok(Response {
            reply: Reply::Peeked(PeekPage { events, .. }),
            ..
        }) = self.store.look(clock_us, bucket, peek)
        else {
            return;
        };
        for snapshot in events {
            if snapshot.state == State::Scheduled && snapshot.due.as_micros() <= clock_us {
                let id = snapshot.id;
                let away = StoreOp::Reschedule {
                    id,
                    when: When::After(Duration::from_secs(86_400)),
                };
                let _ = self.store.look(clock_us, bucket, away);
                let back = StoreOp::Reschedule {
                    id,
                    when: When::Now,
                };
                self.send(Caller::Nobody, bucket, back);
            }
        }
    }

    /// The store dies: what it has not written is gone.
    pub fn store_dies(&mut self) {
        if self.bug == Some(Bug::StoreForgets)
            && let Some(buckets) = self.planted.written.take()
        {
            self.store.buckets = buckets;
        }
    }

    /// The store writes, once a second.
    pub fn store_writes(&mut self) {
        if self.bug == Some(Bug::StoreForgets) {
            self.planted.written = Some(self.store.buckets.clone());
        }
    }
}

/// Which finished ids a bucket really remembers.
pub fn remembers(plan: &Plan, bug: Option<Bug>) -> DedupWindow {
    let window = plan.remembers;
    match bug {
        Some(Bug::RemembersLess) => DedupWindow {
            max: window.max / 2,
            cap: window.cap / 2,
            ..window
        },
        Some(Bug::RemembersShorter) => DedupWindow {
            keep_for: window.keep_for / 2,
            ..window
        },
        _ => window,
    }
}
