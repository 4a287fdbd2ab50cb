//! The key ring: encryption keys of a bus, which can be changed while it runs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::codec::cipher::Cipher;
use crate::codec::decrypted::{DecryptedPayload, OpenError};
use crate::codec::form::Codec;
use crate::codec::frame::{Frame, KEY_ID_BYTES_MAX, PayloadForm};
use crate::error::{Error, Result, shown};
use crate::event::{EventId, Payload, QueueName};

/// The most keys of a ring.
pub const KEYS_MAX: usize = 64;

/// An AES-256 key: 32 secret bytes. `Debug` prints nothing of it, and dropping it overwrites it.
///
/// # Examples
///
/// ```
/// use duly::codec::Key;
///
// As printed by `openssl rand -base64 32`.
/// let key: Key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=".parse()?;
/// assert_eq!(format!("{key:?}"), "Key(..)");
/// assert!("too short".parse::<Key>().is_err());
/// # Ok::<(), duly::Error>(())
/// ```
pub struct Key([u8; 32]);

impl Key {
    /// Creates a key from bytes of a cryptographic random source.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl std::str::FromStr for Key {
    type Err = Error;

    /// Parses the base64 of 32 bytes, with or without padding. The error quotes nothing of it.
    fn from_str(text: &str) -> Result<Self> {
        const ANY_PADDING: GeneralPurposeConfig =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, ANY_PADDING);
        let mut bytes = [0; 36]; // the decoder needs room for whole groups
        let is_key = text.len() <= 44 && matches!(BASE64.decode_slice(text, &mut bytes), Ok(32));
        let key = is_key.then(|| bytes.first_chunk().copied()).flatten();
        bytes.fill(0);
        black_box(&bytes);
        key.map(Self).ok_or_else(|| {
            Error::invalid(
                "a key is the base64 of 32 bytes, as `openssl rand -base64 32` prints it",
            )
        })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.fill(0);
        black_box(&self.0); // keeps the compiler from removing the write
    }
}

/// A set of keys by id, one of which encrypts what is pushed. Cloning is cheap, and all clones are
/// the same ring: a change applies to every later push and attempt.
///
/// An id must not be reused for another key. `Debug` prints ids only.
///
/// # Examples
///
/// ```
/// use duly::codec::{Key, KeyRing};
///
/// let keys = KeyRing::new();
/// keys.add("2026-10", Key::new([1; 32]))?;
/// keys.choose("2026-10")?;
///
// Rotation: from now on new payloads use another key, and old ones stay readable.
/// keys.add("2026-11", Key::new([2; 32]))?;
/// keys.choose("2026-11")?;
/// assert_eq!(format!("{keys:?}"), r#"KeyRing { keys: ["2026-10", "2026-11"], used: Some("2026-11") }"#);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct KeyRing(Arc<RwLock<Keys>>);

/// Returns whether a text may be the id of a key. What is none may be a key in the wrong place, so it
/// is never shown.
pub(crate) fn is_key_id(text: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=KEY_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_legal)
}

fn no_key_id() -> Error {
    Error::invalid(format!(
        "the id of a key is 1 to {KEY_ID_BYTES_MAX} letters, digits, `.`, `_` and `-`"
    ))
}

#[derive(Default)]
struct Keys {
    by_id: BTreeMap<String, Arc<Cipher>>,
    used: Option<String>,
}

impl KeyRing {
    /// Creates an empty ring.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key, to decrypt with. No effect if the ring has it already.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an id that is empty, longer than
    /// [`KEY_ID_BYTES_MAX`], or has anything but ASCII letters, digits, `.`, `_` and `-`; for the
    /// id of another key; and for more than [`KEYS_MAX`] keys.
    #[allow(clippy::needless_pass_by_value)] // so that the caller keeps no copy
    pub fn add(&self, id: &str, key: Key) -> Result<()> {
        if !is_key_id(id) {
            return Err(no_key_id());
        }
        let cipher = Cipher::new(&key.0);
        let mut keys = self.write();
        if let Some(there) = keys.by_id.get(id) {
            return if there.is_of_key(&cipher) {
                Ok(())
            } else {
                Err(Error::invalid(format!(
                    "the id {id} belongs to another key; give a new key a new id"
                )))
            };
        }
        if keys.by_id.len() == KEYS_MAX {
            return Err(Error::invalid(format!(
                "a key ring has at most {KEYS_MAX} keys; remove one under which nothing is encrypted"
            )));
        }
        keys.by_id.insert(id.to_owned(), Arc::new(cipher));
        Ok(())
    }

    /// Selects the key that encrypts new payloads.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the ring does not have it.
    pub fn choose(&self, id: &str) -> Result<()> {
        if !is_key_id(id) {
            return Err(no_key_id());
        }
        let mut keys = self.write();
        if !keys.by_id.contains_key(id) {
            return Err(Error::invalid(format!(
                "the key ring has no key {}; add it before choosing it",
                shown(id)
            )));
        }
        keys.used = Some(id.to_owned());
        Ok(())
    }

    /// Removes a key; returns whether it was there. Payloads encrypted under it are unreadable
    /// until it is added again; [`count`](crate::admin::Reencrypt::count) returns how many there are.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for the selected key: select another one
    /// first.
    pub fn remove(&self, id: &str) -> Result<bool> {
        let mut keys = self.write();
        if keys.used.as_deref() == Some(id) {
            return Err(Error::invalid(format!(
                "key {} encrypts new payloads; choose another one before removing it",
                shown(id)
            )));
        }
        Ok(keys.by_id.remove(id).is_some())
    }

    /// The ids of all keys, sorted.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.read().by_id.keys().cloned().collect()
    }

    /// The id of the key that encrypts new payloads.
    #[must_use]
    pub fn used(&self) -> Option<String> {
        self.read().used.clone()
    }

    /// Parses and decrypts a stored payload of an event of a queue.
    ///
    /// # Errors
    ///
    /// Why it cannot be opened.
    pub fn open<'a>(
        &self,
        id: EventId,
        queue: &QueueName,
        payload: &'a Payload,
    ) -> Result<DecryptedPayload<'a>, OpenError> {
        let frame = Frame::parse(payload.as_bytes())?;
        let value = match frame.key_id {
            None => Cow::Borrowed(frame.rest),
            Some(key) => {
                let cipher = self.read().by_id.get(key).map(Arc::clone);
                let cipher = cipher.ok_or_else(|| OpenError::NoKey(key.to_owned()))?;
                let value = cipher.open((id, queue), &frame);
                Cow::Owned(value.ok_or_else(|| OpenError::Sealed(key.to_owned()))?)
            }
        };
        Ok(DecryptedPayload {
            codec: frame.codec,
            version: frame.version,
            value,
        })
    }

    /// Encrypts bytes under the selected key, as the payload of an event of a queue with the raw
    /// codec; `None` without one. [`open`](Self::open) decrypts it for the same id and queue.
    ///
    /// A program can store secrets of its own this way. The id is the nonce: give other bytes another
    /// id.
    #[must_use]
    pub fn seal_bytes(&self, id: EventId, queue: &QueueName, value: &[u8]) -> Option<Payload> {
        let form = PayloadForm {
            codec: Codec::Raw,
            version: None,
        };
        self.seal((id, queue), form, value).map(Payload::from)
    }

    /// Encrypts a value under the selected key; `None` without one.
    pub(crate) fn seal(
        &self,
        place: (EventId, &QueueName),
        form: PayloadForm,
        value: &[u8],
    ) -> Option<Vec<u8>> {
        let (used, cipher) = {
            let keys = self.read();
            let used = keys.used.clone()?;
            let cipher = keys.by_id.get(&used).map(Arc::clone)?;
            (used, cipher)
        };
        cipher.seal(place, form, &used, value)
    }

    /// Encrypts a value under the key with this id; `None` without one.
    pub(crate) fn seal_under(
        &self,
        key: &str,
        place: (EventId, &QueueName),
        form: PayloadForm,
        value: &[u8],
    ) -> Option<Vec<u8>> {
        let cipher = self.read().by_id.get(key).map(Arc::clone)?;
        cipher.seal(place, form, key, value)
    }

    fn read(&self) -> RwLockReadGuard<'_, Keys> {
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Keys> {
        self.0.write()
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing")
            .field("keys", &self.ids())
            .field("used", &self.used())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::event::BucketId;
    use crate::time::Timestamp;

    /// A push and a rotation wait for the ring: whichever is first, the push finds a key.
    #[test]
    fn there_is_a_key_at_any_moment_of_a_rotation() {
        let queue = QueueName::new("orders").unwrap();
        let id = EventId::from_parts(Timestamp::from_millis(1), BucketId(0), 7);
        for _ in 0..300 {
            let keys = KeyRing::new();
            for id in ["new", "old"] {
                keys.add(id, Key::new([7; 32])).unwrap();
                keys.choose(id).unwrap();
            }
            let begun = Barrier::new(3);
            std::thread::scope(|scope| {
                let held = keys.write();
                let push = scope.spawn(|| {
                    begun.wait();
                    keys.seal_bytes(id, &queue, b"4711").is_some()
                });
                scope.spawn(|| {
                    begun.wait();
                    keys.choose("new").unwrap();
                    assert!(keys.remove("old").unwrap());
                });
                begun.wait();
                // Nothing tells that both wait; often they do then.
                (0..50).for_each(|_| std::thread::yield_now());
                RwLockWriteGuard::unlock_fair(held);
                assert!(push.join().unwrap(), "there always is a key");
            });
        }
    }
}
