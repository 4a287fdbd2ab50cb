//! Decrypted payloads.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;

use crate::codec::form::Codec;
use crate::codec::frame::{FrameError, PayloadForm};
use crate::codec::values::{CodecError, decode};
use crate::error::shown;

/// The encoded value of a stored payload, decrypted.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecryptedPayload<'a> {
    /// Its codec.
    pub codec: Codec,
    /// The version of its type; `None` if it is the envelope's.
    pub version: Option<u32>,
    /// Its bytes.
    pub value: Cow<'a, [u8]>,
}

/// Prints the length only.
impl fmt::Debug for DecryptedPayload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DecryptedPayload({}, {} bytes)",
            self.codec,
            self.value.len()
        )
    }
}

/// The error of opening a stored payload. Names keys by their ids and quotes nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Its frame is malformed, for this reason.
    Malformed(&'static str),
    /// Its frame has something that this duly does not know, and a newer one may.
    Newer(&'static str),
    /// It is encrypted under a key that is not in the ring.
    NoKey(String),
    /// It is encrypted, but the key of that id does not decrypt it: the key is another one, or the
    /// payload was modified, or belongs to another event or queue.
    Sealed(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(how) => f.write_str(how),
            Self::Newer(how) => write!(f, "{how}, which a newer duly may know"),
            Self::NoKey(id) => write!(
                f,
                "it is encrypted under key {}, which the key ring does not have",
                shown(id)
            ),
            Self::Sealed(id) => write!(
                f,
                "key {} does not decrypt it: the key is another one with that id, or the bytes \
                 were modified, or belong to another event",
                shown(id)
            ),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<FrameError> for OpenError {
    fn from(why: FrameError) -> Self {
        match why {
            FrameError::Malformed(how) => Self::Malformed(how),
            FrameError::Newer(how) => Self::Newer(how),
        }
    }
}

impl DecryptedPayload<'_> {
    /// Returns whether it is stored encrypted.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        matches!(self.value, Cow::Owned(_))
    }

    /// The stored encoding.
    pub(crate) fn form(&self) -> PayloadForm {
        PayloadForm {
            codec: self.codec,
            version: self.version,
        }
    }

    /// Decodes the value. The error for an encrypted one quotes nothing, since errors are logged
    /// and kept where payloads are not.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        decode(self.codec, &self.value).map_err(|error| {
            if !self.is_sealed() {
                error
            } else {
                WITHHELD.into()
            }
        })
    }
}

/// The error text for an encrypted value, instead of one that may quote it.
pub(crate) const WITHHELD: &str =
    "invalid value; its position is withheld because the payload is encrypted";
