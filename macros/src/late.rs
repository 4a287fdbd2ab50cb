//! `expire(5m)`: text to a late policy, as `duly::Late` reads it while the program runs.

use std::time::Duration;

use crate::duration;

/// What becomes of an event that is late.
#[derive(Clone, Copy)]
pub(crate) enum Late {
    Deliver,
    Expire(Duration),
    Bury(Duration),
}

impl Late {
    /// The policy that `text` says, or what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let limit = |form: &str| {
            text.strip_prefix(form)?
                .strip_prefix('(')?
                .strip_suffix(')')
        };
        if text == "deliver" {
            Ok(Self::Deliver)
        } else if let Some(limit) = limit("expire") {
            duration::parse(limit).map(Self::Expire)
        } else if let Some(limit) = limit("bury") {
            duration::parse(limit).map(Self::Bury)
        } else {
            Err(format!(
                "unknown late policy `{text}`, expected `deliver`, `expire(5m)` or `bury(5m)`"
            ))
        }
    }
}
