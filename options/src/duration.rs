//! Parsing and formatting of durations: `250ms`, `30s`, `1m30s`.
//!
//! One grammar for settings files, the environment and the annotation. A duration is one or more
//! parts, each a number and a unit, larger units first and each unit once:
//!
//! | unit | `d` | `h` | `m` | `s` | `ms` | `us` | `ns` |
//! |---|---|---|---|---|---|---|---|
//! | is | 24 hours | 60 minutes | 60 seconds | second | 10⁻³ s | 10⁻⁶ s | 10⁻⁹ s |
//!
//! The last part may have a fraction, if it is a whole number of nanoseconds: `1.5s`, `1m0.25s`.
//! There are no signs, no spaces and no numbers without a unit, so that `30` is never misread.

use std::{error, fmt, time::Duration};

/// In nanoseconds.
const SECOND: u128 = 1_000_000_000;

/// The units, largest first, each with its nanoseconds.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses a duration such as `30s` or `1m30s`.
///
/// # Errors
///
/// Returns [`ParseDurationError`] if the text is not in the grammar of this module, is
/// finer than a nanosecond, or is longer than [`Duration::MAX`].
///
/// # Examples
///
/// ```
/// use duly_options::duration::parse;
/// use std::time::Duration;
///
/// assert_eq!(parse("250ms")?, Duration::from_millis(250));
/// assert_eq!(parse("1m30s")?, Duration::from_secs(90));
/// assert_eq!(parse("1.5h")?, Duration::from_mins(90));
/// # Ok::<(), duly_options::duration::ParseDurationError>(())
/// ```
///
/// # Examples: what is refused
///
/// ```
/// use duly_options::duration::parse;
///
/// for text in ["", "30", "-5s", "5 s", "5sec", "30s1m", "1.5m30s", "0.5ns"] {
///     assert!(parse(text).is_err(), "{text}");
/// }
/// assert_eq!(
///     parse("30").unwrap_err().to_string(),
///     "duration `30` has no unit after `30`, write one of `d`, `h`, `m`, `s`, `ms`, `us`, `ns`",
/// );
/// ```
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    read(text).map_err(|message| ParseDurationError { message })
}

/// Formats a duration so that [`parse`] reads the same one back.
///
/// Whole numbers only, larger units first, zero parts left out.
///
/// # Examples
///
/// ```
/// use duly_options::duration::format;
/// use std::time::Duration;
///
/// assert_eq!(format(Duration::from_secs(90)), "1m30s");
/// assert_eq!(format(Duration::from_millis(1_500)), "1s500ms");
/// assert_eq!(format(Duration::ZERO), "0s");
/// ```
#[must_use]
pub fn format(duration: Duration) -> String {
    if duration.is_zero() {
        return "0s".to_owned();
    }
    let mut rest = duration.as_nanos();
    let mut text = String::new();
    for (unit, nanos) in UNITS {
        if rest >= nanos {
            text.push_str(&format!("{}{unit}", rest / nanos));
            rest %= nanos;
        }
    }
    text
}

/// The error of parsing a duration; says what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDurationError {
    message: String,
}

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for ParseDurationError {}

fn read(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err("duration is empty, write one such as `250ms`, `30s` or `1m30s`".to_owned());
    }
    let too_long = || format!("duration `{text}` is too long, at most `213503982334601d` is kept");
    let mut units = UNITS.as_slice();
    let mut total: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        if number.is_empty() {
            return Err(format!(
                "duration `{text}` has no number before `{rest}`, write one such as `250ms`, `30s` or `1m30s`"
            ));
        }
        let (unit, after) = split(after, char::is_alphabetic);
        let Some(at) = units.iter().position(|(name, _)| *name == unit) else {
            return Err(misplaced_unit(text, number, unit));
        };
        if number.contains('.') && !after.is_empty() {
            return Err(format!(
                "duration `{text}` has a fraction before its last part, write `{number}{unit}` in smaller units"
            ));
        }
        total = nanos(text, number, units[at].1)?
            .and_then(|part| total.checked_add(part))
            .ok_or_else(too_long)?;
        units = &units[at + 1..];
        rest = after;
    }
    let below = u32::try_from(total % SECOND).unwrap_or_default(); // less than a second
    u64::try_from(total / SECOND)
        .map_or_else(|_| Err(too_long()), |secs| Ok(Duration::new(secs, below)))
}

/// Splits off the longest prefix whose characters all satisfy `belongs`.
fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// Returns the message for a unit that is missing, unknown, or out of order.
fn misplaced_unit(text: &str, number: &str, unit: &str) -> String {
    let known = UNITS.map(|(name, _)| format!("`{name}`")).join(", ");
    if unit.is_empty() {
        return format!("duration `{text}` has no unit after `{number}`, write one of {known}");
    }
    if UNITS.iter().any(|(name, _)| *name == unit) {
        return format!(
            "duration `{text}` has `{unit}` out of order, write larger units first and each once"
        );
    }
    format!("duration `{text}` has the unknown unit `{unit}`, expected one of {known}")
}

/// Returns `number` times `unit` in nanoseconds, or `None` on overflow.
fn nanos(text: &str, number: &str, unit: u128) -> Result<Option<u128>, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(format!(
            "duration `{text}` has the number `{number}`, write digits, or digits with a fraction such as `1.5`"
        ));
    }
    let finer = || format!("duration `{text}` is finer than a nanosecond, round it to one");
    let digits = fraction.trim_end_matches('0');
    // More digits than this are below a nanosecond in any unit, and would overflow.
    if digits.len() > 18 {
        return Err(finer());
    }
    let scale = 10_u128.pow(digits.len() as u32);
    let part = digits
        .bytes()
        .fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0'))
        * unit;
    if !part.is_multiple_of(scale) {
        return Err(finer());
    }
    let whole = whole
        .parse::<u128>()
        .ok()
        .and_then(|whole| whole.checked_mul(unit));
    Ok(whole.and_then(|whole| whole.checked_add(part / scale)))
}
