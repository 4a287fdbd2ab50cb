//! `30s`, `1m30s`: text to `Duration`, as `duly` reads it while the program runs.
//!
//! The grammar is explained there. `tests/macros/texts.rs` holds the two together, messages included.

use std::time::Duration;

/// The units, largest first, each with its nanoseconds.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The duration that `text` says, or what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
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
    if total > Duration::MAX.as_nanos() {
        return Err(too_long());
    }
    Ok(Duration::from_nanos_u128(total))
}

/// Splits off the longest start whose characters all satisfy `belongs`.
fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// The message for a unit that is missing, unknown, or known but out of order.
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

/// `number` times `unit` in nanoseconds, or `None` when that is more than can be counted.
fn nanos(text: &str, number: &str, unit: u128) -> Result<Option<u128>, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(format!(
            "duration `{text}` has the number `{number}`, write digits, or digits with a fraction such as `1.5`"
        ));
    }
    let finer = || format!("duration `{text}` is finer than a nanosecond, round it to one");
    let digits = fraction.trim_end_matches('0');
    // More digits than this are below a nanosecond whatever the unit; and they would not fit.
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
