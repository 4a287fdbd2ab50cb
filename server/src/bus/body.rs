//! The body of an event, as it is stored.

use bytes::Bytes;
use duly::codec::Codec;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A body to push.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A value of JSON.
    Json(Box<RawValue>),
    /// Any bytes.
    Raw(Bytes),
}

impl Body {
    pub(crate) fn new(bytes: Bytes) -> Self {
        let text = std::str::from_utf8(&bytes).ok();
        let json = text.and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        // Space around a value would be lost, and the body has to come back as it was.
        match json.filter(|json| json.get().len() == bytes.len()) {
            Some(json) => Self::Json(json.to_owned()),
            None => Self::Raw(bytes),
        }
    }

    /// Returns it as it is stored, before it is encrypted.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Json(json) => json.get().as_bytes(),
            Self::Raw(bytes) => bytes,
        }
    }

    pub(super) fn codec(&self) -> Codec {
        match self {
            Self::Json(_) => Codec::Json,
            Self::Raw(_) => Codec::Raw,
        }
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Json(json) => json.serialize(serializer),
            Self::Raw(bytes) => serializer.serialize_bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_stored_as_json_and_anything_else_as_it_is() {
        let codec = |bytes: &'static [u8]| Body::new(Bytes::from_static(bytes)).codec();
        assert_eq!(codec(br#"{"order": 7}"#), Codec::Json);
        assert_eq!(codec(b"17"), Codec::Json);
        assert_eq!(codec(b" 17"), Codec::Raw);
        assert_eq!(codec(b"hello"), Codec::Raw);
        assert_eq!(codec(b"\xFA\xFF"), Codec::Raw);
        assert_eq!(codec(b""), Codec::Raw);
    }
}
