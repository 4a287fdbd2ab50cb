//! The encoded bytes of an event.

use std::fmt;
use std::sync::Arc;

/// The encoded bytes of an event's value; cloning is cheap.
///
/// `Debug` prints only their number, so that no log line ever holds a user's data.
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

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
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
