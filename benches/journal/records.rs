//! Records like those of a month of several queues, the same in every run.

use duly::event::{BucketId, TraceId};
use duly::records::{Cause, NodeId, Numbered, Outcome, Record, Stages};
use duly::time::Timestamp;
use duly::{EventId, QueueName};

/// When the first one finished, in microseconds since the epoch.
pub(crate) const START_US: u64 = 1_760_000_000_000_000;
/// From one to the next on average: five million in a day.
pub(crate) const STEP_US: u64 = 17_280;

pub(crate) const QUEUES: [&str; 6] = [
    "order-close",
    "order-remind",
    "sms-send",
    "token-renew",
    "invoice",
    "rare",
];

/// A number that looks random, the same for the same two.
fn pick(n: u64, field: u64) -> u64 {
    let mut mixed = (n * 16 + field).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The id of the event of the `n`-th record: half were pushed for at once, half for within the
/// next half hour.
pub(crate) fn id(n: u64) -> EventId {
    // One record in twenty is a second attempt.
    let n = if n.is_multiple_of(20) && n > 1_000 {
        n - 903
    } else {
        n
    };
    let delay_us = match pick(n, 0) % 2 {
        0 => 3_000,
        _ => pick(n, 1) % 1_800_000_000,
    };
    let created = Timestamp::from_millis((finished_us(n) - delay_us) / 1_000);
    let bucket = BucketId((pick(n, 2) % 8) as u16);
    EventId::from_parts(created, bucket, pick(n, 3))
}

pub(crate) fn finished_us(n: u64) -> u64 {
    START_US + n * STEP_US + pick(n, 4) % STEP_US
}

pub(crate) fn queue(n: u64) -> QueueName {
    let at = match pick(n, 5) % 1_000 {
        0 => 5,
        many => many % 5,
    };
    QueueName::new(QUEUES[at as usize]).expect("a legal name")
}

pub(crate) fn key(n: u64) -> Option<String> {
    pick(n, 6)
        .is_multiple_of(2)
        .then(|| format!("order:{}", pick(n, 7) % 1_000_000))
}

pub(crate) fn trace(n: u64) -> Option<TraceId> {
    let bytes = u128::from(n / 3 + 1) << 64 | u128::from(pick(n / 3, 8));
    let is_traced = pick(n / 3, 9).is_multiple_of(4);
    is_traced.then(|| TraceId::from_bytes(bytes.to_be_bytes()))?
}

pub(crate) fn node(n: u64) -> NodeId {
    NodeId(pick(pick(n, 10) % 8, 11))
}

/// The `n`-th record of all, from 0.
pub(crate) fn record(n: u64) -> Numbered {
    let (outcome, cause) = match pick(n, 12) % 1_000 {
        0..=3 => (Outcome::Buried, Some(Cause::Failed)),
        4..=33 => (Outcome::Retried, Some(Cause::Failed)),
        34..=38 => (Outcome::Retried, Some(Cause::TimedOut)),
        39 => (Outcome::LeaseLost, Some(Cause::LeaseLost)),
        40..=46 => (Outcome::Cancelled, None),
        47..=49 => (Outcome::Expired, None),
        _ => (Outcome::Acked, None),
    };
    let partner = pick(n, 13) % 50;
    let error = cause.map(|cause| format!("{cause}: partner {partner} answered 503 to order {n}"));
    let finished_us = finished_us(n);
    let started_us = finished_us - 2_000 - pick(n, 14) % 5_000;
    let record = Record {
        id: id(n),
        queue: queue(n),
        key: key(n),
        attempt: 1,
        outcome,
        cause,
        due: Timestamp::from_millis(started_us / 1_000 - pick(n, 15) % 3),
        stages: Stages {
            moved_us: started_us - 200,
            fetched_us: started_us - 100,
            started_us,
            finished_us,
        },
        node: node(n),
        error,
        trace: trace(n),
        payload: None,
        by: None,
    };
    (n + 1, record)
}
