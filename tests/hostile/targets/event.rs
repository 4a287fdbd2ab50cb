//! Events: their bytes, their ids, and the names of their queues.

use duly::__internal::redis::BucketKeys;
use duly::__internal::wire;
use duly::event::{BucketId, BucketKey};
use duly::{ErrorKind, EventId, QueueName};

use super::redis::sealed_body;
use super::{TIMES, bounded, in_words, prints_and_reads_back};

/// The bytes of an envelope.
pub(crate) fn envelope(data: &[u8]) {
    read_envelope(data);
    // With checksums that hold, or the reader behind them would hardly ever be reached.
    if let Some((queue, data)) = data.split_first() {
        let queue = ["q", "a.b-c"][usize::from(queue % 2)];
        let name = QueueName::new(queue).expect("a name");
        let id = EventId::from_bytes([7; 16]);
        if let Some(body) = sealed_body(id, &name, data) {
            let len = (queue.len() as u16).to_be_bytes();
            read_envelope(&[&id.to_bytes(), &len[..], queue.as_bytes(), &body].concat());
        }
    }
}

fn read_envelope(bytes: &[u8]) {
    match bounded(bytes.len(), TIMES, || wire::decode(bytes)) {
        Ok(envelope) => {
            let mut again = Vec::new();
            wire::encode(&envelope, &mut again);
            assert_eq!(again, bytes, "an envelope has one form");
            assert_eq!(wire::decode(&again).expect("it was just written"), envelope);
            let view = wire::view(bytes).expect("it was read");
            assert_eq!(view.fingerprint, envelope.fingerprint());
            assert_eq!(view.tells(), envelope.tells());
            assert_eq!(view.unique_for(), envelope.unique_for());
        }
        Err(error) => in_words(&error, &[ErrorKind::Corrupt]),
    }
}

/// The text of an event's id.
pub(crate) fn event_id(data: &[u8]) {
    if let Some(bytes) = data.first_chunk::<16>() {
        let id = EventId::from_bytes(*bytes);
        assert_eq!(id.to_bytes(), *bytes);
        assert_eq!(
            EventId::from_parts(id.created(), id.bucket(), id.entropy()),
            id
        );
        prints_and_reads_back(&id);
    }
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 4, || text.parse::<EventId>()) {
        Ok(id) => {
            let canonical = text.to_ascii_uppercase().replace(['I', 'L'], "1");
            assert_eq!(id.to_string(), canonical.replace('O', "0"));
            prints_and_reads_back(&id);
        }
        Err(error) => in_words(&error, &[ErrorKind::Invalid]),
    }
}

/// A queue's name, and the keys it is part of.
pub(crate) fn queue_name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 16, || QueueName::new(&text)) {
        Ok(name) => {
            assert!(is_a_name(&text), "{text:?} was accepted");
            assert_eq!(*name, *text);
            let number = data.iter().fold(0_u16, |sum, byte| {
                sum.wrapping_mul(31).wrapping_add((*byte).into())
            });
            survives_its_keys(&BucketKey::new(name, BucketId(number)));
        }
        Err(error) => {
            assert!(!is_a_name(&text), "{text:?} was refused");
            in_words(&error, &[ErrorKind::Invalid]);
        }
    }
}

/// What the documentation of `QueueName` says.
fn is_a_name(text: &str) -> bool {
    let mut letters = text.chars();
    let legal = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    let first = letters.next().is_some_and(|c| c != '.' && legal(c));
    first && text.len() <= 512 && letters.all(legal)
}

/// The queue and the bucket can be read out of every key, and the part in braces, by which a
/// cluster finds the slot, is they and nothing else.
pub(crate) fn survives_its_keys(bucket: &BucketKey) {
    for key in BucketKeys::new("shop", bucket).all() {
        let key = key.to_string();
        let (prefix, rest) = key.split_once('{').expect("a brace");
        let (tag, part) = rest.split_once('}').expect("another one");
        assert_eq!(prefix, "shop:");
        assert!(part.starts_with(':') && !part.contains(['{', '}']), "{key}");
        let (queue, number) = tag.rsplit_once(':').expect("a colon");
        let queue = QueueName::new(queue).expect("the name of a queue");
        let number = BucketId(number.parse().expect("a number"));
        assert_eq!(BucketKey::new(queue, number), *bucket);
    }
}
