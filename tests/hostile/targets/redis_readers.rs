//! The decoders of what a Redis server returns.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duly::__internal::Attempts;
use duly::__internal::redis::{self as readers, Address, ReplyReader, Slots, unreadable};
use duly::event::{BucketId, BucketKey, Envelope, Payload};
use duly::records::{NodeId, Record};
use duly::store::operation::{Fetch, Holding, NewEvent, PeekBy, StartMark, StoreOp};
use duly::time::{Timestamp, When};
use duly::{EventId, QueueName, Result, Unique};
use redis::{PushInfo, Value};

/// The records of an entry of an outbox.
pub(crate) fn records(queue: &QueueName, bytes: &[u8]) -> Result<Vec<Record>> {
    let read: Option<Vec<Record>> = readers::of_entry(queue, bytes).collect();
    read.ok_or_else(|| unreadable("outbox"))
}

/// Reads the bytes of the protocol. That is the work of the `redis` package, which reserves room for
/// as many elements as an array says that it has: what it holds is not counted as a reader's.
pub(crate) fn protocol(said: &[u8]) -> Result<Value> {
    redis::parse_redis_value(said).map_err(|_| unreadable("the protocol"))
}

/// Passes a message to the subscription of a process that polls `bucket`; returns the number of
/// callbacks.
pub(crate) fn message(prefix: &str, bucket: &BucketKey, said: Value) -> usize {
    match said {
        Value::Push { kind, data } => {
            readers::callbacks_of(prefix, bucket, &PushInfo { kind, data })
        }
        _ => 0,
    }
}

/// A reply decoder, by name; its result is only displayed.
pub(crate) type Reader = fn(Value) -> Result<Box<dyn fmt::Debug>>;

/// All reply decoders.
pub(crate) const READERS: [(&str, Reader); 25] = [
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
        shown(readers::read_settled(parts(value)?, 2))
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
        shown(readers::read_counted(parts(value)?, 2, true))
    }),
    ("drop", |value| {
        shown(readers::read_counted(parts(value)?, 2, false))
    }),
    ("stats", |value| operation(StoreOp::Stats, value)),
    ("forecast", |value| {
        let within = vec![Duration::ZERO; 3];
        operation(StoreOp::Forecast { within }, value)
    }),
    ("get", |value| operation(StoreOp::Get { id: id(1) }, value)),
    ("update", |value| {
        shown(readers::read_updated(parts(value)?))
    }),
    ("peek", |value| {
        let (by, from, limit) = (PeekBy::All, None, 10);
        operation(StoreOp::Peek { by, from, limit }, value)
    }),
    ("push", |value| {
        let events = [new_event(1), new_event(2)];
        let mut attempts = Attempts::default();
        attempts.may_have_happened();
        shown(readers::read_pushed(
            parts(value)?,
            events.iter(),
            &attempts,
        ))
    }),
    ("members", |value| {
        shown(readers::read_members(parts(value)?))
    }),
    ("queues", |value| {
        shown(readers::read_queues(&mut parts(value)?))
    }),
    ("host", |value| {
        shown(readers::read_host(&mut parts(value)?))
    }),
    ("buckets", |value| shown(readers::read_page(value))),
    ("controls", |value| shown(readers::read_controls(value))),
    ("outbox", |value| {
        shown(readers::read_outbox(&queue(), 1, parts(value)?))
    }),
    ("slots", |value| {
        let (host, port) = ("h".to_owned(), 6379);
        let slots = Slots::read(value, &Address { host, port });
        shown(slots.map_err(|_| unreadable("CLUSTER SLOTS")))
    }),
    ("info", |value| shown(Ok(readers::info(value)))),
];

fn shown<T: fmt::Debug + 'static>(read: Result<T>) -> Result<Box<dyn fmt::Debug>> {
    read.map(|read| Box::new(read) as _)
}

fn parts(value: Value) -> Result<ReplyReader> {
    ReplyReader::of("door", value)
}

#[allow(clippy::needless_pass_by_value)] // made for this call
fn operation(op: StoreOp, value: Value) -> Result<Box<dyn fmt::Debug>> {
    let read = readers::read(&queue(), &op, parts(value)?)?;
    shown(Ok((read.response, read.damaged)))
}

fn queue() -> QueueName {
    QueueName::new("q").expect("a name")
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
