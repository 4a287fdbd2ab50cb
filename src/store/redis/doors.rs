//! Test hooks: direct access to the parsers of URLs and server replies.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{PushInfo, Value};

use crate::core::op::{Fetch, Holding, NewEvent, PeekBy, StartMark, StoreOp, Unique};
use crate::core::push::Attempts;
use crate::error::Result;
use crate::event::{BucketId, BucketKey, Envelope, EventId, Payload, QueueName};
use crate::record::{NodeId, Record};
use crate::store::redis::answer::{self, Parts};
use crate::store::redis::topology::Slots;
use crate::store::redis::url::{Address, Target};
use crate::store::redis::{
    body, check, hub, in_parts, keys, news, outbox, push, record, registry, scripts,
};
use crate::time::{Timestamp, When};

/// Parses a URL; the result displays the servers.
///
/// # Errors
///
/// As [`RedisStore::open`](crate::store::RedisStore::open), without a connection.
pub fn url(text: &str) -> Result<impl fmt::Debug + fmt::Display> {
    Target::parse(text)
}

/// Returns every script: its name, and its hash on a server.
pub fn scripts() -> impl Iterator<Item = (&'static str, String)> {
    scripts::all().map(|script| (script.name, script.hash().to_owned()))
}

/// Returns every key and channel of a bucket.
#[must_use]
pub fn keys(prefix: &str, bucket: &BucketKey) -> Vec<Vec<u8>> {
    keys::BucketKeys::new(prefix, bucket).all().to_vec()
}

/// Returns a key that all nodes share.
#[must_use]
pub fn hub_key(prefix: &str, part: &str) -> Vec<u8> {
    keys::hub(prefix, part).into_bytes()
}

/// Encodes the body of an event.
#[must_use]
pub fn body_of(envelope: &Envelope) -> Vec<u8> {
    body::encode(envelope)
}

/// Decodes a body.
///
/// # Errors
///
/// When the bytes are invalid.
pub fn body(id: EventId, queue: &QueueName, bytes: &[u8]) -> Result<Envelope> {
    body::decode(id, queue, bytes)
}

/// Decodes the records of an outbox entry.
///
/// # Errors
///
/// When the bytes are invalid.
pub fn records(queue: &QueueName, bytes: &[u8]) -> Result<Vec<Record>> {
    let read: Option<Vec<Record>> = record::of_entry(queue, bytes).collect();
    read.ok_or_else(|| answer::unreadable("outbox"))
}

/// Passes a message, in the bytes of the protocol, to the subscription of a process that polls
/// `bucket`; returns the number of callbacks.
#[must_use]
pub fn message(prefix: &str, bucket: &BucketKey, said: &[u8]) -> usize {
    match redis::parse_redis_value(said) {
        Ok(Value::Push { kind, data }) => news::told_of(prefix, bucket, &PushInfo { kind, data }),
        _ => 0,
    }
}

/// A reply decoder, by name; its result is only displayed.
pub type Reader = fn(Value) -> Result<Box<dyn fmt::Debug>>;

/// All reply decoders.
pub const READERS: [(&str, Reader); 24] = [
    ("move_due", |value| {
        operation(
            StoreOp::MoveDue {
                limit: 10,
                calls: false,
            },
            value,
        )
    }),
    ("fetch", |value| operation(StoreOp::Fetch(fetch()), value)),
    ("settle", |value| {
        shown(in_parts::read_settled(parts(value)?, 2))
    }),
    ("heartbeat", |value| {
        let heartbeat = StoreOp::Heartbeat {
            node: NodeId(1),
            holds: Holding::default(),
            started: StartMark::default(),
        };
        operation(heartbeat, value)
    }),
    ("reconcile", |value| {
        let reconcile = StoreOp::Reconcile {
            node: NodeId(1),
            from: 0,
            through: 1,
            held: Vec::new(),
            started: StartMark::default(),
            limit: 10,
        };
        operation(reconcile, value)
    }),
    ("extend", |value| {
        let (node, leases, hold) = (NodeId(1), Vec::new(), Duration::ZERO);
        operation(StoreOp::Extend { node, leases, hold }, value)
    }),
    ("reap", |value| {
        let silent = Vec::new();
        operation(StoreOp::Reap { silent, limit: 10 }, value)
    }),
    ("cancel", |value| {
        operation(StoreOp::Cancel { id: id(1) }, value)
    }),
    ("reschedule", |value| {
        let (id, when) = (id(1), When::Now);
        operation(StoreOp::Reschedule { id, when }, value)
    }),
    ("revive", |value| {
        shown(in_parts::read_counted(parts(value)?, 2, true))
    }),
    ("drop", |value| {
        shown(in_parts::read_counted(parts(value)?, 2, false))
    }),
    ("stats", |value| operation(StoreOp::Stats, value)),
    ("forecast", |value| {
        let within = vec![Duration::ZERO; 3];
        operation(StoreOp::Forecast { within }, value)
    }),
    ("get", |value| operation(StoreOp::Get { id: id(1) }, value)),
    ("update", |value| shown(answer::updated(&mut parts(value)?))),
    ("peek", |value| {
        let (by, from, limit) = (PeekBy::All, None, 10);
        operation(StoreOp::Peek { by, from, limit }, value)
    }),
    ("push", |value| {
        let events = [new_event(1), new_event(2)];
        let mut attempts = Attempts::default();
        attempts.may_have_happened();
        shown(push::read(parts(value)?, events.iter(), &attempts))
    }),
    ("members", |value| shown(hub::read_members(parts(value)?))),
    ("queues", |value| {
        shown(hub::read_queues(&mut parts(value)?))
    }),
    ("buckets", |value| shown(registry::read_page(value))),
    ("controls", |value| shown(hub::read_controls(value))),
    ("outbox", |value| {
        shown(outbox::read(&queue(), 1, parts(value)?))
    }),
    ("slots", |value| {
        let (host, port) = ("h".to_owned(), 6379);
        let slots = Slots::read(value, &Address { host, port });
        shown(slots.map_err(|_| answer::unreadable("CLUSTER SLOTS")))
    }),
    ("info", |value| shown(Ok(check::info(value)))),
];

/// Passes a reply, in the bytes of the protocol, to a decoder.
///
/// # Errors
///
/// When the decoder does not accept the reply.
pub fn answer(reader: Reader, said: &[u8]) -> Result<Box<dyn fmt::Debug>> {
    let value = redis::parse_redis_value(said);
    reader(value.map_err(|_| answer::unreadable("the protocol"))?)
}

fn shown<T: fmt::Debug + 'static>(read: Result<T>) -> Result<Box<dyn fmt::Debug>> {
    read.map(|read| Box::new(read) as _)
}

fn parts(value: Value) -> Result<Parts> {
    Parts::of("door", value)
}

#[allow(clippy::needless_pass_by_value)] // made for this call
fn operation(op: StoreOp, value: Value) -> Result<Box<dyn fmt::Debug>> {
    let read = answer::read(&queue(), &op, parts(value)?)?;
    shown(Ok((read.answer, read.damaged)))
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap_or_else(|_| unreachable!("the name is a legal one"))
}

fn id(entropy: u64) -> EventId {
    EventId::from_parts(Timestamp::EPOCH, BucketId(0), entropy)
}

fn fetch() -> Fetch {
    Fetch {
        node: NodeId(1),
        request: 1,
        limit: 10,
        ahead: Duration::ZERO,
        ahead_limit: 10,
        hold: None,
        starts: 0,
    }
}

fn new_event(entropy: u64) -> NewEvent {
    NewEvent {
        envelope: Arc::new(Envelope::new(id(entropy), queue(), Payload::default())),
        when: When::Now,
        on_taken: Unique::Keep,
    }
}
