//! The keys of a bus, which may be changed while it runs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};

use crate::codec::cipher::Cipher;
use crate::codec::frame::{Form, Frame};
use crate::codec::opened::{Opened, Unopened};
use crate::error::{Error, Result, shown};
use crate::event::{EventId, Payload, QueueName};

/// The longest id of a key, in bytes.
pub const KEY_ID_BYTES_MAX: usize = 64;
/// The most keys of a ring.
pub const KEYS_MAX: usize = 64;

/// A key of AES-256: 32 bytes that nobody can guess. `Debug` shows nothing of it, and dropping it
/// overwrites it.
///
/// # Examples
///
/// ```
/// use duly::codec::Key;
///
/// // As `openssl rand -base64 32` prints one.
/// let key: Key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=".parse()?;
/// assert_eq!(format!("{key:?}"), "Key(..)");
/// assert!("too short".parse::<Key>().is_err());
/// # Ok::<(), duly::Error>(())
/// ```
pub struct Key([u8; 32]);

impl Key {
    /// A key of these bytes, which should come from a source of randomness for cryptography.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl std::str::FromStr for Key {
    type Err = Error;

    /// Reads the base64 of 32 bytes, with its padding or without. The error tells nothing of it.
    fn from_str(text: &str) -> Result<Self> {
        const ANY_PADDING: GeneralPurposeConfig =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, ANY_PADDING);
        let mut bytes = [0; 36]; // the decoder asks for room for whole groups
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
        black_box(&self.0); // so that the compiler believes that somebody looks
    }
}

/// The keys of a bus by their ids, one of which is used for what is pushed. Cloning is cheap, and
/// every clone is the same ring: a change holds for each push and each attempt that follows.
///
/// An id stands for one key for ever. `Debug` shows ids and nothing else.
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
/// // Rotation: from now on new payloads are under another key, and old ones are read as before.
/// keys.add("2026-11", Key::new([2; 32]))?;
/// keys.choose("2026-11")?;
/// assert_eq!(format!("{keys:?}"), r#"KeyRing { keys: ["2026-10", "2026-11"], used: Some("2026-11") }"#);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct KeyRing(Arc<RwLock<Keys>>);

#[derive(Default)]
struct Keys {
    by_id: BTreeMap<String, Arc<Cipher>>,
    used: Option<String>,
}

impl KeyRing {
    /// A ring without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key: what is encrypted under it can be read. Again with the same key changes nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an id that is empty, longer than
    /// [`KEY_ID_BYTES_MAX`], or holds anything but ASCII letters, digits, `.`, `_` and `-`; for one
    /// that stands for another key; and for more than [`KEYS_MAX`] keys.
    #[allow(clippy::needless_pass_by_value)] // so that the caller keeps no copy
    pub fn add(&self, id: &str, key: Key) -> Result<()> {
        let is_legal =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if id.is_empty() || id.len() > KEY_ID_BYTES_MAX || !id.bytes().all(is_legal) {
            return Err(Error::invalid(format!(
                "the id of a key is 1 to {KEY_ID_BYTES_MAX} letters, digits, `.`, `_` and `-`"
            )));
        }
        let cipher = Cipher::new(&key.0);
        let mut keys = self.write();
        if let Some(there) = keys.by_id.get(id) {
            return match there.is_of_key(&cipher) {
                true => Ok(()),
                false => Err(Error::invalid(format!(
                    "key {id} is another key already; give a new key a new id"
                ))),
            };
        }
        if keys.by_id.len() == KEYS_MAX {
            return Err(Error::invalid(format!(
                "a key ring has at most {KEYS_MAX} keys; remove what nothing is encrypted under"
            )));
        }
        keys.by_id.insert(id.to_owned(), Arc::new(cipher));
        Ok(())
    }

    /// Uses this key for every payload that is encrypted from now on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the ring does not have it.
    pub fn choose(&self, id: &str) -> Result<()> {
        let mut keys = self.write();
        if !keys.by_id.contains_key(id) {
            return Err(Error::invalid(format!(
                "there is no key {} in the key ring to use",
                shown(id)
            )));
        }
        keys.used = Some(id.to_owned());
        Ok(())
    }

    /// Takes a key out; answers whether it was there. What is encrypted under it cannot be read
    /// until it is added again; how many such events there are, a
    /// [count](crate::admin::Reencrypt::count) tells.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for the key that is used: choose another
    /// one first.
    pub fn remove(&self, id: &str) -> Result<bool> {
        let mut keys = self.write();
        if keys.used.as_deref() == Some(id) {
            return Err(Error::invalid(format!(
                "key {} is used for new payloads; choose another one first",
                shown(id)
            )));
        }
        Ok(keys.by_id.remove(id).is_some())
    }

    /// The ids of all keys, in their order.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.read().by_id.keys().cloned().collect()
    }

    /// The id of the key that is used for new payloads.
    #[must_use]
    pub fn used(&self) -> Option<String> {
        self.read().used.clone()
    }

    /// Opens a stored payload of an event of a queue.
    ///
    /// # Errors
    ///
    /// Why it does not open.
    pub fn open<'a>(
        &self,
        id: EventId,
        queue: &QueueName,
        payload: &'a Payload,
    ) -> Result<Opened<'a>, Unopened> {
        let frame = Frame::read(payload.as_bytes()).map_err(Unopened::Malformed)?;
        let value = match frame.key_id {
            None => Cow::Borrowed(frame.rest),
            Some(key) => {
                let cipher = self.read().by_id.get(key).map(Arc::clone);
                let cipher = cipher.ok_or_else(|| Unopened::NoKey(key.to_owned()))?;
                let value = cipher.open((id, queue), &frame);
                Cow::Owned(value.ok_or_else(|| Unopened::Sealed(key.to_owned()))?)
            }
        };
        Ok(Opened {
            codec: frame.codec,
            version: frame.version,
            value,
        })
    }

    /// The stored bytes of a value, under the key that is used; `None` without one.
    pub(crate) fn seal(
        &self,
        place: (EventId, &QueueName),
        form: Form,
        value: &[u8],
    ) -> Option<Vec<u8>> {
        let used = self.used()?;
        self.seal_under(&used, place, form, value)
    }

    /// The stored bytes of a value, under a key of this id; `None` without one.
    pub(crate) fn seal_under(
        &self,
        key: &str,
        place: (EventId, &QueueName),
        form: Form,
        value: &[u8],
    ) -> Option<Vec<u8>> {
        let cipher = self.read().by_id.get(key).map(Arc::clone)?;
        cipher.seal(place, form, key, value)
    }

    fn read(&self) -> RwLockReadGuard<'_, Keys> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Keys> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
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
