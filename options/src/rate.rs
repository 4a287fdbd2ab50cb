//! The grammar of rates: `50/s`, `300/m`, `10/h`.

use std::fmt;

/// The lowest rate, in starts per second.
pub const RATE_MIN: f64 = 0.001;
/// The highest rate, in starts per second.
pub const RATE_MAX: f64 = 1_000_000.0;
/// What would be right instead of a text that is no rate.
pub const EXPECTED: &str = "a number and a unit of time, such as `50/s`, `300/m` or `10/h`";
/// The most characters of a number: of those that a rate may have, none needs more.
const DIGITS_MAX: usize = 24;

/// A text that is no rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRateError(String);

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed rate `{}`, expected {EXPECTED}", self.0)
    }
}

impl std::error::Error for ParseRateError {}

/// Parses a rate, in starts per second; its bounds are not checked.
///
/// # Errors
///
/// [`ParseRateError`] for what is not a plain decimal number, `/`, and `s`, `m` or `h`.
pub fn parse(text: &str) -> Result<f64, ParseRateError> {
    let rate = || {
        let (number, unit) = text.split_once('/')?;
        let seconds = match unit {
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        // Neither signs nor exponents, which `parse` would take.
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
        let is_plain = match number.split_once('.') {
            Some((whole, part)) => digits(whole) && digits(part),
            None => digits(number),
        };
        let is_plain = is_plain && number.len() <= DIGITS_MAX;
        let number: f64 = is_plain.then(|| number.parse().ok()).flatten()?;
        Some(number / seconds)
    };
    rate().ok_or_else(|| ParseRateError(text.to_owned()))
}

/// Returns whether a rate is within the bounds.
#[must_use]
pub fn is_possible(per_second: f64) -> bool {
    (RATE_MIN..=RATE_MAX).contains(&per_second)
}

/// Formats a rate as [`parse`] reads it.
#[must_use]
pub fn format(per_second: f64) -> String {
    format!("{per_second}/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_unit() {
        for (text, rate) in [
            ("50/s", 50.0),
            ("0.5/s", 0.5),
            ("300/m", 5.0),
            ("90/h", 0.025),
            ("007/s", 7.0),
            ("0/s", 0.0),
        ] {
            assert_eq!(parse(text), Ok(rate), "{text}");
            assert_eq!(parse(&format(rate)), Ok(rate), "{text}");
        }
        for text in [
            "",
            "50",
            "/s",
            "50/",
            "50/d",
            "50/S",
            " 50/s",
            "50 /s",
            "-1/s",
            "+1/s",
            "1e3/s",
            "inf/s",
            "NaN/s",
            ".5/s",
            "5./s",
            "1.2.3/s",
            "50/s/s",
            "5\u{660}/s",
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
            assert!(error.contains("`50/s`"), "{error}");
        }
        assert!(parse(&format!("{}/s", "9".repeat(400))).is_err());
    }

    #[test]
    fn what_is_given_as_an_example_is_possible() {
        let examples: Vec<_> = EXPECTED.split('`').skip(1).step_by(2).collect();
        assert_eq!(examples.len(), 3);
        for example in examples {
            assert!(parse(example).is_ok_and(is_possible), "{example}");
        }
    }

    #[test]
    fn zero_is_no_rate() {
        for per_second in [0.0, -1.0, 0.000_9, 1_000_000.1, f64::NAN, f64::INFINITY] {
            assert!(!is_possible(per_second), "{per_second}");
        }
        assert!(is_possible(RATE_MIN) && is_possible(RATE_MAX));
    }
}
