//! What stands before a payload that is not plain JSON.
//!
//! ```text
//! FA | form | cipher | version: 4 bytes | key id: length and text | the rest
//! ```
//!
//! `form` has the codec in its lower four bits (0 JSON, 1 MessagePack, 2 raw) and 80 where a
//! version follows, little-endian. `cipher` is 0, and then there is no key id and the rest is the
//! value, or 1 for AES-256-GCM-SIV, and then the rest is the ciphertext and its tag of 16 bytes.
//! Everything before it is the head, which the cipher also vouches for.

use crate::codec::form::Codec;
use crate::codec::keys::KEY_ID_BYTES_MAX;
use crate::codec::values::decode;

/// The first byte of every frame. No JSON text begins with it, and no text in UTF-8 has it.
pub const MARK: u8 = 0xFA;

/// In the byte of the form: a version follows.
const VERSIONED: u8 = 0x80;
/// The number of AES-256-GCM-SIV.
const AES_256_GCM_SIV: u8 = 1;

/// How a payload is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// By which codec the value was encoded.
    pub(crate) codec: Codec,
    /// The version of its type, where that may be another than the envelope says.
    pub(crate) version: Option<u32>,
}

impl Form {
    /// The head of a payload of this form that is encrypted under `key`, if any.
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

    /// The stored bytes of a value in this form, in clear.
    pub(crate) fn plain(self, value: Vec<u8>) -> Vec<u8> {
        if self.version.is_none() && self.codec == Codec::Json && value.first() != Some(&MARK) {
            return value;
        }
        let mut bytes = self.head(None);
        bytes.extend_from_slice(&value);
        bytes
    }
}

/// What a stored payload says of itself, read without any key.
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
    /// By which codec its value was encoded.
    pub codec: Codec,
    /// The version of its value's type; `None` where that is as its envelope says.
    pub version: Option<u32>,
    /// Under which key it is encrypted; `None` where it is not.
    pub key_id: Option<&'a str>,
    /// What stands before the value.
    pub(super) head: &'a [u8],
    /// The encoded value; where it is encrypted its ciphertext and tag.
    pub rest: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads what `bytes`, the bytes of a stored payload, say of themselves. What does not begin
    /// with [`MARK`] is JSON in clear, or means to be.
    ///
    /// # Errors
    ///
    /// How the frame is malformed, in words that quote nothing of it.
    pub fn read(bytes: &'a [u8]) -> Result<Self, &'static str> {
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
        let codec = Codec::of_number(form & !VERSIONED).ok_or("its frame names no known codec")?;
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
                    return Err("its frame has a key id of a length that none has");
                }
                let (id, after) = after.split_at_checked(usize::from(len)).ok_or(SHORT)?;
                let id = std::str::from_utf8(id);
                key_id = Some(id.map_err(|_| "its frame has a key id that is no text")?);
                rest = after;
            }
            _ => return Err("its frame names no known cipher"),
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

    /// The value as the text of JSON, where it is in clear and can be said so.
    pub(crate) fn to_json(self) -> Option<String> {
        let value = match self.key_id {
            None => decode::<serde_json::Value>(self.codec, self.rest).ok()?,
            Some(_) => return None,
        };
        Some(value.to_string())
    }
}
