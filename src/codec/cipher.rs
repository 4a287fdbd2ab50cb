//! AES-256-GCM under one key, with a nonce that is made of the content.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::{hkdf, hmac};

use crate::codec::frame::{Form, Frame, NONCE_LEN};
use crate::event::{EventId, QueueName};

/// Separates what is derived here from whatever else a key may be used for.
const SALT: &[u8] = b"duly payload 1";

/// What is derived from one key.
///
/// The nonce is a keyed hash of the event, its queue, the frame's head and the value: the same
/// payload of the same event is the same bytes again, so that a push can be repeated, and two that
/// differ in anything have nonces that differ.
pub(super) struct Cipher {
    aead: LessSafeKey,
    nonces: hmac::Key,
    /// Tells two keys apart without keeping either.
    mark: hmac::Tag,
}

impl Cipher {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(key);
        let too_long = "HKDF makes up to 8,160 bytes, and 32 are asked for";
        let cipher = derived.expand(&[b"cipher"], &AES_256_GCM).expect(too_long);
        let nonces = derived.expand(&[b"nonce"], hmac::HMAC_SHA256);
        let nonces = hmac::Key::from(nonces.expect(too_long));
        Self {
            aead: LessSafeKey::new(UnboundKey::from(cipher)),
            mark: hmac::sign(&nonces, b"which key this is"),
            nonces,
        }
    }

    /// Whether both are of the same key.
    pub(super) fn is_of_key(&self, other: &Self) -> bool {
        self.mark.as_ref() == other.mark.as_ref()
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
        let bound = bound(id, queue, &bytes);
        let nonce = self.nonce(&bound, value);
        bytes.extend_from_slice(&nonce);
        let at = bytes.len();
        bytes.extend_from_slice(value);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .aead
            .seal_in_place_separate_tag(nonce, Aad::from(&bound), &mut bytes[at..]);
        bytes.extend_from_slice(tag.ok()?.as_ref());
        Some(bytes)
    }

    /// The value of a frame that was sealed; `None` if it was not by this key, or not for this
    /// event of this queue, or was changed since.
    pub(super) fn open(
        &self,
        (id, queue): (EventId, &QueueName),
        frame: &Frame<'_>,
    ) -> Option<Vec<u8>> {
        let sealed = frame.sealed?;
        let bound = bound(id, queue, frame.head);
        let nonce = Nonce::assume_unique_for_key(sealed.nonce);
        let mut bytes = frame.rest.to_vec();
        let opened = self
            .aead
            .open_in_place(nonce, Aad::from(&bound), &mut bytes);
        let len = opened.ok()?.len();
        bytes.truncate(len);
        Some(bytes)
    }

    fn nonce(&self, bound: &[u8], value: &[u8]) -> [u8; NONCE_LEN] {
        let mut hash = hmac::Context::with_key(&self.nonces);
        hash.update(&(bound.len() as u64).to_le_bytes());
        hash.update(bound);
        hash.update(value);
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&hash.sign().as_ref()[..NONCE_LEN]); // of 32 bytes
        nonce
    }
}

/// What a ciphertext is bound to, so that it opens nowhere else: its event, its queue, its head.
fn bound(id: EventId, queue: &QueueName, head: &[u8]) -> Vec<u8> {
    let mut bound = id.to_bytes().to_vec();
    bound.push(queue.as_str().len() as u8); // at most 128
    bound.extend_from_slice(queue.as_bytes());
    bound.extend_from_slice(head);
    bound
}
