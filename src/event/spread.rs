//! Jitter windows: spreads events that are due at the same instant.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::duration;
use crate::error::{Error, Result};
use crate::event::envelope::Envelope;
use crate::event::id::EventId;
use crate::time::{Timestamp, When};

/// The header with the jitter window of an event and its requested due time: `10s after 1h`, `10s
/// at 1795305600000` (milliseconds since the epoch), or `10s now`.
///
/// A header and not a field of the envelope, because few events have one, everything that stores
/// events passes headers on unchanged, and a node of an older version can read them. It counts
/// towards the limit of headers.
pub const SPREAD_HEADER: &str = "duly-spread";

/// The longest jitter window.
pub const SPREAD_MAX: Duration = Duration::from_secs(86_400);

impl Envelope {
    /// The jitter window of its push, if any.
    #[must_use]
    pub fn spread(&self) -> Option<Duration> {
        duration::parse(self.spread_words().next()?).ok()
    }

    /// The due time requested by its push, before jitter; `None` without a jitter window.
    #[must_use]
    pub fn requested_due(&self) -> Option<When> {
        let mut words = self.spread_words().skip(1);
        match (words.next()?, words.next()) {
            ("now", None) => Some(When::Now),
            ("after", Some(delay)) => duration::parse(delay).ok().map(When::After),
            ("at", Some(ms)) => Some(When::At(Timestamp::from_millis(ms.parse().ok()?))),
            _ => None,
        }
    }

    fn spread_words(&self) -> impl Iterator<Item = &str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(name, _)| name == SPREAD_HEADER);
        found.into_iter().flat_map(|(_, words)| words.split(' '))
    }

    /// Spreads it over `window`, which must not be zero, from the requested time; returns its
    /// offset.
    pub(crate) fn spread_over(&mut self, window: Duration, requested_due: When) -> Duration {
        self.headers.retain(|(name, _)| name != SPREAD_HEADER);
        self.headers.push(spread_header(window, requested_due));
        spread_part(self.id, window)
    }
}

/// The header of an event that is spread over a window from the requested time.
pub(crate) fn spread_header(window: Duration, requested_due: When) -> (String, String) {
    let requested_due = match requested_due {
        When::Now => "now".to_owned(),
        When::After(delay) => format!("after {}", duration::format(delay)),
        When::At(due) => format!("at {}", due.as_millis()),
    };
    let words = format!("{} {requested_due}", duration::format(window));
    (SPREAD_HEADER.to_owned(), words)
}

/// Returns the offset of an event within `window`, in whole milliseconds.
///
/// It is derived from the entropy of the event's id: the same for each push of that id, and uniform
/// over many ids.
#[must_use]
pub fn spread_part(id: EventId, window: Duration) -> Duration {
    let chance = u128::from(xxh3_64(&id.entropy().to_le_bytes()));
    let steps = window.as_millis() + 1;
    // Less than the window, whose milliseconds fit.
    let part = u64::try_from((chance * steps) >> 64).unwrap_or(0);
    Duration::from_millis(part)
}

/// Checks a jitter window.
pub(crate) fn check_spread(window: Duration) -> Result<()> {
    if window > SPREAD_MAX {
        return Err(Error::invalid(format!(
            "spread is {window:?}, it must be at most 1d"
        )));
    }
    Ok(())
}
