//! Unique keys that stay taken after their event is done.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::event::envelope::Envelope;

/// The header with the time for which the unique key of an event stays taken after it is done, in
/// milliseconds, all digits.
///
/// A header for the same reasons as [`SPREAD_HEADER`](crate::event::SPREAD_HEADER).
pub const UNIQUE_HEADER: &str = "duly-unique-for";

/// The longest such time.
pub const UNIQUE_FOR_MAX: Duration = Duration::from_secs(366 * 86_400);

impl Envelope {
    /// How long its unique key stays taken after it is done; `None` if it is freed at once.
    #[must_use]
    pub fn unique_for(&self) -> Option<Duration> {
        self.unique.as_ref()?;
        let mut headers = self.headers.iter();
        let (_, words) = headers.find(|(name, _)| name == UNIQUE_HEADER)?;
        read_unique_for(words)
    }

    /// Keeps its unique key taken for `period` after it is done.
    pub(crate) fn keep_unique_for(&mut self, period: Duration) -> Result<()> {
        if self.unique.is_none() {
            let wrong = "unique_for needs a unique key, and the event has none; set one with \
                         `unique`";
            return Err(Error::invalid(wrong));
        }
        if period > UNIQUE_FOR_MAX || period.is_zero() {
            return Err(Error::invalid(format!(
                "unique_for is {period:?}, it must be more than 0 and at most 366 days"
            )));
        }
        let ms = period.as_nanos().div_ceil(1_000_000);
        let header = (UNIQUE_HEADER.to_owned(), ms.to_string());
        self.headers.retain(|(name, _)| name != UNIQUE_HEADER);
        self.headers.push(header);
        Ok(())
    }
}

/// Parses the header.
pub(crate) fn read_unique_for(words: &str) -> Option<Duration> {
    let is_number = (1..=11).contains(&words.len()) && words.bytes().all(|c| c.is_ascii_digit());
    let ms = is_number.then(|| words.parse().ok()).flatten()?;
    Some(Duration::from_millis(ms).min(UNIQUE_FOR_MAX))
}
