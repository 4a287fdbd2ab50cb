//! The raw codec: bytes without interpretation.

use std::fmt;

use serde::de::{self, Visitor};
use serde::ser::{self, Impossible};
use serde::{Deserialize, Deserializer, Serialize, Serializer, forward_to_deserialize_any};

/// A payload of raw bytes, for a queue with [`Codec::Raw`](crate::codec::Codec::Raw).
///
/// # Examples
///
/// ```
/// use duly::codec::Raw;
///
/// let image = Raw::from(vec![0x89, b'P', b'N', b'G']);
/// assert_eq!(&image[1..], b"PNG");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Raw(pub Vec<u8>);

impl From<Vec<u8>> for Raw {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for Raw {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl std::ops::Deref for Raw {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Prints the length only.
impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({} bytes)", self.0.len())
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Raw, E> {
                Ok(Raw(bytes.to_vec()))
            }

            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Raw, E> {
                Ok(Raw(bytes))
            }

            /// A JSON array of bytes.
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut bytes: A) -> Result<Raw, A::Error> {
                let mut raw = Vec::new();
                while let Some(byte) = bytes.next_element()? {
                    raw.push(byte);
                }
                Ok(Raw(raw))
            }
        }

        deserializer.deserialize_byte_buf(Bytes)
    }
}

/// The error for a value that is not bytes.
#[derive(Debug)]
pub(crate) struct RawError(String);

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RawError {}

impl ser::Error for RawError {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self(words.to_string())
    }
}

impl de::Error for RawError {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self(words.to_string())
    }
}

pub(super) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, RawError> {
    value.serialize(BytesSerializer)
}

pub(super) fn decode<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, RawError> {
    T::deserialize(BytesDeserializer(bytes))
}

/// A serializer that only accepts bytes.
struct BytesSerializer;

fn refused<T>(what: &str) -> Result<T, RawError> {
    Err(RawError(format!(
        "the codec `raw` encodes only bytes, such as a `duly::codec::Raw`, but this is {what}"
    )))
}

/// Defines methods that reject their input.
macro_rules! refuse {
    ($($method:ident($($ty:ty),*) $(-> $result:ident)? : $what:literal;)+) => {$(
        fn $method(self $(, _: $ty)*) -> Result<refuse!(@ $($result)?), RawError> {
            refused($what)
        }
    )+};
    (@) => { Vec<u8> };
    (@ $result:ident) => { Self::$result };
}

impl Serializer for BytesSerializer {
    type Ok = Vec<u8>;
    type Error = RawError;
    type SerializeSeq = Impossible<Vec<u8>, RawError>;
    type SerializeTuple = Impossible<Vec<u8>, RawError>;
    type SerializeTupleStruct = Impossible<Vec<u8>, RawError>;
    type SerializeTupleVariant = Impossible<Vec<u8>, RawError>;
    type SerializeMap = Impossible<Vec<u8>, RawError>;
    type SerializeStruct = Impossible<Vec<u8>, RawError>;
    type SerializeStructVariant = Impossible<Vec<u8>, RawError>;

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Vec<u8>, RawError> {
        Ok(bytes.to_vec())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<Vec<u8>, RawError> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _value: &T) -> Result<Vec<u8>, RawError> {
        refused("an option")
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<Vec<u8>, RawError> {
        refused("an enum")
    }

    refuse! {
        serialize_bool(bool): "a boolean";
        serialize_i8(i8): "a number";
        serialize_i16(i16): "a number";
        serialize_i32(i32): "a number";
        serialize_i64(i64): "a number";
        serialize_u8(u8): "a number";
        serialize_u16(u16): "a number";
        serialize_u32(u32): "a number";
        serialize_u64(u64): "a number";
        serialize_f32(f32): "a number";
        serialize_f64(f64): "a number";
        serialize_char(char): "a character";
        serialize_str(&str): "a text";
        serialize_none(): "an option";
        serialize_unit(): "nothing";
        serialize_unit_struct(&'static str): "a unit struct";
        serialize_unit_variant(&'static str, u32, &'static str): "an enum";
        serialize_seq(Option<usize>) -> SerializeSeq: "a sequence";
        serialize_tuple(usize) -> SerializeTuple: "a tuple";
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct: "a tuple struct";
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant: "an enum";
        serialize_map(Option<usize>) -> SerializeMap: "a map";
        serialize_struct(&'static str, usize) -> SerializeStruct: "a struct";
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant: "an enum";
    }
}

/// A deserializer that passes the bytes to any visitor.
struct BytesDeserializer<'de>(&'de [u8]);

impl<'de> Deserializer<'de> for BytesDeserializer<'de> {
    type Error = RawError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RawError> {
        visitor.visit_borrowed_bytes(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, RawError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
