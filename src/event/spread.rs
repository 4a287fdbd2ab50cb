//! Events that are due at one instant, spread over a window.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::duration;
use crate::error::{Error, Result};
use crate::event::envelope::Envelope;
use crate::event::id::EventId;

/// The header that says over which window an event is spread.
///
/// A header and not a field of the envelope: few events have one, whatever handles and keeps events
/// passes headers on as it is, and a node of an older version reads them. It is one of the headers
/// that an event may have.
pub const SPREAD_HEADER: &str = "duly-spread";

/// The longest window.
pub const SPREAD_MAX: Duration = Duration::from_secs(86_400);

impl Envelope {
    /// Over which window it was spread when it was pushed.
    #[must_use]
    pub fn spread(&self) -> Option<Duration> {
        let mut headers = self.headers.iter();
        let (_, window) = headers.find(|(name, _)| name == SPREAD_HEADER)?;
        duration::parse(window).ok()
    }

    /// Spreads it over `window`, which shall not be zero; answers its part of it.
    pub(crate) fn spread_over(&mut self, window: Duration) -> Duration {
        let header = (SPREAD_HEADER.to_owned(), duration::format(window));
        self.headers.retain(|(name, _)| name != SPREAD_HEADER);
        self.headers.push(header);
        spread_part(self.id, window)
    }
}

/// The part of `window` by which an event is due later than it was asked for, in whole milliseconds.
///
/// It is fixed by the chance in the event's id: the same at each push of that id, and as good as
/// even over many ids.
#[must_use]
pub fn spread_part(id: EventId, window: Duration) -> Duration {
    let chance = u128::from(xxh3_64(&id.entropy().to_le_bytes()));
    let steps = window.as_millis() + 1;
    // Less than the window, which has far fewer milliseconds than fit.
    let part = u64::try_from((chance * steps) >> 64).unwrap_or(0);
    Duration::from_millis(part)
}

/// Checks a window.
pub(crate) fn check_spread(window: Duration) -> Result<()> {
    if window > SPREAD_MAX {
        return Err(Error::invalid(format!(
            "spread is {window:?}, it is at most 1d"
        )));
    }
    Ok(())
}
