//! The encoded payload of an event.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The encoded payload of an event; cloning is cheap.
///
/// `Debug` prints only its length, so that no log line contains a user's data.
///
/// # Examples
///
/// ```
/// use duly::event::Payload;
///
/// let payload = Payload::from(b"secret".to_vec());
/// assert_eq!(format!("{payload:?}"), "Payload(6 bytes)");
/// assert_eq!(payload.as_bytes(), b"secret");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Payload(Arc<[u8]>);

impl Payload {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

/// Serializes as a string if it is UTF-8, as JSON is; otherwise as a list of bytes.
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(self.0.iter()),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum PayloadRepr {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match PayloadRepr::deserialize(deserializer)? {
            PayloadRepr::Text(text) => Self::from(text.into_bytes()),
            PayloadRepr::Bytes(bytes) => Self::from(bytes),
        })
    }
}
