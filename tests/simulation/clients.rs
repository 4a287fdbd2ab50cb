//! Those who push, cancel, reschedule, update and revive, and repeat what was not answered.

mod replies;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duly::event::Envelope;
use duly::store::operation::{NewEvent, StoreOp};
use duly::time::{Timestamp, When};
use duly::{EventId, LatePolicy, QueueName, Unique};
use duly_conformance::history::EntryKind;

use crate::network::Caller;
use crate::pushes::{BusPush, renewed};
use crate::store::{payload_of, value_of};
use crate::world::{Happening, World};

/// So many events are pushed when everything is well again.
const AFTERWARDS: u64 = 4;

/// How a changed payload tells itself from the first one.
const CONFLICT: u64 = 0xFFFF;

/// Every operation that clients make.
#[derive(Debug, Default)]
pub struct Clients {
    ops: Vec<ClientOp>,
    buckets: BTreeMap<EventId, usize>,
    answered: usize,
    /// Which id each value is stored under: a value is pushed once.
    values: BTreeMap<u64, EventId>,
}

#[derive(Debug)]
struct ClientOp {
    bucket: usize,
    id: EventId,
    op: StoreOp,
    is_answered: bool,
    /// The network has made a copy of a request for it, which may come after the other was
    /// answered, or of an answer, which is then taken for that to a later attempt.
    is_copied: bool,
    /// Through the bus, if it is a push of one who does not repeat it himself.
    push: Option<BusPush>,
}

impl Clients {
    /// The place of the bucket that an event lives in.
    pub fn bucket_of(&self, id: EventId) -> Option<usize> {
        self.buckets.get(&id).copied()
    }

    pub fn are_answered(&self) -> bool {
        self.answered == self.ops.len()
    }

    pub fn id_of(&self, at: usize) -> EventId {
        self.ops[at].id
    }

    /// The event of a push.
    pub fn event_of(&self, at: usize) -> NewEvent {
        match &self.ops[at].op {
            StoreOp::Push(events) => events[0].clone(),
            other => panic!("{other:?} is no push"),
        }
    }

    pub fn is_answered(&mut self, at: usize) {
        self.ops[at].is_answered = true;
        self.answered += 1;
    }

    /// The network makes a copy of a request for it, or of an answer.
    pub fn is_copied(&mut self, at: usize) {
        self.ops[at].is_copied = true;
    }

    /// Whether it may happen after it was refused.
    pub fn was_copied(&self, at: usize) -> bool {
        self.ops[at].is_copied
    }

    /// A push through the bus is tried again.
    pub fn go_on(&mut self, at: usize, push: BusPush) {
        self.ops[at].push = Some(push);
    }

    /// A push through the bus is tried under a new id. That is another operation, so that what
    /// still comes of the first one, a copy of its answer above all, is not taken for the answer to
    /// this one.
    pub fn renew(&mut self, at: usize, push: BusPush, now: Timestamp) -> usize {
        let bucket = self.ops[at].bucket;
        let (id, op) = renewed(&self.event_of(at), now);
        self.buckets.insert(id, bucket);
        self.is_answered(at);
        self.ops.push(ClientOp {
            bucket,
            id,
            op,
            is_answered: false,
            is_copied: false,
            push: Some(push),
        });
        self.ops.len() - 1
    }
}

impl World {
    pub fn plan_clients(&mut self) {
        let pushing_us = self.plan.heal_us * 9 / 10;
        let mut ids = vec![Vec::new(); self.keys.len()];
        for value in 1..=self.plan.events as u64 {
            let at_us = self.rng.within(0..pushing_us);
            let bucket = self.some_bucket(at_us);
            let id = self.new_id(bucket, value, at_us);
            ids[bucket].push(id);
            self.plan_life(bucket, id, value << 16, at_us);
        }
        // Whatever has happened, in the end all is as if nothing had.
        let afterwards = if self.plan.goes_on { AFTERWARDS } else { 0 };
        for value in 1..=afterwards {
            let calm_us = self.plan.heal_us + self.plan.calm_after_us() + 500_000;
            let at_us = calm_us + self.rng.within(0..1_000_000);
            let bucket = self.some_bucket(at_us);
            let value = self.plan.events as u64 + value;
            let id = self.new_id(bucket, value, at_us);
            let push = self.new_push(bucket, id, value << 16, at_us);
            self.plan_op(at_us, bucket, id, StoreOp::Push(vec![push]));
        }
        for (bucket, ids) in ids.into_iter().enumerate() {
            for at_us in [self.plan.heal_us / 2, self.plan.heal_us + 1_500_000] {
                if self.rng.chance(400) && !ids.is_empty() {
                    let op = StoreOp::Revive {
                        ids: ids.clone(),
                        by: None,
                    };
                    self.plan_op(at_us, bucket, ids[0], op);
                }
            }
        }
    }

    /// So many events within a span, every second one of them delayed, and nothing else.
    pub fn plan_steady(&mut self, events: u64, span_us: u64) {
        for value in 1..=events {
            let at_us = self.rng.within(0..span_us);
            let bucket = self.some_bucket(at_us);
            let id = self.new_id(bucket, value, at_us);
            let queue: QueueName = self.keys[bucket].1.queue.clone();
            let delay_us = (value % 2) * self.rng.within(200_000..span_us);
            let push = NewEvent {
                envelope: Arc::new(Envelope::new(
                    id,
                    queue,
                    payload_of(value << 16, self.plan.payload_bytes),
                )),
                when: When::from(Duration::from_micros(delay_us)),
                on_taken: Unique::Keep,
            };
            self.plan_op(at_us, bucket, id, StoreOp::Push(vec![push]));
        }
    }

    /// A bucket of those that are pushed to at that time.
    fn some_bucket(&mut self, at_us: u64) -> usize {
        let queue = self.rng.within(0..self.plan.queues as u64);
        let bucket = self.rng.within(0..self.plan.buckets_at(at_us) as u64);
        queue as usize * self.plan.buckets_max() + bucket as usize
    }

    /// An id of whoever pushes, by whatever his clock shows.
    fn new_id(&mut self, bucket: usize, value: u64, at_us: u64) -> EventId {
        let mut created_us = self.store.clock_us(at_us);
        let off_us = self.plan.client_clocks_us;
        if off_us > 0 && self.rng.chance(300) {
            created_us = created_us + self.rng.within(0..2 * off_us) - off_us;
        }
        let created = Timestamp::from_millis(created_us / 1_000);
        let entropy = self.rng.next() << 16 | value;
        EventId::from_parts(created, self.keys[bucket].1.bucket, entropy)
    }

    /// All that will be asked about one event.
    fn plan_life(&mut self, bucket: usize, id: EventId, value: u64, at_us: u64) {
        let push = self.new_push(bucket, id, value, at_us);
        let again = push.clone();
        self.plan_op(at_us, bucket, id, StoreOp::Push(vec![push]));
        let is_made = self.rng.chance(500);
        if is_made {
            let push = self.some_bus_push(at_us);
            self.clients.ops.last_mut().expect("just planned").push = Some(push);
        }
        // Some come when leases have been lost.
        let later = |world: &mut Self| {
            let most_us = world.rng.pick(&[1_000_000, 7_000_000]);
            at_us + world.rng.within(0..most_us)
        };
        // An id that the bus made is pushed again by nobody else.
        if !is_made && self.rng.chance(120) {
            let at_us = later(self);
            self.plan_op(at_us, bucket, id, StoreOp::Push(vec![again]));
        }
        if !is_made && self.rng.chance(40) {
            let at_us = later(self);
            let other = self.new_push(bucket, id, value | CONFLICT, at_us);
            self.plan_op(at_us, bucket, id, StoreOp::Push(vec![other]));
        }
        if self.rng.chance(300) {
            let at_us = later(self);
            self.plan_op(at_us, bucket, id, StoreOp::Cancel { id });
        }
        if self.rng.chance(120) {
            let (at_us, when) = (later(self), self.some_when(at_us));
            self.plan_op(at_us, bucket, id, StoreOp::Reschedule { id, when });
        }
        if self.rng.chance(120) {
            let (at_us, version) = (later(self), self.rng.within(1..CONFLICT));
            let payload = payload_of(value | version, self.plan.payload_bytes);
            let update = StoreOp::Update {
                id,
                payload,
                by: None,
                dead_only: false,
            };
            self.plan_op(at_us, bucket, id, update);
        }
    }

    fn new_push(&mut self, bucket: usize, id: EventId, value: u64, at_us: u64) -> NewEvent {
        let queue: QueueName = self.keys[bucket].1.queue.clone();
        let mut envelope = Envelope::new(id, queue, payload_of(value, self.plan.payload_bytes));
        envelope.attempts = u16::try_from(self.rng.within(1..6)).unwrap_or(1);
        if self.rng.chance(50) {
            let lives_us = self.rng.within(100_000..4_000_000);
            let expires = self.store.clock_us(at_us + lives_us);
            envelope.expires = Some(Timestamp::from_micros_up(expires));
        }
        if self.rng.chance(50) {
            let late = Duration::from_micros(self.rng.within(1_000..2_000_000));
            envelope.late = self
                .rng
                .pick(&[LatePolicy::Expire(late), LatePolicy::Bury(late)]);
        }
        if self.rng.chance(100) {
            envelope.unique = Some(self.rng.pick(&["one", "two"]).to_owned());
        }
        NewEvent {
            envelope: Arc::new(envelope),
            when: self.some_when(at_us),
            on_taken: self.rng.pick(&[Unique::Keep, Unique::Replace]),
        }
    }

    fn some_when(&mut self, at_us: u64) -> When {
        let delay_us = match self.rng.within(0..10) {
            0..3 => 0,
            3..5 => self.rng.within(1..3_000),
            5..9 => self.rng.within(3_000..1_500_000),
            _ => self.rng.within(1_000_000..6_000_000),
        };
        if self.rng.chance(200) {
            let due = self.store.clock_us(at_us + delay_us);
            return When::At(Timestamp::from_micros_up(due));
        }
        When::from(Duration::from_micros(delay_us))
    }

    fn plan_op(&mut self, at_us: u64, bucket: usize, id: EventId, op: StoreOp) {
        self.after(at_us, Happening::Asks(self.clients.ops.len()));
        self.clients.buckets.insert(id, bucket);
        self.clients.ops.push(ClientOp {
            bucket,
            id,
            op,
            is_answered: false,
            is_copied: false,
            push: None,
        });
    }

    /// An operation is sent, for the first time or again.
    pub fn client_asks(&mut self, at: usize) {
        let ClientOp {
            bucket,
            op,
            id,
            is_answered,
            ..
        } = &self.clients.ops[at];
        if *is_answered {
            return; // by an answer to an earlier question
        }
        let (bucket, op, id) = (*bucket, op.clone(), *id);
        if let StoreOp::Push(events) = &op {
            let envelope = &events[0].envelope;
            let what = EntryKind::PushAsked {
                payload: value_of(&envelope.payload),
                attempts: envelope.attempts,
            };
            self.note(Some(id), what);
        }
        self.send_from_client(Caller::Client(at), bucket, op);
    }
}
