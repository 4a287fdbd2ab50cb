//! AES-256-GCM-SIV (RFC 8452) under one key.

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};

use crate::codec::frame::{Form, Frame};
use crate::event::{EventId, QueueName};

/// The cipher of one key.
///
/// The nonce is taken from the event's id: the same payload of the same event is the same bytes
/// again, so that a push can be repeated. A payload that is changed meets its nonce a second time,
/// which this cipher is made for: who sees both learns whether they are equal, and nothing else.
pub(super) struct Cipher {
    aead: Aes256GcmSiv,
    /// Tells two keys apart without keeping either.
    mark: Vec<u8>,
}

impl Cipher {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let aead = Aes256GcmSiv::new(key.into());
        let nothing = Payload {
            msg: &[],
            aad: b"duly: which key this is",
        };
        let mark = aead.encrypt(&Nonce::default(), nothing);
        let mark = mark.expect("only a text of 64 GiB or more is refused");
        Self { aead, mark }
    }

    /// Whether both are of the same key.
    pub(super) fn is_of_key(&self, other: &Self) -> bool {
        self.mark == other.mark
    }

    /// The stored bytes of a value.
    pub(super) fn seal(
        &self,
        (id, queue): (EventId, &QueueName),
        form: Form,
        key: &str,
        value: &[u8],
    ) -> Option<Vec<u8>> {
        let mut bytes = form.head(Some(key));
        let aad = &bound(id, queue, &bytes);
        let sealed = self.aead.encrypt(&nonce(id), Payload { msg: value, aad });
        bytes.extend_from_slice(&sealed.ok()?);
        Some(bytes)
    }

    /// The value of a frame that was sealed; `None` if it was not by this key, or not for this
    /// event of this queue, or was changed since.
    pub(super) fn open(
        &self,
        (id, queue): (EventId, &QueueName),
        frame: &Frame<'_>,
    ) -> Option<Vec<u8>> {
        let (msg, aad) = (frame.rest, &bound(id, queue, frame.head));
        self.aead.decrypt(&nonce(id), Payload { msg, aad }).ok()
    }
}

/// The end of an event's id, where ids that are made at the same time differ.
fn nonce(id: EventId) -> Nonce {
    let [_, _, _, _, nonce @ ..] = id.to_bytes();
    Nonce::from(nonce)
}

/// What a ciphertext is bound to, so that it opens nowhere else: its event, its queue, its head.
fn bound(id: EventId, queue: &QueueName, head: &[u8]) -> Vec<u8> {
    let mut bound = id.to_bytes().to_vec();
    bound.push(queue.as_str().len() as u8); // at most 128
    bound.extend_from_slice(queue.as_bytes());
    bound.extend_from_slice(head);
    bound
}
