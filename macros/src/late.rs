//! Parses a lateness policy such as `expire(5m)` at compile time, like `duly::LatePolicy` at run time.

use std::time::Duration;

use crate::duration;

/// A parsed lateness policy.
#[derive(Clone, Copy)]
pub(crate) enum LatePolicy {
    Deliver,
    Expire(Duration),
    Bury(Duration),
}

impl LatePolicy {
    /// Parses `text`, or returns the error message.
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
