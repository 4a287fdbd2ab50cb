//! Encoding and decoding of values, by codec.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::codec::checked::Notes;
use crate::codec::digest::digest;
use crate::codec::form::Codec;
use crate::codec::raw;
use crate::panics;

/// A codec's error.
pub(crate) type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// An encoded value.
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// Whether it may decode to another value, or not at all, whatever its type: ask
    /// [`round_trip`].
    pub(crate) is_doubtful: bool,
}

impl Encoded {
    /// Returns the bytes of a value for whom nobody can ask [`round_trip`], as the type that decodes it
    /// is not known.
    ///
    /// # Errors
    ///
    /// If it may decode to another value.
    pub(crate) fn certain(self) -> Result<Vec<u8>, CodecError> {
        if self.is_doubtful {
            Err("it would come back as another value: it has a number that its codec lacks, or an \
                 empty value in an option; see *What serde cannot carry* in duly's documentation of \
                 payloads"
                .into())
        } else {
            Ok(self.bytes)
        }
    }
}

/// Encodes a value.
pub(crate) fn encode<T: Serialize + ?Sized>(
    codec: Codec,
    value: &T,
) -> Result<Encoded, CodecError> {
    let notes = Notes::new(codec == Codec::Json);
    let bytes = match codec {
        Codec::Json => {
            let mut bytes = Vec::with_capacity(128);
            notes.serialize(value, &mut serde_json::Serializer::new(&mut bytes))?;
            bytes
        }
        Codec::MsgPack => msgpack::encode(&notes, value)?,
        Codec::Raw => raw::encode(value)?,
    };
    let is_doubtful = notes.are_doubtful();
    Ok(Encoded { bytes, is_doubtful })
}

/// Checks that an encoded value decodes to the same value, by everything that serde sees of it.
///
/// Returns why it does not. The decoder of a user's type may panic; that is a reason, too.
pub(crate) fn round_trip<T: Serialize + DeserializeOwned>(
    codec: Codec,
    value: &T,
    bytes: &[u8],
) -> Result<(), String> {
    let readable = codec != Codec::MsgPack;
    let decoded = panics::caught(|| -> Result<_, String> {
        let decoded = decode::<T>(codec, bytes).map_err(|error| error.to_string())?;
        let seen = panics::caught(|| digest(&decoded, readable));
        panics::dropped(decoded);
        seen.map_err(|_panic| "what it decodes to panics".to_owned())
    });
    let decoded = match decoded {
        Ok(decoded) => decoded.map_err(|why| format!("it would not decode: {why}"))?,
        Err(_panic) => return Err("its decoder panics".to_owned()),
    };
    let before = digest(value, readable);
    // A type that serializes differently each time cannot be compared.
    if decoded == before || before != digest(value, readable) {
        Ok(())
    } else {
        Err("it would come back as another value".to_owned())
    }
}

/// Decodes a value.
pub(crate) fn decode<'de, T: Deserialize<'de>>(
    codec: Codec,
    bytes: &'de [u8],
) -> Result<T, CodecError> {
    match codec {
        Codec::Json => serde_json::from_slice(bytes).map_err(CodecError::from),
        Codec::MsgPack => msgpack::decode(bytes),
        Codec::Raw => raw::decode(bytes).map_err(CodecError::from),
    }
}

#[cfg(feature = "msgpack")]
mod msgpack {
    use serde::{Deserialize, Serialize};

    use super::{CodecError, Notes};
    use crate::codec::checked::DEPTH_MAX;
    use crate::codec::depth::is_deeper_than;

    /// Writes field names, so that fields may be added and removed.
    pub(super) fn encode<T: Serialize + ?Sized>(
        notes: &Notes,
        value: &T,
    ) -> Result<Vec<u8>, CodecError> {
        let mut bytes = Vec::with_capacity(128);
        let mut serializer = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
        notes.serialize(value, &mut serializer)?;
        Ok(bytes)
    }

    pub(super) fn decode<'de, T: Deserialize<'de>>(mut bytes: &'de [u8]) -> Result<T, CodecError> {
        // The reader counts no variants, and would overflow the stack by them.
        if is_deeper_than(DEPTH_MAX, bytes) {
            return Err(format!("it is nested more than {DEPTH_MAX} deep").into());
        }
        let mut reader = rmp_serde::Deserializer::new(&mut bytes);
        let value = T::deserialize(&mut reader)?;
        if bytes.is_empty() {
            Ok(value)
        } else {
            Err("trailing bytes after the value".into())
        }
    }
}

#[cfg(not(feature = "msgpack"))]
mod msgpack {
    use serde::{Deserialize, Serialize};

    use super::{CodecError, Notes};

    const MISSING: &str = "MessagePack needs duly's feature `msgpack`, which this program lacks";

    pub(super) fn encode<T: Serialize + ?Sized>(
        _notes: &Notes,
        _value: &T,
    ) -> Result<Vec<u8>, CodecError> {
        Err(MISSING.into())
    }

    pub(super) fn decode<'de, T: Deserialize<'de>>(_bytes: &'de [u8]) -> Result<T, CodecError> {
        Err(MISSING.into())
    }
}
