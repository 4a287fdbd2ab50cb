//! Those who push through the bus: under an id that it makes, for a bounded time, and perhaps
//! without waiting for the end. What is tried again, and under which id, core's machines decide.

use std::sync::Arc;

use duly::__internal::{Attempts, NextPush, PushedId};
use duly::event::Envelope;
use duly::store::operation::{NewEvent, PushOutcome, PushReport, Reply, Response, StoreOp};
use duly::time::Timestamp;
use duly::{ErrorKind, EventId};
use duly_conformance::history::{EntryKind, PushResult};

use crate::bugs::Bug;
use crate::store::{Body, value_of};
use crate::world::{Happening, World};

/// One push through the bus.
#[derive(Clone, Copy, Debug)]
pub struct BusPush {
    attempts: Attempts,
    made: PushedId,
    /// Until when it is tried again.
    until_us: u64,
    /// When its caller drops the future, if he does.
    dropped_us: Option<u64>,
}

impl World {
    /// A push through the bus that begins then.
    pub fn some_bus_push(&mut self, at_us: u64) -> BusPush {
        let is_dropped = self.rng.chance(100);
        BusPush {
            attempts: Attempts::default(),
            made: PushedId::Generated,
            until_us: at_us + self.rng.pick(&[400_000, 2_000_000, 9_000_000]),
            dropped_us: is_dropped.then(|| at_us + self.rng.within(0..1_000_000)),
        }
    }

    /// An attempt has failed.
    pub fn bus_push_failed(&mut self, at: usize, mut push: BusPush, kind: ErrorKind) {
        let may_pass = push.attempts.failed(kind);
        let is_dropped = push.dropped_us.is_some_and(|at_us| at_us <= self.now_us);
        let rest_us = self.rng.within(10_000..200_000);
        if may_pass && !is_dropped && self.now_us + rest_us <= push.until_us {
            self.clients.go_on(at, push);
            return self.after(rest_us, Happening::Asks(at));
        }
        let is_sure = push.attempts.given_up(kind) != ErrorKind::Unknown
            // One of two copies may come after the other was refused.
            && !self.clients.was_copied(at);
        let what = if is_sure {
            EntryKind::PushRefused
        } else {
            EntryKind::Unknown
        };
        self.clients.is_answered(at);
        let id = self.clients.id_of(at);
        self.note(Some(id), what);
    }

    /// The store has decided.
    pub fn bus_push_answered(&mut self, at: usize, mut push: BusPush, response: &Response<Body>) {
        let Reply::Pushed(pushed) = &response.reply else {
            return;
        };
        let (PushReport { due, verdict }, event) = (pushed[0], self.clients.event_of(at));
        let id = event.envelope.id;
        let is_refused = matches!(verdict, PushOutcome::TooOld | PushOutcome::TooNew);
        if is_refused && self.clients.was_copied(at) {
            // Of two copies the other may be over and forgotten, or come when the id is not too new
            // any more. A store that is reached over a network knows of its own repeats, too.
            push.attempts.may_have_happened();
        }
        let verdict = match self.bug {
            Some(Bug::RenewsAfterUnknown) => verdict,
            _ => push.attempts.verdict(id, verdict),
        };
        let next = push.made.next(id, verdict);
        let verdict = match next {
            NextPush::Done(verdict) => verdict,
            NextPush::Renew => verdict,
        };
        let what = EntryKind::PushAnswered {
            verdict: PushResult::of(verdict, id),
            payload: value_of(&event.envelope.payload),
            due: Some(due),
        };
        self.note(Some(id), what);
        if next == NextPush::Renew {
            let now = Timestamp::from_millis(response.now_us / 1_000);
            let renewed = BusPush {
                attempts: Attempts::default(),
                made: PushedId::Renewed,
                ..push
            };
            let at = self.clients.renew(at, renewed, now);
            return self.client_asks(at);
        }
        self.clients.is_answered(at);
    }
}

/// The same event under an id with this time, and the same random part.
pub fn renewed(event: &NewEvent, now: Timestamp) -> (EventId, StoreOp) {
    let mut event = event.clone();
    let old = event.envelope.id;
    let id = EventId::from_parts(now, old.bucket(), old.entropy());
    let mut envelope = Envelope::clone(&event.envelope);
    envelope.id = id;
    event.envelope = Arc::new(envelope);
    (id, StoreOp::Push(vec![event]))
}
