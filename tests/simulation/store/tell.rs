//! What an operation and its answer say about events.

use std::time::Duration;

use duly::records::NodeId;
use duly::store::operation::{
    AttemptOutcome, FetchReport, PushOutcome, Reply, RequestId, Response, StoreOp,
};
use duly::time::Timestamp;
use duly::{ChangeOutcome, EventId};
use duly_conformance::history::{AttemptEnd, ChangeResult, EntryKind, Lease};

use crate::store::{Body, value_of};

/// What was asked, as far as history speaks of it.
#[derive(Debug)]
pub enum Asked {
    Push,
    Fetch {
        node: NodeId,
        hold: Option<Duration>,
    },
    Settle(Vec<(EventId, Lease, AttemptEnd)>),
    Extend {
        leases: Vec<(EventId, Lease)>,
        hold: Duration,
    },
    Cancel(EventId),
    Reschedule(EventId),
    Update(EventId, u64),
    Nothing,
}

impl Asked {
    pub fn of(op: &StoreOp) -> Self {
        let lease = |node: &NodeId, request: RequestId| Lease {
            node: *node,
            request,
        };
        match op {
            StoreOp::Push(_) => Self::Push,
            StoreOp::Fetch(fetch) => Self::Fetch {
                node: fetch.node,
                hold: fetch.hold,
            },
            StoreOp::Settle {
                node, settlements, ..
            } => {
                let settled = settlements.iter().map(|settlement| {
                    let ending = ending_of(&settlement.verdict);
                    (settlement.id, lease(node, settlement.request), ending)
                });
                Self::Settle(settled.collect())
            }
            StoreOp::Extend { node, leases, hold } => {
                let leases = leases.iter();
                let leases = leases.map(|(id, request)| (*id, lease(node, *request)));
                Self::Extend {
                    leases: leases.collect(),
                    hold: *hold,
                }
            }
            StoreOp::Cancel { id } => Self::Cancel(*id),
            StoreOp::Reschedule { id, .. } => Self::Reschedule(*id),
            StoreOp::Update { id, payload, .. } => Self::Update(*id, value_of(payload)),
            _ => Self::Nothing,
        }
    }
}

/// Tells what happened to which event; consumers may have been promised other deadlines than the
/// store was asked for.
pub fn tell(
    asked: &Asked,
    response: &Response<Body>,
    promised: Option<Duration>,
    happened: &mut Vec<(EventId, EntryKind)>,
) {
    let end = |hold: Duration| {
        let hold_us = promised.unwrap_or(hold).as_micros() as u64;
        Timestamp::from_micros_up(response.now_us + hold_us)
    };
    match (asked, &response.reply) {
        (Asked::Fetch { node, hold }, Reply::Fetched(FetchReport { deliveries, .. })) => {
            for delivery in deliveries {
                let lease = Lease {
                    node: *node,
                    request: delivery.request,
                };
                let what = EntryKind::Leased {
                    lease,
                    attempt: delivery.attempt,
                    due: delivery.due,
                    payload: value_of(&delivery.body.payload),
                };
                happened.push((delivery.id, what));
                if let Some(hold) = *hold {
                    let until = end(hold);
                    happened.push((delivery.id, EntryKind::Held { lease, until }));
                }
            }
        }
        (Asked::Settle(settled), Reply::Settled(accepted)) => {
            for ((id, lease, ending), accepted) in settled.iter().zip(accepted) {
                let what = EntryKind::Settled {
                    lease: *lease,
                    ending: *ending,
                    accepted: *accepted,
                };
                happened.push((*id, what));
            }
        }
        (Asked::Extend { leases, hold }, Reply::Extended(stood)) => {
            for ((id, lease), stood) in leases.iter().zip(stood) {
                let what = EntryKind::Extended {
                    lease: *lease,
                    stood: *stood,
                    until: end(*hold),
                };
                happened.push((*id, what));
            }
        }
        (Asked::Push, Reply::Pushed(pushed)) => {
            for pushed in pushed {
                if let PushOutcome::Replaced(id) = pushed.verdict {
                    happened.push((id, EntryKind::Replaced));
                }
            }
        }
        (Asked::Cancel(id), Reply::Cancelled(cancelled)) => {
            let truth = (*cancelled).into();
            happened.push((*id, EntryKind::CancelApplied { truth }));
        }
        (Asked::Reschedule(id), Reply::Rescheduled(changed)) => {
            let truth = (*changed).into();
            let due = due_of(*changed);
            happened.push((*id, EntryKind::Rescheduled { truth, due }));
        }
        (Asked::Update(id, payload), Reply::Updated(changed)) => {
            let (truth, payload) = ((*changed).into(), *payload);
            happened.push((*id, EntryKind::Updated { truth, payload }));
        }
        _ => {}
    }
}

/// Returns whether a change found its event in a state that does not allow it.
pub fn is_too_late(what: &EntryKind) -> bool {
    let (EntryKind::CancelApplied { truth }
    | EntryKind::Rescheduled { truth, .. }
    | EntryKind::Updated { truth, .. }) = what
    else {
        return false;
    };
    matches!(truth, ChangeResult::TooLate(_))
}

fn due_of(changed: ChangeOutcome) -> Timestamp {
    match changed {
        ChangeOutcome::Changed(due) | ChangeOutcome::ChangedAfterAttempt(due) => due,
        _ => Timestamp::EPOCH,
    }
}

pub fn ending_of(verdict: &AttemptOutcome) -> AttemptEnd {
    match verdict {
        AttemptOutcome::Ack => AttemptEnd::Ack,
        AttemptOutcome::Retry(..) => AttemptEnd::Retry,
        AttemptOutcome::Snooze(_) => AttemptEnd::Snooze,
        AttemptOutcome::Bury(_) => AttemptEnd::Bury,
        AttemptOutcome::Discard(_) => AttemptEnd::Discard,
        AttemptOutcome::Expire => AttemptEnd::Expire,
        AttemptOutcome::Release => AttemptEnd::Release,
        AttemptOutcome::Interrupt { .. } => AttemptEnd::Interrupt,
    }
}
