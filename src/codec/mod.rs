//! Codecs and encryption: the stored form of payloads and envelopes.
//!
//! A plain JSON payload is stored as it is. Any other has a [frame](Frame) that names its codec and
//! its key, so that payloads pushed before a change of a queue's codec or key stay readable.

pub(crate) mod body;
mod checked;
mod cipher;
mod decrypted;
#[cfg(feature = "msgpack")]
mod depth;
mod digest;
mod form;
mod frame;
mod keys;
mod raw;
mod values;
pub(crate) mod wire;

pub(crate) use self::decrypted::WITHHELD;
pub use self::decrypted::{DecryptedPayload, OpenError};
pub use self::form::Codec;
pub(crate) use self::frame::PayloadForm;
pub use self::frame::{Frame, KEY_ID_BYTES_MAX, MARK};
pub(crate) use self::keys::is_key_id;
pub use self::keys::{KEYS_MAX, Key, KeyRing};
pub use self::raw::Raw;
#[cfg(feature = "schedules")]
pub(crate) use self::values::CodecError;
pub(crate) use self::values::{Encoded, encode, round_trip};
