//! The frame: a self-describing header before a payload that is not plain JSON.
//!
//! ```text
//! FA | form | cipher | version: 4 bytes | key id: length and text | the rest
//! ```
//!
//! `form` has the codec in its lower four bits (0 JSON, 1 MessagePack, 2 raw) and 80 if a version
//! follows, little-endian. `cipher` is 0 for clear text: there is no key id and the rest is the
//! value; or 1 for AES-256-GCM-SIV: the rest is the ciphertext and its tag of 16 bytes. Everything
//! before the rest is the head, which the cipher authenticates.

use crate::codec::form::Codec;
use crate::codec::values::decode;

/// The first byte of every frame. No JSON text begins with it, and no text in UTF-8 has it.
pub const MARK: u8 = 0xFA;

/// The longest id of a key, in bytes.
pub const KEY_ID_BYTES_MAX: usize = 64;

/// Flag in the form byte: a version follows.
const VERSIONED: u8 = 0x80;
/// The number of AES-256-GCM-SIV.
const AES_256_GCM_SIV: u8 = 1;

/// The encoding of a payload to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PayloadForm {
    /// The codec of the value.
    pub(crate) codec: Codec,
    /// The version of its type, if it may differ from the envelope's.
    pub(crate) version: Option<u32>,
}

impl PayloadForm {
    /// Returns the head of a payload of this form, encrypted under `key`, if any.
    pub(super) fn head(self, key: Option<&str>) -> Vec<u8> {
        let flag = if self.version.is_some() { VERSIONED } else { 0 };
        let mut head = vec![MARK, self.codec.number() | flag, u8::from(key.is_some())];
        if let Some(version) = self.version {
            head.extend_from_slice(&version.to_le_bytes());
        }
        if let Some(key) = key {
            head.push(key.len() as u8); // at most KEY_ID_BYTES_MAX
            head.extend_from_slice(key.as_bytes());
        }
        head
    }

    /// Returns the stored bytes of a value in this form, in clear text.
    pub(crate) fn plain(self, value: Vec<u8>) -> Vec<u8> {
        if self.version.is_none() && self.codec == Codec::Json && value.first() != Some(&MARK) {
            return value;
        }
        let mut bytes = self.head(None);
        bytes.extend_from_slice(&value);
        bytes
    }
}

/// Why a frame cannot be parsed; quotes nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameError {
    /// It is none of any duly.
    Malformed(&'static str),
    /// It has a codec or a cipher that only a newer duly knows.
    Newer(&'static str),
}

impl From<&'static str> for FrameError {
    fn from(how: &'static str) -> Self {
        Self::Malformed(how)
    }
}

/// A parsed payload; needs no key.
///
/// # Examples
///
/// ```
/// use duly::codec::{Codec, Frame};
///
/// let plain = Frame::read(br#"{"order":7}"#).unwrap();
/// assert_eq!((plain.codec, plain.key_id), (Codec::Json, None));
///
/// let raw = Frame::read(b"\xFA\x02\x00any bytes").unwrap();
/// assert_eq!((raw.codec, raw.rest), (Codec::Raw, &b"any bytes"[..]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// The codec of the value.
    pub codec: Codec,
    /// The version of the value's type; `None` if it is the envelope's.
    pub version: Option<u32>,
    /// The id of the key that encrypts it; `None` if it is in clear text.
    pub key_id: Option<&'a str>,
    /// The bytes before the value.
    pub(super) head: &'a [u8],
    /// The encoded value; if encrypted, its ciphertext and tag.
    pub rest: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses a stored payload. Bytes that do not begin with [`MARK`] count as JSON in clear text.
    ///
    /// # Errors
    ///
    /// Why the frame is malformed; quotes nothing of it.
    pub fn read(bytes: &'a [u8]) -> Result<Self, &'static str> {
        Self::parse(bytes).map_err(|why| match why {
            FrameError::Malformed(how) | FrameError::Newer(how) => how,
        })
    }

    /// Parses a stored payload, as [`read`](Self::read).
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, FrameError> {
        const SHORT: &str = "its frame ends too early";
        if bytes.first() != Some(&MARK) {
            return Ok(Self {
                codec: Codec::Json,
                version: None,
                key_id: None,
                head: &[],
                rest: bytes,
            });
        }
        let (&[_, form, cipher], mut rest) = bytes.split_first_chunk::<3>().ok_or(SHORT)?;
        let codec = Codec::of_number(form & !VERSIONED);
        let codec = codec.ok_or(FrameError::Newer("its frame has an unknown codec"))?;
        let mut version = None;
        if form & VERSIONED != 0 {
            let (number, after) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
            version = Some(u32::from_le_bytes(*number));
            rest = after;
        }
        let mut key_id = None;
        match cipher {
            0 => {}
            AES_256_GCM_SIV => {
                let (&len, after) = rest.split_first().ok_or(SHORT)?;
                if !(1..=KEY_ID_BYTES_MAX).contains(&usize::from(len)) {
                    return Err("its frame has a key id of an invalid length".into());
                }
                let (id, after) = after.split_at_checked(usize::from(len)).ok_or(SHORT)?;
                let id = std::str::from_utf8(id);
                key_id = Some(id.map_err(|_| "its frame has a key id that is not UTF-8")?);
                rest = after;
            }
            _ => return Err(FrameError::Newer("its frame has an unknown cipher")),
        }
        let head = &bytes[..bytes.len() - rest.len()];
        Ok(Self {
            codec,
            version,
            key_id,
            head,
            rest,
        })
    }

    /// Returns the value as JSON text, if it is in clear text and convertible.
    pub(crate) fn to_json(self) -> Option<String> {
        let value = match self.key_id {
            None => decode::<serde_json::Value>(self.codec, self.rest).ok()?,
            Some(_) => return None,
        };
        Some(value.to_string())
    }
}
