//! Values of a source, and their conversion to settings.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::codec::Codec;
use crate::config::encryption::pairs;
use crate::duration;
use crate::error::{Error, shown};
use crate::event::Late;
use crate::retry::RetryPolicy;
use crate::store::{Durability, WhenFull};

/// A value of a source.
#[derive(Debug)]
pub(super) enum Found {
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
pub(super) enum Wrong {
    /// It has another type.
    Kind,
    /// It is malformed; contains the reason.
    Grammar(String),
}

impl Found {
    pub(super) fn number<T: TryFrom<i64>>(&self) -> Result<T, Wrong> {
        match self {
            Self::Number(number) => T::try_from(*number).ok(),
            Self::Spelled(text) => text.parse().ok().and_then(|it: i64| T::try_from(it).ok()),
            _ => None,
        }
        .ok_or(Wrong::Kind)
    }

    pub(super) fn boolean(&self) -> Result<bool, Wrong> {
        match self {
            Self::Boolean(boolean) => Ok(*boolean),
            Self::Spelled(text) => text.parse().map_err(|_| Wrong::Kind),
            _ => Err(Wrong::Kind),
        }
    }

    pub(super) fn text(&self) -> Result<&str, Wrong> {
        match self {
            Self::Text(text) | Self::Spelled(text) => Ok(text),
            _ => Err(Wrong::Kind),
        }
    }

    /// Returns a text whose parser quotes it in errors: one that may be displayed whole.
    fn phrase(&self) -> Result<&str, Wrong> {
        let text = self.text()?;
        match shown(text) {
            Cow::Borrowed(_) => Ok(text),
            Cow::Owned(_) => Err(Wrong::Kind),
        }
    }

    pub(super) fn duration(&self) -> Result<Duration, Wrong> {
        duration::parse(self.phrase()?).map_err(|error| Wrong::Grammar(error.to_string()))
    }

    pub(super) fn backoff(&self) -> Result<RetryPolicy, Wrong> {
        let policy = self.phrase()?.parse();
        policy.map_err(|error: crate::retry::ParseRetryError| Wrong::Grammar(error.to_string()))
    }

    pub(super) fn late(&self) -> Result<Late, Wrong> {
        let late = self.phrase()?.parse();
        late.map_err(|error: Error| Wrong::Grammar(error.to_string()))
    }

    pub(super) fn durability(&self) -> Result<Durability, Wrong> {
        self.text()?.trim().parse().map_err(|_| Wrong::Kind)
    }

    pub(super) fn when_full(&self) -> Result<WhenFull, Wrong> {
        match self.text()?.trim() {
            "drop_oldest" => Ok(WhenFull::DropOldest),
            "refuse_pushes" => Ok(WhenFull::RefusePushes),
            _ => Err(Wrong::Kind),
        }
    }

    pub(super) fn codec(&self) -> Result<Codec, Wrong> {
        self.text()?.trim().parse().map_err(|_| Wrong::Kind)
    }

    /// Returns keys by their ids; errors never quote them.
    pub(super) fn keys(&self) -> Result<BTreeMap<String, String>, Wrong> {
        const HOW: &str = "it must be a table of ids and keys, or a text such as `2026-11=..`; the value \
                           is withheld";
        match self {
            Self::Table(keys) => Ok(keys.clone()),
            Self::Text(text) | Self::Spelled(text) => {
                pairs(text).map_err(|why| Wrong::Grammar(why.to_owned()))
            }
            _ => Err(Wrong::Grammar(HOW.to_owned())),
        }
    }

    /// Returns a text that is not empty; errors do not quote it.
    pub(super) fn name(&self) -> Result<String, Wrong> {
        match self.text().map(str::trim) {
            Ok(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(Wrong::Grammar(
                "it must be a text that is not empty".to_owned(),
            )),
        }
    }

    /// Returns an address and a port; not a host name, which may have several addresses.
    pub(super) fn address(&self) -> Result<SocketAddr, Wrong> {
        self.text()?.trim().parse().map_err(|_| Wrong::Kind)
    }

    /// Returns a URL that is not empty; its scheme is checked on opening.
    pub(super) fn url(&self) -> Result<String, Wrong> {
        match self.text()?.trim() {
            "" => Err(Wrong::Kind),
            url => Ok(url.to_owned()),
        }
    }
}

impl fmt::Display for Found {
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
