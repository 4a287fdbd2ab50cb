//! The binary format of a whole [`Envelope`]: its id, its queue, and its [body](super::body).
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 16 | event id, big-endian |
//! | 16 | 2 | length of the queue's name, big-endian |
//! | 18 | .. | the queue's name |
//! | .. | .. | body |
//!
//! The checksums of the body are also over the id and the name.

use crate::codec::body::{self, View};
use crate::error::{Error, Result};
use crate::event::{Envelope, EventId, QueueName};

/// Appends the encoding of `envelope` to `out`.
///
/// # Examples
///
/// ```
/// use duly::EventId;
/// use duly::__internal::wire;
/// use duly::event::{Envelope, Payload};
///
/// let id = EventId::from_bytes([7; 16]);
/// let envelope = Envelope::new(id, "order-close".parse()?, Payload::from(&b"{}"[..]));
/// let mut bytes = Vec::new();
/// wire::encode(&envelope, &mut bytes);
/// assert_eq!(wire::decode(&bytes)?, envelope);
///
/// bytes[20] ^= 1;
/// assert_eq!(wire::decode(&bytes).unwrap_err().kind(), duly::ErrorKind::Corrupt);
/// # Ok::<(), duly::Error>(())
/// ```
pub fn encode(envelope: &Envelope, out: &mut Vec<u8>) {
    let queue = envelope.queue.as_bytes();
    out.reserve(128 + queue.len() + envelope.payload.len()); // at once, and enough for most
    out.extend_from_slice(&envelope.id.to_bytes());
    out.extend_from_slice(&(queue.len() as u16).to_be_bytes()); // at most QueueName::LEN_MAX
    out.extend_from_slice(queue);
    body::append(envelope, out);
}

/// Decodes an envelope.
///
/// # Errors
///
/// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if a checksum is wrong, the format unknown, or
/// the encoding malformed.
pub fn decode(bytes: &[u8]) -> Result<Envelope> {
    let view = view(bytes)?;
    let queue = QueueName::new(view.queue)
        .map_err(|error| Error::corrupt("the envelope has an illegal queue name").because(error))?;
    Ok(view.to_envelope(queue))
}

/// Verifies and parses an envelope, and leaves its texts and payload where they are.
///
/// # Errors
///
/// As [`decode`]; the name of the queue is not examined.
pub fn view(bytes: &[u8]) -> Result<View<'_>> {
    let truncated = || Error::corrupt("the envelope is truncated");
    let (id, rest) = bytes.split_first_chunk().ok_or_else(truncated)?;
    let (len, rest) = rest.split_first_chunk().ok_or_else(truncated)?;
    let len = usize::from(u16::from_be_bytes(*len));
    let (queue, body) = rest.split_at_checked(len).ok_or_else(truncated)?;
    let queue = str::from_utf8(queue)
        .map_err(|error| Error::corrupt("the envelope's queue is no text").because(error))?;
    View::read(EventId::from_bytes(*id), queue, body)
}

/// Returns the id that the bytes of an envelope name, which may be damaged itself.
#[cfg(feature = "embedded")]
pub(crate) fn id_in(bytes: &[u8]) -> Option<EventId> {
    bytes.first_chunk().map(|id| EventId::from_bytes(*id))
}
