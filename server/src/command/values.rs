//! Values of arguments: durations and times.

use std::sync::LazyLock;
use std::time::Duration;

use duly::records::NodeId;
use duly::time::{Clock, SystemClock, Timestamp};
use duly_server::api::node_id;

static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);

/// The units of a duration, each with its milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];
const DAY_S: u64 = 86_400;
/// The first time that may be given in milliseconds, in 1973.
const MILLIS_MIN: Timestamp = Timestamp::from_millis(100_000_000_000);

/// Parses a duration such as `90s` or `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!("`{text}` is no duration; write a number and a unit, ms, s, m, h or d, such as 90s")
    };
    let (mut rest, mut millis) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, more) = rest.split_at(digits);
        let unit_len = more.find(|c: char| c.is_ascii_digit());
        let (unit, more) = more.split_at(unit_len.unwrap_or(more.len()));
        let (_, of_unit) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let part = number.checked_mul(*of_unit).ok_or_else(wrong)?;
        millis = millis.checked_add(part).ok_or_else(wrong)?;
        rest = more;
    }
    if text.is_empty() {
        Err(wrong())
    } else {
        Ok(Duration::from_millis(millis))
    }
}

/// Parses the id of a node.
pub(crate) fn node(text: &str) -> Result<NodeId, String> {
    node_id(text).ok_or_else(|| format!("`{text}` is no node; write its 16 hexadecimal digits"))
}

/// Parses a duration that is not zero.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("`{text}` is zero; it must be longer")),
        span => Ok(span),
    }
}

/// Parses a time: `2026-01-31T12:00:00Z`, milliseconds since the epoch, or a duration ago.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    if let Some(time) = point(text)? {
        return Ok(time);
    }
    match duration(text) {
        Ok(ago) => {
            let now = now_ms();
            let ago = u64::try_from(ago.as_millis()).unwrap_or(now);
            Ok(Timestamp::from_millis(now.saturating_sub(ago)))
        }
        Err(_) => Err(format!(
            "`{text}` is no time; write 2026-01-31T12:00:00Z, milliseconds since the epoch, or a \
             duration ago, such as 2h"
        )),
    }
}

/// Parses a time at which something is to be: a duration would be one ago to [`time`], and is meant
/// as one from now.
pub(crate) fn time_to_come(text: &str) -> Result<Timestamp, String> {
    let wrong = || match duration(text) {
        Ok(_) => format!("`{text}` is a duration; write --after {text}"),
        Err(_) => format!(
            "`{text}` is no time; write 2026-01-31T12:00:00Z, or milliseconds since the epoch"
        ),
    };
    point(text)?.ok_or_else(wrong)
}

/// Parses a time that needs no other one. A small number is none: who forgets the unit of a duration
/// would mean 1970, and so everything.
fn point(text: &str) -> Result<Option<Timestamp>, String> {
    match text.parse().map(Timestamp::from_millis) {
        Ok(at) if at.as_millis() == 0 => Err(format!(
            "`{text}` could be now or 1970; write 0s, or 1970-01-01T00:00:00Z"
        )),
        Ok(at) if at < MILLIS_MIN => Err(format!(
            "`{text}` is in {}, as a number is milliseconds since 1970; write a unit, ms, s, m, h \
             or d, such as {text}d, or a time such as 2026-01-31T12:00:00Z",
            at.to_string().get(..4).unwrap_or_default()
        )),
        Ok(at) => Ok(Some(at)),
        Err(_) => Ok(rfc3339(text)),
    }
}

/// Parses a time in UTC, to the second or finer.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':')?;
    let is_fraction = (1..=9).contains(&fraction.len()) && is_digits(fraction);
    let is_time = hour < 24 && minute < 60 && second < 60 && is_fraction;
    let is_date = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day);
    if !is_time || !is_date {
        return None;
    }
    let years = (1970..year).map(|year| (1..=12).map(|month| days_of(year, month)).sum::<u64>());
    let months = (1..month).map(|month| days_of(year, month));
    let days = years.sum::<u64>() + months.sum::<u64>() + day - 1;
    let seconds = days * DAY_S + hour * 3_600 + minute * 60 + second;
    let millis: u64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    Some(Timestamp::from_millis(seconds * 1_000 + millis))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let numbers = text.split(separator).map(|part| {
        if is_digits(part) {
            part.parse().ok()
        } else {
            None
        }
    });
    numbers.collect::<Option<Vec<u64>>>()?.try_into().ok()
}

fn days_of(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the time of this machine, in milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    now().as_millis()
}

/// Returns the time of this machine.
pub(crate) fn now() -> Timestamp {
    CLOCK.now()
}

/// Returns the time of this machine, in microseconds since the epoch.
pub(crate) fn now_us() -> u64 {
    CLOCK.wall_us()
}

/// Reads how many are changed in a second.
pub(super) fn rate(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.001..=1_000_000.0).contains(&rate) => Ok(rate),
        _ => Err(format!("`{text}` is no rate; it must be 0.001 to 1000000")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for wrong in ["", "5", "5x", "s", "-5s", "1.5s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(span("0s").is_err());
    }

    #[test]
    fn a_time_to_come_is_no_duration() {
        let at = time_to_come("2026-01-01T00:00:00Z");
        assert_eq!(at.map(Timestamp::as_millis), Ok(1_767_225_600_000));
        let at = time_to_come("1767225600000");
        assert_eq!(at.map(Timestamp::as_millis), Ok(1_767_225_600_000));
        let wrong = time_to_come("1h30m").unwrap_err();
        assert!(wrong.contains("--after 1h30m"), "{wrong}");
        assert!(time_to_come("noon").is_err());
    }

    #[test]
    fn times_are_dates_numbers_or_durations_ago() {
        let millis = |text| time(text).map(Timestamp::as_millis);
        assert_eq!(millis("1767225600000"), Ok(1_767_225_600_000));
        assert_eq!(millis("2026-01-01T00:00:00Z"), Ok(1_767_225_600_000));
        assert_eq!(millis("2024-02-29T12:00:00.25Z"), Ok(1_709_208_000_250));
        let hour_ago = millis("1h").unwrap();
        assert!(now_ms() - hour_ago >= 3_600_000);
        assert_eq!(millis("100000000000"), Ok(100_000_000_000));
        // Neither is taken for the other: one is nothing, and one is all.
        for wrong in [time("0"), time_to_come("0")] {
            let wrong = wrong.unwrap_err();
            assert!(wrong.contains("0s, or 1970-01-01T00:00:00Z"), "{wrong}");
        }
        assert_eq!(millis("1970-01-01T00:00:00Z"), Ok(0));
        assert!(now_ms() - millis("0s").unwrap() < 60_000);
        for small in ["2", "99999999999"] {
            for wrong in [time(small), time_to_come(small)] {
                let wrong = wrong.unwrap_err();
                assert!(wrong.contains(&format!("such as {small}d")), "{wrong}");
            }
        }
        for wrong in [
            "yesterday",
            "2026-02-29T00:00:00Z",
            "2026-01-01",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.éZ",
        ] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
