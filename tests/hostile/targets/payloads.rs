//! Stored payloads: their frames, ciphers and values.

use duly::codec::{Frame, Key, KeyRing, OpenError};
use duly::event::Payload;
use duly::{EventId, QueueName};

use super::bounded;

/// A stored payload: its frame, its cipher, and its value by each codec.
pub(crate) fn payload(data: &[u8]) {
    let (id, queue) = (EventId::from_bytes([7; 16]), QueueName::new("q").unwrap());
    let keys = KeyRing::new();
    keys.add("k", Key::new([7; 32])).unwrap();
    let payload = Payload::from(data);
    let opened = bounded(data.len(), 4, || keys.open(id, &queue, &payload));
    match Frame::read(data) {
        Ok(frame) => {
            assert!(frame.rest.len() <= data.len());
            assert!(frame.key_id.is_none_or(|key| (1..=64).contains(&key.len())));
            assert_eq!(
                frame.key_id.is_none(),
                opened.is_ok_and(|it| !it.is_sealed())
            );
        }
        Err(_) => assert!(matches!(
            opened,
            Err(OpenError::Malformed(_) | OpenError::Newer(_))
        )),
    }
}
