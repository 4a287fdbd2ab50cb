//! What a client does with a reply, or without one.

use std::sync::Arc;

use duly::event::Envelope;
use duly::store::operation::{Reply, Response, StoreOp};
use duly::{ErrorKind, EventId};
use duly_conformance::history::{EntryKind, Promise, PushResult};

use crate::bugs::Bug;
use crate::store::{Body, value_of};
use crate::world::{Happening, World};

impl World {
    pub fn client_gives_up(&mut self, at: usize) {
        let op = &self.clients.ops[at];
        if op.is_answered {
            return;
        }
        if let Some(push) = op.push {
            return self.bus_push_failed(at, push, ErrorKind::Unknown);
        }
        self.note(Some(op.id), EntryKind::Unknown);
        if self.bug == Some(Bug::NewIdAfterUnknown) {
            self.push_under_new_id(at);
        }
        self.client_asks(at);
    }

    /// A client is told that nothing happened. Some take that for an answer, others come back.
    fn client_refused(&mut self, at: usize, kind: ErrorKind) {
        let op = &self.clients.ops[at];
        let (id, is_push) = (op.id, matches!(op.op, StoreOp::Push(_)));
        let is_sure = !op.is_copied && kind != ErrorKind::Unavailable;
        if is_push && op.is_copied {
            // The copy may have happened: another push of the same id that is surely refused says
            // nothing of this one.
            self.note(Some(id), EntryKind::Unknown);
        }
        if is_push && is_sure {
            self.note(Some(id), EntryKind::PushRefused);
            if self.rng.chance(400) {
                self.clients.ops[at].is_answered = true;
                self.clients.answered += 1;
                return;
            }
        }
        let rest_us = self.rng.within(50_000..500_000);
        self.after(rest_us, Happening::Asks(at));
    }

    /// The store accepted an event.
    pub fn added(&mut self, id: EventId, payload: u64) {
        let before = self.clients.values.insert(payload >> 16, id);
        // After a failover the store may have lost it, and its pusher pushes it again.
        if let Some(other) = before.filter(|other| *other != id || self.plan.failovers == 0) {
            let text = format!("what was pushed once is there twice, also as {other}");
            self.break_off(Promise::Ids, Some(id), text);
        }
    }

    fn push_under_new_id(&mut self, at: usize) {
        let bucket = self.clients.ops[at].bucket;
        let StoreOp::Push(events) = &self.clients.ops[at].op else {
            return;
        };
        let mut push = events[0].clone();
        let id = self.new_id(bucket, 0, self.now_us);
        let mut envelope = Envelope::clone(&push.envelope);
        envelope.id = id;
        push.envelope = Arc::new(envelope);
        self.clients.buckets.insert(id, bucket);
        let op = &mut self.clients.ops[at];
        (op.id, op.op) = (id, StoreOp::Push(vec![push]));
    }

    pub fn client_answered(&mut self, at: usize, response: Result<Response<Body>, ErrorKind>) {
        let op = &self.clients.ops[at];
        if op.is_answered {
            return;
        }
        let id = op.id;
        match (op.push, &response) {
            (Some(push), Ok(response)) => return self.bus_push_answered(at, push, response),
            (Some(push), Err(kind)) if *kind != ErrorKind::Unknown => {
                return self.bus_push_failed(at, push, *kind);
            }
            _ => {}
        }
        let what = match (&op.op, response.map(|response| response.reply)) {
            (_, Err(ErrorKind::Unknown)) => return self.client_gives_up(at),
            (_, Err(kind @ (ErrorKind::Unavailable | ErrorKind::Full | ErrorKind::Closed))) => {
                return self.client_refused(at, kind);
            }
            (_, Err(kind)) => {
                let text = format!("a client was refused with {kind:?}");
                return self.break_off(Promise::Accepted, Some(id), text);
            }
            (StoreOp::Push(events), Ok(Reply::Pushed(pushed))) => Some(EntryKind::PushAnswered {
                verdict: PushResult::of(pushed[0].verdict, id),
                payload: value_of(&events[0].envelope.payload),
                due: Some(pushed[0].due),
            }),
            (_, Ok(Reply::Cancelled(truth))) => Some(EntryKind::CancelAnswered {
                truth: truth.into(),
            }),
            (_, Ok(_)) => None,
        };
        self.clients.ops[at].is_answered = true;
        self.clients.answered += 1;
        if let Some(what) = what {
            self.note(Some(id), what);
        }
    }
}
