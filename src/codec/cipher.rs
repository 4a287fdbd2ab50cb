//! AES-256-GCM-SIV (RFC 8452) with one key.

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};

use crate::codec::frame::{Frame, PayloadForm};
use crate::event::{EventId, QueueName};

/// The cipher of one key.
///
/// The nonce is derived from the event's id, so encrypting the same payload of the same event gives
/// the same bytes and a push can be repeated. An updated payload reuses its nonce, which this
/// cipher is designed for: an observer of both learns only whether they are equal.
pub(super) struct Cipher {
    aead: Aes256GcmSiv,
    /// Identifies the key without revealing it.
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

    /// Returns whether both have the same key.
    pub(super) fn is_of_key(&self, other: &Self) -> bool {
        self.mark == other.mark
    }

    /// Encrypts a value; returns the stored bytes.
    pub(super) fn seal(
        &self,
        (id, queue): (EventId, &QueueName),
        form: PayloadForm,
        key: &str,
        value: &[u8],
    ) -> Option<Vec<u8>> {
        let mut bytes = form.head(Some(key));
        let aad = &bound(id, queue, &bytes);
        let sealed = self.aead.encrypt(&nonce(id), Payload { msg: value, aad });
        bytes.extend_from_slice(&sealed.ok()?);
        Some(bytes)
    }

    /// Decrypts a frame; `None` if it was encrypted with another key, or for another event or
    /// queue, or was modified.
    pub(super) fn open(
        &self,
        (id, queue): (EventId, &QueueName),
        frame: &Frame<'_>,
    ) -> Option<Vec<u8>> {
        let (msg, aad) = (frame.rest, &bound(id, queue, frame.head));
        self.aead.decrypt(&nonce(id), Payload { msg, aad }).ok()
    }
}

/// The end of an event's id, which differs between ids of the same time.
fn nonce(id: EventId) -> Nonce {
    let [_, _, _, _, nonce @ ..] = id.to_bytes();
    Nonce::from(nonce)
}

/// The associated data that binds a ciphertext to its event, its queue and its head.
fn bound(id: EventId, queue: &QueueName, head: &[u8]) -> Vec<u8> {
    let mut bound = id.to_bytes().to_vec();
    match u8::try_from(queue.len()) {
        Ok(len) => bound.push(len),
        // No name has a length of 0, so it marks the longer form.
        Err(_) => {
            bound.push(0);
            bound.extend_from_slice(&(queue.len() as u16).to_be_bytes()); // at most 512
        }
    }
    bound.extend_from_slice(queue.as_bytes());
    bound.extend_from_slice(head);
    bound
}
