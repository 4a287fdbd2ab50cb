//! The header `Retry-After`: seconds, or a date of HTTP.

use std::time::{Duration, UNIX_EPOCH};

use duly::time::Timestamp;
use reqwest::header::HeaderValue;

/// The longest delay that a target may ask for.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Returns the delay from `now`, at most [`RETRY_AFTER_MAX`]; `None` when the value is neither.
pub(super) fn delay(value: &HeaderValue, now: Timestamp) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let delay = if is_number {
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        let at = date.duration_since(UNIX_EPOCH).unwrap_or_default();
        at.saturating_sub(Duration::from_millis(now.as_millis()))
    };
    Some(delay.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_retry_after_has_two_forms_and_a_bound() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = Timestamp::from_millis(784_111_777_000);
        let of = |text: &'static str| delay(&HeaderValue::from_static(text), now);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(of("120"), seconds(120));
        assert_eq!(of("0"), seconds(0));
        assert_eq!(of("Sun, 06 Nov 1994 08:50:37 GMT"), seconds(60));
        assert_eq!(of("Sunday, 06-Nov-94 08:50:37 GMT"), seconds(60));
        assert_eq!(of("Sun, 06 Nov 1994 08:00:00 GMT"), seconds(0), "past");
        assert_eq!(of("999999"), seconds(86_400));
        assert_eq!(of("99999999999999999999999"), seconds(86_400));
        assert_eq!(of("Fri, 31 Dec 9999 23:59:59 GMT"), seconds(86_400));
        for wrong in ["", "-1", "1.5", "soon", "12 s"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
