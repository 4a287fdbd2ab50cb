//! Trace context of events.

use std::fmt;
use std::num::NonZeroU128;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Error, Result, shown};

/// The header that carries a trace from process to process, as in [W3C Trace
/// Context](https://www.w3.org/TR/trace-context/).
pub const TRACE_HEADER: &str = "traceparent";

/// The header with vendor-specific trace data, beside [`TRACE_HEADER`].
pub const TRACE_STATE_HEADER: &str = "tracestate";

/// The longest `tracestate` that is passed on, in bytes: the minimum of the standard.
pub const TRACE_STATE_MAX: usize = 512;

/// The trace context of a push: its validated [`TRACE_HEADER`] and [`TRACE_STATE_HEADER`].
///
/// # Examples
///
/// ```
/// use duly::event::TraceContext;
///
/// let here = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context = TraceContext::new(here, Some("vendor=1")).expect("it is well-formed");
/// assert_eq!(context.traceparent(), here);
/// assert_eq!(context.tracestate(), Some("vendor=1"));
///
/// assert_eq!(TraceContext::new("somewhere", None), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: TraceId,
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// Creates a context; `None` if `traceparent` is malformed by the standard.
    ///
    /// A `tracestate` that is empty, is longer than [`TRACE_STATE_MAX`] or has anything but visible
    /// ASCII, spaces and tabs is dropped: by the standard the trace continues without it.
    #[must_use]
    pub fn new(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let trace = is_parent(traceparent).then(|| TraceId::of_header(traceparent))??;
        let is_state = |text: &&str| {
            let is_written = |byte: u8| matches!(byte, b'\t' | b' '..=b'~');
            !text.is_empty() && text.len() <= TRACE_STATE_MAX && text.bytes().all(is_written)
        };
        Some(Self {
            trace,
            traceparent: traceparent.to_owned(),
            tracestate: tracestate.filter(is_state).map(str::to_owned),
        })
    }

    /// Reads the context from an event's headers, if any.
    #[must_use]
    pub fn of_headers(headers: &[(String, String)]) -> Option<Self> {
        let value = |wanted: &str| {
            let mut headers = headers.iter();
            let (_, value) = headers.find(|(name, _)| name == wanted)?;
            Some(value.as_str())
        };
        Self::new(value(TRACE_HEADER)?, value(TRACE_STATE_HEADER))
    }

    /// The trace id.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        self.trace
    }

    /// The value of the header [`TRACE_HEADER`], to pass on unchanged.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// The value of the header [`TRACE_STATE_HEADER`], to pass on unchanged.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }
}

/// Returns whether `text` is a `traceparent`: version, trace, parent and flags in lower-case
/// hexadecimal digits; later versions may append fields.
fn is_parent(text: &str) -> bool {
    const WIDTHS: [usize; 4] = [2, 32, 16, 2];
    let parts: Vec<&str> = text.splitn(5, '-').collect();
    let is_hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let has_its_parts = parts.len() >= WIDTHS.len()
        && parts
            .iter()
            .zip(WIDTHS)
            .all(|(part, width)| part.len() == width && is_hex(part));
    let is_nothing = |part: &str| part.bytes().all(|b| b == b'0');
    has_its_parts
        && parts[0] != "ff"
        && (parts[0] != "00" || parts.len() == WIDTHS.len())
        && !is_nothing(parts[1])
        && !is_nothing(parts[2])
}

/// A trace id: 128 bits that are not all zero, written as 32 hexadecimal digits.
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
    /// Reads the trace id from a `traceparent` header; `None` if it is malformed.
    #[must_use]
    pub fn of_header(value: &str) -> Option<Self> {
        let mut parts = value.split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let is_version = version.len() == 2 && version.bytes().all(|b| b.is_ascii_hexdigit());
        (is_version && parts.next().is_some()).then(|| read(trace))?
    }

    /// Returns the 16 bytes, big-endian.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.get().to_be_bytes()
    }

    /// Builds an id from its 16 bytes, big-endian; `None` if all are zero.
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
                "`{}` is not a trace id: expected 32 hexadecimal digits, not all of them 0",
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
