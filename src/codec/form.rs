//! The codecs.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result, shown};

/// A payload codec.
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
    /// JSON, readable for people and other tools. The default.
    #[default]
    Json,
    /// MessagePack with named fields: smaller and faster. Needs the feature `msgpack`.
    MsgPack,
    /// Raw bytes: the payload's type is [`Raw`](crate::codec::Raw), or another that serializes as
    /// bytes.
    Raw,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Self; 3] = [Self::Json, Self::MsgPack, Self::Raw];

    /// The name in annotations and settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::MsgPack => "msgpack",
            Self::Raw => "raw",
        }
    }

    /// Returns whether this build includes it: MessagePack needs the feature `msgpack`.
    #[must_use]
    pub const fn is_built_in(self) -> bool {
        match self {
            Self::Json | Self::Raw => true,
            Self::MsgPack => cfg!(feature = "msgpack"),
        }
    }

    /// The number in a frame; must not change.
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
                "unknown codec `{}`, expected `json`, `msgpack` or `raw`",
                shown(text)
            ))
        })
    }
}
