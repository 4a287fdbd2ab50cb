//! A stored payload whose frame is read and whose cipher is undone.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;

use crate::codec::form::Codec;
use crate::codec::frame::Form;
use crate::codec::values::{Wrong, decode};
use crate::error::shown;

/// The encoded value of a stored payload, in clear.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened<'a> {
    /// By which codec it was encoded.
    pub codec: Codec,
    /// The version of its type; `None` where that is as its envelope says.
    pub version: Option<u32>,
    /// Its bytes.
    pub value: Cow<'a, [u8]>,
}

/// Tells how much there is and nothing of it.
impl fmt::Debug for Opened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opened({}, {} bytes)", self.codec, self.value.len())
    }
}

/// Why a stored payload does not open. Names keys by their ids and quotes nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unopened {
    /// Its frame is malformed, in these words.
    Malformed(&'static str),
    /// It is encrypted under a key that is not in the ring.
    NoKey(String),
    /// It is encrypted, but the key of that id does not open it: the key is another one, or the
    /// payload was changed, or belongs to another event or queue.
    Sealed(String),
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(how) => f.write_str(how),
            Self::NoKey(id) => write!(
                f,
                "it is encrypted under key {}, which the key ring does not have",
                shown(id)
            ),
            Self::Sealed(id) => write!(
                f,
                "key {} does not open it: the key is another one of that id, or the bytes were \
                 changed, or are those of another event",
                shown(id)
            ),
        }
    }
}

impl std::error::Error for Unopened {}

impl Opened<'_> {
    /// Whether it lies in its store encrypted.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        matches!(self.value, Cow::Owned(_))
    }

    /// In which form it lies in its store.
    pub(crate) fn form(&self) -> Form {
        Form {
            codec: self.codec,
            version: self.version,
        }
    }

    /// The value as a `T`. Of one that is encrypted the error quotes nothing, since errors are
    /// logged and kept where payloads are not.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, Wrong> {
        decode(self.codec, &self.value).map_err(|error| match self.is_sealed() {
            false => error,
            true => UNTOLD.into(),
        })
    }
}

/// Said of a value that was encrypted, instead of words that may quote it.
pub(crate) const UNTOLD: &str = "it is no such value; where is not told, since it is encrypted";
