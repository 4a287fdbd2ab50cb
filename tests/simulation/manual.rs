//! Consumers that are no nodes: they take events under leases with deadlines of their own, and are
//! not as careful as a node is.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::records::{Cause, NodeId};
use duly::store::operation::{
    AttemptOutcome, Delivery, FailureReason, Fetch, FetchReport, Reply, RequestId, Response,
    Settlement, StartMark, StoreOp,
};
use duly::{ErrorKind, EventId};
use duly_conformance::history::{EntryKind, Lease};

use crate::bugs::Bug;
use crate::network::Caller;
use crate::pool::delay_of;
use crate::store::{Body, ending_of, value_of};
use crate::world::{Happening, World};

/// How often what was not answered is sent again.
const REPEATS: u32 = 8;

/// One consumer.
#[derive(Debug)]
pub struct Manual {
    node: NodeId,
    next_request: RequestId,
    is_fetching: bool,
    next_number: u64,
    calls: BTreeMap<u64, Call>,
    held: BTreeMap<u64, Holding>,
}

/// An event that it works at.
#[derive(Debug)]
struct Holding {
    id: EventId,
    bucket: usize,
    request: RequestId,
    /// Until when it may rely on its lease, and for how long it asked for it.
    until_us: u64,
    hold_us: u64,
    ends_us: u64,
    care: Care,
}

/// How careful it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// It extends its lease for as long as it works, and leaves an event that it has lost.
    Extends,
    /// It works for as long as it takes, and settles then.
    LatePolicy,
    /// It forgets what it has begun.
    Forgets,
}

/// A question, when it was asked first, and how often it may be asked again.
#[derive(Clone, Debug)]
struct Call {
    bucket: usize,
    op: StoreOp,
    first_us: u64,
    repeats: u32,
    /// What it works at and is about.
    number: u64,
}

impl World {
    pub fn plan_manuals(&mut self) {
        for at in 0..self.plan.manuals as usize {
            self.manuals.push(Manual {
                node: NodeId(self.rng.next()),
                next_request: 0,
                is_fetching: false,
                next_number: 0,
                calls: BTreeMap::new(),
                held: BTreeMap::new(),
            });
            let delay = self.rng.within(0..1_000_000);
            self.after(delay, Happening::ManualFetches(at));
        }
    }

    /// It fetches, if its last fetch was answered, and comes again.
    pub fn manual_fetches(&mut self, at: usize) {
        if self.is_healed {
            return;
        }
        let pause = self.rng.within(50_000..600_000);
        self.after(pause, Happening::ManualFetches(at));
        if self.manuals[at].is_fetching {
            return;
        }
        let bucket = self.rng.within(0..self.keys.len() as u64) as usize;
        let hold_ms = self.rng.pick(&[200, 1_000, 3_000]);
        let limit = self.rng.within(1..4) as usize;
        let manual = &mut self.manuals[at];
        manual.is_fetching = true;
        manual.next_request += 1;
        let fetch = Fetch {
            node: manual.node,
            request: manual.next_request,
            limit,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: Some(Duration::from_millis(hold_ms)),
            starts: usize::MAX,
        };
        self.manual_asks(at, bucket, StoreOp::Fetch(fetch), 0);
    }

    fn manual_asks(&mut self, at: usize, bucket: usize, op: StoreOp, number: u64) {
        let call = Call {
            bucket,
            op,
            first_us: self.now_us,
            repeats: REPEATS,
            number,
        };
        self.manual_sends(at, call);
    }

    fn manual_sends(&mut self, at: usize, call: Call) {
        let manual = &mut self.manuals[at];
        manual.next_number += 1;
        let from = Caller::Manual {
            at,
            call: manual.next_number,
        };
        let (bucket, op) = (call.bucket, call.op.clone());
        manual.calls.insert(manual.next_number, call);
        self.send(from, bucket, op);
    }

    pub fn manual_answered(
        &mut self,
        at: usize,
        call: u64,
        response: Result<Response<Body>, ErrorKind>,
    ) {
        let Some(call) = self.manuals[at].calls.remove(&call) else {
            return;
        };
        match (&call.op, response.map(|response| response.reply)) {
            (StoreOp::Fetch(fetch), Ok(Reply::Fetched(FetchReport { deliveries, .. }))) => {
                self.manuals[at].is_fetching = false;
                for delivery in deliveries {
                    self.manual_begins(at, &call, fetch, &delivery);
                }
            }
            (StoreOp::Extend { hold, .. }, Ok(Reply::Extended(stood))) => {
                let until_us = call.first_us + hold.as_micros() as u64;
                self.manual_extended(at, call.number, stood[0], until_us);
            }
            (_, Err(_)) => self.manual_asks_again(at, call),
            _ => {}
        }
    }

    /// The same question once more; a fetch of which nobody will ever know leaves its leases to
    /// their deadlines.
    fn manual_asks_again(&mut self, at: usize, mut call: Call) {
        let is_fetch = matches!(call.op, StoreOp::Fetch(_));
        if call.repeats == 0 || (is_fetch && self.rng.chance(200)) {
            self.manuals[at].is_fetching &= !is_fetch;
            return;
        }
        call.repeats -= 1;
        self.manual_sends(at, call);
    }

    pub fn manual_gives_up(&mut self, at: usize, call: u64) {
        if let Some(call) = self.manuals[at].calls.remove(&call) {
            self.manual_asks_again(at, call);
        }
    }

    /// It begins to work, if its lease surely stands: counted from when it asked for the first
    /// time, since a repeat of a fetch answers what that had leased.
    fn manual_begins(&mut self, at: usize, call: &Call, fetch: &Fetch, delivery: &Delivery<Body>) {
        let hold_us = fetch.hold.unwrap_or_default().as_micros() as u64;
        let from_us = match self.bug {
            Some(Bug::HoldCountsFromReceipt) => self.now_us,
            _ => call.first_us,
        };
        let until_us = from_us + hold_us;
        if self.now_us >= until_us {
            return;
        }
        let lease = Lease {
            node: fetch.node,
            request: delivery.request,
        };
        if self.rng.chance(100) {
            let (id, fetched_us) = (delivery.id, self.store.clock_us(self.now_us));
            let op = settle(lease, id, AttemptOutcome::Release, fetched_us);
            return self.manual_asks(at, call.bucket, op, 0);
        }
        let what = EntryKind::Started {
            lease,
            attempt: delivery.attempt,
            due: delivery.due,
            payload: value_of(&delivery.body.payload),
        };
        self.note(Some(delivery.id), what);
        let (care, most_us) = match self.rng.within(0..10) {
            0..5 => (Care::Extends, hold_us / 2),
            5..7 => (Care::Extends, hold_us * 4),
            7..9 => (Care::LatePolicy, hold_us * 4),
            _ => (Care::Forgets, 1),
        };
        let holding = Holding {
            id: delivery.id,
            bucket: call.bucket,
            request: delivery.request,
            until_us,
            hold_us,
            ends_us: self.now_us + self.rng.within(0..most_us),
            care,
        };
        let manual = &mut self.manuals[at];
        manual.next_number += 1;
        let number = manual.next_number;
        manual.held.insert(number, holding);
        self.manual_works(at, number);
    }

    /// It goes on with what it works at.
    pub fn manual_works(&mut self, at: usize, number: u64) {
        let Some(holding) = self.manuals[at].held.get(&number) else {
            return;
        };
        let is_lost = self.now_us >= holding.until_us;
        if holding.care == Care::Forgets || (is_lost && holding.care == Care::Extends) {
            self.manuals[at].held.remove(&number);
            return;
        }
        if holding.ends_us <= self.now_us {
            return self.manual_ends(at, number);
        }
        let mut next_us = holding.ends_us;
        if holding.care == Care::Extends && holding.ends_us >= holding.until_us {
            let half_us = holding.until_us - holding.hold_us / 2;
            next_us = next_us.min(half_us.max(self.now_us + holding.hold_us / 8));
            if half_us <= self.now_us {
                let (bucket, hold) = (holding.bucket, Duration::from_micros(holding.hold_us));
                let op = StoreOp::Extend {
                    node: self.manuals[at].node,
                    leases: vec![(holding.id, holding.request)],
                    hold,
                };
                self.manual_asks(at, bucket, op, number);
            }
        }
        let works = Happening::ManualWorks { at, number };
        self.after(next_us - self.now_us, works);
    }

    fn manual_extended(&mut self, at: usize, number: u64, stood: bool, until_us: u64) {
        let held = &mut self.manuals[at].held;
        if !stood {
            held.remove(&number);
        } else if let Some(holding) = held.get_mut(&number) {
            holding.until_us = holding.until_us.max(until_us);
        }
    }

    /// It is done, in time or not.
    fn manual_ends(&mut self, at: usize, number: u64) {
        let Some(holding) = self.manuals[at].held.remove(&number) else {
            return;
        };
        let lease = Lease {
            node: self.manuals[at].node,
            request: holding.request,
        };
        let failing = FailureReason {
            cause: Cause::Failed,
            error: None,
        };
        let verdict = if self.rng.chance(250) {
            AttemptOutcome::Retry(Duration::from_millis(50), failing)
        } else {
            AttemptOutcome::Ack
        };
        let what = EntryKind::Ended {
            lease,
            ending: ending_of(&verdict),
            delay_us: delay_of(&verdict),
        };
        self.note(Some(holding.id), what);
        let op = settle(lease, holding.id, verdict, 0);
        self.manual_asks(at, holding.bucket, op, 0);
    }
}

fn settle(lease: Lease, id: EventId, verdict: AttemptOutcome, fetched_us: u64) -> StoreOp {
    let settlement = Settlement {
        id,
        request: lease.request,
        verdict,
        started_us: 0,
        fetched_us,
    };
    StoreOp::Settle {
        node: lease.node,
        settlements: vec![settlement],
        started: StartMark::default(),
    }
}
