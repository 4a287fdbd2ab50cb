//! What a Redis store is told: its URL, what lies there, what servers answer.

use duly::__internal::redis::{Target, decode, encode};
use duly::event::{BucketId, BucketKey, Envelope};
use duly::records::{Cause, Outcome, Record};
use duly::{ErrorKind, EventId, QueueName};
use xxhash_rust::xxh3::xxh3_64;

use super::redis_readers::{READERS, message, protocol, records};
use super::{ANSWER, TIMES, bounded, few_words, in_words};

/// The URL of a Redis store.
pub(crate) fn store_url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), TIMES, || Target::parse(&text)) {
        Ok(url) => assert!(!url.to_string().is_empty() && !format!("{url:?}").is_empty()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            few_words(&error);
        }
    }
}

/// The body of an event as it lies in Redis.
pub(crate) fn redis_body(data: &[u8]) {
    let id = EventId::from_bytes([7; 16]);
    let queue = QueueName::new("q").expect("a name");
    read_body(id, &queue, data);
    if let Some(sealed) = sealed_body(id, &queue, data) {
        read_body(id, &queue, &sealed);
    }
}

fn read_body(id: EventId, queue: &QueueName, bytes: &[u8]) {
    match bounded(bytes.len(), TIMES, || decode(id, queue, bytes)) {
        Ok(envelope) => comes_back_out_of_its_body(&envelope),
        Err(error) => {
            in_words(&error, &[ErrorKind::Corrupt]);
            assert!(error.to_string().contains(&id.to_string()), "{error}");
        }
    }
}

/// An envelope's body is an envelope again.
pub(crate) fn comes_back_out_of_its_body(envelope: &Envelope) {
    let bytes = encode(envelope);
    let again = decode(envelope.id, &envelope.queue, &bytes).expect("it was just written");
    assert_eq!(again, *envelope);
}

/// The body with the check and the fingerprint that are right for the rest of it.
pub(crate) fn sealed_body(id: EventId, queue: &QueueName, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = bytes.to_vec();
    let extras = match bytes.first()? & 2 {
        0 => 0,
        _ => 4 + u32::from_be_bytes(*bytes.get(12..)?.first_chunk()?) as usize,
    };
    let (head, payload) = bytes.split_at_checked(extras.checked_add(12)?)?;
    let fingerprint = xxh3_64(&[queue.as_bytes(), &[0], payload].concat());
    sealed[4..12].copy_from_slice(&fingerprint.to_be_bytes());
    let check = xxh3_64(&[&id.to_bytes(), &sealed[..1], &sealed[4..head.len()]].concat());
    sealed[1..4].copy_from_slice(&check.to_be_bytes()[5..]);
    Some(sealed)
}

/// What a server answers: the name of the reader on a line, and then the bytes of the protocol.
pub(crate) fn redis_answer(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    let (name, said) = data.split_at(end.map_or(0, |end| end + 1));
    let known = READERS
        .iter()
        .find(|(known, _)| known.as_bytes() == name.trim_ascii());
    // A name that is not known is any of them.
    let any = xxh3_64(name) as usize % READERS.len();
    let (_, reader) = known.unwrap_or(&READERS[any]);
    let read = |value| bounded(ANSWER + said.len(), TIMES, || reader(value));
    match protocol(said).and_then(read) {
        Ok(read) => assert!(!format!("{read:?}").is_empty()),
        Err(error) => in_words(&error, &[ErrorKind::Corrupt]),
    }
}

/// An entry of an outbox.
pub(crate) fn redis_outbox(data: &[u8]) {
    let queue = QueueName::new("q").expect("a name");
    match bounded(data.len(), TIMES, || records(&queue, data)) {
        Ok(read) => {
            let again: Vec<u8> = read.iter().flat_map(entry_of).collect();
            if again != data {
                let is_ack = |it: &Record| it.outcome == Outcome::Acked && it.attempt == 1;
                assert!(read.iter().any(is_ack), "only acks have another form");
                let once_more = records(&queue, &again).expect("what was read can be written");
                assert_eq!(once_more, read, "a record means the same in both forms");
            }
        }
        Err(error) => in_words(&error, &[ErrorKind::Corrupt]),
    }
}

/// A record as `src/store/redis/op/record.rs` says that it lies in an outbox.
pub(crate) fn entry_of(record: &Record) -> Vec<u8> {
    let place = |at: Option<usize>| at.map_or(0, |at| at as u8 + 1);
    let outcome = Outcome::ALL.iter().position(|it| *it == record.outcome);
    let cause = record.cause;
    let cause = cause.and_then(|cause| Cause::ALL.iter().position(|it| *it == cause));
    let more = [
        record.trace.is_some(),
        record.payload.is_some(),
        record.by.is_some(),
    ];
    let more = (0..).zip(more).map(|(bit, set)| u8::from(set) << bit);
    let more: u8 = more.sum();
    let mut bytes = record.id.to_bytes().to_vec();
    bytes.extend([
        place(outcome),
        place(cause) | if more > 0 { 128 } else { 0 },
    ]);
    bytes.extend(record.attempt.to_be_bytes());
    let stages = record.stages;
    for number in [
        record.due.as_millis(),
        stages.moved_us,
        stages.fetched_us,
        stages.started_us,
        stages.finished_us,
        record.node.0,
    ] {
        bytes.extend(number.to_be_bytes());
    }
    for text in [&record.key, &record.error] {
        let len = text.as_ref().map_or(0, |text| text.len() as u16 + 1);
        bytes.extend(len.to_be_bytes());
        bytes.extend(text.iter().flat_map(|text| text.bytes()));
    }
    bytes.extend((more > 0).then_some(more));
    bytes.extend(record.trace.iter().flat_map(|trace| trace.to_bytes()));
    if let Some(payload) = &record.payload {
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload.as_bytes());
    }
    if let Some(by) = &record.by {
        bytes.extend((by.len() as u16).to_be_bytes());
        bytes.extend(by.bytes());
    }
    bytes
}

/// A message on the subscription, in the bytes of the protocol.
pub(crate) fn redis_news(data: &[u8]) {
    let bucket = BucketKey::new(QueueName::new("q").expect("a name"), BucketId(0));
    let Ok(said) = protocol(data) else {
        return;
    };
    let told = bounded(data.len(), TIMES, || message("duly", &bucket, said));
    assert!(told <= 1, "one message was told {told} times");
}
