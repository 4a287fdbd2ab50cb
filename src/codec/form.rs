//! The codecs by name.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result, shown};

/// How a value becomes bytes.
///
/// # Examples
///
/// ```
/// use duly::codec::Codec;
///
/// assert_eq!("raw".parse::<Codec>()?, Codec::Raw);
/// assert_eq!(Codec::default().to_string(), "json");
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// JSON, which people and other tools can read. The default.
    #[default]
    Json,
    /// MessagePack with named fields: smaller and faster. Needs the feature `msgpack`.
    MsgPack,
    /// Bytes as they are: the payload's type is [`Raw`](crate::codec::Raw), or another that
    /// serializes as bytes.
    Raw,
}

impl Codec {
    /// Every codec.
    pub const ALL: [Self; 3] = [Self::Json, Self::MsgPack, Self::Raw];

    /// Its name in annotations and settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::MsgPack => "msgpack",
            Self::Raw => "raw",
        }
    }

    /// Whether this build of duly has it: MessagePack needs the feature `msgpack`.
    #[must_use]
    pub const fn is_built_in(self) -> bool {
        match self {
            Self::Json | Self::Raw => true,
            Self::MsgPack => cfg!(feature = "msgpack"),
        }
    }

    /// Its number in a frame: what it is for ever.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::MsgPack => 1,
            Self::Raw => 2,
        }
    }

    pub(super) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.number() == number)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Codec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|codec| codec.as_str() == text);
        known.ok_or_else(|| {
            Error::invalid(format!(
                "unknown codec `{}`, known are json, msgpack and raw",
                shown(text)
            ))
        })
    }
}
