//! Which trace an event belongs to.

use std::fmt;
use std::num::NonZeroU128;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Error, Result, shown};

/// The header that carries a trace from process to process, as
/// [W3C Trace Context](https://www.w3.org/TR/trace-context/) has it.
pub const TRACE_HEADER: &str = "traceparent";

/// The identity of a trace: 128 bits that are not all zero, written as 32 hexadecimal digits.
///
/// # Examples
///
/// ```
/// use duly::event::TraceId;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let trace = TraceId::of_header(header).expect("it is well-formed");
/// assert_eq!(trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(trace.to_string().parse::<TraceId>()?, trace);
/// # Ok::<(), duly::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(NonZeroU128);

impl TraceId {
    /// The trace that a `traceparent` header names; `None` when the header is malformed.
    #[must_use]
    pub fn of_header(value: &str) -> Option<Self> {
        let mut parts = value.split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let is_version = version.len() == 2 && version.bytes().all(|b| b.is_ascii_hexdigit());
        (is_version && parts.next().is_some()).then(|| read(trace))?
    }

    /// The 16 bytes, the highest first.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.get().to_be_bytes()
    }

    /// A trace from its 16 bytes, the highest first; `None` when all are zero.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        match NonZeroU128::new(u128::from_be_bytes(bytes)) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }
}

fn read(text: &str) -> Option<TraceId> {
    let is_hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let id = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
    NonZeroU128::new(id).map(TraceId)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

impl FromStr for TraceId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        read(text).ok_or_else(|| {
            Error::invalid(format!(
                "`{}` is no trace id: it has 32 hexadecimal digits, not all of them 0",
                shown(text)
            ))
        })
    }
}

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
