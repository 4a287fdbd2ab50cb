//! Values of a source, and their conversion to settings.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use duly_options::rate;

use crate::codec::Codec;
use crate::config::encryption::pairs;
use crate::duration;
use crate::error::{Error, shown};
use crate::event::LatePolicy;
use crate::retry::RetryPolicy;
use crate::store::{Durability, WhenFull};

/// A value of a source.
#[derive(Debug)]
pub(super) enum RawValue {
    /// An integer of a file.
    Number(i64),
    /// A boolean of a file.
    Boolean(bool),
    /// A text of a file.
    Text(String),
    /// A variable's value, a text of any type.
    Spelled(String),
    /// A section of texts in a file.
    Table(BTreeMap<String, String>),
    /// A value that no key accepts, described.
    Other(String),
}

/// Why a value is rejected.
pub(super) enum ValueError {
    /// It has another type.
    Kind,
    /// It is malformed; contains the reason.
    Grammar(String),
}

/// A type of values of settings.
pub(super) trait FromRaw: Sized {
    fn from_raw(value: &RawValue) -> Result<Self, ValueError>;
}

macro_rules! from_raw {
    ($($type:ty: $read:ident),*) => {
        $(impl FromRaw for $type {
            fn from_raw(value: &RawValue) -> Result<Self, ValueError> {
                value.$read()
            }
        })*
    };
}
from_raw! {
    u8: number, u16: number, u32: number, usize: number, bool: boolean, Duration: duration,
    RetryPolicy: backoff, LatePolicy: late, Codec: codec, f64: rate
}

impl RawValue {
    /// Returns it as a value of the option that it is for.
    pub(super) fn read<T: FromRaw>(&self) -> Result<T, ValueError> {
        T::from_raw(self)
    }

    pub(super) fn number<T: TryFrom<i64>>(&self) -> Result<T, ValueError> {
        match self {
            Self::Number(number) => T::try_from(*number).ok(),
            Self::Spelled(text) => text.parse().ok().and_then(|it: i64| T::try_from(it).ok()),
            _ => None,
        }
        .ok_or(ValueError::Kind)
    }

    pub(super) fn boolean(&self) -> Result<bool, ValueError> {
        match self {
            Self::Boolean(boolean) => Ok(*boolean),
            Self::Spelled(text) => text.parse().map_err(|_| ValueError::Kind),
            _ => Err(ValueError::Kind),
        }
    }

    pub(super) fn text(&self) -> Result<&str, ValueError> {
        match self {
            Self::Text(text) | Self::Spelled(text) => Ok(text),
            _ => Err(ValueError::Kind),
        }
    }

    /// Returns a text whose parser quotes it in errors: one that may be displayed whole.
    fn phrase(&self) -> Result<&str, ValueError> {
        let text = self.text()?;
        match shown(text) {
            Cow::Borrowed(_) => Ok(text),
            Cow::Owned(_) => Err(ValueError::Kind),
        }
    }

    pub(super) fn duration(&self) -> Result<Duration, ValueError> {
        duration::parse(self.phrase()?).map_err(|error| ValueError::Grammar(error.to_string()))
    }

    fn backoff(&self) -> Result<RetryPolicy, ValueError> {
        let policy = self.phrase()?.parse();
        policy
            .map_err(|error: crate::retry::ParseRetryError| ValueError::Grammar(error.to_string()))
    }

    fn late(&self) -> Result<LatePolicy, ValueError> {
        let late = self.phrase()?.parse();
        late.map_err(|error: Error| ValueError::Grammar(error.to_string()))
    }

    fn rate(&self) -> Result<f64, ValueError> {
        rate::parse(self.phrase()?).map_err(|error| ValueError::Grammar(error.to_string()))
    }

    pub(super) fn durability(&self) -> Result<Durability, ValueError> {
        self.text()?.trim().parse().map_err(|_| ValueError::Kind)
    }

    pub(super) fn when_full(&self) -> Result<WhenFull, ValueError> {
        match self.text()?.trim() {
            "drop_oldest" => Ok(WhenFull::DropOldest),
            "refuse_pushes" => Ok(WhenFull::RefusePushes),
            _ => Err(ValueError::Kind),
        }
    }

    fn codec(&self) -> Result<Codec, ValueError> {
        self.text()?.trim().parse().map_err(|_| ValueError::Kind)
    }

    /// Returns keys by their ids; errors never quote them.
    pub(super) fn keys(&self) -> Result<BTreeMap<String, String>, ValueError> {
        const HOW: &str = "it must be a table of ids and keys, or a text such as `2026-11=..`; the value \
                           is withheld";
        match self {
            Self::Table(keys) => Ok(keys.clone()),
            Self::Text(text) | Self::Spelled(text) => {
                pairs(text).map_err(|why| ValueError::Grammar(why.to_owned()))
            }
            _ => Err(ValueError::Grammar(HOW.to_owned())),
        }
    }

    /// Returns a text that is not empty; errors do not quote it.
    pub(super) fn name(&self) -> Result<String, ValueError> {
        match self.text().map(str::trim) {
            Ok(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(ValueError::Grammar(
                "it must be a text that is not empty".to_owned(),
            )),
        }
    }

    /// Returns an address and a port; not a host name, which may have several addresses.
    pub(super) fn address(&self) -> Result<SocketAddr, ValueError> {
        self.text()?.trim().parse().map_err(|_| ValueError::Kind)
    }

    /// Returns a URL that is not empty; its scheme is checked on opening.
    pub(super) fn url(&self) -> Result<String, ValueError> {
        match self.text()?.trim() {
            "" => Err(ValueError::Kind),
            url => Ok(url.to_owned()),
        }
    }
}

impl fmt::Display for RawValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Boolean(boolean) => write!(f, "{boolean}"),
            Self::Text(text) | Self::Spelled(text) => write!(f, "\"{}\"", shown(text)),
            Self::Table(_) => f.write_str("a section"),
            Self::Other(words) => f.write_str(words),
        }
    }
}
