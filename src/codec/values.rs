//! Encoding and decoding of values, by codec.

use serde::{Deserialize, Serialize};

use crate::codec::form::Codec;
use crate::codec::raw;

/// A codec's error.
pub(crate) type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// Encodes a value.
pub(crate) fn encode<T: Serialize + ?Sized>(
    codec: Codec,
    value: &T,
) -> Result<Vec<u8>, CodecError> {
    match codec {
        Codec::Json => serde_json::to_vec(value).map_err(CodecError::from),
        Codec::MsgPack => msgpack::encode(value),
        Codec::Raw => raw::encode(value).map_err(CodecError::from),
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

    use super::CodecError;

    /// The nesting limit: that of JSON, so that no stack overflows.
    const DEPTH_MAX: usize = 128;

    /// Writes field names, so that fields may be added and removed.
    pub(super) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CodecError> {
        rmp_serde::to_vec_named(value).map_err(CodecError::from)
    }

    pub(super) fn decode<'de, T: Deserialize<'de>>(mut bytes: &'de [u8]) -> Result<T, CodecError> {
        let mut reader = rmp_serde::Deserializer::new(&mut bytes);
        reader.set_max_depth(DEPTH_MAX);
        let value = T::deserialize(&mut reader)?;
        match bytes.is_empty() {
            true => Ok(value),
            false => Err("trailing bytes after the value".into()),
        }
    }
}

#[cfg(not(feature = "msgpack"))]
mod msgpack {
    use serde::{Deserialize, Serialize};

    use super::CodecError;

    const MISSING: &str = "MessagePack needs duly's feature `msgpack`, which this program lacks";

    pub(super) fn encode<T: Serialize + ?Sized>(_value: &T) -> Result<Vec<u8>, CodecError> {
        Err(MISSING.into())
    }

    pub(super) fn decode<'de, T: Deserialize<'de>>(_bytes: &'de [u8]) -> Result<T, CodecError> {
        Err(MISSING.into())
    }
}
